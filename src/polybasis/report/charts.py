"""Interactive charts as inline SVG.

A chart is complete without its script, so it also prints, and shows where scripts are blocked. The script of the page
adds values under the pointer, zoom, and series that can be hidden; it reads the numbers from an attribute of the chart.

Plotting libraries were no better here: Plotly and Bokeh embed megabytes of script, and none of Plotly, Bokeh, Vega-Lite
and uPlot shows anything without it. The colours of these charts are variables of the style sheet, so they follow the
reader's colour scheme.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polybasis.report.axes import FloatArray, Scale, scaled, tick_label, ticks

Kind = Literal["line", "step", "dots", "band", "bounds", "bars", "background", "rule"]
WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 54, 12, 26, 42
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
GREY = -1
FAR = 20 * PLOT_HEIGHT  # browsers draw with 32 bits


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line, band or set of marks of a chart.

    Attributes:
        name: name in the legend and in tooltips; an empty name is in neither.
        x: positions, (n,); for ``bars`` and ``background``, the edges of the bars, (n+1,).
        y: values, (n,); the lower ends of a ``band`` or of ``bounds``.
        upper: the upper ends of a ``band`` or of ``bounds``.
        kind: how it is drawn. ``background`` are bars on a scale of their own, ``rule`` is a vertical line at ``x[0]``.
        colour: number of a colour of the style sheet, or GREY.
        notes: a further line of the tooltip for each point.
        dashed, faint: style of a line.
        tooltip: whether the series has tooltips.
    """

    name: str
    x: ArrayLike
    y: ArrayLike = ()
    upper: ArrayLike | None = None
    kind: Kind = "line"
    colour: int = 0
    notes: Sequence[str] = ()
    dashed: bool = False
    faint: bool = False
    tooltip: bool = True


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart with two axes.

    Attributes:
        title: heading of the chart and name for screen readers.
        xlabel, ylabel: labels of the axes.
        series: what is drawn, from back to front.
        caption: text below the chart.
        x, y: limits of the axes; by default those of the data.
        xscale, yscale: scales of the axes.
        nearest: tooltips show the nearest point, rather than all series at the position of the pointer.
    """

    title: str
    xlabel: str
    ylabel: str
    series: Sequence[Series] = field(default_factory=tuple)
    caption: str = ""
    x: tuple[float, float] | None = None
    y: tuple[float, float] | None = None
    xscale: Scale = "linear"
    yscale: Scale = "linear"
    nearest: bool = False

    def html(self) -> str:
        """The chart as an HTML figure."""
        x, y = self._limits()
        left, right = scaled(np.array(x), self.xscale)
        low, high = scaled(np.array(y), self.yscale)

        def to_x(values: ArrayLike) -> FloatArray:
            return np.asarray((scaled(values, self.xscale) - left) / (right - left) * PLOT_WIDTH)

        def to_y(values: ArrayLike) -> FloatArray:
            return np.asarray((1 - (scaled(values, self.yscale) - low) / (high - low)) * PLOT_HEIGHT)

        drawn = "".join(
            f'<g data-series="{i}" class="{_classes(series)}"><path d="{_path(series, to_x, to_y)}"/></g>'
            for i, series in enumerate(self.series)
        )
        across = [(place, tick_label(value)) for value, place in _ticks(x, self.xscale, to_x)]
        upward = [(place, tick_label(value)) for value, place in _ticks(y, self.yscale, to_y)]
        xticks = "".join(
            f'<path d="M{LEFT + at:.1f} {TOP}v{PLOT_HEIGHT}"/>'
            f'<text x="{LEFT + at:.1f}" y="{TOP + PLOT_HEIGHT + 16}">{label}</text>'
            for at, label in across
        )
        yticks = "".join(
            f'<path d="M{LEFT} {TOP + at:.1f}h{PLOT_WIDTH}"/><text x="{LEFT - 6}" y="{TOP + at + 4:.1f}">{label}</text>'
            for at, label in upward
        )
        title, data = html.escape(self.title), html.escape(json.dumps(self._data(x, y), separators=(",", ":")))
        return (
            f'<figure class="chart" tabindex="0" aria-label="{title}"><figcaption>{title}</figcaption>{self._legend()}'
            f'<div class="canvas"><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" data-chart="{data}">'
            f"<title>{title}</title>"
            f'<g class="xticks">{xticks}</g><g class="yticks">{yticks}</g>'
            f'<svg class="plot" x="{LEFT}" y="{TOP}" width="{PLOT_WIDTH}" height="{PLOT_HEIGHT}" '
            f'viewBox="0 0 {PLOT_WIDTH} {PLOT_HEIGHT}" preserveAspectRatio="none">{drawn}</svg>'
            f'<text class="xlabel" x="{LEFT + PLOT_WIDTH / 2}" y="{HEIGHT - 6}">{html.escape(self.xlabel)}</text>'
            f'<text class="ylabel" x="0" y="13">{html.escape(self.ylabel)}</text></svg></div>'
            f"<p>{html.escape(self.caption)}</p></figure>"
        )

    def _limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        own = [series for series in self.series if series.kind != "rule"]
        x = self.x or _extent([series.x for series in own], self.xscale, 0)
        foreground = [series for series in own if series.kind != "background"]
        values = [series.y for series in foreground] + [s.upper for s in foreground if s.upper is not None]
        return x, self.y or _extent(values, self.yscale, 0.04)

    def _legend(self) -> str:
        named = [(i, series) for i, series in enumerate(self.series) if series.name]
        if len(named) < 2 or len(named) > 12:
            named = []
        buttons = (
            f'<button type="button" aria-pressed="true" data-toggle="{i}" class="{_classes(series)}"><i></i>'
            f"{html.escape(series.name)}</button>"
            for i, series in named
        )
        return f'<div class="legend">{"".join(buttons)}</div>'

    def _data(self, x: tuple[float, float], y: tuple[float, float]) -> dict[str, Any]:
        """What the script needs: limits, scales and the numbers of each series; equal positions are stored once."""
        positions: list[list[float | None]] = []
        entries = []
        for series in self.series:
            entry: dict[str, Any] = {"name": series.name, "kind": series.kind}
            if series.tooltip and series.name and series.kind != "rule":
                found = np.asarray(series.x, dtype=np.float64)
                numbers = _numbers((found[1:] + found[:-1]) / 2 if series.kind in ("bars", "background") else found)
                if numbers not in positions:
                    positions.append(numbers)
                entry |= {"x": positions.index(numbers), "y": _numbers(series.y)}
                if series.upper is not None:
                    entry["upper"] = _numbers(series.upper)
                if series.notes:
                    entry["notes"] = list(series.notes)
            entries.append(entry)
        return {
            "x": list(x), "y": list(y), "xscale": self.xscale, "yscale": self.yscale, "xlabel": self.xlabel,
            "ylabel": self.ylabel, "nearest": self.nearest, "positions": positions, "series": entries,
        }  # fmt: skip


def _classes(series: Series) -> str:
    colour = "grey" if series.colour == GREY else f"s{series.colour % 8}"
    return " ".join([series.kind, colour, *(["dashed"] if series.dashed else []), *(["faint"] if series.faint else [])])


def _path(series: Series, to_x: Any, to_y: Any) -> str:
    """The drawing of a series in the coordinates of the plot."""
    if series.kind == "rule":
        return f"M{to_x(series.x)[0]:.1f} 0V{PLOT_HEIGHT}"
    if series.kind == "background":
        heights = np.asarray(series.y, dtype=np.float64)
        y = PLOT_HEIGHT * (1 - 0.92 * heights / max(heights.max(initial=0), 1e-300))
    else:
        y = to_y(series.y)
    x = to_x(series.x)
    if series.kind in ("bars", "background"):
        bars = zip(x[:-1], x[1:], y, strict=True)
        return "".join(
            f"M{a:.1f} {PLOT_HEIGHT}V{top:.1f}H{b:.1f}V{PLOT_HEIGHT}z" for a, b, top in bars if top < PLOT_HEIGHT
        )
    if series.kind == "dots":  # lines of length 0 with round ends keep their shape when the plot is stretched
        return "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(x, y, strict=True) if np.isfinite(b))
    if series.kind == "bounds":
        return "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in zip(x, y, to_y(series.upper), strict=True))
    if series.kind == "band":
        return _line(x, y) + _line(x[::-1], to_y(series.upper)[::-1]).replace("M", "L", 1) + "z"
    if series.kind == "step":
        x, y = np.repeat(x, 2)[:-1], np.repeat(y, 2)[1:]
    return _line(x, y)


def _line(x: FloatArray, y: FloatArray) -> str:
    """A line through points, with gaps where a value is not finite."""
    parts, pen = [], "M"
    for a, b in zip(x, y, strict=True):
        if np.isfinite(b):
            parts.append(f"{pen}{a:.1f} {np.clip(b, -FAR, FAR):.1f}")
            pen = "L"
        else:
            pen = "M"
    return "".join(parts)


def _ticks(limits: tuple[float, float], scale: Scale, place: Any) -> list[tuple[float, float]]:
    values = ticks(*limits, scale)
    return list(zip(values, place(np.array(values)).tolist(), strict=True))


def _extent(values: Sequence[ArrayLike], scale: Scale, margin: float) -> tuple[float, float]:
    """The limits of finite values, with a margin on linear axes; never an interval of length 0."""
    found: NDArray[np.float64] = np.concatenate([np.zeros(0), *(np.ravel(np.asarray(v)) for v in values)])
    found = found[np.isfinite(found) & ((found > 0) if scale == "log" else True)]
    if not len(found):
        return (1.0, 10.0) if scale == "log" else (0.0, 1.0)
    low, high = float(found.min()), float(found.max())
    if scale == "log":
        return (low / 1.2, high * 1.2)
    gap = margin * (high - low)
    return (low - gap, high + gap) if high > low else (low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2)


def _numbers(values: ArrayLike) -> list[float | None]:
    """Values with five significant digits, None where they are not finite."""
    return [float(f"{v:.5g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=np.float64).tolist()]
