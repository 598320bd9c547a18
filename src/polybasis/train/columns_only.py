"""The columns-only baseline: scikit-learn's linear models of the features, which ignore the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.data.dataset import NodeDataset, Split
from polybasis.features import FeatureTransform, SparseFeatures, transform_features
from polybasis.train.objective import Objective

ABSENT = -30.0  # logit of a class without training nodes


def columns_only(
    objective: Objective, data: NodeDataset, split: Split, feature_transform: FeatureTransform | None = None
) -> Tensor:
    """Fits a linear model to the standardised features of the training nodes and predicts the test nodes.

    The model is a logistic regression of the classes or of each label, or a ridge regression, with the weights of the
    objective.

    Args:
        objective: the weights of the training nodes.
        data: the data.
        split: the training and test nodes.
        feature_transform: the transform of the features before they are standardised.

    Returns:
        Logits, (test nodes, classes or labels), or values in the units of the target, (test nodes, 1), float64.

    Raises:
        ImportError: without scikit-learn.
    """
    from sklearn.linear_model import Ridge
    from sklearn.preprocessing import StandardScaler

    features = transform_features(data.x, feature_transform)
    sparse = isinstance(features, SparseFeatures)
    x = features.to_scipy() if isinstance(features, SparseFeatures) else features.numpy()
    scaler = StandardScaler(with_mean=not sparse)
    train, test = scaler.fit_transform(x[split.train.numpy()]), scaler.transform(x[split.test.numpy()])
    y, weights = data.y[split.train].numpy(), objective.weights(split.train).numpy()
    if data.target == "regression":
        values = Ridge().fit(train, y, weights).predict(test)
        return torch.from_numpy(values).double().unsqueeze(1)
    if data.target == "multi-label":
        labels = [_log_shares(train, y[:, i].astype(np.int64), weights[:, i], test, 2) for i in range(y.shape[1])]
        return torch.stack([shares[:, 1] - shares[:, 0] for shares in labels], dim=1)
    return _log_shares(train, y, weights, test, data.num_classes)


def _log_shares(train: Any, y: NDArray[np.int64], weights: NDArray[Any], test: Any, classes: int) -> Tensor:
    """Logarithms of class probabilities, (test nodes, classes)."""
    from sklearn.linear_model import LogisticRegression

    found = torch.full((test.shape[0], classes), ABSENT, dtype=torch.float64)
    if len(np.unique(y)) == 1:
        found[:, int(y[0])] = 0.0
        return found
    model = LogisticRegression(max_iter=1000).fit(train, y, weights)
    shares = torch.from_numpy(model.predict_proba(test)).double()
    found[:, torch.from_numpy(model.classes_)] = shares.log().clamp(min=ABSENT)
    return found
