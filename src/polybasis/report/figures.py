"""All that is drawn. Every function takes numbers, draws them, and computes nothing else."""

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
except ImportError as error:
    raise ImportError("figures need Matplotlib; install it with: pip install 'polybasis[plot]'") from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours that keep apart for colour-blind readers and in grey (Okabe and Ito, 2008).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000")
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
MU_LABEL = r"eigenvalue $\mu$ of $P$ (1: smooth, $-1$: alternating)"


@contextmanager
def figure(
    columns: int = 1, rows: int = 1, width: float = 6.0, height: float = 3.4, **kw: Any
) -> Iterator[tuple[Figure, Any]]:
    """A figure in the house style with its axes; no window and no global state."""
    with mpl.rc_context(STYLE):
        drawn = Figure(figsize=(width, height), layout="constrained")
        yield drawn, drawn.subplots(rows, columns, **kw)


def save(drawn: Figure, path: Path) -> list[Path]:
    """Writes PNG and SVG beside one another and returns both."""
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
    """A frequency response over the whole spectrum."""
    if ax is None:
        with figure() as (_, ax):
            pass
    assert ax is not None
    mu = np.linspace(-1, 1, 401)
    ax.plot(mu, np.asarray(response(mu)), **line)
    ax.set_xlabel(MU_LABEL)
    ax.set_ylabel("response")
    return ax


