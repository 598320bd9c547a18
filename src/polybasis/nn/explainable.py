"""Edge masks for the explainers of PyTorch Geometric."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing

from polybasis.nn.graph_cache import graph_of
from polybasis.nn.models.model import Model


class Explainable(MessagePassing):  # type: ignore[misc]
    """A model with filter layers, for :class:`torch_geometric.explain.Explainer`.

    The explainers of PyG set their edge mask on message-passing layers. Filters do not pass messages along individual
    edges, so this wrapper receives the mask and multiplies the edge weights by it. Node masks do not need it.

    Args:
        model: A :class:`polybasis.nn.models.Model`, or any module with the signature
            ``forward(x, edge_index, edge_weight, ...)`` that passes the weights on to its filter layers.

    >>> import torch, polybasis as pb
    >>> from torch_geometric.explain import Explainer, GNNExplainer
    >>> model, edges = pb.nn.OptBasisGNN(3, 4, 2, K=2), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> explainer = Explainer(
    ...     pb.nn.Explainable(model),
    ...     algorithm=GNNExplainer(epochs=2),
    ...     explanation_type="model",
    ...     edge_mask_type="object",
    ...     model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    ... )
    >>> explainer(torch.rand(3, 3), edges, index=0).edge_mask.shape
    torch.Size([4])
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, **arguments: Any) -> Tensor:
        """Returns the result of the model on the masked edges.

        Args:
            x: The features, (N, F).
            edge_index: The node pairs, (2, E).
            edge_weight: The weights, (E,); by default 1.
            arguments: Further arguments of the model.
        """
        mask: Tensor | None = self._edge_mask if self.explain else None
        if mask is not None:
            mask = mask.sigmoid() if self._apply_sigmoid else mask
            edge_weight = mask if edge_weight is None else edge_weight * mask
        if not isinstance(self.model, Model):
            result: Tensor = self.model(x, edge_index, edge_weight, **arguments)
            return result
        graph = graph_of(edge_index, x.shape[0], edge_weight)
        scores: Tensor = self.model(x, graph, **arguments)
        return scores
