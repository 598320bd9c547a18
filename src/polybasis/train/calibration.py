r"""Calibrated probabilities, fitted on validation nodes, and thresholds for two classes.

Temperature scaling (Guo et al., 2017) divides all logits by one number T, which keeps the order of the classes of a
node. Isotonic regression (Zadrozny and Elkan, 2002) maps the score of each class or label through a monotone step
function; with several classes, the results are divided by their sum. It has many parameters and needs many nodes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.data.metrics import TargetKind

Method = Literal["temperature", "isotonic"]
FOLDS = 5
FEWEST_NODES = 200  # for isotonic regression
LOG_TEMPERATURES = (-4.0, 4.0)
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """A non-decreasing piecewise linear function, constant outside its knots.

    Attributes:
        scores: the knots, ascending.
        probabilities: its values at the knots.
    """

    scores: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __call__(self, scores: FloatArray) -> FloatArray:
        return np.asarray(np.interp(scores, self.scores, self.probabilities))


@dataclass(frozen=True)
class Calibration:
    """A map from logits to calibrated probabilities.

    Attributes:
        target: the kind of target, classification or multi-label.
        method: ``temperature`` or ``isotonic``.
        temperature: T; 1 for ``isotonic``.
        curves: for ``isotonic``, the probability as a function of the log odds: of the second of two classes, of each
            of several classes, or of each label.
    """

    target: TargetKind
    method: Method
    temperature: float = 1.0
    curves: tuple[Curve, ...] = ()

    def __call__(self, logits: Tensor) -> Tensor:
        """Calibrated probabilities, (n, classes or labels), float32.

        Args:
            logits: (n, classes or labels).
        """
        if self.method == "temperature":
            scaled = logits.double() / self.temperature
            return (scaled.sigmoid() if self.target == "multi-label" else scaled.softmax(dim=1)).float()
        odds = log_odds(logits, self.target)
        columns = np.stack([curve(odds[:, i]) for i, curve in enumerate(self.curves)], axis=1)
        if self.target == "classification":
            columns = np.concatenate([1 - columns, columns], axis=1) if columns.shape[1] == 1 else columns
            columns = columns / columns.sum(axis=1, keepdims=True)
        return torch.from_numpy(columns).float()

    def to_dict(self) -> dict[str, Any]:
        """The calibration as plain Python objects."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: dict[str, Any], outputs: int) -> Calibration:
        """The inverse of :meth:`to_dict`.

        Args:
            document: the calibration as plain Python objects.
            outputs: number of classes or labels.

        Raises:
            ValueError: if the document is not a calibration of so many outputs.
        """
        curves = tuple(
            Curve(tuple(map(float, item["scores"])), tuple(map(float, item["probabilities"])))
            for item in document["curves"]
        )
        found = cls(document["target"], document["method"], float(document["temperature"]), curves)
        valid = found.target in ("classification", "multi-label") and found.method in get_args(Method)
        columns = 1 if found.target == "classification" and outputs == 2 else outputs
        valid = valid and 0 < found.temperature < float("inf")
        valid = valid and len(curves) == (columns if found.method == "isotonic" else 0)
        for curve in curves:
            x, p = np.asarray(curve.scores), np.asarray(curve.probabilities)
            valid = valid and len(x) == len(p) > 0 and bool(np.isfinite(x).all()) and bool((np.diff(x) > 0).all())
            valid = valid and bool((p > 0).all()) and bool((p < 1).all()) and bool((np.diff(p) >= 0).all())
        if not valid:
            raise ValueError("the calibration is not valid")
        return found


def log_odds(logits: Tensor, target: TargetKind) -> FloatArray:
    """Log odds of the second of two classes, (n, 1), or of each of several classes or labels, (n, m)."""
    scores = logits.double()
    if target == "classification" and scores.shape[1] == 2:
        scores = (scores[:, 1] - scores[:, 0]).unsqueeze(1)
    elif target == "classification":
        shares = scores.log_softmax(dim=1)
        scores = shares - torch.log1p(-shares.exp().clamp(max=1 - 1e-15))
    return cast(FloatArray, scores.clamp(-700, 700).numpy())


