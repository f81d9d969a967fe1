"""One HTML file from the parts in web/, with nothing outside of it."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WEB = Path(__file__).with_name("web")
SCRIPTS = (
    "network.js", "inverse.js", "theory.js", "draw.js", "picture.js",
    "views/path.js", "views/pairs.js", "views/phases.js", "views/pooling.js", "views/theorem.js", "main.js",
)  # fmt: skip


def page(content: Mapping[str, Any], arrays: str, *, label: str, run: str) -> str:
    """The page with this content (content.py); `label` names the network in a sentence, `run` in the footer."""
    parts = {
        "style": (WEB / "style.css").read_text(),
        "label": html.escape(label),
        "run": html.escape(run),
        "content": json.dumps(content).replace("<", "\\u003c"),  # no </script> can end it
        "arrays": arrays,
        "scripts": "\n".join((WEB / name).read_text() for name in SCRIPTS),
    }
    text = (WEB / "page.html").read_text()
    for name, value in parts.items():
        head, mark, tail = text.partition(f"/* {name} */")
        assert mark, name
        text = head + value + tail
    return text
