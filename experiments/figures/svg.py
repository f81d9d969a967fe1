"""A drawing as SVG text: rectangles, lines, curves and words, with a title and a description for who cannot see it."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"


def number(value: float) -> str:
    """Short, with a minus sign that is as wide as a plus."""
    return f"{value:g}".replace("-", "\N{MINUS SIGN}")


class Drawing:
    """Shapes in the order in which they are drawn; finish() gives the file."""

    def __init__(self, width: int, height: int, title: str, description: str):
        self._lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            f'aria-labelledby="title description" font-family={quoteattr(FONT)}>',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(description)}</desc>',
        ]
        self.rect(0, 0, width, height, fill="#ffffff", radius=14)

    def rect(
        self,
        left: float,
        top: float,
        width: float,
        height: float,
        *,
        fill: str = "none",
        stroke: str = "none",
        thick: float = 1,
        radius: float = 0,
    ) -> None:
        """A rectangle; `thick` is its outline, `radius` that of its corners."""
        self._lines.append(
            f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="{radius:g}" '
            f'fill="{fill}" stroke="{stroke}" stroke-width="{thick:g}"/>'
        )

    def circle(self, x: float, y: float, radius: float, *, fill: str) -> None:
        self._lines.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}"/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str) -> None:
        self._lines.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{stroke}"/>')

    def curve(self, x1: float, y1: float, turn: float, x2: float, y2: float, stroke: str) -> None:
        """From (x1, y1) level to x = turn, then gently to (x2, y2)."""
        bend = (turn + x2) / 2
        self._lines.append(
            f'<path d="M{x1:g} {y1:g}H{turn:g}C{bend:g} {y1:g} {bend:g} {y2:g} {x2:g} {y2:g}" '
            f'fill="none" stroke="{stroke}" stroke-width="2"/>'
        )

    def text(
        self,
        left: float,
        base: float,
        words: str,
        *,
        size: float = 14,
        weight: int = 400,
        fill: str = "#1d2733",
        anchor: str = "start",
        name: str | None = None,
    ) -> None:
        """Words on a baseline; `name` is an id by which they are found."""
        ident = f" id={quoteattr(name)}" if name else ""
        self._lines.append(
            f'<text{ident} x="{left:g}" y="{base:g}" font-size="{size:g}" font-weight="{weight}" fill="{fill}" '
            f'text-anchor="{anchor}">{escape(words)}</text>'
        )

    def finish(self) -> str:
        return "\n".join([*self._lines, "</svg>", ""])
