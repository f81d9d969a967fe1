"""All commands, with one line about each; `python -m experiments NAME ...` or `minicnn NAME ...` runs one."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

import minicnn
from experiments.cli.app import program
from experiments.cli.parser import did_you_mean
from minicnn.console import reader_gone

FOLDER = Path(__file__).parent


def commands() -> dict[str, str]:
    """The first sentence of each command, by name; the files are read and not imported, which would take a while."""
    found = {}
    for path in sorted(FOLDER.glob("[!_]*.py")):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        found[path.stem] = text.partition("\n")[0]
    return found


def listing() -> str:
    known = commands()
    width = max(map(len, known))
    return "\n".join(
        [
            f"minicnn {minicnn.__version__}: convolutional networks from scratch, and the CReLU paper reproduced.",
            "",
            *(f"  {shown(name):{width + len(shown(''))}}  {words}" for name, words in known.items()),
            "",
            f"{shown('cifar')} --help describes a command; python -m minicnn, the machine.",
        ]
    )


def shown(name: str) -> str:
    return " ".join(program(f"experiments.{name}"))


def main() -> None:
    """List the commands, or run the one that is named."""
    name, *rest = sys.argv[1:] or ["--help"]
    if name in commands():
        sys.argv[1:] = rest
        runpy.run_module(f"experiments.{name}", run_name="__main__")
        return
    if name == "--version":
        print(f"minicnn {minicnn.__version__}")
    elif name in ("--help", "-h"):
        try:
            print(listing(), flush=True)
        except BrokenPipeError:
            sys.exit(reader_gone())
    else:
        meant = did_you_mean(name, commands()) or f"; choose from {', '.join(commands())}"
        print(f"error: there is no command {name!r}{meant}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
