"""Plotting functions. Each takes computed values and returns a Matplotlib figure."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polybasis.files import write_atomically

try:
    import matplotlib as mpl
    from cycler import cycler
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
except ImportError as error:
    raise ImportError("figures require Matplotlib; install it with: pip install 'polybasis[plot]'") from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Distinguishable with colour vision deficiency and in greyscale (Okabe and Ito, 2008), except for the last, which is
# violet because their black would disappear on a dark page.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#7B5CC4")
STYLE: Any = {
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 9,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "polybasis",
    "savefig.dpi": 150,
}
NO_ENERGY = 1e-3  # share of a signal's energy below which a part of the spectrum is shaded
MU_LABEL = r"eigenvalue $\mu$ of $P$ (1: smooth, $-1$: oscillating)"


@contextmanager
def figure(
    columns: int = 1, rows: int = 1, width: float = 6.0, height: float = 3.4, **kw: Any
) -> Iterator[tuple[Figure, Any]]:
    """Creates a figure and its axes in the package's style, without changing Matplotlib's global state.

    Args:
        columns, rows: numbers of panels.
        width, height: size of the figure in inches.
        **kw: arguments of :meth:`matplotlib.figure.Figure.subplots`.
    """
    with mpl.rc_context(STYLE):
        drawn = Figure(figsize=(width, height), layout="constrained")
        yield drawn, drawn.subplots(rows, columns, **kw)


def save(drawn: Figure, path: Path) -> list[Path]:
    """Writes a figure as PNG and SVG.

    Args:
        drawn: the figure.
        path: path of the files; its suffix is replaced.

    Returns:
        The paths of the PNG and the SVG file.
    """
    written = []
    for kind in ("png", "svg"):
        buffer = io.BytesIO()
        with mpl.rc_context(STYLE):
            drawn.savefig(buffer, format=kind, metadata={"Date": None} if kind == "svg" else None)
        target = path.with_suffix(f".{kind}")
        write_atomically(target, buffer.getvalue())
        written.append(target)
    return written


def plot_response(response: Callable[[NDArray[np.float64]], ArrayLike], ax: Axes | None = None, **line: Any) -> Axes:
    """Plots a frequency response on [-1, 1].

    Args:
        response: maps eigenvalues, (n,), to responses, (n,) or (n, channels).
        ax: axes to draw on; those of a new figure by default.
        **line: arguments of :meth:`matplotlib.axes.Axes.plot`.

    Returns:
        The axes.
    """
    if ax is None:
        with figure() as (_, ax):
            pass
    assert ax is not None
    mu = np.linspace(-1, 1, 401)
    ax.plot(mu, np.asarray(response(mu)), **line)
    ax.set_xlabel(MU_LABEL)
    ax.set_ylabel("response")
    return ax


def plot_energy(ax: Axes, nodes: ArrayLike, shares: ArrayLike, isolated: bool = False) -> Axes:
    """Draws the spectral density of signals behind a response, and shades the spectrum where they have no energy.

    Args:
        ax: axes of the response.
        nodes: eigenvalues in ascending order, (n,).
        shares: share of the energy at each of them, (n,).
        isolated: the nodes are eigenvalues, with no energy between them, rather than the nodes of a quadrature.

    Returns:
        The secondary axes, which hold the histogram.
    """
    share = np.asarray(shares, dtype=np.float64)
    left, right = energy_cells(np.asarray(nodes, dtype=np.float64), isolated)
    left, right, share = (values[share >= NO_ENERGY] for values in (left, right, share))
    density = share / (right - left)
    behind = ax.twinx()
    behind.bar(left, density, right - left, align="edge", color=COLOURS[5], alpha=0.3, linewidth=0)
    gaps = _gaps(left, right)
    for start, stop in gaps:
        behind.axvspan(start, stop, facecolor="none", edgecolor=COLOURS[6], alpha=0.35, hatch="////", linewidth=0)
    behind.set(ylim=(0, 1.1 * density.max()), yticks=[])
    behind.grid(visible=False)
    behind.spines[:].set_visible(False)
    ax.set_zorder(behind.get_zorder() + 1)
    ax.patch.set_visible(False)  # the histogram is behind it
    ax.set_xlim(-1.02, 1.02)
    ax.set_ylim(_response_limits(ax, gaps))

    narrow = ax.bbox.width < 4 * ax.figure.dpi  # four inches
    if narrow:
        ax.set_xlabel(r"eigenvalue $\mu$ of $P$")
    handles, labels = ax.get_legend_handles_labels()
    handles += [Patch(color=COLOURS[5], alpha=0.3, linewidth=0)]
    handles += [Patch(facecolor="none", edgecolor=COLOURS[6], alpha=0.35, hatch="////", linewidth=0)] if gaps else []
    ax.legend(
        handles,
        [*labels, "signal energy", "extrapolation"][: len(handles)],
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=3,
        frameon=False,
        fontsize="x-small" if narrow else "small",
        handlelength=1.2 if narrow else 1.8,
        columnspacing=0.9 if narrow else 1.8,
        borderaxespad=0.2,
    )
    return behind


def _response_limits(ax: Axes, gaps: list[tuple[float, float]]) -> tuple[float, float]:
    """The limits of the response axis, which extrapolations extend by at most the range of the fitted responses."""
    mu, response = np.concatenate([np.asarray(line.get_xydata()) for line in ax.lines]).T
    fitted = np.all([(mu < start) | (mu > stop) for start, stop in gaps] or [mu == mu], axis=0)
    low, high = (response[fitted].min(), response[fitted].max()) if fitted.any() else (response.min(), response.max())
    reach = (high - low) or abs(high) or 1.0
    bottom, top = max(response.min(), low - reach), min(response.max(), high + reach)
    margin = 0.05 * (top - bottom or reach)
    return bottom - margin, top + margin


def energy_cells(nodes: NDArray[np.float64], isolated: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The left and right ends of the bars of a histogram of quadrature weights.

    A bar reaches halfway to the neighbouring nodes, but on neither side further than the distance to the node on the
    other side. The nodes of a smooth density satisfy this by themselves, so longer distances are gaps of the spectrum.

    Args:
        nodes: nodes in ascending order, (n,).
        isolated: the bars are thin lines.
    """
    if isolated or len(nodes) < 3:
        return nodes - 0.008, nodes + 0.008
    gaps = np.diff(nodes)
    before, after = np.append(min(gaps[:2]), gaps), np.append(gaps, min(gaps[-2:]))
    return np.maximum(nodes - np.minimum(before / 2, after), -1), np.minimum(nodes + np.minimum(after / 2, before), 1)


