"""Charts: their drawing and the data for their script show the same numbers."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from html_pages import charts_of, problems_of, text_of
from hypothesis import given
from hypothesis import strategies as st

from polybasis.report.axes import Scale, scaled, tick_label, ticks
from polybasis.report.charts import PLOT_HEIGHT, PLOT_WIDTH, Chart, Series

HOSTILE = "</svg></script><script>alert(1)</script> \"'&<b onclick=x>"


def chart(*series: Series, **options: object) -> Chart:
    return Chart(title="t", xlabel="x", ylabel="y", series=series, **options)  # type: ignore[arg-type]


def paths(page: str) -> list[str]:
    return re.findall(r'<g data-series="\d+" class="[^"]*"><path d="([^"]*)"', page)


@given(st.floats(-1e8, 1e8), st.floats(1e-6, 1e8))
def test_linear_ticks_are_a_few_round_numbers_within_the_limits(low: float, length: float) -> None:
    high = low + length
    if high - low < 1e-9 * max(abs(low), abs(high)):
        return
    found = ticks(low, high)
    assert 2 <= len(found) <= 7
    tolerance = 1e-6 * (high - low)
    assert all(low - tolerance <= value <= high + tolerance for value in found)
    steps = np.diff(found)
    np.testing.assert_allclose(steps, steps[0], rtol=1e-3)
    mantissa = steps[0] / 10 ** math.floor(math.log10(steps[0]) + 1e-3)
    assert min(abs(mantissa - round_number) for round_number in (1, 2, 5, 10)) < 0.01


@pytest.mark.parametrize(("scale", "low", "high"), [("log", 0.003, 4e5), ("log", 2.0, 3.0), ("symlog", -3e4, 7.0)])
def test_other_ticks_are_within_the_limits(scale: Scale, low: float, high: float) -> None:
    found = ticks(low, high, scale)
    assert len(found) >= 2
    assert found == sorted(found)
    assert low <= found[0]
    assert found[-1] <= high
    places = scaled(found, scale)
    assert (np.diff(places) > 0).all()


def test_labels_of_ticks_can_be_told_apart() -> None:
    for low, high in ((0, 1), (0, 3e-7), (-1e9, 1e9), (0.981, 0.9814), (1000, 90000)):
        labels = [tick_label(value) for value in ticks(low, high)]
        assert len(set(labels)) == len(labels)


def test_a_line_passes_through_its_points() -> None:
    """The path is in coordinates of the plot: x from the left, y from the top."""
    x, y = np.array([0.0, 1.0, 4.0]), np.array([2.0, -1.0, 3.0])
    page = chart(Series(name="a", x=x, y=y), x=(0, 4), y=(-1, 3)).html()
    points = np.array([[float(n) for n in pair] for pair in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", paths(page)[0])])
    np.testing.assert_allclose(points[:, 0], x / 4 * PLOT_WIDTH, atol=0.06)
    np.testing.assert_allclose(points[:, 1], (3 - y) / 4 * PLOT_HEIGHT, atol=0.06)


def test_gaps_and_extreme_values_do_not_break_a_path() -> None:
    y = [1.0, float("nan"), 2.0, float("inf"), 1e300]
    page = chart(Series(name="a", x=range(5), y=y), y=(0, 2)).html()
    (path,) = paths(page)
    assert path.count("M") == 3
    assert not re.search(r"nan|inf|e", path)
    assert charts_of(page)["t"]["series"][0]["y"] == [1, None, 2, None, 1e300]


@pytest.mark.parametrize("kind", ["line", "step", "dots", "band", "bounds", "bars", "background", "rule"])
def test_every_kind_of_series_is_drawn_even_if_all_values_are_equal(kind: str) -> None:
    count = 4 if kind in ("bars", "background") else 3
    upper = [5.0] * 3 if kind in ("band", "bounds") else None
    series = Series(name="a", x=range(count), y=[5.0] * 3, upper=upper, kind=kind)  # type: ignore[arg-type]
    page = chart(series).html()
    (path,) = paths(page)
    assert path
    assert "nan" not in page
    assert problems_of("<!doctype html>" + page) == []


def test_bars_cover_their_bins_and_have_heights_in_proportion() -> None:
    page = chart(Series(name="n", x=[0, 1, 3], y=[2, 4], kind="bars"), y=(0, 4), x=(0, 3)).html()
    bars = re.findall(r"M([\d.]+) [\d.]+V([\d.]+)H([\d.]+)", paths(page)[0])
    (left, top, right), (second_left, second_top, second_right) = ([float(n) for n in bar] for bar in bars)
    assert (left, second_right) == (0, PLOT_WIDTH)
    assert right == second_left == pytest.approx(PLOT_WIDTH / 3, abs=0.06)
    assert (PLOT_HEIGHT - second_top) == pytest.approx(2 * (PLOT_HEIGHT - top), abs=0.2)


def test_points_without_tooltips_and_equal_positions_are_not_stored_twice() -> None:
    x = np.linspace(0, 1, 50)
    lines = [Series(name=f"s{i}", x=x, y=x**i) for i in range(10)]
    data = charts_of(chart(*lines, Series(name="quiet", x=x, y=x, tooltip=False)).html())["t"]
    assert len(data["positions"]) == 1
    assert "x" not in data["series"][-1]
    np.testing.assert_allclose(data["series"][3]["y"], x**3, rtol=1e-4, atol=1e-12)


def test_text_in_charts_is_escaped() -> None:
    series = [Series(name=HOSTILE, x=[0, 1], y=[0, 1], notes=[HOSTILE] * 2), Series(name="b", x=[0, 1], y=[1, 0])]
    page = (
        "<!doctype html>" + Chart(title=HOSTILE, xlabel=HOSTILE, ylabel=HOSTILE, series=series, caption=HOSTILE).html()
    )
    assert problems_of(page) == []
    assert "<script" not in page
    assert "<b " not in page
    assert charts_of(page)[HOSTILE]["series"][0]["notes"] == [HOSTILE] * 2
    assert text_of(page).count(HOSTILE) == 6  # heading, legend, title, both axes and caption
