"""The base class of all models, and the models by name."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, cast

import torch
from torch import Tensor
from torch.nn import Parameter

from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.nn.filter_layer import FilterLayer, Role
from polybasis.nn.models.names import MODEL_CLASSES, OWN_MODELS, model_names


@dataclass(frozen=True)
class Precomputed:
    """The result of :meth:`Model.precompute`, which a model accepts in place of features."""

    values: tuple[Any, ...]


class Model(torch.nn.Module, ABC):
    """A node classifier.

    Args:
        in_channels: number of features.
        hidden_channels: width of the hidden layer.
        out_channels: number of classes.
        num_nodes: number of nodes; needed only by models with weights for each node.

    Additional arguments are the hyperparameters of the model; all have defaults.

    Models compute with real numbers: :meth:`forward` and :meth:`precompute` refuse directed graphs, whose signals are
    complex.

    >>> import torch, polybasis as pb
    >>> class TwoHops(pb.nn.Model):
    ...     def __init__(self, in_channels, hidden_channels, out_channels, num_nodes=None):
    ...         super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
    ...         self.last = pb.nn.FeatureLinear(in_channels, out_channels)
    ...
    ...     def forward(self, x, graph):
    ...         return graph @ (graph @ self.last(x))
    >>> from polybasis.testing import check_model
    >>> check_model(TwoHops)
    """

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        for name in ("forward", "precompute"):
            if name in vars(cls):
                setattr(cls, name, _on_undirected_graphs(vars(cls)[name]))

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int, num_nodes: int | None = None) -> None:
        super().__init__()
        self.in_channels, self.hidden_channels, self.out_channels = in_channels, hidden_channels, out_channels
        self.num_nodes = num_nodes

    transductive: bool = False  # whether the model can predict only for the nodes it was trained on
    training_defaults: ClassVar[
        dict[str, Any]
    ] = {}  # defaults of its configuration that differ from those of other models

    @property
    def deterministic(self) -> bool:
        """Whether the logits are known to be the same in training and in evaluation mode."""
        return False

    @property
    def output_bias(self) -> Tensor | None:
        """The bias of the last linear layer, (.., out_channels), a view of a parameter; None if there is none."""
        bias: Tensor | None = getattr(getattr(self, "last", None), "bias", None)
        return bias

    def bias_response(self, graph: Graph) -> Tensor | None:
        """Returns the derivative of the outputs with respect to the output bias, (N, out_channels), or None if it is 1.

        Args:
            graph: the graph, N nodes.
        """
        return None

    @abstractmethod
    def forward(self, x: Any, graph: Graph) -> Tensor:
        """Computes the class scores (logits) of all nodes.

        Args:
            x: features, (N, in_channels), or the result of :meth:`precompute`.
            graph: the graph, N nodes.

        Returns:
            (N, out_channels).
        """

    def precompute(self, x: Inputs, graph: Graph) -> Inputs:
        """Computes the part of :meth:`forward` that does not depend on parameters; by default returns the features.

        Args:
            x: features, (N, in_channels); a result of this method is returned unchanged.
            graph: the graph, N nodes.
        """
        return x

    def fit_features(self, x: Any, nodes: Tensor) -> None:
        """Fits transformations of the input, such as the bins of an encoding, to the training nodes; none by default.

        Called once before full-batch training.

        Args:
            x: features, (N, in_channels), or the result of :meth:`precompute`.
            nodes: the training nodes.
        """
        return

    def parameter_groups(self) -> dict[Role, list[Parameter]]:
        """Returns the trainable parameters by role; each role may have its own learning rate and weight decay."""
        groups: dict[Role, list[Parameter]] = {"linear": [], "coefficients": [], "recurrence": []}
        for module in self.modules():
            roles: dict[str, Role] = module.roles if isinstance(module, FilterLayer) else {}
            for name, parameter in module.named_parameters(recurse=False):
                if parameter.requires_grad:
                    groups[roles.get(name, "linear")].append(parameter)
        return {role: parameters for role, parameters in groups.items() if parameters}

    def reset_parameters(self) -> None:
        """Re-initialises all parameters."""
        for child in self.children():
            for module in child if isinstance(child, torch.nn.ModuleList) else [child]:
                reset = getattr(module, "reset_parameters", None)
                if callable(reset):
                    reset()

    @classmethod
    def hyperparameters(cls) -> dict[str, Any]:
        """Returns the hyperparameters of the model with their defaults."""
        signature = inspect.signature(cls.__init__).parameters
        shape = ("self", "in_channels", "hidden_channels", "out_channels", "num_nodes")
        return {name: argument.default for name, argument in signature.items() if name not in shape}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, {self.out_channels})"


Inputs = Features | Precomputed


def _on_undirected_graphs(method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method with the arguments (x, graph) that refuses directed graphs."""

    @functools.wraps(method)
    def checked(self: Model, x: Any, graph: Graph | None = None, *arguments: Any, **named: Any) -> Any:
        if isinstance(graph, Graph) and graph.directed:
            raise ValueError(
                f"graph is directed; {type(self).__name__} requires an undirected graph: use filter layers such as "
                "OptBasisConv and concatenate the real and imaginary parts of their outputs"
            )
        return method(self, x, graph, *arguments, **named)

    return checked


