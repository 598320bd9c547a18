"""Self-contained HTML pages of text, tables, charts and pictures. They load nothing from elsewhere."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Literal

from polybasis.files import write_atomically
from polybasis.report.charts import Chart

TextKind = Literal["", "lead", "note"]
Cell = str | tuple[str, str]  # a text, or a text and a remark in small print


@dataclass
class Page:
    """An HTML page, built from top to bottom. Text is escaped; the style sheet, the script and images are embedded.

    Args:
        title: title and first heading of the page.
    """

    title: str
    _head: list[str] = field(default_factory=list)
    _parts: list[str] = field(default_factory=list)
    _sections: dict[str, str] = field(default_factory=dict)

    def heading(self, text: str) -> None:
        """Appends a section heading, which is also listed at the top of the page. Headings must differ."""
        name = re.sub(r"\W+", "-", text.lower()).strip("-") or f"section-{len(self._sections)}"
        self._sections[name] = text
        self._parts.append(f'<h2 id="{name}">{html.escape(text)}</h2>')

    def subheading(self, text: str) -> None:
        """Appends a heading within a section."""
        self.add(f"<h3>{html.escape(text)}</h3>")

    def text(self, text: str, kind: TextKind = "") -> None:
        """Appends a paragraph."""
        self.add(f'<p class="{kind}">{html.escape(text)}</p>' if kind else f"<p>{html.escape(text)}</p>")

    def verdict(self, label: str, text: str, good: bool) -> None:
        """Appends a highlighted sentence.

        Args:
            label: its first words.
            text: the sentence.
            good: whether it is good news, rather than a warning.
        """
        kind = "good" if good else "warning"
        self.add(f'<p class="verdict {kind}"><b>{html.escape(label)}</b> {html.escape(text)}</p>')

    def tiles(self, facts: Sequence[tuple[str, str, str]]) -> None:
        """Appends figures in a row, each a name, a value and a remark."""
        tiles = "".join(
            f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}<small>{html.escape(remark)}</small></dd></div>"
            for name, value, remark in facts
        )
        self.add(f'<dl class="tiles">{tiles}</dl>')

    def table(
        self, header: Sequence[Cell], rows: Sequence[Sequence[Cell]], bars: Sequence[float] = (), texts: int = 1
    ) -> None:
        """Appends a table, which scrolls horizontally if it is wider than the page.

        Args:
            header: column names.
            rows: cells, each a text, or a text and a remark in small print.
            bars: for each row, the length of a bar behind its last cell, between 0 and 1.
            texts: number of first columns that hold text, which is aligned to the left; the others hold numbers.
        """
        kinds = [' class="text"' if i < texts else "" for i in range(len(header))]
        head = "".join(f"<th{kind}>{_cell(cell)}</th>" for kind, cell in zip(kinds, header, strict=True))
        body = []
        for i, row in enumerate(rows):
            cells = [f"<td{kind}>{_cell(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)]
            if bars:
                cells[-1] = f'<td class="bar" style="--w:{100 * bars[i]:.1f}%">{_cell(row[-1])}</td>'
            body.append(f"<tr>{''.join(cells)}</tr>")
        self.add(
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
        )

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """Appends a table of names and values."""
        body = "".join(f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>" for name, value in rows)
        self.add(f'<table class="facts"><tbody>{body}</tbody></table>')

    def code(self, text: str) -> None:
        """Appends commands or code."""
        self.add(f"<pre>{html.escape(text)}</pre>")

    def charts(self, *charts: Chart) -> None:
        """Appends charts, side by side where there is room."""
        self.add(f'<div class="charts">{"".join(chart.html() for chart in charts)}</div>')

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
        self.add(
            f'<figure class="picture"><img alt="{text}" src="data:image/{kind};base64,{data}">'
            f"<figcaption>{text}</figcaption></figure>"
        )

    def add(self, fragment: str) -> None:
        """Appends HTML in which all text is escaped. What precedes the first section goes above the navigation."""
        (self._parts if self._sections else self._head).append(fragment)

    def write(self, path: Path) -> None:
        """Writes the page atomically."""
        own = files("polybasis.report")
        style, script = (own.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
        links = "".join(f'<a href="#{name}">{html.escape(text)}</a>' for name, text in self._sections.items())
        title, new_line = html.escape(self.title), "\n"
        document = (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{title}</title><style>\n{style}</style></head>\n<body>"
            f"<header><h1>{title}</h1>\n{new_line.join(self._head)}</header>\n"
            f'<nav aria-label="Sections"><div>{links}</div></nav>\n'
            f"<main>{new_line.join(self._parts)}</main>\n<script>\n{script}</script></body></html>\n"
        )
        write_atomically(path, document.encode())


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return html.escape(cell)
    return html.escape(cell[0]) + (f" <small>{html.escape(cell[1])}</small>" if cell[1] else "")
