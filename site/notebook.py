"""A notebook, run from top to bottom, as Markdown with its pictures beside it."""

from __future__ import annotations

import base64
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
        parts.append(f"```python\n{cell.source}\n```")
        parts += [_shown(output, folder, f"{path.stem}-{number}") for output in cell.outputs]
    return "\n\n".join(part for part in parts if part) + "\n"


def _shown(output: Any, folder: Path, name: str) -> str:
    if "text" in output:
        return f"```text\n{output['text'].rstrip()}\n```" if output.get("name") != "stderr" else ""
    picture = output.get("data", {}).get("image/png")
    if picture is None:
        return ""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.png").write_bytes(base64.b64decode(picture))
    return f"![A figure of this notebook]({name}.png)"