SHAPE = ("in_channels", "hidden_channels", "out_channels")  # the first arguments of every model


def check_model_class(cls: Any, origin: str) -> type[Model]:
    """Checks that a class is a model that can be created by its sizes.

    Args:
        cls: the class.
        origin: prefix of error messages.

    Returns:
        The class.

    Raises:
        ValueError: if it is not a class of models, has abstract methods, or its constructor has other arguments.
    """
    if not (inspect.isclass(cls) and issubclass(cls, Model)):
        raise ValueError(f"{origin} is {cls!r}; expected a subclass of polybasis.nn.Model")
    if inspect.isabstract(cls):
        raise ValueError(f"{origin} does not implement {', '.join(sorted(cls.__abstractmethods__))}")
    first, own = list(inspect.signature(cls).parameters.values())[:3], cls.hyperparameters()
    expected = f"{cls.__name__}({', '.join(SHAPE)}, .., num_nodes=None)"
    if tuple(argument.name for argument in first) != SHAPE or "num_nodes" not in inspect.signature(cls).parameters:
        raise ValueError(f"{origin} has the arguments {inspect.signature(cls)}; expected {expected}")
    without = [name for name, default in own.items() if default is inspect.Parameter.empty]
    if without:
        raise ValueError(f"{origin} has no default for {', '.join(without)}; hyperparameters need defaults")
    return cls


def model_class(name: str) -> type[Model]:
    """Returns the class of a model by name.

    Args:
        name: the name of a built-in model, a registered model, or a model provided by an installed package.

    Raises:
        ValueError: for an unknown name; the message lists the known names.

    >>> import polybasis as pb
    >>> pb.nn.model_class("gpr-gnn").hyperparameters()["K"]
    10
    """
    if name in MODEL_CLASSES:
        module, attribute = MODEL_CLASSES[name].split(":")
        return cast(type[Model], getattr(import_module(f"polybasis.nn.models.{module}"), attribute))
    own = OWN_MODELS.find(name)
    if own is not None:
        return check_model_class(own, f"the model {name!r}")
    if isinstance(name, str) and ".py:" in name:
        raise ValueError(
            f"the model {name!r} is not part of an installed package; pass the file that defines it: with --model, "
            "with --model-file for a saved model, or in Python polybasis.load_model_file"
        )
    raise ValueError(f"unknown model {name!r}; expected one of {', '.join(model_names())}")


class _Models(Mapping[str, type[Model]]):
    """All models by name; classes are imported on first use."""

    def __getitem__(self, name: str) -> type[Model]:
        if name not in model_names():
            raise KeyError(name)
        return model_class(name)

    def __iter__(self) -> Iterator[str]:
        return iter(model_names())

    def __len__(self) -> int:
        return len(model_names())


MODELS: Mapping[str, type[Model]] = _Models()