def _gaps(left: NDArray[np.float64], right: NDArray[np.float64]) -> list[tuple[float, float]]:
    """The parts of [-1, 1] between disjoint intervals in ascending order."""
    starts, stops = [-1.0, *right.tolist()], [*left.tolist(), 1.0]
    return [(start, stop) for start, stop in zip(starts, stops, strict=True) if stop - start > 1e-6]


def draw_convergence(
    curves: Mapping[str, ArrayLike],
    titles: Sequence[str],
    floor: ArrayLike | None = None,
    ylabel: str = "MSE",
    stride: int = 1,
) -> Figure:
    """Draws losses by epoch on logarithmic axes: one panel per sample, one line per basis.

    Args:
        curves: losses by name of the basis, (epochs, samples).
        titles: titles of the panels.
        floor: (samples,), minimum losses, drawn as dotted lines.
        ylabel: label of the loss axes.
        stride: number of epochs between two values of a curve.
    """
    columns = min(2, len(titles))
    rows = -(-len(titles) // columns)
    with figure(columns, rows, 3.6 * columns if columns > 1 else 6, 2.9 * rows, squeeze=False) as (drawn, axes):
        for i, (ax, title) in enumerate(zip(axes.flat, titles, strict=False)):
            for name, curve in curves.items():
                values = np.asarray(curve)[:, i]
                ax.plot(1 + stride * np.arange(len(values)), values, label=name, linewidth=1.2)
            if floor is not None:
                ax.axhline(
                    float(np.asarray(floor)[i]), color=COLOURS[6], linewidth=0.8, linestyle=":", label="closed form"
                )
            ax.set(yscale="log", xscale="log", xlabel="epoch", ylabel=ylabel)
            ax.set_title(title, fontsize=8)
        for ax in axes.flat[len(titles) :]:
            ax.set_visible(False)
        axes.flat[0].legend(fontsize=7)
    return drawn


def draw_representation(polynomials: Mapping[str, tuple[ArrayLike, ArrayLike]], target: str) -> Figure:
    """Draws the terms of one polynomial expanded in several bases, one panel per basis.

    Args:
        polynomials: coefficients, (K+1,), and values of the basis polynomials, (K+1, 201) on a uniform grid of
            [-1, 1], by name of the basis.
        target: label of the polynomial.
    """
    mu = np.linspace(-1, 1, 201)
    with figure(len(polynomials), 1, 2.6 * len(polynomials), 2.8, sharey=True) as (drawn, axes):
        for ax, (name, (coefficients, values)) in zip(np.atleast_1d(axes), polynomials.items(), strict=True):
            terms = np.asarray(coefficients)[:, None] * np.asarray(values)
            for k, term in enumerate(terms):
                label = f"{float(np.asarray(coefficients)[k]):.2f} $g_{k}$"
                ax.plot(mu, term, linewidth=1, label=label)
            ax.plot(mu, terms.sum(0), color=COLOURS[6], linewidth=1.8, label=target)
            ax.set(title=name, xlabel=r"$\mu$")
            ax.legend(fontsize=6)
        np.atleast_1d(axes)[0].set_ylabel("value")
    return drawn


def draw_images(rows: Sequence[tuple[str, Sequence[tuple[str, NDArray[np.uint8]]]]]) -> Figure:
    """Draws a grid of images.

    Args:
        rows: for each row its label and its images, each a title and pixels, (height, width, 3).
    """
    columns = max(len(images) for _, images in rows)
    with figure(columns, len(rows), 1.6 * columns, 1.75 * len(rows), squeeze=False) as (drawn, axes):
        for row_axes, (label, images) in zip(axes, rows, strict=True):
            for ax in row_axes:
                ax.set_axis_off()
            for ax, (title, pixels) in zip(row_axes, images, strict=False):
                ax.set_axis_on()
                ax.imshow(pixels, interpolation="nearest")
                ax.set(xticks=[], yticks=[])
                ax.grid(False)
                ax.set_title(title, fontsize=7)
                for spine in ax.spines.values():
                    spine.set_visible(False)
            row_axes[0].set_ylabel(label, fontsize=7)
    return drawn


def draw_conditions(conditions: Mapping[str, ArrayLike]) -> Figure:
    """Draws the condition number of the Hessian for each basis, one dot per sample.

    Args:
        conditions: (samples,) by name of the basis.
    """
    rng = np.random.default_rng(0)
    with figure(width=6.4, height=3.2) as (drawn, ax):
        for position, values in enumerate(conditions.values()):
            y = np.asarray(values, dtype=np.float64)
            ax.scatter(position + rng.uniform(-0.18, 0.18, len(y)), y, s=9, alpha=0.6, linewidths=0)
        ax.set_yscale("log")
        ax.set_ylim(bottom=0.5)
        ax.set_xticks(range(len(conditions)), list(conditions), rotation=25, ha="right")
        ax.set(ylabel="condition number of the Hessian", xlabel="basis")
    return drawn


def draw_responses(mu: ArrayLike, responses: ArrayLike, density: tuple[ArrayLike, ArrayLike] | None = None) -> Figure:
    """Draws the frequency responses of a layer: each channel (left), and median and percentiles (right).

    Args:
        mu: (n,), eigenvalues.
        responses: (n, channels).
        density: bin edges, (bins + 1,), and heights, (bins,), of the graph's eigenvalue histogram, drawn in the
            background.
    """
    points, values = np.asarray(mu), np.asarray(responses)
    with figure(2, 1, 8.4, 3.3, sharey=True) as (drawn, (left, right)):
        left.plot(points, values, linewidth=0.6, alpha=0.6, color=COLOURS[0])
        left.set(title="individual channels", ylabel="response")
        for low, high, shade in ((5, 95, 0.18), (25, 75, 0.35)):
            band = np.percentile(values, [low, high], axis=1)
            label = f"{low}th to {high}th percentile"
            right.fill_between(points, *band, alpha=shade, color=COLOURS[0], linewidth=0, label=label)
        right.plot(points, np.median(values, axis=1), color=COLOURS[1], label="median")
        right.set(title="distribution over channels")
        for ax in (left, right):
            ax.set_xlabel(MU_LABEL, fontsize=8)
            if density is not None:
                background = ax.twinx()
                edges, heights = (np.asarray(part) for part in density)
                background.stairs(heights, edges, fill=True, color="#808080", alpha=0.25, label="spectrum")
                background.set_yticks([])
                background.grid(False)
                ax.set_zorder(background.get_zorder() + 1)
                ax.patch.set_visible(False)
        if density is not None:  # responses away from the eigenvalues have no effect and may be large
            edges, heights = (np.asarray(part) for part in density)
            bins = np.clip(np.searchsorted(edges, points, side="right") - 1, 0, len(heights) - 1)
            low, high = np.percentile(values[heights[bins] > 0], [0.5, 99.5])
            margin = 0.15 * max(high - low, 1e-12)
            left.set_ylim(low - margin, high + margin)
        right.legend(fontsize=7)
    return drawn


def draw_weight_functions(nodes: ArrayLike, weights: ArrayLike) -> Figure:
    """Draws the cumulative distribution of each channel's weight function, approximated by Gauss quadrature.

    Args:
        nodes: (K+1, channels), ascending quadrature nodes.
        weights: (K+1, channels), quadrature weights.
    """
    x, w = np.asarray(nodes), np.asarray(weights)
    with figure() as (drawn, ax):
        for channel in range(x.shape[1]):
            cumulative = np.concatenate([[0.0], np.cumsum(w[:, channel]) / w[:, channel].sum(), [1.0]])
            steps = np.concatenate([[x[0, channel]], x[:, channel], [max(1.0, x[-1, channel])]])
            ax.step(steps, cumulative, where="post", linewidth=0.6, alpha=0.6, color=COLOURS[0])
        mu = np.linspace(-1, 1, 201)
        ax.plot(mu, 1 - np.arccos(mu) / np.pi, color=COLOURS[1], label="Chebyshev weight")
        for edge in (-1, 1):
            ax.axvline(edge, color=COLOURS[6], linewidth=0.6, linestyle=":")
        ax.set(xlabel=MU_LABEL, ylabel="cumulative weight")
        ax.legend(fontsize=7)
    return drawn


def draw_basis(mu: ArrayLike, values: ArrayLike, count: int = 8) -> Figure:
    """Draws the first basis polynomials.

    Args:
        mu: (n,), eigenvalues.
        values: (K+1, n), values of the polynomials.
        count: maximum number of polynomials to draw.
    """
    points = np.asarray(mu)
    with figure() as (drawn, ax):
        for k, polynomial in enumerate(np.asarray(values)[:count]):
            ax.plot(points, polynomial, linewidth=1.1, label=f"$g_{k}$")
        ax.set(xlabel=MU_LABEL, ylabel="value")
        ax.set_yscale("symlog", linthresh=2)
        ax.legend(fontsize=7, ncols=2)
    return drawn


def draw_agreement(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Draws our mean test accuracies against the paper's, with both intervals, coloured by data set.

    Args:
        rows: rows with the keys ``dataset``, ``mean``, ``ci95``, ``paper`` and ``paper_ci``, in percent.
    """
    with figure(width=5.2, height=4.6) as (drawn, ax):
        low = min(min(row["mean"], row["paper"]) for row in rows) - 3
        high = max(max(row["mean"], row["paper"]) for row in rows) + 3
        ax.plot([low, high], [low, high], color=COLOURS[6], linewidth=0.7, linestyle=":")
        for colour, dataset in zip(COLOURS, dict.fromkeys(row["dataset"] for row in rows), strict=False):
            group = [row for row in rows if row["dataset"] == dataset]
            ax.errorbar(
                [row["paper"] for row in group],
                [row["mean"] for row in group],
                xerr=[row["paper_ci"] for row in group],
                yerr=[row["ci95"] for row in group],
                fmt="o",
                markersize=3.5,
                linewidth=0.8,
                color=colour,
                label=dataset,
            )
        ax.set(xlabel="test accuracy, paper, %", ylabel="test accuracy, ours, %", xlim=(low, high), ylim=(low, high))
        ax.legend(fontsize=8)
    return drawn


def draw_differences(names: Sequence[str], series: Mapping[str, Sequence[Any]]) -> Figure:
    """Draws differences with their intervals on a line at zero; filled markers where the interval excludes zero.

    Args:
        names: name of each comparison, from top to bottom.
        series: by label, the differences of all comparisons with attributes ``mean`` and ``ci95``; None for a gap.
    """
    with figure(width=6.2, height=0.8 + 0.42 * len(names)) as (drawn, ax):
        ax.axvline(0, color=COLOURS[6], linewidth=0.7, linestyle=":")
        for number, (label, differences) in enumerate(series.items()):
            shift = 0.16 * (2 * number - len(series) + 1)
            found = [(i + shift, d) for i, d in enumerate(differences) if d is not None and np.isfinite(d.ci95)]
            colour = COLOURS[number]
            for y, difference in found:
                excludes = abs(difference.mean) > difference.ci95
                ax.errorbar(
                    difference.mean, y, xerr=difference.ci95, fmt="o", markersize=4.5, linewidth=1.2, color=colour,
                    markerfacecolor=colour if excludes else "white",
                )  # fmt: skip
            if found:
                ax.plot([], [], "o-", markersize=4.5, linewidth=1.2, color=colour, label=label)
        ax.set_yticks(range(len(names)), names, fontsize=7.5)
        ax.invert_yaxis()
        ax.set(xlabel="difference in test accuracy on the same splits, points")
        ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0, 1.08), ncols=len(series))
    return drawn
