"""What every model is: features and a graph in, one score for each class out, parameters grouped by role."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.functional import cross_entropy

from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.nn.filter_layer import FilterLayer, Role


class RoledModule(torch.nn.Module):
    """A module whose parameters have roles: linear layers, filter coefficients, recurrences."""

    def parameter_groups(self) -> dict[Role, list[Parameter]]:
        """Parameters by role, so that each role can have its own learning rate and weight decay."""
        groups: dict[Role, list[Parameter]] = {"linear": [], "coefficients": [], "recurrence": []}
        for module in self.modules():
            roles: dict[str, Role] = module.roles if isinstance(module, FilterLayer) else {}
            for name, parameter in module.named_parameters(recurse=False):
                if parameter.requires_grad:
                    groups[roles.get(name, "linear")].append(parameter)
        return {role: parameters for role, parameters in groups.items() if parameters}

    def reset_parameters(self) -> None:
        """Sets all parameters as at the start."""
        for child in self.children():
            for module in child if isinstance(child, torch.nn.ModuleList) else [child]:
                reset = getattr(module, "reset_parameters", None)
                if callable(reset):
                    reset()

    @classmethod
    def hyperparameters(cls) -> dict[str, Any]:
        """The model's own arguments with their defaults."""
        signature = inspect.signature(cls.__init__).parameters
        shape = ("self", "in_channels", "hidden_channels", "out_channels", "num_nodes")
        return {name: argument.default for name, argument in signature.items() if name not in shape}


class Model(RoledModule, ABC):
    """A node classifier.

    Args:
        in_channels: number of features.
        hidden_channels: width of the hidden layer.
        out_channels: number of classes.
        num_nodes: number of nodes; only models with a weight for each node look at it.

    Further arguments are the model's own hyperparameters, all with defaults.
    """

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int, num_nodes: int | None = None) -> None:
        super().__init__()
        self.in_channels, self.hidden_channels, self.out_channels = in_channels, hidden_channels, out_channels
        self.num_nodes = num_nodes

    @property
    def deterministic(self) -> bool:
        """Whether training mode and evaluation mode are known to give the same scores."""
        return False

    @abstractmethod
    def forward(self, x: Features, graph: Graph) -> Tensor:
        """Scores of shape (N, out_channels)."""

    def loss(self, scores: Tensor, y: Tensor) -> Tensor:
        """What training lowers, from what ``forward`` gives for some nodes in training mode, and their classes."""
        return cross_entropy(scores, y)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, {self.out_channels})"
