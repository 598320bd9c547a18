"""The common base of node classification and regression: parameters, training, prediction and files."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.array_inputs import to_features, to_mask
from polybasis.data.dataset import NodeDataset, Split
from polybasis.data.targets import is_known
from polybasis.graph import Graph, check_graph
from polybasis.nn.models.model import Model
from polybasis.nn.models.names import SHORT_NAMES
from polybasis.parameters import NotFittedError, Parameters
from polybasis.store.basis_store import BasisStore
from polybasis.train.auto import race
from polybasis.train.auto_portfolio import candidates
from polybasis.train.config import Config
from polybasis.train.fitting import OnEpoch, fit, remove_checkpoints
from polybasis.train.trained_model import TrainedModel

TIME_LIMIT = 60.0  # seconds for model="auto"


class NodeEstimator(Parameters, ABC):
    """Predicts a target of the nodes of a graph, given the targets of some of them.

    Args:
        model: name of the model, by default ``optbasisgnn``; ``optbasis`` and ``favard`` are short names of the paper's
            two models. ``auto`` chooses a model on the validation nodes; see :mod:`polybasis.train.auto`.
        seed: random seed.
        time_limit: seconds to choose and train a model, with ``model="auto"``; by default 60.
        config: a complete configuration, as an alternative to ``model`` and ``arguments``.
        **arguments: anything that :meth:`polybasis.train.Config.of` takes: hyperparameters of the model such as ``K``
            and ``dropout``, and ``hidden``, ``lr``, ``epochs``, ``patience``, ``ensemble_size``, ``metric``, ...

    All of these, including each of the ``arguments``, are parameters for ``get_params``, ``set_params`` and
    scikit-learn's ``clone``. :meth:`fit` validates them.

    Unless ``config`` is given, the defaults are those of :meth:`polybasis.train.Config.of_own_data`: the output bias is
    initialised to the class prior, predictions do not depend on the size of the graph, and training on more than 20,000
    nodes is shorter.

    :meth:`fit` sets ``model_``, ``config_``, ``val_score_``, ``epochs_``, ``history_`` (a dictionary of ``epoch``,
    ``train_loss`` and ``val_score`` per epoch) and, with ``model="auto"``, ``candidates_``.
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
        self.model = model
        self.seed = seed
        self.time_limit = time_limit
        self.config = config
        self.arguments = arguments

    @abstractmethod
    def _target(self, y: Any, nodes: int) -> tuple[Tensor, tuple[Any, ...]]:
        """The target of each node, see :mod:`polybasis.data.targets`, and the classes."""

    def fit(
        self,
        graph: Graph,
        X: Any,
        y: Any,
        train_mask: Any = None,
        val_mask: Any = None,
        *,
        sample_weight: Any = None,
        on_epoch: OnEpoch | None = None,
        checkpoints: Path | None = None,
    ) -> Self:
        """Trains on the nodes of ``train_mask`` with early stopping on those of ``val_mask``.

        Arrays may come from NumPy, torch, pandas or polars; ``X`` may also be a SciPy sparse matrix.

        Args:
            graph: the graph, N nodes.
            X: features, (N, F).
            y: targets, (N,). None, NaN and ``pd.NA``, and -1 for classes, mark unknown targets.
            train_mask: the training nodes: boolean, (N,), or node indices; by default 75% of the nodes with a known
                target, stratified.
            val_mask: the validation nodes, in the same form; by default the other 25%.
            sample_weight: non-negative weight of each node in the loss, (N,); by default 1.
            on_epoch: called after every epoch. It may raise :class:`polybasis.StopTraining` to end training and keep
                the best model so far.
            checkpoints: folder for a checkpoint; an interrupted fit with the same arguments resumes from it. With
                ``model="auto"``, the race is repeated.

        Raises:
            ValueError: for invalid parameters, arguments of the wrong shape, values that are not finite, or fewer than
                two classes.
            TypeError: if ``graph`` is not a Graph.
        """
        check_graph(graph)
        config, auto = self._configuration(graph.num_nodes)
        target, classes = self._target(y, graph.num_nodes)
        if self._kind == "classifier" and len(classes) < 2:
            raise ValueError(f"y has {len(classes)} class; expected at least two")
        data = NodeDataset(
            name="graph",
            graph=graph,
            x=to_features(X, graph.num_nodes),
            y=target,
            classes=classes,
            sample_weight=None if sample_weight is None else torch.as_tensor(np.asarray(sample_weight)).float(),
        )
        split = _split(data, train_mask, val_mask, self.seed)
        checkpoint = None if checkpoints is None else checkpoints / f"{self._key(config, data, split)}.safetensors"
        with TemporaryDirectory() as folder:
            if auto:
                limit = TIME_LIMIT if self.time_limit is None else self.time_limit
                outcome = race(candidates(data), data, split, time_limit=limit, seed=self.seed)
                self.candidates_, config = outcome.candidates, outcome.config
                checkpoint = Path(folder) / "winner.safetensors"
                outcome.save_winner(checkpoint)
            fitted = fit(config, data, split, self.seed, on_epoch=on_epoch, checkpoint=checkpoint)
        self.history_ = [
            dict(zip(("epoch", "train_loss", "val_score"), row, strict=True)) for row in fitted.history.rows
        ]
        config = config.replace(ensemble_size=fitted.ensemble_size)
        self._trained = TrainedModel.of(config, fitted, {"seed": self.seed, **fitted.history.to_dict()})
        self._data, self._split = data, split
        remove_checkpoints(checkpoint)
        return self

    def _configuration(self, nodes: int) -> tuple[Config, bool]:
        """The configuration of the parameters, and whether a race replaces it."""
        arguments, config = self.arguments, self.config
        if config is not None:
            if arguments or self.model is not None:
                given = ["model", *arguments] if self.model else arguments
                raise ValueError(f"pass {', '.join(given)} as part of config, or omit config")
            if not isinstance(config, Config):
                raise ValueError(f"config is {config!r}; expected a polybasis.train.Config")
        name = self.model or "optbasisgnn"
        auto = name == "auto"
        if auto and arguments:
            raise ValueError(f"model='auto' chooses {', '.join(arguments)}; pass only time_limit and seed")
        if self.time_limit is not None and not auto:
            raise ValueError("time_limit applies only to model='auto'; for other models, use epochs and patience")
        if config is None:
            config = Config.of_own_data("mlp" if auto else SHORT_NAMES.get(name, name), nodes, **arguments)
        return config, auto

    def _key(self, config: Config, data: NodeDataset, split: Split) -> str:
        digest = hashlib.sha256(f"{config.to_dict()} {self.seed} {data.fingerprint}".encode())
        for nodes in split:
            digest.update(f"{len(nodes)} ".encode())
            digest.update(nodes.numpy().tobytes())
        return digest.hexdigest()[:16]

    @property
    def model_(self) -> Model:
        """The trained model."""
        return self._fitted().model

    @property
    def config_(self) -> Config:
        """The configuration it was trained with."""
        return self._fitted().config

    @property
    def val_score_(self) -> float:
        """The score on the validation nodes."""
        return self._fitted().val_score

    @property
    def epochs_(self) -> int:
        """The number of epochs trained."""
        return self._fitted().epochs

    def predict(self, graph: Graph | NodeDataset | BasisStore | None = None, X: Any = None) -> NDArray[Any]:
        """Predicts the target of every node, (N,).

        Args:
            graph: a graph with N nodes, a data set, or a store (for models on a precomputed basis); by default the
                graph the estimator was fitted on.
            X: features of the graph, (N, F).

        Raises:
            ValueError: if the model cannot be applied to this graph or these features.
        """
        return self._fitted().predict(self._data_of(graph, X))

    def _data_of(self, graph: Graph | NodeDataset | BasisStore | None, X: Any) -> NodeDataset | BasisStore:
        self._fitted()
        if isinstance(graph, NodeDataset | BasisStore):
            return graph
        if (graph is None) != (X is None):
            raise ValueError("pass both graph and X, or neither")
        if graph is None:
            if self._data is None:
                raise ValueError(f"this {self._kind} was loaded from a file; pass the graph and X to predict on")
            return self._data
        check_graph(graph)
        unknown = torch.full((graph.num_nodes,), -1)
        return NodeDataset(name="graph", graph=graph, x=to_features(X, graph.num_nodes), y=unknown)

    def _scored(self, y: Any, mask: Any) -> tuple[NDArray[Any], Tensor, tuple[Any, ...]]:
        """Predictions and targets of the nodes with a known target inside a mask, and the classes."""
        predicted = self.predict()
        target, classes = self._target(y, len(predicted))
        scored = is_known(target)
        if mask is not None:
            scored &= to_mask(mask, len(predicted), "mask")
        if not scored.any():
            raise ValueError("no node to score; y has no known targets inside the mask")
        return predicted[scored.numpy()], target[scored], classes

    def report(self, path: str | Path) -> None:
        """Writes an interactive HTML report on the model: scores against baselines, curves, filters and training.

        The test nodes are those with a known target outside both masks. If there are none, the report uses the
        validation nodes.

        Args:
            path: the HTML file.

        Raises:
            ValueError: if the estimator was loaded from a file; use the command ``polybasis report``.
        """
        from polybasis.report.model_report import model_page

        trained = self._fitted()
        if self._data is None or self._split is None:
            raise ValueError(f"this {self._kind} was loaded from a file; write its report with polybasis report")
        model_page(trained, self._data, self._split, f"{type(self).__name__.lower()}.predict(graph, X)").write(
            Path(path)
        )

    def save(self, path: str | Path) -> None:
        """Writes the model to a folder; see :class:`polybasis.train.TrainedModel`.

        With label reuse, the weights contain the classes of the training nodes.
        """
        self._fitted().save(path)

    @classmethod
    def load(cls, path: str | Path, model_file: str | Path | None = None) -> Self:
        """Loads a saved model.

        Args:
            path: the folder.
            model_file: the file that defines the model, if it is a model ``FILE.py:Class``; it must not have changed.

        Raises:
            FileNotFoundError, ValueError: if the folder does not contain a readable model of this kind.
        """
        trained = TrainedModel.load(path, model_file)
        if (trained.target == "regression") != (cls._kind == "regressor"):
            other = "NodeRegressor" if trained.target == "regression" else "NodeClassifier"
            raise ValueError(f"{path} has a model for {trained.target}; use {other}.load")
        estimator = cls(config=trained.config, seed=trained.provenance.get("seed", 0))
        estimator._trained, estimator._data, estimator._split = trained, None, None
        return estimator

    _trained: TrainedModel
    _data: NodeDataset | None
    _split: Split | None

    def _fitted(self) -> TrainedModel:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {self._kind} has not been fitted; call fit first")
        return self._trained

    def __sklearn_is_fitted__(self) -> bool:
        return "_trained" in vars(self)


def _split(data: NodeDataset, train_mask: Any, val_mask: Any, seed: int) -> Split:
    if (train_mask is None) != (val_mask is None):
        raise ValueError("pass both train_mask and val_mask, or neither")
    if train_mask is None:
        return data.split("train-val", seed)
    known = is_known(data.y)
    masks = [to_mask(train_mask, len(known), "train_mask"), to_mask(val_mask, len(known), "val_mask")]
    if (masks[0] & masks[1] & known).any():
        raise ValueError("train_mask and val_mask overlap; validation nodes must not be trained on")
    parts = (masks[0], masks[1], ~(masks[0] | masks[1]))
    return Split(*((mask & known).nonzero()[:, 0] for mask in parts))
