"""Scales and ticks of the axes of a chart."""

from __future__ import annotations

from math import ceil, floor, log10
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
Scale = Literal["linear", "log", "symlog"]
SYMLOG_GAP = 0.09  # the least distance of two labels, as a fraction of the axis


def scaled(values: ArrayLike, scale: Scale) -> FloatArray:
    """Maps values to positions on an axis; ``symlog`` is linear up to about 2 and logarithmic beyond."""
    found = np.asarray(values, dtype=np.float64)
    if scale == "linear":
        return found
    if scale == "symlog":
        return np.asarray(np.arcsinh(found / 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log10(found))


def ticks(low: float, high: float, scale: Scale = "linear", count: int = 5) -> list[float]:
    """Round values between two limits.

    Args:
        low, high: the limits.
        scale: the scale of the axis.
        count: approximate number of ticks of a linear axis.

    >>> ticks(0, 1)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    >>> ticks(0.5, 2000, "log")
    [1.0, 10.0, 100.0, 1000.0]
    >>> ticks(-30, 5, "symlog")
    [-10.0, -1.0, 0.0, 1.0]
    >>> ticks(-300, 300, "symlog")  # the labels of -1, 0 and 1 would overlap
    [-100.0, -10.0, 0.0, 10.0, 100.0]
    """
    if scale == "log":
        powers = [10.0**k for k in range(ceil(log10(low)), floor(log10(high)) + 1)]
        thinned = powers[:: 1 + len(powers) // 7]
        return thinned if len(thinned) > 1 else ticks(low, high, count=count)
    if scale == "symlog":
        largest = max(abs(low), abs(high), 1.0)
        powers = [10.0**k for k in range(floor(log10(largest)) + 1)][:: 1 + floor(log10(largest)) // 4]
        apart = SYMLOG_GAP * float(scaled(high, scale) - scaled(low, scale))
        shown = [0.0]
        for power in powers:
            if float(scaled(power, scale) - scaled(shown[-1], scale)) >= apart:
                shown.append(power)
        return [v for v in (*(-p for p in reversed(shown[1:])), *shown) if low <= v <= high]
    raw = (high - low) / count
    unit = 10.0 ** floor(log10(raw))
    step = unit * next((s for s in (1, 2, 5) if raw <= 1.0001 * s * unit), 10)
    # Multiples of the step, rounded to its digits, so that 3 * 0.1 is 0.3.
    digits = max(0, 1 - floor(log10(step)))
    return [round(i * step, digits) for i in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def tick_label(value: float) -> str:
    """A short text of a value.

    >>> [tick_label(v) for v in (0.25, 20000.0, -3e7, 1e-5)]
    ['0.25', '20,000', '−3e7', '1e−5']
    """
    if value != 0 and not 1e-4 <= abs(value) < 1e6:
        digits, _, power = f"{value:e}".partition("e")
        return f"{float(digits):g}e{int(power)}".replace("-", "−")
    return f"{value:,.6g}".replace("-", "−")
