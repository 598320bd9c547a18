"""Self-contained HTML pages of text, tables and figures."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from polybasis.files import write_atomically

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --paper: #fdfdfb; --line: #d8d8d2; --dim: #5c5c5c; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e3; --paper: #16181a; --line: #3a3d40; --dim: #a0a3a6; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 54rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
p, figcaption { max-width: 42rem; } figure { margin: 1.5rem 0; }
figcaption { color: var(--dim); font-size: .92rem; margin-top: .4rem; }
img { display: block; width: 100%; height: auto; background: #fff; border-radius: 4px; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem; border-bottom: 1px solid var(--line); text-align: right; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
"""


@dataclass
class Page:
    """An HTML page, built from top to bottom. Text is escaped and images are embedded.

    Args:
        title: title and first heading of the page.
    """

    title: str
    _parts: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        """Appends a section heading."""
        self._parts.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, text: str) -> None:
        """Appends a paragraph."""
        self._parts.append(f"<p>{html.escape(text)}</p>")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Appends a table, which scrolls horizontally if it is wider than the page.

        Args:
            header: column names.
            rows: cells.
        """
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        self._parts.append(f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>')

    def figure(self, image: Path, caption: str) -> None:
        """Appends an image.

        Args:
            image: a PNG or SVG file.
            caption: caption and alternative text.

        Raises:
            KeyError: if the file is neither PNG nor SVG.
        """
        kind = {".png": "png", ".svg": "svg+xml"}[image.suffix]
        data = base64.b64encode(image.read_bytes()).decode()
        text = html.escape(caption)
        self._parts.append(
            f'<figure><img alt="{text}" src="data:image/{kind};base64,{data}"><figcaption>{text}</figcaption></figure>'
        )

    def write(self, path: Path) -> None:
        """Writes the page atomically."""
        title, body = html.escape(self.title), "\n".join(self._parts)
        document = (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{title}</title><style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n{body}\n</body></html>\n"
        )
        write_atomically(path, document.encode())
