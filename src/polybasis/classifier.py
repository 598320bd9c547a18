"""Node classification in scikit-learn's manner."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from polybasis.data.dataset import NodeDataset
from polybasis.data.splits import Split, make_split
from polybasis.features import Features, SparseFeatures, as_features
from polybasis.files import write_atomically
from polybasis.graph import Graph
from polybasis.nn.models import Model
from polybasis.train.config import Config, default_config
from polybasis.train.fitting import Report
from polybasis.train.graph_training import fit

FORMAT = 1
SHORT_NAMES = {"optbasis": "optbasisgnn", "favard": "favardgnn"}


class NodeClassifier:
    """Classifies the nodes of a graph, some of whose classes are known.

    Args:
        model: name of the model; ``optbasis`` and ``favard`` are short for the paper's two.
        hidden: hidden width.
        seed: of everything random.
        config: a whole configuration in place of a name, with learning rates and all.
        **arguments: the model's own hyperparameters, such as ``K`` and ``dropout``; and ``epochs``, ``patience``,
            ``stop_on``, ``members``, ``labels`` as of :class:`polybasis.train.Config`.

    After :meth:`fit`: ``model_``, ``classes_`` (sorted), ``val_score_``, ``epochs_``.

    >>> import polybasis as pb
    >>> data = pb.data.csbm(nodes=300, features=60, seed=1)
    >>> classifier = pb.NodeClassifier(model="optbasis", K=4, epochs=30).fit(data.graph, data.x, data.y)
    >>> classifier.predict().shape
    (300,)
    """

    def __init__(
        self,
        model: str = "optbasisgnn",
        *,
        hidden: int = 64,
        seed: int = 0,
        config: Config | None = None,
        **arguments: Any,
    ) -> None:
        if config is None:
            config = default_config(SHORT_NAMES.get(model, model))
            of_training = ("epochs", "patience", "stop_on", "members", "labels")
            training = {name: arguments.pop(name) for name in of_training if name in arguments}
            config = replace(config, hidden=hidden, arguments=arguments, **training)
        self.config = config
        self.seed = seed

    def fit(
        self,
        graph: Graph,
        X: Features | ArrayLike,
        y: Sequence[Any] | ArrayLike,
        train_mask: ArrayLike | None = None,
        val_mask: ArrayLike | None = None,
        *,
        report: Report | None = None,
        checkpoint: Path | None = None,
    ) -> NodeClassifier:
        """Trains on the nodes of ``train_mask``, stopping early on those of ``val_mask`` unless configured otherwise.

        Args:
            graph: the graph, N nodes.
            X: features, (N, F).
            y: classes, (N,), of any kind; None, NaN or -1 where the class is not known.
            train_mask, val_mask: booleans, (N,); 75/25 of every class's known nodes unless given.
            report: called after every epoch.
            checkpoint: a file to go on from after an interruption.
        """
        x = _as_features(X, graph)
        labels, self.classes_ = _encoded(y, graph.num_nodes)
        if len(self.classes_) < 2:
            raise ValueError(f"y has {len(self.classes_)} class; expected two at least")
        dataset = NodeDataset("fit", graph, self.config.prepared(x), labels)
        self._graph, self._x = graph, x
        split = self._split(dataset, train_mask, val_mask)
        trained = fit(self.config, dataset, split, self.seed, report=report, checkpoint=checkpoint)
        self.model_: Model = trained.model
        self.val_score_, self.epochs_ = trained.val_score, trained.epochs
        self.num_features_ = dataset.num_features
        return self

    def _split(self, dataset: NodeDataset, train_mask: ArrayLike | None, val_mask: ArrayLike | None) -> Split:
        if (train_mask is None) != (val_mask is None):
            raise ValueError("pass both train_mask and val_mask, or neither")
        if train_mask is None:
            cut = make_split(dataset, "stratified", self.seed)  # 60/20/20: test nodes train here too
            return Split(torch.cat([cut.train, cut.test]).sort().values, cut.val, cut.test[:0])
        known = dataset.y >= 0
        masks = [torch.as_tensor(np.asarray(mask)).bool() for mask in (train_mask, val_mask)]
        for name, mask in zip(("train_mask", "val_mask"), masks, strict=True):
            if mask.shape != known.shape:
                raise ValueError(f"{name} has shape {tuple(mask.shape)}; expected ({len(known)},)")
        if (masks[0] & masks[1] & known).any():
            raise ValueError("train_mask and val_mask have nodes in common; validation nodes must not be trained on")
        train, val = ((mask & known).nonzero()[:, 0] for mask in masks)
        return Split(train, val, val[:0])

    @torch.no_grad()
    def predict_proba(self, graph: Graph | None = None, X: Features | ArrayLike | None = None) -> NDArray[np.float32]:
        """Probabilities, (N, number of classes), of the graph it was trained on or of another with such features.

        With ``labels`` it can only be the graph it was trained on, its nodes in the same order.
        """
        self._check_fitted()
        if (graph is None) != (X is None):
            raise ValueError("pass both graph and X, or neither")
        if graph is None:
            if self._graph is None:
                raise ValueError("this classifier was loaded: pass the graph and X to predict on")
            graph, x = self._graph, cast(Features, self._x)
        else:
            x = _as_features(cast(Any, X), graph)
        if x.shape[1] != self.num_features_:
            raise ValueError(f"X has {x.shape[1]} features; the model was trained with {self.num_features_}")
        probabilities: Tensor = self.model_(self.config.prepared(x), graph).softmax(dim=1)
        return probabilities.numpy()

    def predict(self, graph: Graph | None = None, X: Features | ArrayLike | None = None) -> NDArray[Any]:
        """The most probable class of every node, (N,)."""
        best = self.predict_proba(graph, X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(self, y: ArrayLike, mask: ArrayLike | None = None) -> float:
        """Accuracy on the nodes of a mask of the graph it was trained on."""
        right = self.predict() == np.asarray(y)
        return float(right.mean() if mask is None else right[np.asarray(mask, dtype=bool)].mean())

    def save(self, path: str | Path, notes: dict[str, Any] | None = None) -> None:
        """Writes the model to a folder: ``config.json`` and the weights it names; the old model stays until both are.

        Args:
            path: the folder.
            notes: anything a reader of the model may want to know, as plain values.

        With ``labels`` the classes of training nodes are among the weights.
        """
        self._check_fitted()
        folder = Path(path)
        content = save_tensors({name: value.contiguous() for name, value in self.model_.state_dict().items()})
        weights = f"weights-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
        write_atomically(folder / weights, content)
        document = {
            "format": FORMAT,
            "weights": weights,
            "config": self.config.to_dict(),
            "classes": self.classes_.tolist(),
            "features": self.num_features_,
            "nodes": self.model_.num_nodes,
            "seed": self.seed,
            "val_score": self.val_score_,
            "epochs": self.epochs_,
            "notes": notes or {},
        }
        write_atomically(folder / "config.json", json.dumps(document, indent=1).encode())
        for old in folder.glob("weights-*.safetensors"):
            if old.name != weights:
                old.unlink()

    @classmethod
    def load(cls, path: str | Path) -> NodeClassifier:
        """A classifier that was saved; its ``notes_`` are those it was saved with."""
        folder = Path(path)
        place = folder / "config.json"
        if not place.exists():
            raise FileNotFoundError(f"{place} is not there: {folder} is not the folder of a model")
        try:
            document = json.loads(place.read_text())
            if document.get("format") != FORMAT:
                raise ValueError(f"its format is {document.get('format')}, this version reads {FORMAT}")
            classifier = cls(config=Config.from_dict(document["config"]), seed=document["seed"])
            classes, features, nodes = np.array(document["classes"]), document["features"], document["nodes"]
            model = classifier.config.make_model(features, len(classes), nodes)
            model.load_state_dict(load_tensors((folder / document["weights"]).read_bytes()))
        except (ValueError, KeyError, RuntimeError, AttributeError, SafetensorError) as error:
            raise ValueError(f"{folder} does not hold a model that can be read: {error}") from error
        classifier.model_ = model.eval()
        classifier.classes_, classifier.num_features_ = classes, features
        classifier.val_score_, classifier.epochs_ = document["val_score"], document["epochs"]
        classifier.notes_ = document["notes"]
        classifier._graph = classifier._x = None
        return classifier

    notes_: dict[str, Any]
    classes_: NDArray[Any]
    _graph: Graph | None
    _x: Features | None

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise ValueError("this classifier has not been fitted; call fit first")

    def __repr__(self) -> str:
        arguments = "".join(f", {name}={value!r}" for name, value in self.config.arguments.items())
        return f"NodeClassifier({self.config.model!r}, hidden={self.config.hidden}{arguments})"


def _as_features(X: Features | ArrayLike, graph: Graph) -> Features:
    x = X if isinstance(X, Tensor | SparseFeatures) else torch.as_tensor(np.asarray(X))
    if len(x.shape) != 2 or x.shape[0] != graph.num_nodes:
        raise ValueError(f"X has shape {tuple(x.shape)}; expected ({graph.num_nodes}, F), one row for each node")
    if isinstance(x, Tensor):
        if not torch.isfinite(x).all():
            node, feature = (~torch.isfinite(x)).nonzero()[0].tolist()
            raise ValueError(f"X[{node}, {feature}] is {float(x[node, feature])}; expected finite numbers")
        return as_features(x.float())
    return x


def _encoded(y: Sequence[Any] | ArrayLike, nodes: int) -> tuple[Tensor, NDArray[Any]]:
    """Classes as numbers from 0 on, -1 for those not known, and the classes in their order."""
    values = y.tolist() if isinstance(y, Tensor) else list(np.asarray(y, dtype=object))
    if len(values) != nodes:
        raise ValueError(f"y has {len(values)} entries; expected {nodes}, one for each node")
    known = [value is not None and value == value and value != -1 for value in values]  # NaN is not itself
    classes = np.unique([value for value, is_known in zip(values, known, strict=True) if is_known])
    index = {value: i for i, value in enumerate(classes.tolist())}
    codes = [index[value] if is_known else -1 for value, is_known in zip(values, known, strict=True)]
    return torch.tensor(codes, dtype=torch.long), classes
