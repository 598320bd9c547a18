"""Node regression with scikit-learn's interface."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from polybasis.array_inputs import to_list
from polybasis.data import metrics
from polybasis.node_estimator import NodeEstimator


class NodeRegressor(NodeEstimator):
    """Predicts a number for each node of a graph, given the numbers of some of them.

    Parameters and fitted attributes are those of :class:`polybasis.node_estimator.NodeEstimator`; ``arguments`` also
    accepts ``regression_loss``, which is ``squared`` or ``huber``. Early stopping uses ``rmse`` unless ``metric`` is
    given.

    >>> import polybasis as pb
    >>> data = pb.data.csbm(nodes=300, features=60, seed=1)
    >>> y = (data.graph @ data.x)[:, 0]
    >>> regressor = pb.NodeRegressor("favard", K=2, epochs=50).fit(data.graph, data.x, y)
    >>> regressor.predict().shape
    (300,)
    """

    _kind = "regressor"

    def score(self, y: Any, mask: Any = None) -> float:
        """Returns the coefficient of determination on the graph that the regressor was fitted on.

        Args:
            y: numbers, (N,), as for :meth:`fit`; nodes without a number are not scored.
            mask: nodes to score, boolean, (N,), or indices; all by default.

        Raises:
            ValueError: if there is no node to score.
        """
        predicted, target, _ = self._scored(y, mask)
        return metrics.score("r2", "regression", torch.from_numpy(predicted), target)

    def _target(self, y: Any, nodes: int) -> tuple[Tensor, tuple[Any, ...]]:
        values = [float("nan") if value is None else value for value in to_list(y, nodes)]
        try:
            return torch.tensor(values, dtype=torch.float64), ()
        except (TypeError, ValueError):
            wrong = next(value for value in values if not isinstance(value, int | float))
            raise ValueError(f"y has the value {wrong!r}; expected numbers") from None
