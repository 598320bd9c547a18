"""Trained models: predictions for data with the same features, and a versioned format on disk.

A saved model is a folder with ``model.json`` (configuration, classes, recipe of the features, scores, provenance, name
of the weights file, and its own checksum) and the weights in safetensors format, in a file that is named after its
SHA-256 hash. Models on a precomputed basis predict on graphs and on stores; other models predict on graphs only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polybasis.data.dataset import NodeDataset, Split
from polybasis.data.metrics import Metric, TargetKind, as_metric
from polybasis.data.recipe import Recipe, is_plain
from polybasis.data.schema import TableSchema
from polybasis.data.targets import as_task
from polybasis.features import transform_features
from polybasis.nn.models.model import Model
from polybasis.store.basis_store import BasisStore
from polybasis.train.calibration import Calibration, Method, fit_calibration
from polybasis.train.config import Config
from polybasis.train.fitting import Fit
from polybasis.train.model_folder import (
    errors_naming_model,
    load_definition,
    read_model_document,
    read_weights,
    write_model,
)
from polybasis.train.source import Data
from polybasis.train.threshold import Threshold, choose_threshold


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained model with the information needed to apply it.

    Attributes:
        config: how it was trained.
        model: the model, in evaluation mode.
        classes: the classes or labels, in the order of its outputs; empty for regression.
        num_features: number of features it takes.
        metric: metric of its scores.
        val_score: its score on the validation nodes.
        epochs: number of epochs it was trained for.
        structure_only: whether it was trained without features, on structure only.
        nodes: names of the nodes it can predict for, if it is transductive; otherwise None.
        target: the kind of target.
        center: for regression, the prediction is ``center`` plus ``scale`` times the output of the model.
        scale: see ``center``.
        calibration: a map from its logits to calibrated probabilities; see :meth:`calibrated`.
        threshold: for two classes, the probability from which the second class is predicted; see
            :meth:`with_threshold`. If None, the most probable class is predicted.
        provenance: data set, protocol, split, seed, versions and job key.
        recipe: converts the columns of a table to features, if it was trained on such columns.
        schema: the roles of the columns in the tables it was trained on; None if it was not trained on tables. Pass it
            to :func:`polybasis.data.read_tables` to read further tables the same way.

    >>> import polybasis as pb
    >>> data = pb.data.csbm(nodes=200, features=16)
    >>> config, split = pb.train.Config.of("optbasisgnn", K=3, epochs=20), data.split()
    >>> trained = pb.train.TrainedModel.of(config, pb.train.fit(config, data, split))
    >>> trained.predict(data).shape, trained.predict_proba(data).shape
    ((200,), (200, 2))
    """

    config: Config
    model: Model
    classes: tuple[Any, ...]
    num_features: int
    metric: Metric
    val_score: float
    epochs: int
    structure_only: bool = False
    nodes: tuple[str, ...] | None = None
    target: TargetKind = "classification"
    center: float = 0.0
    scale: float = 1.0
    calibration: Calibration | None = None
    threshold: Threshold | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    recipe: Recipe | None = None
    schema: TableSchema | None = None

    @classmethod
    def of(cls, config: Config, fitted: Fit, provenance: dict[str, Any] | None = None) -> TrainedModel:
        """Creates a trained model from the result of a training run.

        Args:
            config: the configuration of the run.
            fitted: the result of the run.
            provenance: data set, protocol, split, seed and job key.
        """
        data, objective = fitted.task.data, fitted.task.objective
        transductive = data.structure_only or fitted.model.transductive
        versions = {name: version(name) for name in ("polybasis", "torch")}
        return cls(
            config=config,
            model=fitted.model.cpu(),
            classes=data.classes,
            num_features=data.num_features,
            metric=objective.metric,
            val_score=fitted.val_score,
            epochs=fitted.epochs,
            structure_only=data.structure_only,
            nodes=tuple(str(name) for name in data.node_names()) if transductive else None,
            target=objective.target,
            center=objective.center,
            scale=objective.scale,
            provenance={**(provenance or {}), "versions": versions},
            recipe=data.recipe if isinstance(data, NodeDataset) else None,
            schema=data.schema if isinstance(data, NodeDataset) else None,
        )

    @torch.no_grad()
    def logits(self, data: Data, nodes: torch.Tensor | None = None) -> torch.Tensor:
        """Computes logits, or values for regression, for nodes of a data set or rows of a store, (N, outputs).

        Args:
            data: the data.
            nodes: indices of the nodes or rows; all by default.

        Raises:
            ValueError: if the model cannot be applied to the data; the message gives the reason.
        """
        data = self.prepared(data)
        self.model.eval()
        if isinstance(data, NodeDataset):
            outputs: torch.Tensor = self.model(transform_features(data.x, self.config.feature_transform), data.graph)
            outputs = outputs if nodes is None else outputs[nodes]
        else:
            from polybasis.train.mini_batch import MiniBatches

            rows = torch.arange(len(data)) if nodes is None else nodes
            task = MiniBatches(data, Split(rows, rows, rows), self.config, device=torch.device("cpu"))
            outputs = task.evaluate(self.model, rows).logits
        return self.center + self.scale * outputs.double() if self.target == "regression" else outputs

    def prepared(self, data: Data) -> Data:
        """Returns the data with the features that the model takes; its recipe encodes the columns of a table.

        Raises:
            ValueError: if the model cannot be applied to the data; the message gives the reason.
        """
        if isinstance(data, NodeDataset) and not data.structure_only and not self.structure_only:
            if self.recipe is not None:
                if data.columns is None:
                    raise ValueError(f"the model was trained on the columns of a table; {data.name} has other features")
                unused = () if self.schema is None else (*self.schema.target, *self.schema.drop)
                columns = tuple(column for column in data.columns if column.name not in unused)
                data = replace(data, x=self.recipe.apply(columns), recipe=self.recipe)
            elif data.columns is not None and not is_plain(data.columns):
                raise ValueError(
                    "the model was trained on a feature matrix, without a recipe for categories and missing values; "
                    "pass a table of numbers"
                )
        self.check(data)
        return data

    def predict_proba(self, data: Data, calibrated: bool = True) -> NDArray[np.float32]:
        """Predicts class or label probabilities for all nodes of a data set, or all rows of a store, (N, classes).

        Args:
            data: the data.
            calibrated: apply the calibration, if there is one.

        Raises:
            ValueError: if the model cannot be applied to the data, or is for regression.
        """
        probabilities: NDArray[np.float32] = self.probabilities(self.logits(data), calibrated).numpy()
        return probabilities

    def probabilities(self, logits: torch.Tensor, calibrated: bool = True) -> torch.Tensor:
        """Converts logits to probabilities of classes or labels, (n, classes).

        Args:
            logits: results of :meth:`logits`, (n, classes).
            calibrated: apply the calibration, if there is one.

        Raises:
            ValueError: if the model is for regression.
        """
        if self.target == "regression":
            raise ValueError("the model predicts a number, which has no probabilities; use predict")
        if calibrated and self.calibration is not None:
            return self.calibration(logits)
        return logits.sigmoid() if self.target == "multi-label" else logits.softmax(dim=1)

    def predict(self, data: Data) -> NDArray[Any]:
        """Predicts all nodes of a data set, or all rows of a store.

        Returns:
            The classes, (N,); whether each label applies, boolean, (N, labels); or numbers, (N,).

        Raises:
            ValueError: if the model cannot be applied to the data.
        """
        outputs = self.logits(data)
        if self.target == "regression":
            return np.asarray(outputs[:, 0].numpy())
        return self.decide(self.probabilities(outputs).numpy())

    def decide(self, probabilities: NDArray[np.float32]) -> NDArray[Any]:
        """Returns the classes, (n,), or whether each label applies, boolean, (n, labels).

        Args:
            probabilities: results of :meth:`probabilities`, (n, classes).
        """
        if self.target == "multi-label":
            return np.asarray(probabilities > 0.5)
        positive = None if self.threshold is None else probabilities[:, 1] >= self.threshold.value
        index = probabilities.argmax(axis=1) if positive is None else positive.astype(np.int64)
        return np.asarray(np.asarray(self.classes)[index])

    def calibrated(self, data: Data, nodes: torch.Tensor, method: Method | None = None) -> TrainedModel:
        """Returns a copy of this model with a calibration, but without a threshold, which would depend on it.

        Args:
            data: the data the model was trained on.
            nodes: the validation nodes.
            method: see :func:`polybasis.train.calibration.fit_calibration`.

        Raises:
            ValueError: for regression, or without nodes.
        """
        logits = self.logits(data, nodes)
        return replace(self, calibration=fit_calibration(logits, data.y[nodes], self.target, method), threshold=None)

    def with_threshold(self, data: Data, nodes: torch.Tensor, **criterion: Any) -> TrainedModel:
        """Returns a copy of this model with a threshold on its probabilities, calibrated if it has a calibration.

        Args:
            data: the data the model was trained on.
            nodes: the validation nodes.
            criterion: ``precision``, ``recall`` or ``cost``; see :func:`polybasis.train.threshold.choose_threshold`.

        Raises:
            ValueError: if the model is not for two classes, or no threshold meets the criterion.
        """
        if self.target != "classification" or len(self.classes) != 2:
            what = f"{len(self.classes)} classes" if self.target == "classification" else self.target
            raise ValueError(f"a threshold applies to two classes; the model is for {what}")
        probabilities = self.probabilities(self.logits(data, nodes)).numpy()[:, 1]
        return replace(self, threshold=choose_threshold(probabilities, data.y[nodes].numpy(), **criterion))

    def split_of(self, data: Data) -> Split | None:
        """Returns the split that the model was trained on; None if it was trained on other data."""
        made = self.provenance
        return data.split(made["protocol"], made["split"]) if made.get("data") == data.dataset_identity else None

    def check(self, data: Data) -> None:
        """Checks that the model can be applied to the data.

        Raises:
            ValueError: if it cannot; the message gives the reason.
        """
        if isinstance(data, BasisStore):
            if not self.config.model.precomputed:
                raise ValueError(
                    f"{self.config.model.name} was trained on a graph, not on a precomputed basis; "
                    "use the graph instead of a store"
                )
            if data.feature_transform != self.config.feature_transform:
                ours, theirs = self.config.feature_transform, data.feature_transform
                raise ValueError(f"the model was trained with feature transform {ours}; the store has {theirs}")
            K = self.config.model.arguments.get("K", self.config.hyperparameters()["K"])
            if K > data.K:
                raise ValueError(f"the model has degree {K}; the store has {data.K}")
        if data.structure_only != self.structure_only:
            trained = "on structure only: pass no features" if self.structure_only else "with features: pass features"
            raise ValueError(f"the model was trained {trained}")
        if self.nodes is not None and [str(name) for name in data.node_names()] != list(self.nodes):
            raise ValueError(
                "the model is transductive: it can predict only for the nodes it was trained on, in the same order"
            )
        if data.num_features != self.num_features:
            raise ValueError(
                f"the data has {data.num_features} features; the model was trained with {self.num_features}"
            )

    def save(self, path: str | Path) -> None:
        """Writes the model to a folder; an existing model in it stays valid until the new one is complete."""
        document: dict[str, Any] = {
            "config": self.config.to_dict(),
            "classes": list(self.classes),
            "features": self.num_features,
            "num_nodes": self.model.num_nodes,
            "metric": self.metric,
            "val_score": self.val_score,
            "epochs": self.epochs,
            "structure_only": self.structure_only,
            "nodes": None if self.nodes is None else list(self.nodes),
            "provenance": self.provenance,
        }
        if self.recipe is not None:
            document["recipe"] = self.recipe.to_dict()
        if self.schema is not None:
            document["tables"] = self.schema.to_dict()
        if self.target != "classification":
            document |= {"target": self.target, "center": self.center, "scale": self.scale}
        if self.calibration is not None:
            document["calibration"] = self.calibration.to_dict()
        if self.threshold is not None:
            document["threshold"] = self.threshold.to_dict()
        write_model(Path(path), document, self.model.state_dict())

    def export(self, path: str | Path, data: NodeDataset, *, any_graph: bool = False) -> None:
        """Writes the model as a program of ``torch.export``, which maps features (N, F) to class scores (N, classes).

        The program includes the feature transform and takes dense features in float32. The scores on ``data`` are
        compared with those of the model before the file is written. Load it with ``torch.export.load`` after ``import
        polybasis.operators``; the names of the classes are in its file ``polybasis.json``.

        Args:
            path: the file, ``NAME.pt2``.
            data: the graph that becomes part of the program, or, with ``any_graph``, an example.
            any_graph: whether the program takes the graph too, as ``edge_index`` (2, E) and, if ``data`` is weighted,
                ``edge_weight`` (E,), with any numbers of nodes and edges.

        Raises:
            ValueError: if the model cannot be exported or applied to the data; the message gives the reason.
        """
        from polybasis.train.export import export

        export(self, Path(path), data, any_graph=any_graph)

    @classmethod
    def load(cls, path: str | Path, model_file: str | Path | None = None) -> TrainedModel:
        """Reads a saved model.

        Args:
            path: the folder.
            model_file: the file that defines the model, if it was trained with ``--model FILE.py:Class``. Its hash must
                be the recorded one; otherwise it does not run. Loading never runs a file that is not given here.

        Raises:
            FileNotFoundError: if the folder does not contain a model.
            ValueError: if the model is damaged or has an unsupported version.
        """
        folder = Path(path)
        with errors_naming_model(folder):
            document = read_model_document(folder)
            load_definition(document, model_file)
            config = Config.from_dict(document["config"])
            classes, features = document["classes"], document["features"]
            recipe = Recipe.from_dict(document["recipe"]) if "recipe" in document else None
            if recipe is not None and recipe.width != features:
                raise ValueError(f"the recipe has {recipe.width} features; the model has {features}")
            target = as_task(document.get("target", "classification"))
            kinds = None if recipe is None else {column.name: column.kind for column in recipe.columns}
            outputs = 1 if target == "regression" else len(classes)
            calibration, threshold = document.get("calibration"), document.get("threshold")
            model = config.make_model(features, outputs, document["num_nodes"], target)
            model.load_state_dict(read_weights(folder, document["weights"]))
            return cls(
                config=config,
                model=model.eval(),
                classes=tuple(classes),
                num_features=features,
                metric=as_metric(document["metric"]),
                val_score=document["val_score"],
                epochs=document["epochs"],
                structure_only=document["structure_only"],
                nodes=None if document["nodes"] is None else tuple(document["nodes"]),
                target=target,
                center=float(document.get("center", 0.0)),
                scale=float(document.get("scale", 1.0)),
                calibration=None if calibration is None else Calibration.from_dict(calibration, outputs),
                threshold=None if threshold is None else Threshold.from_dict(threshold),
                provenance=document["provenance"],
                recipe=recipe,
                schema=TableSchema.from_dict(document["tables"], target, kinds) if "tables" in document else None,
            )


def verify_model(folder: Path) -> None:
    """Verifies the checksums of a saved model, and that it can be loaded unless a file of the user defines it.

    Raises:
        FileNotFoundError, ValueError: as :meth:`TrainedModel.load`.
    """
    with errors_naming_model(folder):
        document = read_model_document(folder)
        if "sha256" not in document["config"]["model"]:
            TrainedModel.load(folder)
        else:
            read_weights(folder, document["weights"])
