"""Thresholds on the probability of the second of two classes, chosen on validation nodes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Criterion = Literal["precision", "recall", "cost"]


@dataclass(frozen=True)
class Threshold:
    """The lowest probability at which the positive class is predicted.

    Attributes:
        value: the threshold.
        criterion: the criterion it was chosen by.
        level: the requested precision or recall; for ``cost``, the cost of a false negative divided by that of a false
            positive.
        precision, recall: of the positive class on the validation nodes.
    """

    value: float
    criterion: Criterion
    level: float
    precision: float
    recall: float

    def to_dict(self) -> dict[str, Any]:
        """The threshold as plain Python objects."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Threshold:
        """The inverse of :meth:`to_dict`.

        Raises:
            ValueError: if the document is not a threshold.
        """
        found = cls(**document)
        numbers = (found.value, found.level, found.precision, found.recall)
        if found.criterion not in get_args(Criterion) or not all(0 <= number < np.inf for number in numbers):
            raise ValueError("the threshold is not valid")
        return found


def choose_threshold(
    probabilities: NDArray[Any],
    positive: NDArray[Any],
    *,
    precision: float | None = None,
    recall: float | None = None,
    cost: tuple[float, float] | None = None,
) -> Threshold:
    """Chooses a threshold for a precision, a recall or costs of errors; pass one of the three.

    Args:
        probabilities: probability of the positive class, (n,).
        positive: whether each node is positive, (n,).
        precision: the least precision; among thresholds that have it, the one with the highest recall is chosen.
        recall: the least recall; among thresholds that have it, the one with the highest precision is chosen.
        cost: costs of a false positive and of a false negative; their sum is minimised.

    Raises:
        ValueError: if there is no positive node, or no threshold has the precision.

    >>> choose_threshold(np.array([0.1, 0.4, 0.6, 0.9]), np.array([0, 1, 0, 1]), recall=1.0).value
    0.25
    """
    given = {"precision": precision, "recall": recall, "cost": cost}
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) != 1:
        raise ValueError(f"got {', '.join(chosen) or 'nothing'}; pass one of precision, recall and cost")
    positive = np.asarray(positive, dtype=bool)
    if not positive.any():
        raise ValueError("no validation node is positive; choosing a threshold requires positive nodes")
    # Candidate i predicts the nodes with the i + 1 highest distinct probabilities to be positive.
    values, group = np.unique(-np.asarray(probabilities, dtype=np.float64), return_inverse=True)
    hits = np.cumsum(np.bincount(group, weights=positive))
    predicted = np.cumsum(np.bincount(group))
    precisions, recalls = hits / predicted, hits / positive.sum()
    level: float
    if precision is not None or recall is not None:
        level = precision if precision is not None else recall  # type: ignore[assignment]
        if not 0 < level <= 1:
            raise ValueError(f"{chosen[0]} is {level}; expected a number above 0, at most 1")
        least, best = (precisions, recalls) if precision is not None else (recalls, precisions)
        admitted = least >= level - 1e-12
        if not admitted.any():
            raise ValueError(
                f"no threshold has precision {level:g} on the validation nodes; the highest is {precisions.max():.4g}"
            )
        index = int(np.argmax(np.where(admitted, best, -1)))
    else:
        assert cost is not None
        if not all(0 < number < np.inf for number in cost):
            raise ValueError(f"cost is {cost}; expected two positive numbers, of a false positive and a false negative")
        level = cost[1] / cost[0]
        costs = cost[0] * (predicted - hits) + cost[1] * (positive.sum() - hits)
        index = int(np.argmin(costs))
        if costs[index] > cost[1] * positive.sum():  # it costs less to predict no node to be positive
            return Threshold(float(np.nextafter(-values[0], 2)), "cost", level, 0.0, 0.0)
    last = index + 1 == len(values)
    value = float(-values[index] if last else -(values[index] + values[index + 1]) / 2)
    return Threshold(value, chosen[0], level, float(precisions[index]), float(recalls[index]))  # type: ignore[arg-type]
