"""A source file as rows of (explanation, code): docstrings and comments beside what they are about."""

from __future__ import annotations

import ast
import html
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer


class Row(NamedTuple):
    name: str  # of a function or class; "" for other lines
    words: str
    code: str


def rows(source: str) -> Iterator[Row]:
    """The parts of a module in their order: a function, a method, the head of a class, or the lines between them."""
    tree, lines = ast.parse(source), source.splitlines()
    done = 0
    if (words := ast.get_docstring(tree)) is not None:
        yield Row("", words, "")
        done = tree.body[0].end_lineno or 0
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            first = _first(node)
            yield from _between(lines, done, first)
            yield from _definition(node, lines, first)
            done = node.end_lineno or first
    yield from _between(lines, done, len(lines))


def _first(node: ast.FunctionDef | ast.ClassDef) -> int:
    """The line, counted from 0, where it begins: that of its first decorator."""
    return (
        min(node.lineno, *(one.lineno for one in node.decorator_list)) - 1 if node.decorator_list else node.lineno - 1
    )


def _between(lines: list[str], first: int, last: int) -> Iterator[Row]:
    """What is no definition: lines that are only comments explain, the others are code."""
    some = lines[first:last]
    words = [line.lstrip("# ") for line in some if line.startswith("#")]
    code = [line for line in some if not line.startswith("#")]
    if any(line.strip() for line in some):
        yield Row("", "\n".join(words), "\n".join(code).strip("\n"))


def _definition(node: ast.FunctionDef | ast.ClassDef, lines: list[str], first: int) -> Iterator[Row]:
    words, last = ast.get_docstring(node) or "", node.end_lineno or first
    methods = (
        [part for part in node.body if isinstance(part, ast.FunctionDef)] if isinstance(node, ast.ClassDef) else []
    )
    if not methods:
        yield Row(node.name, words, _without_docstring(node, lines, first, last))
        return
    yield Row(node.name, words, _without_docstring(node, lines, first, _first(methods[0])))
    for i, method in enumerate(methods):
        end = _first(methods[i + 1]) if i + 1 < len(methods) else last
        code = _without_docstring(method, lines, _first(method), end)
        yield Row(f"{node.name}.{method.name}", ast.get_docstring(method) or "", textwrap.dedent(code))


def _without_docstring(node: ast.FunctionDef | ast.ClassDef, lines: list[str], first: int, last: int) -> str:
    kept = lines[first:last]
    if ast.get_docstring(node) is not None:
        start, end = node.body[0].lineno - 1 - first, (node.body[0].end_lineno or 0) - first
        kept = kept[:start] + kept[end:]
    return "\n".join(kept).strip("\n")


def page(path: Path, root: Path) -> str:
    """Markdown with one table: for Sphinx."""
    name = path.relative_to(root).as_posix()
    formatter = HtmlFormatter(nowrap=True)
    made = []
    for row in rows(path.read_text()):
        code = highlight(row.code, PythonLexer(), formatter) if row.code else ""
        words = f"<strong>{html.escape(row.name)}</strong>\n" if row.name else ""
        words += html.escape(row.words)
        beside = f'<div class="highlight"><pre tabindex="0">{code}</pre></div>' if code else ""
        kind = "annotated" if code else "annotated alone"
        made.append(f'<div class="{kind}"><pre class="words">{words}</pre>{beside}</div>')
    return f"# {name}\n\n```{{raw}} html\n" + "\n".join(made) + "\n```\n"
