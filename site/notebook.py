"""A notebook, run from top to bottom, as Markdown with its pictures beside it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any


def page(path: Path, folder: Path, root: Path) -> str:
    """Pictures are written into `folder`, where the page will be."""
    import nbclient
    import nbformat

    found = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(found, timeout=300, resources={"metadata": {"path": str(root)}}).execute()
    parts: list[str] = []
    for number, cell in enumerate(found.cells, 1):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts += [fenced(cell.source, "python"), *shown(cell.outputs, folder, f"{path.stem}-{number}")]
    return "\n\n".join(parts) + "\n"


def fenced(text: str, kind: str) -> str:
    """A block of code; its fence is longer than any within the text."""
    fence = max(["```", *(f"{found}`" for found in re.findall("`{3,}", text))], key=len)
    return f"{fence}{kind}\n{text.rstrip()}\n{fence}"


def shown(outputs: Sequence[Any], folder: Path, name: str) -> Iterator[str]:
    """What a cell printed, in one block however many messages it came in, and its pictures; no warnings."""
    kept = [output for output in outputs if output.get("name") != "stderr"]
    for printed, group in groupby(kept, key=lambda output: "text" in output):
        if printed:
            yield fenced("".join(output["text"] for output in group), "text")
            continue
        for number, output in enumerate(group, 1):
            if picture := output.get("data", {}).get("image/png"):
                file = f"{name}-{number}.png"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / file).write_bytes(base64.b64decode(picture))
                yield f"![A figure of this notebook]({file})"
