"""Convergence of a linear classifier on chameleon over ten thousand epochs.

The paper's appendix fits FavardGNN and a monomial model without dropout and ReLU to all nodes of chameleon, to examine
the bumps in the loss of the learned basis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from polybasis.data.dataset import NodeDataset
from polybasis.nn import FavardConv, PolyConv
from polybasis.nn.filter_layer import FilterLayer
from polybasis.nn.linear import FeatureLinear
from polybasis.train.backtracking_adam import BacktrackingAdam

HIDDEN, K = 64, 10
LR, LR_RECURRENCE = 0.01, 0.01
BACKTRACKING = "favard, bounded, backtracking"
FILTERS: dict[str, Callable[[], FilterLayer]] = {
    "monomial": lambda: PolyConv(HIDDEN, K, "monomial"),
    "favard": lambda: FavardConv(HIDDEN, K),
    BACKTRACKING: lambda: FavardConv(HIDDEN, K, recurrence="bounded"),
}


class LinearModel(torch.nn.Module):
    """A linear layer, a filter and a linear layer, without nonlinearity or dropout.

    Args:
        dataset: the data set to fit.
        conv: the filter, of ``HIDDEN`` channels.
    """

    def __init__(self, dataset: NodeDataset, conv: FilterLayer) -> None:
        super().__init__()
        self.first = FeatureLinear(dataset.num_features, HIDDEN)
        self.conv = conv
        self.last = torch.nn.Linear(HIDDEN, dataset.num_classes)
        self._dataset = dataset

    def losses(self) -> Tensor:
        """Computes the cross entropy over all nodes, (1,)."""
        logits = self.last(self.conv(self.first(self._dataset.x), self._dataset.graph))
        return cross_entropy(logits, self._dataset.y).unsqueeze(0)


def train_on_all_nodes(variant: str, dataset: NodeDataset, epochs: int) -> Iterator[float]:
    """Trains a :class:`LinearModel` on all nodes and yields the loss of each epoch.

    Args:
        variant: one of :data:`FILTERS`.
        dataset: the data set to fit.
        epochs: number of epochs.
    """
    torch.manual_seed(0)
    model = LinearModel(dataset, FILTERS[variant]())
    recurrence = [p for name, p in model.named_parameters() if name.startswith("conv.") and name != "conv.alpha"]
    recurrence_ids = {id(parameter) for parameter in recurrence}
    others = [parameter for parameter in model.parameters() if id(parameter) not in recurrence_ids]
    if variant == BACKTRACKING:
        backtracking = BacktrackingAdam([(others, LR), (recurrence, LR_RECURRENCE)])
        for _ in range(epochs):
            yield float(backtracking.step(model.losses))
        return
    adam = torch.optim.Adam([{"params": others, "lr": LR}, {"params": recurrence, "lr": LR_RECURRENCE}], fused=True)
    for _ in range(epochs):
        adam.zero_grad()
        loss = model.losses()
        loss.sum().backward()  # type: ignore[no-untyped-call]
        adam.step()
        yield float(loss.detach())
