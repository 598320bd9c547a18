"""Splits into training, validation and test nodes: a function of (data set, protocol, seed) and nothing else."""

from __future__ import annotations

import zlib
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.data.dataset import Masks

PROTOCOLS = {
    "per-class": "60/20/20 of GPR-GNN: as many training nodes from each class",
    "stratified": "60/20/20 of every class",
    "fixed": "the splits that came with the data",
    "linkx": "50/25/25 of the labelled nodes",
}


class Labelled(Protocol):
    """What splits are made of: a data set, or what is kept of one in a store."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def y(self) -> Tensor:
        """Classes, -1 where unknown."""

    @property
    def fixed_splits(self) -> list[Masks]:
        """Masks that came with the data."""


class Split(NamedTuple):
    """Nodes, each an ascending (n,) array; only nodes with a known class."""

    train: Tensor
    val: Tensor
    test: Tensor


def make_split(dataset: Labelled, protocol: str, seed: int) -> Split:
    """The split number ``seed`` of a data set.

    ``per-class`` gives every class the same number of training nodes, 60 % of N divided by the number of classes, and
    draws 20 % of N for validation from what is left. A class smaller than its share goes into training whole, and none
    of it is tested: on sets with very unequal classes (actor, texas) this changes what is measured, and it is what
    published figures use. ``stratified`` cuts every class 60/20/20.

    Args:
        dataset: the data set.
        protocol: one of ``PROTOCOLS``.
        seed: which split; ``fixed`` counts through those in the data.
    """
    if protocol not in PROTOCOLS:
        raise ValueError(f"there is no split protocol {protocol!r}; expected one of {', '.join(PROTOCOLS)}")
    if protocol == "fixed":
        if not dataset.fixed_splits:
            raise ValueError(f"{dataset.name} came without splits; use another protocol than 'fixed'")
        masks = dataset.fixed_splits[seed % len(dataset.fixed_splits)]
        known = dataset.y >= 0
        return Split(*((mask & known).nonzero()[:, 0] for mask in masks))
    rng = np.random.default_rng([seed, zlib.crc32(dataset.name.encode()), zlib.crc32(protocol.encode())])
    nodes = np.flatnonzero(dataset.y.numpy() >= 0)
    label = dataset.y.numpy()[nodes]
    if protocol == "per-class":
        return _per_class(nodes, label, rng)
    if protocol == "linkx":
        return _cut(rng.permutation(nodes), 0.5, 0.25)
    parts = [_cut(rng.permutation(nodes[label == c]), 0.6, 0.2) for c in np.unique(label)]
    return Split(*(torch.cat(part).sort().values for part in zip(*parts, strict=True)))


def _cut(nodes: NDArray[np.int64], train: float, val: float) -> Split:
    ends = [round(train * len(nodes)), round((train + val) * len(nodes))]
    return Split(*(torch.from_numpy(np.sort(part)) for part in np.split(nodes, ends)))


def _per_class(nodes: NDArray[np.int64], label: NDArray[np.int64], rng: np.random.Generator) -> Split:
    classes = np.unique(label)
    share = round(0.6 * len(nodes) / len(classes))
    shuffled = [rng.permutation(nodes[label == c]) for c in classes]
    train = np.concatenate([members[:share] for members in shuffled])
    rest = rng.permutation(np.concatenate([members[share:] for members in shuffled]))
    val = rest[: round(0.2 * len(nodes))]
    test = rest[len(val) :]
    return Split(*(torch.from_numpy(np.sort(part)) for part in (train, val, test)))
