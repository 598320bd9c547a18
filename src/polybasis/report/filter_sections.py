"""The part of a report on the learned filters."""

from __future__ import annotations

import numpy as np

from polybasis.bases import Favard
from polybasis.nn.interpret import Filters
from polybasis.report.axes import FloatArray
from polybasis.report.charts import GREY, Chart, Series
from polybasis.report.filters import ModelFilters
from polybasis.report.page import Page
from polybasis.train.source import Data
from polybasis.train.trained_model import TrainedModel

MOST_CHANNELS, MOST_POLYNOMIALS, MOST_LAYERS = 48, 7, 6
EVERY = 2  # of the points of the spectrum, for single channels


def add_filters(page: Page, trained: TrainedModel, data: Data) -> None:
    """Adds the frequency responses of the filters and their bases; without a polynomial filter, only the reason."""
    page.heading("Filters")
    try:
        found = ModelFilters.of(trained, data)
    except ValueError as error:
        page.text(f"No responses to show: {error}.")
        return
    page.text(
        "The filter of a channel multiplies the component of its signal at each eigenvalue μ of the propagation matrix "
        "P by its response. Near μ = 1, signals hardly change along edges; near μ = −1, they alternate between "
        "neighbours."
        + (" The background shows the estimated density of the graph's eigenvalues." if found.density else "")
    )
    if trained.config.ensemble_size > 1:
        page.text("The figures show the filters of the first model of the ensemble.", "note")
    if len(found.layers) == 1:
        filters = found.layers[0]
        page.charts(_distribution("Responses", filters, found.density), _channels(filters, found.density))
        page.subheading("Basis")
        page.charts(_polynomials(filters), *_recurrence(filters))
        return
    count = len(found.layers)
    if count > MOST_LAYERS:
        page.text(f"The first {MOST_LAYERS} of {count} layers.", "note")
    charts = [
        _distribution(f"Responses of layer {i + 1} of {count}", filters, found.density)
        for i, filters in enumerate(found.layers[:MOST_LAYERS])
    ]
    page.charts(*charts)


def _density(density: tuple[FloatArray, FloatArray] | None) -> list[Series]:
    if density is None:
        return []
    edges, heights = density
    return [Series(name="eigenvalue density", x=edges, y=heights, kind="background", colour=GREY)]


def _limits(filters: Filters, density: tuple[FloatArray, FloatArray] | None) -> tuple[float, float]:
    """Limits that fit most responses where most eigenvalues are; elsewhere they may be large and have little effect."""
    mu, band = filters.mu.numpy(), np.percentile(filters.responses.numpy(), [5, 95], axis=1)  # (2, n)
    weights = np.ones(len(mu))
    if density is not None:
        edges, heights = density
        weights = heights[np.clip(np.searchsorted(edges, mu, side="right") - 1, 0, len(heights) - 1)]
    order = np.argsort(band, axis=None)
    mass = np.cumsum(np.tile(weights, 2)[order])
    low, high = (band.ravel()[order[np.searchsorted(mass, share * mass[-1])]] for share in (0.005, 0.995))
    low, high = min(low, band[0, -1], 0), max(high, band[1, -1], 0)  # many signals have most of their energy at 1
    margin = 0.2 * max(high - low, 1e-9)
    return float(low - margin), float(high + margin)


def _distribution(title: str, filters: Filters, density: tuple[FloatArray, FloatArray] | None) -> Chart:
    mu, values = filters.mu.numpy(), filters.responses.numpy()
    low, quarter, median, upper, high = np.percentile(values, [5, 25, 50, 75, 95], axis=1)
    series = _density(density)
    if values.shape[1] > 1:
        series += [
            Series(name="5th to 95th percentile", x=mu, y=low, upper=high, kind="band", faint=True),
            Series(name="25th to 75th percentile", x=mu, y=quarter, upper=upper, kind="band"),
        ]
    series.append(Series(name="median" if values.shape[1] > 1 else "response", x=mu, y=median, colour=1))
    return Chart(
        title=title, xlabel="μ", ylabel="response", series=series, x=(-1, 1), y=_limits(filters, density),
        caption=f"Median and percentiles over {values.shape[1]} channels. Drag over a part of the spectrum to zoom."
        + (" The vertical axis is scaled to where most eigenvalues lie." if density is not None else ""),
    )  # fmt: skip


def _channels(filters: Filters, density: tuple[FloatArray, FloatArray] | None) -> Chart:
    mu, values = filters.mu.numpy()[::EVERY], filters.responses.numpy()[::EVERY]
    count = values.shape[1]
    shown = np.unique(np.linspace(0, count - 1, min(count, MOST_CHANNELS)).round().astype(int))
    some = f"{len(shown)} of {count} channels" if len(shown) < count else f"All {count} channels"
    lines = [Series(name=f"channel {c + 1}", x=mu, y=values[:, c], faint=True, colour=0) for c in shown.tolist()]
    background = [Series(name="", x=s.x, y=s.y, kind=s.kind, colour=s.colour) for s in _density(density)]
    return Chart(
        title="Responses by channel", xlabel="μ", ylabel="response", series=[*background, *lines], x=(-1, 1),
        y=_limits(filters, density), nearest=True, caption=f"{some}, each with its own polynomial.",
    )  # fmt: skip


def _polynomials(filters: Filters) -> Chart:
    mu, values = filters.mu.numpy(), filters.values.numpy()
    own = isinstance(filters.basis, Favard) and filters.basis.gamma.dim() == 2
    series = [
        Series(name=f"g{_subscript(k)}", x=mu, y=polynomial, colour=k)
        for k, polynomial in enumerate(values[: MOST_POLYNOMIALS + 1])
    ]
    return Chart(
        title="Basis polynomials", xlabel="μ", ylabel="value", series=series, x=(-1, 1), yscale="symlog",
        caption=f"{filters.basis!r}"
        + ("; every channel has its own basis, and the curves are medians over channels." if own else "."),
    )  # fmt: skip


def _recurrence(filters: Filters) -> list[Chart]:
    """The coefficients of the three-term recurrence, if each channel has its own."""
    basis = filters.basis
    if not isinstance(basis, Favard) or basis.gamma.dim() != 2 or basis.K < 1 or not filters.full_rank.any():
        return []
    gamma, beta = (part.detach()[:, filters.full_rank].numpy() for part in (basis.gamma, basis.sqrt_beta[1:]))
    series = []
    for colour, (name, values, first) in enumerate((("γₖ", gamma[: basis.K], 0), ("√βₖ", beta, 1))):
        k = np.arange(first, first + len(values))
        low, median, high = np.percentile(values, [5, 50, 95], axis=1)
        series += [
            Series(name=f"{name}, 5th to 95th percentile", x=k, y=low, upper=high, kind="band", colour=colour),
            Series(name=f"{name}, median", x=k, y=median, colour=colour),
        ]
    recurrence = Chart(
        title="Three-term recurrence", xlabel="degree k", ylabel="coefficient", series=series,
        caption="Favard's theorem: √βₖ₊₁ gₖ₊₁(μ) = (μ − γₖ) gₖ(μ) − √βₖ gₖ₋₁(μ). Orthonormal Chebyshev polynomials "
        "have γₖ = 0, and √βₖ = 0.5 from k = 2 on.",
    )  # fmt: skip
    return [recurrence]


def _subscript(k: int) -> str:
    return str(k).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
