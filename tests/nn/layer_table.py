"""The layers that the tests of this folder try: a new layer or basis gets all of them from one entry."""

from __future__ import annotations

from collections.abc import Callable

import torch

import polybasis as pb
from polybasis.bases.names import NAMES
from polybasis.nn.filter_layer import FilterLayer

K = 4
LAYERS: dict[str, Callable[[int], FilterLayer]] = {
    "optbasis": lambda channels: pb.nn.OptBasisConv(channels, K),
    "optbasis-signal": lambda channels: pb.nn.OptBasisConv(channels, K, scale="signal"),
    "favard": lambda channels: pb.nn.FavardConv(channels, K),
    "favard-bounded": lambda channels: pb.nn.FavardConv(channels, K, recurrence="bounded"),
    **{name: (lambda channels, name=name: pb.nn.PolyConv(channels, K, name)) for name in NAMES},
}


def perturbed(layer: FilterLayer) -> FilterLayer:
    """Moves parameters away from their initial values, where many gradients vanish."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.rand_like(parameter))
    return layer
