"""Long training of a classifier without dropout and ReLU: does the learned basis settle?

The paper's appendix fits FavardGNN and a model in monomials to all nodes of chameleon for ten thousand epochs.
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
GUARDED = "favard, bounded, guarded"
FILTERS: dict[str, Callable[[], FilterLayer]] = {
    "monomial": lambda: PolyConv(HIDDEN, K, "monomial"),
    "favard": lambda: FavardConv(HIDDEN, K),
    GUARDED: lambda: FavardConv(HIDDEN, K, recurrence="bounded"),
}


class LinearModel(torch.nn.Module):
    """Linear layer, filter, linear layer, and nothing between them."""

    def __init__(self, dataset: NodeDataset, conv: FilterLayer) -> None:
        super().__init__()
        self.first = FeatureLinear(dataset.num_features, HIDDEN)
        self.conv = conv
        self.last = torch.nn.Linear(HIDDEN, dataset.num_classes)
        self._dataset = dataset

    def losses(self) -> Tensor:
        """The cross entropy over all nodes, (1,)."""
        scores = self.last(self.conv(self.first(self._dataset.x), self._dataset.graph))
        return cross_entropy(scores, self._dataset.y).unsqueeze(0)


def long_classification(way: str, dataset: NodeDataset, epochs: int) -> Iterator[float]:
    """The losses of all epochs, one after the other."""
    torch.manual_seed(0)
    model = LinearModel(dataset, FILTERS[way]())
    recurrence = [p for name, p in model.named_parameters() if name.startswith("conv.") and name != "conv.alpha"]
    chosen = {id(parameter) for parameter in recurrence}
    others = [parameter for parameter in model.parameters() if id(parameter) not in chosen]
    if way == GUARDED:
        guarded = BacktrackingAdam([(others, LR), (recurrence, LR_RECURRENCE)])
        for _ in range(epochs):
            yield float(guarded.step(model.losses))
        return
    adam = torch.optim.Adam([{"params": others, "lr": LR}, {"params": recurrence, "lr": LR_RECURRENCE}], fused=True)
    for _ in range(epochs):
        adam.zero_grad()
        loss = model.losses()
        loss.sum().backward()  # type: ignore[no-untyped-call]
        adam.step()
        yield float(loss.detach())
