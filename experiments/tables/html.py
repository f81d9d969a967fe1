"""HTML, piece by piece: content is escaped unless it is HTML that was made here.

tag("p", "a < b ", tag("b", "c"), class_="note")   ->   <p class="note">a &lt; b <b>c</b></p>
"""

from __future__ import annotations

import html as _html
from collections.abc import Iterable
from typing import Any

VOID = frozenset({"br", "img", "meta", "link"})
# A line of the file ends after these, so that text tools can cope with it.
LINES = frozenset({"figure", "h2", "h3", "li", "meta", "p", "section", "summary", "title", "tr"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape(value: object) -> Html:
    """Any value as HTML; HTML as it is."""
    return value if isinstance(value, Html) else Html(_html.escape(str(value), quote=True))


def join(children: Iterable[Any]) -> Html:
    """The children in order; None adds nothing, a list adds its members."""
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
    end = "\n" if name in LINES else ""
    if name in VOID:
        return Html(f"<{name}{opening}>{end}")
    return Html(f"<{name}{opening}>{join(children)}</{name}>{end}")


def link(text: Any, href: str) -> Html:
    return tag("a", text, href=href)


def note(*children: Any) -> Html:
    return tag("p", *children, class_="note")
