"""The contextual stochastic block model."""

from __future__ import annotations

import math

import numpy as np
import torch

from polybasis.data.dataset import NodeDataset, make_dataset


def csbm(nodes: int = 1000, features: int = 200, degree: float = 5.0, phi: float = -0.5, seed: int = 0) -> NodeDataset:
    r"""Generates a graph whose edges and features both depend on two classes (Deshpande et al., 2018), in the
    parametrisation of GPR-GNN.

    Let :math:`v_i = \pm 1` be the class of node i. An edge exists with probability :math:`(d + \lambda\sqrt d)/n`
    within a class and :math:`(d - \lambda\sqrt d)/n` between classes, and
    :math:`x_i = \sqrt{\mu/n}\, v_i u + z_i / \sqrt f`, where
    :math:`\lambda = \sqrt{1+\epsilon}\,\sin(\pi\phi/2)`, :math:`\mu = \sqrt{(1+\epsilon)\, n/f}\,\cos(\pi\phi/2)`,
    :math:`\epsilon = 3.25`. Asymptotically, all values of phi are equally hard. At -1 and 1, only the graph is
    informative; at 0, only the features are.

    Args:
        nodes: number of nodes n.
        features: number of features f.
        degree: mean degree d.
        phi: from -1 (heterophilous) to 1 (homophilous).
        seed: random seed.

    Raises:
        ValueError: if phi is outside [-1, 1], or the degree is too small for it.

    >>> dataset = csbm(nodes=200, features=50)
    >>> dataset.num_classes
    2
    """
    if not -1 <= phi <= 1:
        raise ValueError(f"phi is {phi}; expected a number from -1 to 1")
    rng = np.random.default_rng(seed)
    strength = math.sqrt(1 + 3.25)
    lam = strength * math.sin(math.pi * phi / 2)
    mu = strength * math.sqrt(nodes / features) * math.cos(math.pi * phi / 2)
    if abs(lam) > math.sqrt(degree):
        raise ValueError(f"degree is {degree}; expected at least {lam * lam:.2f} for phi = {phi}")
    label = rng.permutation(np.arange(nodes) % 2)
    sign = 2.0 * label - 1
    pairs = []
    for same, chance in ((True, degree + lam * math.sqrt(degree)), (False, degree - lam * math.sqrt(degree))):
        # The number of pairs is binomial and the pairs are uniform. About d/n of the pairs are duplicates and merge.
        count = rng.binomial(nodes * (nodes - 1) // 4, chance / nodes)
        first = rng.integers(0, nodes, count)
        other = rng.integers(0, nodes // 2, count)
        by_class = [np.flatnonzero(label == c) for c in (0, 1)]
        wanted = label[first] if same else 1 - label[first]
        second = np.where(wanted == 0, by_class[0][other % len(by_class[0])], by_class[1][other % len(by_class[1])])
        pairs.append(np.stack([first, second]))
    u = rng.standard_normal(features) / math.sqrt(features)
    x = math.sqrt(abs(mu) / nodes) * sign[:, None] * u + rng.standard_normal((nodes, features)) / math.sqrt(features)
    edge_index = torch.from_numpy(np.concatenate(pairs, axis=1))
    return make_dataset("csbm", edge_index, torch.from_numpy(x).float(), torch.from_numpy(label))
