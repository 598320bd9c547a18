"""A node estimator bound to a graph, for use with scikit-learn's tools."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

try:
    from sklearn.base import BaseEstimator, clone
    from sklearn.metrics import accuracy_score, r2_score
    from sklearn.utils import get_tags
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("OnGraph needs scikit-learn; install it with: pip install 'polybasis[sklearn]'") from error

from polybasis.graph import Graph, check_graph
from polybasis.node_estimator import NodeEstimator


def _classifies(adapter: OnGraph) -> bool:
    return hasattr(adapter.estimator, "predict_proba")


class OnGraph(BaseEstimator):  # type: ignore[misc]
    """A node estimator on a fixed graph, with scikit-learn's ``fit(X, y)`` and ``predict(X)``.

    Each row of ``X`` is a node, and the first column is the node index. The features come either from ``features`` or
    from ``X``:

    ==============  ========================  ==========================================================
    ``features``    ``X``                     features of the other nodes
    ==============  ========================  ==========================================================
    (N, F)          indices, (n,) or (n, 1)   ``features``
    None            a table, (n, 1 + F)       rows passed to ``fit``; column means of these for the rest
    ==============  ========================  ==========================================================

    Passing ``features`` is the usual choice, because then every node sees the features of all its neighbours. With a
    table, a pipeline can fit its preprocessing on the rows passed to ``fit`` alone, but it must not change the first
    column. Only the rows passed to ``fit`` have known targets. A stratified quarter of them is held out for early
    stopping.

    Args:
        estimator: a :class:`polybasis.NodeClassifier` or :class:`polybasis.NodeRegressor`; its parameters are
            ``estimator__NAME``.
        graph: the graph, N nodes.
        features: features of all nodes, (N, F), as for ``estimator.fit``; or None.

    :meth:`fit` sets ``estimator_``, ``n_features_in_`` and, for classification, ``classes_``. ``clone`` copies the
    estimator and shares the graph and the features.

    >>> import numpy as np, polybasis as pb
    >>> from sklearn.model_selection import cross_val_score
    >>> data = pb.data.csbm(nodes=300, features=60, seed=1)
    >>> classifier = pb.OnGraph(pb.NodeClassifier(K=3, epochs=20), data.graph, data.x)
    >>> cross_val_score(classifier, np.arange(300), data.y.numpy(), cv=3).shape
    (3,)
    """

    def __init__(self, estimator: NodeEstimator, graph: Graph, features: Any = None) -> None:
        self.estimator = estimator
        self.graph = graph
        self.features = features

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Trains on some nodes.

        Args:
            X: the nodes, and their features unless the constructor received these; see the class.
            y: their targets, (n,).
            sample_weight: their weights in the loss, (n,); by default 1.

        Raises:
            ValueError: if ``X`` does not have this form, or repeats a node.
        """
        check_graph(self.graph)
        if y is None:
            raise ValueError("OnGraph requires y to be passed, but the target y is None")
        regression = get_tags(self.estimator).estimator_type == "regressor"
        # At least one row to train on and one for early stopping.
        table, y = validate_data(self, self._table(X), y, dtype=np.float64, y_numeric=regression, ensure_min_samples=2)
        nodes, columns = self._divide(table)
        known = y
        if not regression:
            check_classification_targets(y)
            self.classes_, codes = np.unique(y, return_inverse=True)
            # The node classifier reads -1 as an unknown class.
            self._coded = bool((self.classes_ == -1).any())
            known = codes if self._coded else y
        targets = np.full(self.graph.num_nodes, None, dtype=object)
        targets[nodes] = known
        if self.features is None:
            self._columns = np.tile(columns.mean(axis=0), (self.graph.num_nodes, 1))
        weights = None
        if sample_weight is not None:
            weights = np.zeros(self.graph.num_nodes)
            weights[nodes] = _check_sample_weight(sample_weight, table)
        features = self._features(nodes, columns)
        self.estimator_ = clone(self.estimator).fit(self.graph, features, targets, sample_weight=weights)
        if self.features is None:
            self._columns = features
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Predicts the targets of some nodes, (n,).

        Args:
            X: the nodes, as for :meth:`fit`.
        """
        nodes, features = self._rows(X)
        predicted = self.estimator_.predict(self.graph, features)[nodes]
        if getattr(self, "_coded", False):
            predicted = self.classes_[predicted]
        return np.asarray(predicted)

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predicts the class probabilities of some nodes, (n, classes), in the order of ``classes_``.

        Args:
            X: the nodes, as for :meth:`fit`.
        """
        nodes, features = self._rows(X)
        probabilities = self.estimator_.predict_proba(self.graph, features)[nodes].astype(np.float64)
        return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Returns the accuracy, or the coefficient of determination for regression.

        Args:
            X: the nodes, as for :meth:`fit`.
            y: their targets, (n,).
            sample_weight: their weights in the score, (n,); by default 1.
        """
        metric = accuracy_score if _classifies(self) else r2_score
        return float(metric(y, self.predict(X), sample_weight=sample_weight))

    def _rows(self, X: Any) -> tuple[NDArray[np.int64], Any]:
        """The nodes of a table and the features of all nodes."""
        check_is_fitted(self)
        table = validate_data(self, self._table(X), dtype=np.float64, reset=False)
        nodes, columns = self._divide(table)
        return nodes, self._features(nodes, columns)

    def _table(self, X: Any) -> Any:
        if self.features is not None and np.ndim(X) == 1:
            return np.asarray(X).reshape(-1, 1)
        return X

    def _divide(self, table: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The nodes of a table and its other columns."""
        expected = "only the index of the node" if self.features is not None else "the index of the node and features"
        if (table.shape[1] == 1) != (self.features is not None):
            raise ValueError(
                f"X has {table.shape[1]} columns (shape {table.shape}) and features are "
                f"{'not ' if self.features is None else ''}bound; expected {expected}"
            )
        index, count = table[:, 0], self.graph.num_nodes
        wrong = (index != np.floor(index)) | (index < 0) | (index >= count)
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(f"X[{row}, 0] is {index[row]:g}; expected the index of a node, from 0 to {count - 1}")
        nodes = index.astype(np.int64)
        values, counts = np.unique(nodes, return_counts=True)
        if (counts > 1).any():
            raise ValueError(f"X has node {values[counts.argmax()]} more than once; expected one row for each node")
        return nodes, table[:, 1:]

    def _features(self, nodes: NDArray[np.int64], columns: NDArray[np.float64]) -> Any:
        """The features of all nodes."""
        if self.features is not None:
            return self.features
        features = self._columns.copy()
        features[nodes] = columns
        return features

    def __sklearn_clone__(self) -> OnGraph:
        return type(self)(clone(self.estimator), self.graph, self.features)

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type, tags.target_tags = own.estimator_type, own.target_tags
        tags.classifier_tags, tags.regressor_tags = own.classifier_tags, own.regressor_tags
        return tags