def fit_calibration(logits: Tensor, y: Tensor, target: TargetKind, method: Method | None = None) -> Calibration:
    """Fits a calibration to validation nodes.

    Args:
        logits: logits of the nodes, (n, classes or labels).
        y: their class indices, (n,), or labels, (n, labels).
        target: the kind of target.
        method: the method; by default ``isotonic`` if there are at least 200 nodes and its cross-validated log loss is
            lower than that of ``temperature`` by more than one standard error of the difference.

    Raises:
        ValueError: for regression, for an unknown method, or without nodes.

    >>> logits = torch.tensor([[4.0, 0.0], [0.0, 4.0]] * 50)
    >>> y = torch.tensor(([0, 1] * 9 + [1, 0]) * 5)  # one in ten is wrong
    >>> fit_calibration(logits, y, "classification")(logits)[0]
    tensor([0.9000, 0.1000])
    """
    if target == "regression":
        raise ValueError("calibration applies to classes and labels, not to regression")
    if method not in (None, *get_args(Method)):
        raise ValueError(f"method is {method!r}; expected {', '.join(map(repr, get_args(Method)))} or None")
    if len(y) == 0:
        raise ValueError("there are no validation nodes to calibrate on")
    if method is None:
        method = "isotonic" if len(y) >= FEWEST_NODES and _isotonic_is_better(logits, y, target) else "temperature"
    return _fit(logits, y, target, method)


def _fit(logits: Tensor, y: Tensor, target: TargetKind, method: Method) -> Calibration:
    if method == "temperature":
        return Calibration(target, method, _temperature(logits, y, target))
    odds = log_odds(logits, target)
    outcomes = y.numpy() if target == "multi-label" else _one_vs_rest(y, odds.shape[1])
    return Calibration(target, method, 1.0, tuple(_curve(odds[:, i], outcomes[:, i]) for i in range(odds.shape[1])))


def _one_vs_rest(y: Tensor, columns: int) -> NDArray[Any]:
    return np.asarray(y.numpy()[:, None] == (np.arange(columns) if columns > 1 else np.ones(1)))


def _temperature(logits: Tensor, y: Tensor, target: TargetKind) -> float:
    """The temperature with the lowest log loss, which is convex in 1/T."""
    from scipy.optimize import minimize_scalar

    scores = logits.double()

    def loss(log_temperature: float) -> float:
        return float(_losses(scores * np.exp(-log_temperature), y, target).mean())

    return float(np.exp(minimize_scalar(loss, bounds=LOG_TEMPERATURES, method="bounded", options={"xatol": 1e-5}).x))


def _losses(logits: Tensor, y: Tensor, target: TargetKind) -> Tensor:
    """The log loss of every node, (n,)."""
    from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

    if target == "multi-label":
        return binary_cross_entropy_with_logits(logits, y.to(logits), reduction="none").mean(dim=1)
    return cross_entropy(logits, y, reduction="none")


def _curve(scores: FloatArray, outcomes: NDArray[Any]) -> Curve:
    """Isotonic regression with probabilities between 1/(n+2) and 1 - 1/(n+2), as by Laplace's rule for one block."""
    from scipy.optimize import isotonic_regression

    knots, group, counts = np.unique(scores, return_inverse=True, return_counts=True)
    means = np.bincount(group, weights=outcomes.astype(np.float64)) / counts
    fitted = isotonic_regression(means, weights=counts).x
    least = 1 / (len(scores) + 2)
    values = np.clip(fitted, least, 1 - least)
    # The inner knots of a constant piece do not change the function.
    inner = np.zeros(len(values), dtype=bool)
    inner[1:-1] = (values[1:-1] == values[:-2]) & (values[1:-1] == values[2:])
    return Curve(tuple(knots[~inner].tolist()), tuple(values[~inner].tolist()))


def _isotonic_is_better(logits: Tensor, y: Tensor, target: TargetKind) -> bool:
    """Compares the two methods on nodes they were not fitted to."""
    order = np.random.default_rng(0).permutation(len(y))
    if target == "classification":  # every fold has its share of each class
        order = order[np.argsort(y.numpy()[order], kind="stable")]
    differences = np.empty(len(y))
    for fold in range(FOLDS):
        held_out = torch.from_numpy(order[fold::FOLDS])
        rest = torch.from_numpy(np.delete(order, np.s_[fold::FOLDS]))
        temperature, isotonic = (
            _log_losses(_fit(logits[rest], y[rest], target, method)(logits[held_out]), y[held_out], target)
            for method in get_args(Method)
        )
        differences[fold::FOLDS] = temperature - isotonic
    return bool(differences.mean() > differences.std(ddof=1) / np.sqrt(len(differences)))


def _log_losses(probabilities: Tensor, y: Tensor, target: TargetKind) -> FloatArray:
    p = probabilities.double().clamp(1e-12, 1 - 1e-12)
    if target == "multi-label":
        return cast(FloatArray, _losses(p.logit(), y, target).numpy())
    return cast(FloatArray, -p.log().gather(1, y.unsqueeze(1))[:, 0].numpy())
