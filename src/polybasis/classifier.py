"""Node classification with scikit-learn's interface."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.array_inputs import to_list
from polybasis.data.dataset import NodeDataset
from polybasis.graph import Graph
from polybasis.node_estimator import NodeEstimator
from polybasis.store.basis_store import BasisStore


class NodeClassifier(NodeEstimator):
    """Classifies the nodes of a graph, given the classes of some of them.

    Parameters and fitted attributes are those of :class:`polybasis.node_estimator.NodeEstimator`; ``arguments`` also
    accepts ``class_weight`` and ``label_reuse``. Classes may be of any type. The metric for early stopping depends on
    their balance; see :func:`polybasis.data.targets.default_metric`.

    After :meth:`fit`, ``classes_`` holds the sorted classes.

    >>> import polybasis as pb
    >>> data = pb.data.csbm(nodes=300, features=60, seed=1)
    >>> classifier = pb.NodeClassifier(model="optbasis", K=4, epochs=30).fit(data.graph, data.x, data.y)
    >>> classifier.predict().shape
    (300,)
    """

    _kind = "classifier"

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, sorted."""
        return np.array(self._fitted().classes)

    def predict_proba(
        self, graph: Graph | NodeDataset | BasisStore | None = None, X: Any = None
    ) -> NDArray[np.float32]:
        """Predicts the class probabilities of all nodes.

        Args:
            graph: as for :meth:`predict`.
            X: as for :meth:`predict`.

        Returns:
            (N, number of classes), in the order of ``classes_``.

        Raises:
            ValueError: if the model cannot be applied to this graph or these features.
        """
        return self._fitted().predict_proba(self._data_of(graph, X))

    def score(self, y: Any, mask: Any = None) -> float:
        """Returns the accuracy on the graph that the classifier was fitted on.

        Args:
            y: classes, (N,), as for :meth:`fit`; nodes of unknown class are not scored.
            mask: nodes to score, boolean, (N,), or indices; all by default.

        Raises:
            ValueError: if there is no node to score.
        """
        predicted, codes, classes = self._scored(y, mask)
        return float((predicted == np.array(classes)[codes.numpy()]).mean())

    def _target(self, y: Any, nodes: int) -> tuple[Tensor, tuple[Any, ...]]:
        values = to_list(y, nodes)
        known = [value is not None and value != -1 for value in values]
        classes = np.unique([value for value, is_known in zip(values, known, strict=True) if is_known]).tolist()
        index = {value: i for i, value in enumerate(classes)}
        try:
            codes = [index[value] if is_known else -1 for value, is_known in zip(values, known, strict=True)]
        except KeyError as error:
            raise ValueError(f"y has the class {error} among classes of another type; expected one type") from None
        return torch.tensor(codes, dtype=torch.long), tuple(classes)
