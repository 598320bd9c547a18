"""One self-contained HTML page: text, tables and figures, no network."""

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
    """A page that grows from top to bottom."""

    title: str
    _parts: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        """A heading of a section."""
        self._parts.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, text: str) -> None:
        """A paragraph."""
        self._parts.append(f"<p>{html.escape(text)}</p>")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table, which scrolls by itself where it is too wide."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        self._parts.append(f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>')

    def figure(self, picture: Path, caption: str) -> None:
        """A PNG or SVG file, taken into the page, with a caption in plain words."""
        kind = {".png": "png", ".svg": "svg+xml"}[picture.suffix]
        data = base64.b64encode(picture.read_bytes()).decode()
        text = html.escape(caption)
        self._parts.append(
            f'<figure><img alt="{text}" src="data:image/{kind};base64,{data}"><figcaption>{text}</figcaption></figure>'
        )

    def write(self, path: Path) -> None:
        """Writes the page, whole or not at all."""
        title, body = html.escape(self.title), "\n".join(self._parts)
        document = (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{title}</title><style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n{body}\n</body></html>\n"
        )
        write_atomically(path, document.encode())