def draw_convergence(
    curves: Mapping[str, ArrayLike],
    titles: Sequence[str],
    floor: ArrayLike | None = None,
    ylabel: str = "MSE",
    every: int = 1,
) -> Figure:
    """Losses by epoch: one panel for each sample, one line for each basis.

    Args:
        curves: (epochs, samples) by name.
        titles: of the samples.
        floor: the least that can be reached, for each sample.
        ylabel: what the losses are.
        every: epochs from one number of a curve to the next.
    """
    columns = min(2, len(titles))
    rows = -(-len(titles) // columns)
    with figure(columns, rows, 3.6 * columns if columns > 1 else 6, 2.9 * rows, squeeze=False) as (drawn, axes):
        for i, (ax, title) in enumerate(zip(axes.flat, titles, strict=False)):
            for name, curve in curves.items():
                values = np.asarray(curve)[:, i]
                ax.plot(1 + every * np.arange(len(values)), values, label=name, linewidth=1.2)
            if floor is not None:
                ax.axhline(
                    float(np.asarray(floor)[i]), color="black", linewidth=0.8, linestyle=":", label="closed form"
                )
            ax.set(yscale="log", xscale="log", xlabel="epoch", ylabel=ylabel)
            ax.set_title(title, fontsize=8)
        for ax in axes.flat[len(titles) :]:
            ax.set_visible(False)
        axes.flat[0].legend(fontsize=7)
    return drawn


def draw_representation(polynomials: Mapping[str, tuple[ArrayLike, ArrayLike]], target: str) -> Figure:
    """What each basis adds up to the same polynomial: terms (K+1, points) scaled by their coefficients, by name."""
    mu = np.linspace(-1, 1, 201)
    with figure(len(polynomials), 1, 2.6 * len(polynomials), 2.8, sharey=True) as (drawn, axes):
        for ax, (name, (coefficients, values)) in zip(np.atleast_1d(axes), polynomials.items(), strict=True):
            terms = np.asarray(coefficients)[:, None] * np.asarray(values)
            for k, term in enumerate(terms):
                label = f"{float(np.asarray(coefficients)[k]):.2f} $g_{k}$"
                ax.plot(mu, term, linewidth=1, label=label)
            ax.plot(mu, terms.sum(0), color="black", linewidth=1.8, label=target)
            ax.set(title=name, xlabel=r"$\mu$")
            ax.legend(fontsize=6)
        np.atleast_1d(axes)[0].set_ylabel("value")
    return drawn


def draw_images(rows: Sequence[tuple[str, Sequence[tuple[str, NDArray[np.uint8]]]]]) -> Figure:
    """Pictures in rows, each row with a label and its pictures with titles."""
    columns = max(len(pictures) for _, pictures in rows)
    with figure(columns, len(rows), 1.6 * columns, 1.75 * len(rows), squeeze=False) as (drawn, axes):
        for line, (label, pictures) in zip(axes, rows, strict=True):
            for ax in line:
                ax.set_axis_off()
            for ax, (title, pixels) in zip(line, pictures, strict=False):
                ax.set_axis_on()
                ax.imshow(pixels, interpolation="nearest")
                ax.set(xticks=[], yticks=[])
                ax.grid(False)
                ax.set_title(title, fontsize=7)
                for spine in ax.spines.values():
                    spine.set_visible(False)
            line[0].set_ylabel(label, fontsize=7)
    return drawn


def draw_conditions(conditions: Mapping[str, ArrayLike]) -> Figure:
    """Condition numbers of the Hessian by basis, one dot for each sample."""
    rng = np.random.default_rng(0)
    with figure(width=6.4, height=3.2) as (drawn, ax):
        for place, values in enumerate(conditions.values()):
            numbers = np.asarray(values, dtype=np.float64)
            ax.scatter(place + rng.uniform(-0.18, 0.18, len(numbers)), numbers, s=9, alpha=0.6, linewidths=0)
        ax.set_yscale("log")
        ax.set_ylim(bottom=0.5)
        ax.set_xticks(range(len(conditions)), list(conditions), rotation=25, ha="right")
        ax.set(ylabel="condition number of the Hessian", xlabel="basis")
    return drawn


def draw_responses(mu: ArrayLike, responses: ArrayLike, density: tuple[ArrayLike, ArrayLike] | None = None) -> Figure:
    """The responses of all channels of a layer, their spread, and the graph's spectrum behind them.

    Args:
        mu: points, (n,).
        responses: (n, channels).
        density: edges and heights of a histogram of eigenvalues.
    """
    points, values = np.asarray(mu), np.asarray(responses)
    with figure(2, 1, 8.4, 3.3, sharey=True) as (drawn, (left, right)):
        left.plot(points, values, linewidth=0.6, alpha=0.6, color=COLOURS[0])
        left.set(title="each channel", ylabel="response")
        for low, high, shade in ((5, 95, 0.18), (25, 75, 0.35)):
            band = np.percentile(values, [low, high], axis=1)
            label = f"{low} to {high} % of the channels"
            right.fill_between(points, *band, alpha=shade, color=COLOURS[0], linewidth=0, label=label)
        right.plot(points, np.median(values, axis=1), color=COLOURS[1], label="median")
        right.set(title="all channels")
        for ax in (left, right):
            ax.set_xlabel(MU_LABEL, fontsize=8)
            if density is not None:
                behind = ax.twinx()
                edges, heights = (np.asarray(part) for part in density)
                behind.stairs(heights, edges, fill=True, color="black", alpha=0.12, label="spectrum")
                behind.set_yticks([])
                behind.grid(False)
                ax.set_zorder(behind.get_zorder() + 1)
                ax.patch.set_visible(False)
        if density is not None:  # where there are no eigenvalues a response acts on nothing and may be anything
            edges, heights = (np.asarray(part) for part in density)
            bins = np.clip(np.searchsorted(edges, points, side="right") - 1, 0, len(heights) - 1)
            low, high = np.percentile(values[heights[bins] > 0], [0.5, 99.5])
            margin = 0.15 * max(high - low, 1e-12)
            left.set_ylim(low - margin, high + margin)
        right.legend(fontsize=7)
    return drawn


def draw_weight_functions(nodes: ArrayLike, weights: ArrayLike) -> Figure:
    """Weight functions by Gauss quadrature: cumulated weight over the spectrum, one line for each channel."""
    places, sizes = np.asarray(nodes), np.asarray(weights)
    with figure() as (drawn, ax):
        for channel in range(places.shape[1]):
            share = np.cumsum(sizes[:, channel]) / sizes[:, channel].sum()
            steps = np.concatenate([[places[0, channel]], places[:, channel], [max(1.0, places[-1, channel])]])
            ax.step(
                steps, np.concatenate([[0.0], share, [1.0]]), where="post", linewidth=0.6, alpha=0.6, color=COLOURS[0]
            )
        arcsine = np.linspace(-1, 1, 201)
        ax.plot(arcsine, 1 - np.arccos(arcsine) / np.pi, color=COLOURS[1], label="Chebyshev's weight")
        for edge in (-1, 1):
            ax.axvline(edge, color="black", linewidth=0.6, linestyle=":")
        ax.set(xlabel=MU_LABEL, ylabel="share of the weight to the left")
        ax.legend(fontsize=7)
    return drawn


def draw_basis(mu: ArrayLike, values: ArrayLike, most: int = 8) -> Figure:
    """Basis polynomials, (K+1, points): the median over channels, the first few of them."""
    points, numbers = np.asarray(mu), np.asarray(values)
    with figure() as (drawn, ax):
        for k, polynomial in enumerate(numbers[:most]):
            ax.plot(points, polynomial, linewidth=1.1, label=f"$g_{k}$")
        ax.set(xlabel=MU_LABEL, ylabel="value")
        ax.set_yscale("symlog", linthresh=2)
        ax.legend(fontsize=7, ncols=2)
    return drawn


def draw_agreement(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Our means against the paper's, with both intervals, coloured by data set.

    Args:
        rows: with ``dataset``, ``mean``, ``ci95``, ``paper``, ``paper_ci``.
    """
    with figure(width=5.2, height=4.6) as (drawn, ax):
        low = min(min(row["mean"], row["paper"]) for row in rows) - 3
        high = max(max(row["mean"], row["paper"]) for row in rows) + 3
        ax.plot([low, high], [low, high], color="black", linewidth=0.7, linestyle=":")
        for colour, dataset in zip(COLOURS, dict.fromkeys(row["dataset"] for row in rows), strict=False):
            mine = [row for row in rows if row["dataset"] == dataset]
            ax.errorbar(
                [row["paper"] for row in mine],
                [row["mean"] for row in mine],
                xerr=[row["paper_ci"] for row in mine],
                yerr=[row["ci95"] for row in mine],
                fmt="o",
                markersize=3.5,
                linewidth=0.8,
                color=colour,
                label=dataset,
            )
        ax.set(xlabel="paper's test accuracy, %", ylabel="ours, %", xlim=(low, high), ylim=(low, high))
        ax.legend(fontsize=8)
    return drawn
