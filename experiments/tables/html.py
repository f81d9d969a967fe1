"""HTML, piece by piece: what is put in is escaped, unless it is HTML that was made here.

tag("p", "a < b ", tag("b", "c"), class_="note")   ->   <p class="note">a &lt; b <b>c</b></p>
"""

from __future__ import annotations

import html as _html
from collections.abc import Iterable, Sequence
from typing import Any

VOID = frozenset({"br", "img", "meta", "link"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape(value: object) -> Html:
    """Any value as HTML; HTML as it is."""
    return value if isinstance(value, Html) else Html(_html.escape(str(value), quote=True))


def join(children: Iterable[Any]) -> Html:
    """One after the other; None is nothing, a list is its members."""
    parts = []
    for child in children:
        if child is None:
            continue
        parts.append(join(child) if isinstance(child, list | tuple) else escape(child))
    return Html("".join(parts))


def tag(name: str, /, *children: Any, **attributes: Any) -> Html:
    """An element.  class_ is the attribute class, aria_label is aria-label; None leaves an attribute out."""
    pairs = [(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None]
    opening = "".join(f' {key}="{escape(value)}"' for key, value in pairs)
    if name in VOID:
        return Html(f"<{name}{opening}>")
    return Html(f"<{name}{opening}>{join(children)}</{name}>")


def table(caption: str, head: Sequence[Any], rows: Sequence[Sequence[Any]], *, text: Sequence[int] = ()) -> Html:
    """A table in a box of its own that scrolls where it is too wide; the first cell of a row is its heading.

    text    the columns that hold words, to be aligned to the left
    """

    def style(column: int) -> str | None:
        return "text" if column in (0, *text) else None

    heads = [tag("th", cell, scope="col", class_=style(i)) for i, cell in enumerate(head)]
    lines = [
        tag(
            "tr",
            tag("th", row[0], scope="row", class_="text"),
            [tag("td", cell, class_=style(i)) for i, cell in enumerate(row[1:], 1)],
        )
        for row in rows
    ]
    content = tag("table", tag("caption", caption), tag("thead", tag("tr", heads)), tag("tbody", lines))
    return tag("div", content, class_="box", tabindex="0", role="region", aria_label=caption)


def link(text: Any, href: str) -> Html:
    return tag("a", text, href=href)


def note(*children: Any) -> Html:
    return tag("p", *children, class_="note")
