"""A test score with its uncertainty, compared with baselines that do not use the graph.

All models are scored on the same bootstrap resamples of the test nodes, so intervals of differences are paired
bootstrap intervals.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from polybasis.data import metrics
from polybasis.data.dataset import NodeDataset, Split
from polybasis.data.metrics import Metric, metric_name, sign, value_text
from polybasis.train.bootstrap import FloatArray, bootstrap
from polybasis.train.columns_only import columns_only
from polybasis.train.early_stopping import is_noisy, rarer_class
from polybasis.train.objective import Objective
from polybasis.train.trained_model import TrainedModel

RESAMPLES = 1000
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its 95% interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, drawn: FloatArray) -> Estimate:
        """A value with the interval of its bootstrap resamples.

        Args:
            value: the value.
            drawn: the values of the resamples, (resamples,).
        """
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return cls(value, float(low), float(high))

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g})"


@dataclass(frozen=True)
class Comparison:
    """A baseline and the model's advantage over it.

    Attributes:
        name: ``majority``, the class frequencies, or ``constant``, the mean number (the median with the Huber loss) or
            the frequencies of labels; or ``columns only``, a linear model of the features.
        score: the score of the baseline.
        advantage: score of the model minus that of the baseline, or the reverse if lower scores are better, so that it
            is positive if the model is better.
    """

    name: str
    score: Estimate
    advantage: Estimate

    @property
    def beaten(self) -> bool:
        """Whether the model is significantly better than the baseline."""
        return self.advantage.low > 0


@dataclass(frozen=True)
class Assessment:
    """The test score of a model, compared with baselines.

    Attributes:
        metric: the metric of all scores.
        nodes: number of test nodes.
        score: the score of the model.
        baselines: the baselines.
        warnings: baselines that the model does not clearly beat, baselines that were left out, and too few test nodes.
    """

    metric: Metric
    nodes: int
    score: Estimate
    baselines: tuple[Comparison, ...]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Converts the assessment to plain Python objects."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Assessment:
        """Creates an assessment from the result of :meth:`to_dict`."""
        baselines = tuple(
            Comparison(item["name"], Estimate(**item["score"]), Estimate(**item["advantage"]))
            for item in document["baselines"]
        )
        score, warnings = Estimate(**document["score"]), tuple(document["warnings"])
        return cls(document["metric"], document["nodes"], score, baselines, warnings)


def assess(
    trained: TrainedModel, data: NodeDataset, split: Split, *, resamples: int = RESAMPLES, seed: int = 0
) -> Assessment:
    """Compares the test score of a model with those of a constant prediction and a linear model of the features.

    The linear model is scikit-learn's logistic regression or ridge regression on the standardised features, with the
    class weights and sample weights of the model. It is left out without scikit-learn or without features.

    Args:
        trained: the model.
        data: the data it was trained on.
        split: the training nodes of the baselines, and the test nodes.
        resamples: number of bootstrap resamples.
        seed: seed of the resamples.

    Raises:
        ValueError: if there are no test nodes, or the model cannot be applied to the data.

    >>> import polybasis as pb
    >>> data = pb.data.csbm(nodes=200, features=16)
    >>> config, split = pb.train.Config.of("optbasisgnn", K=3, epochs=20), data.split()
    >>> trained = pb.train.TrainedModel.of(config, pb.train.fit(config, data, split))
    >>> found = pb.train.assess(trained, data, split)
    >>> found.nodes, found.baselines[0].name, found.score.low <= found.score.value <= found.score.high
    (40, 'majority', True)
    """
    if len(split.test) == 0:
        raise ValueError(f"{data.name} has no test nodes in this split; use a protocol with test nodes")
    objective = Objective.of(trained.config.replace(metric=trained.metric), data, split.train)
    constant = "majority" if trained.target == "classification" else "constant"
    outputs = {
        "model": trained.logits(data, split.test),
        constant: objective.in_units(objective.log_prior(split.train).expand(len(split.test), -1)),
    }
    notes = []
    if data.structure_only:
        notes.append("The columns-only baseline is left out: the data has no features.")
    else:
        try:
            outputs["columns only"] = columns_only(objective, data, split, trained.config.feature_transform)
        except ImportError:
            notes.append("The columns-only baseline is left out: install scikit-learn to include it.")
    y, better = data.y[split.test], sign(trained.metric)
    drawn = bootstrap(outputs, y, trained.metric, trained.target, resamples, seed)
    values = {name: metrics.score(trained.metric, trained.target, found, y) for name, found in outputs.items()}
    baselines = tuple(
        Comparison(
            name,
            Estimate.of(values[name], drawn[name]),
            Estimate.of(better * (values["model"] - values[name]), better * (drawn["model"] - drawn[name])),
        )
        for name in outputs
        if name != "model"
    )
    score = Estimate.of(values["model"], drawn["model"])
    warnings = [_warning(comparison, score, trained.metric) for comparison in baselines if not comparison.beaten]
    if is_noisy(objective, split.test):
        rarer, count = rarer_class(y)
        label = repr(str(data.classes[rarer]))
        if count == 0:
            warnings = [
                f"No test node is of class {label}, so {metric_name(trained.metric)} is meaningless. Label more nodes."
            ]
        else:
            nodes = f"{count} of {len(y):,} test nodes {'is' if count == 1 else 'are'}"
            warnings.append(
                f"Only {nodes} of class {label}, so the score and its interval are rough. Label more nodes."
            )
    return Assessment(trained.metric, len(split.test), score, baselines, (*warnings, *notes))


def _warning(comparison: Comparison, score: Estimate, metric: Metric) -> str:
    linear = comparison.name == "columns only"
    what = "a linear model of the columns, which ignores the graph" if linear else "a constant prediction"
    values = [value_text(metric, found.value) for found in (score, comparison.score)]
    scores = f"test {metric_name(metric)} {' against '.join(values)}"
    if comparison.advantage.high < 0:
        return f"The model is worse than {what}: {scores}."
    low, high = (value_text(metric, end, "+") for end in (comparison.advantage.low, comparison.advantage.high))
    return (
        f"The model is not clearly better than {what}: {scores}, and the difference may be due to chance "
        f"(95% interval {low} to {high})."
    )
