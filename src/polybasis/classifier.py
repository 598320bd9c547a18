"""Node classification with scikit-learn's interface."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from polybasis.data.dataset import NodeDataset, Split
from polybasis.features import Features, SparseFeatures, as_features
from polybasis.graph import Graph
from polybasis.nn.models.model import Model
from polybasis.nn.models.names import SHORT_NAMES
from polybasis.store.basis_store import BasisStore
from polybasis.train.auto import candidates, race
from polybasis.train.config import Config
from polybasis.train.fitting import OnEpoch, fit, remove_checkpoints
from polybasis.train.trained_model import TrainedModel


class NodeClassifier:
    """Classifies the nodes of a graph, given the classes of some of them.

    Args:
        model: name of the model, by default ``optbasisgnn``; ``optbasis`` and ``favard`` are short names of the paper's
            two models. ``auto`` chooses a model on the validation nodes; see :mod:`polybasis.train.auto`.
        seed: random seed.
        time_limit: seconds to choose a model and train it, with ``model="auto"``; by default 60.
        config: a complete configuration, as an alternative to ``model`` and ``arguments``.
        **arguments: anything :meth:`polybasis.train.Config.of` takes: the model's own hyperparameters such as ``K`` and
            ``dropout``, and ``hidden``, ``lr``, ``epochs``, ``patience``, ``ensemble_size``, ``label_reuse``,
            ``metric``, ``class_weight``, ...

    Unless ``config`` is given, defaults are those for own data, see :meth:`polybasis.train.Config.for_own_data`: the
    output bias starts at the class frequencies, and predictions do not change with the size of the graph. The metric
    of early stopping is chosen by the balance of the classes, see :func:`polybasis.data.targets.default_metric`.

    After :meth:`fit`: ``model_``, ``classes_`` (sorted), ``val_score_``, ``epochs_`` and, with ``model="auto"``,
    ``candidates_``.

    >>> import polybasis as pb
    >>> data = pb.data.csbm(nodes=300, features=60, seed=1)
    >>> classifier = pb.NodeClassifier(model="optbasis", K=4, epochs=30).fit(data.graph, data.x, data.y)
    >>> classifier.predict().shape
    (300,)
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        seed: int = 0,
        time_limit: float | None = None,
        config: Config | None = None,
        **arguments: Any,
    ) -> None:
        if config is not None and (arguments or model is not None):
            raise ValueError(
                f"pass {', '.join(['model', *arguments] if model else arguments)} inside config, or no config"
            )
        name = model or "optbasisgnn"
        self.auto = name == "auto"
        if self.auto and arguments:
            raise ValueError(f"model='auto' chooses {', '.join(arguments)} itself; pass only time_limit and seed")
        if time_limit is not None and not self.auto:
            raise ValueError("time_limit applies only to model='auto'; for other models, use epochs and patience")
        # With model="auto", fit() replaces the configuration.
        self.config = config or Config.of("mlp" if self.auto else SHORT_NAMES.get(name, name), **arguments)
        if config is None:
            self.config = self.config.for_own_data()
        self.seed, self.time_limit = seed, 60.0 if time_limit is None else time_limit
        self._trained: TrainedModel | None = None
        self._data: NodeDataset | None = None

    def fit(
        self,
        graph: Graph,
        X: Features | ArrayLike,
        y: Sequence[Any] | ArrayLike,
        train_mask: ArrayLike | None = None,
        val_mask: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        on_epoch: OnEpoch | None = None,
        checkpoints: Path | None = None,
    ) -> NodeClassifier:
        """Trains on the nodes of ``train_mask`` with early stopping on those of ``val_mask``.

        Args:
            graph: the graph, N nodes.
            X: features, (N, F).
            y: classes, (N,), of any type; None, NaN or -1 marks an unknown class.
            train_mask, val_mask: boolean, (N,); by default 75 % and 25 % of the labelled nodes of each class.
            sample_weight: non-negative weight of each node in the loss, (N,); by default 1.
            on_epoch: called after every epoch.
            checkpoints: folder for a checkpoint; an interrupted fit with the same arguments resumes from it. With
                ``model="auto"`` the race is repeated.

        Raises:
            ValueError: for arguments of the wrong shape, non-finite values, or fewer than two classes.
        """
        codes, classes = _encode(y, graph.num_nodes)
        if len(classes) < 2:
            raise ValueError(f"y has {len(classes)} class; expected at least two")
        data = NodeDataset(
            name="graph",
            graph=graph,
            x=_as_features(X, graph),
            y=codes,
            classes=tuple(classes.tolist()),
            sample_weight=None if sample_weight is None else torch.as_tensor(np.asarray(sample_weight)).float(),
        )
        split = _split(data, train_mask, val_mask, self.seed)
        if self.auto:
            outcome = race(candidates(), data, split, time_limit=self.time_limit, seed=self.seed)
            self.candidates_, self.config = outcome.candidates, outcome.config
            with TemporaryDirectory() as folder:
                winner = Path(folder) / "winner.safetensors"
                outcome.save_winner(winner)
                fitted = fit(self.config, data, split, self.seed, on_epoch=on_epoch, checkpoint=winner)
            self._trained, self._data = TrainedModel.of(self.config, fitted, {"seed": self.seed}), data
            return self
        checkpoint = None if checkpoints is None else checkpoints / f"{self._key(data, split)}.safetensors"
        fitted = fit(self.config, data, split, self.seed, on_epoch=on_epoch, checkpoint=checkpoint)
        self._trained, self._data = TrainedModel.of(self.config, fitted, {"seed": self.seed}), data
        remove_checkpoints(checkpoint)
        return self

    def _key(self, data: NodeDataset, split: Split) -> str:
        digest = hashlib.sha256(f"{self.config.to_dict()} {self.seed} {data.fingerprint}".encode())
        for nodes in split:
            digest.update(f"{len(nodes)} ".encode())
            digest.update(nodes.numpy().tobytes())
        return digest.hexdigest()[:16]

    @property
    def model_(self) -> Model:
        """The trained model."""
        return self._fitted().model

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, sorted."""
        return np.array(self._fitted().classes)

    @property
    def val_score_(self) -> float:
        """The score on the validation nodes."""
        return self._fitted().val_score

    @property
    def epochs_(self) -> int:
        """The number of epochs trained."""
        return self._fitted().epochs

    def predict_proba(
        self, graph: Graph | NodeDataset | BasisStore | None = None, X: Features | ArrayLike | None = None
    ) -> NDArray[np.float32]:
        """Class probabilities of all nodes.

        Args:
            graph: a graph with N nodes, a data set, or a store (for models on a precomputed basis); by default the
                graph the classifier was fitted on.
            X: features of the graph, (N, F).

        Returns:
            (N, number of classes), in the order of ``classes_``.

        Raises:
            ValueError: if the model cannot be applied to this graph or these features.
        """
        trained = self._fitted()
        if isinstance(graph, NodeDataset | BasisStore):
            return trained.predict_proba(graph)
        if (graph is None) != (X is None):
            raise ValueError("pass both graph and X, or neither")
        if graph is None or X is None:
            if self._data is None:
                raise ValueError("this classifier was loaded from a file; pass the graph and X to predict on")
            return trained.predict_proba(self._data)
        unknown = torch.full((graph.num_nodes,), -1)
        return trained.predict_proba(NodeDataset(name="graph", graph=graph, x=_as_features(X, graph), y=unknown))

    def predict(
        self, graph: Graph | NodeDataset | BasisStore | None = None, X: Features | ArrayLike | None = None
    ) -> NDArray[Any]:
        """The most probable class of every node, (N,).

        Args:
            graph, X: as for :meth:`predict_proba`.

        Raises:
            ValueError: if the model cannot be applied to this graph or these features.
        """
        best = self.predict_proba(graph, X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(self, y: ArrayLike, mask: ArrayLike | None = None) -> float:
        """Accuracy on the graph the classifier was fitted on.

        Args:
            y: classes, (N,), as for :meth:`fit`; nodes of unknown class are not scored.
            mask: nodes to score, boolean, (N,); all by default.

        Raises:
            ValueError: if there is no node to score.
        """
        predicted = self.predict()
        codes, classes = _encode(y, len(predicted))
        known = codes.numpy() >= 0
        scored = known if mask is None else known & np.asarray(mask, dtype=bool)
        if not scored.any():
            raise ValueError("no node to score; y has no known classes inside the mask")
        return float((predicted[scored] == classes[codes.numpy()[scored]]).mean())

    def save(self, path: str | Path) -> None:
        """Writes the model to a folder; see :class:`polybasis.train.TrainedModel`.

        With label reuse, the weights contain the classes of the training nodes.
        """
        self._fitted().save(path)

    @classmethod
    def load(cls, path: str | Path) -> NodeClassifier:
        """Loads a saved model.

        Raises:
            FileNotFoundError, ValueError: if the folder does not contain a readable model.
        """
        trained = TrainedModel.load(path)
        classifier = cls(config=trained.config, seed=trained.provenance.get("seed", 0))
        classifier._trained = trained
        return classifier

    def _fitted(self) -> TrainedModel:
        if self._trained is None:
            raise ValueError("this classifier has not been fitted; call fit first")
        return self._trained

    def __repr__(self) -> str:
        if self.auto:
            return f"NodeClassifier('auto', time_limit={self.time_limit:g})"
        model = self.config.model
        arguments = "".join(f", {name}={value!r}" for name, value in model.arguments.items())
        return f"NodeClassifier({model.name!r}, hidden={model.hidden}{arguments})"


def _split(data: NodeDataset, train_mask: ArrayLike | None, val_mask: ArrayLike | None, seed: int) -> Split:
    if (train_mask is None) != (val_mask is None):
        raise ValueError("pass both train_mask and val_mask, or neither")
    if train_mask is None:
        return data.split("train-val", seed)
    known = data.y >= 0
    masks = [torch.as_tensor(np.asarray(mask)).bool() for mask in (train_mask, val_mask)]
    for name, mask in zip(("train_mask", "val_mask"), masks, strict=True):
        if mask.shape != known.shape:
            raise ValueError(f"{name} has shape {tuple(mask.shape)}; expected ({len(known)},)")
    if (masks[0] & masks[1] & known).any():
        raise ValueError("train_mask and val_mask overlap; validation nodes must not be trained on")
    train, val = ((mask & known).nonzero()[:, 0] for mask in masks)
    return Split(train, val, val[:0])


def _as_features(X: Features | ArrayLike, graph: Graph) -> Features:
    x = X if isinstance(X, Tensor | SparseFeatures) else torch.as_tensor(np.asarray(X))
    if len(x.shape) != 2 or x.shape[0] != graph.num_nodes:
        raise ValueError(f"X has shape {tuple(x.shape)}; expected ({graph.num_nodes}, F), one row for each node")
    if isinstance(x, Tensor):
        if not torch.isfinite(x).all():
            node, feature = (~torch.isfinite(x)).nonzero()[0].tolist()
            raise ValueError(f"X[{node}, {feature}] is {float(x[node, feature])}; features must be finite")
        return as_features(x.float())
    return x


def _encode(y: Sequence[Any] | ArrayLike, nodes: int) -> tuple[Tensor, NDArray[Any]]:
    """Class indices, -1 if unknown, and the sorted classes."""
    values = y.tolist() if isinstance(y, Tensor) else list(np.asarray(y, dtype=object))
    if len(values) != nodes:
        raise ValueError(f"y has {len(values)} entries; expected {nodes}, one for each node")
    known = [value is not None and value == value and value != -1 for value in values]  # NaN differs from itself
    classes = np.unique([value for value, is_known in zip(values, known, strict=True) if is_known])
    index = {value: i for i, value in enumerate(classes.tolist())}
    codes = [index[value] if is_known else -1 for value, is_known in zip(values, known, strict=True)]
    return torch.tensor(codes, dtype=torch.long), classes
