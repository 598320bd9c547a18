"""Checks for custom models and polynomial bases; the built-in ones pass them too.

>>> import polybasis as pb
>>> from polybasis.testing import check_basis, check_model
>>> check_model(pb.nn.FavardGNN)
>>> check_basis(pb.bases.Legendre())
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from polybasis.bases import Chebyshev, PolynomialBasis, Recurrence, ThreeTermBasis, named_basis
from polybasis.data.block_model import csbm
from polybasis.data.dataset import NodeDataset
from polybasis.features import as_dense
from polybasis.graph import Graph
from polybasis.krylov import optimal_basis
from polybasis.nn.models.model import Model, Precomputed, check_model_class, model_class
from polybasis.nn.poly_conv import PolyConv

HIDDEN, STEPS, LEARNING_RATE = 16, 20, 0.02


def require(condition: Any, message: str) -> None:
    """Raises AssertionError with a message if a condition is false."""
    if not condition:
        raise AssertionError(message)


# ---- models --------------------------------------------------------------------------------------------------------


def check_model(model: str | type[Model], data: NodeDataset | None = None) -> None:
    """Checks that a model trains, resets, saves and predicts correctly.

    Args:
        model: the class, or the name of a registered model.
        data: a small data set; by default a generated one.

    Raises:
        ValueError: if the class is not a model; see :func:`polybasis.register_model`.
        AssertionError: if a check fails; the message says which property is missing.

    >>> import polybasis as pb
    >>> from polybasis.testing import check_model
    >>> check_model(pb.nn.FavardGNN)
    """
    cls = model_class(model) if isinstance(model, str) else check_model_class(model, f"the model {model!r}")
    data = csbm(nodes=120, features=80, seed=3) if data is None else data
    for check in MODEL_CHECKS:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            check(cls, data)


def _made(cls: type[Model], data: NodeDataset, **arguments: Any) -> Model:
    return cls(data.num_features, HIDDEN, data.num_classes, num_nodes=data.graph.num_nodes, **arguments)


def _scores(model: Model, x: Any, graph: Graph) -> Tensor:
    with torch.no_grad():
        scores: Tensor = model.eval()(x, graph)
    return scores


def check_directed_graphs_are_refused(cls: type[Model], data: NodeDataset) -> None:
    """Directed graphs are refused, because their signals are complex and models are real."""
    graph, x = Graph.from_edge_index([[0, 1, 2], [1, 2, 3]], directed=True), torch.rand(4, 3)
    model = cls(3, 4, 2, num_nodes=4)
    for call in (model, model.precompute) if "precompute" in vars(cls) else (model,):
        try:
            call(x, graph)
        except ValueError as error:
            require("graph is directed" in str(error) and "\n" not in str(error), f"unclear message: {error}")
        else:
            raise AssertionError(f"{cls.__name__} accepts a directed graph")


def check_training(cls: type[Model], data: NodeDataset) -> None:
    """The loss falls, and every parameter has a finite gradient and belongs to one group."""
    model, x, graph, y = _made(cls, data), data.x, data.graph, data.y
    groups = model.parameter_groups()
    optimizer = torch.optim.Adam([{"params": group} for group in groups.values()], lr=LEARNING_RATE)
    scores, shape = _scores(model, x, graph), (graph.num_nodes, data.num_classes)
    require(isinstance(scores, Tensor), f"forward returned a {type(scores).__name__}; expected a tensor")
    require(scores.shape == shape, f"forward returned shape {tuple(scores.shape)}; expected {shape}")
    before = float(cross_entropy(scores, y))
    for _ in range(STEPS):
        model.train()
        optimizer.zero_grad()
        cross_entropy(model(x, graph), y).backward()  # type: ignore[no-untyped-call]
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                require(parameter.grad is not None, f"the parameter {name} has no gradient")
                require(torch.isfinite(parameter.grad).all(), f"the gradient of {name} is not finite")  # type: ignore[arg-type]
        optimizer.step()
    after = float(cross_entropy(_scores(model, x, graph), y))
    require(after < before, f"the loss is {before:.4f} before and {after:.4f} after {STEPS} steps")
    grouped = sorted(id(parameter) for group in groups.values() for parameter in group)
    learned = sorted(id(parameter) for parameter in model.parameters() if parameter.requires_grad)
    require(grouped == learned, "parameter_groups does not contain every trained parameter once")


def check_reset(cls: type[Model], data: NodeDataset) -> None:
    """``reset_parameters`` discards what was learned: every parameter gets the values of a new model, or new ones."""
    model = _made(cls, data)
    start = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1e3)
    model.reset_parameters()
    for name, parameter in model.named_parameters():
        require(torch.isfinite(parameter).all(), f"{name} is not finite after reset_parameters")
        require(not (parameter == 1e3).any(), f"reset_parameters does not reset {name}")
    require(model.state_dict().keys() == start.keys(), "reset_parameters changes the names of parameters")
    shapes = {name: value.shape for name, value in _made(cls, data).state_dict().items()}
    require(shapes == {name: value.shape for name, value in start.items()}, "two new models have different shapes")


def check_state(cls: type[Model], data: NodeDataset) -> None:
    """A new model with the saved parameters has the same scores."""
    model, other = _made(cls, data), _made(cls, data)
    other.load_state_dict({name: value.clone() for name, value in model.state_dict().items()})
    same = torch.equal(_scores(model, data.x, data.graph), _scores(other, data.x, data.graph))
    require(same, "a model that is saved and loaded has other scores; store its state in parameters and buffers")


def check_precompute(cls: type[Model], data: NodeDataset) -> None:
    """Scores on precomputed inputs equal those on features, to the last bit; a second call changes nothing."""
    model = _made(cls, data).eval()
    inputs = model.precompute(data.x, data.graph)
    require(model.precompute(inputs, data.graph) is inputs, "precompute changes its own result")
    same = torch.equal(_scores(model, inputs, data.graph), _scores(model, data.x, data.graph))
    require(same, "scores on the result of precompute differ from those on the features")
    tensors = [value for value in inputs.values if isinstance(value, Tensor)] if isinstance(inputs, Precomputed) else []
    require(not any(value.requires_grad for value in tensors), "precompute depends on parameters")


def check_deterministic(cls: type[Model], data: NodeDataset) -> None:
    """A model that is declared deterministic has the same scores in training and evaluation mode."""
    model = _made(cls, data, **{key: 0.0 for key in cls.hyperparameters() if "dropout" in key})
    if model.deterministic:
        with torch.no_grad():
            same = torch.equal(model.train()(data.x, data.graph), model.eval()(data.x, data.graph))
        require(same, "deterministic is True, but scores in training and evaluation differ")


def check_equivariance(cls: type[Model], data: NodeDataset) -> None:
    """Permuting the nodes permutes the scores, unless the model has weights for each node."""
    model = _made(cls, data).double()
    if model.transductive:
        return
    x, edges, nodes = as_dense(data.x).double(), data.graph.edge_index(), data.graph.num_nodes
    order = torch.randperm(nodes)
    number = torch.empty_like(order).scatter_(0, order, torch.arange(nodes))  # the new number of each node
    renumbered = Graph.from_edge_index(number[edges], nodes)
    scores = _scores(model, x, Graph.from_edge_index(edges, nodes))
    close = torch.allclose(_scores(model, x[order], renumbered), scores[order], rtol=1e-6, atol=1e-6)
    require(close, "scores depend on the order of the nodes; set transductive = True if the model has weights for each")


MODEL_CHECKS: tuple[Callable[[type[Model], NodeDataset], None], ...] = (
    check_directed_graphs_are_refused,
    check_training,
    check_reset,
    check_state,
    check_precompute,
    check_deterministic,
    check_equivariance,
)


# ---- bases ---------------------------------------------------------------------------------------------------------


def check_basis(basis: str | PolynomialBasis | type[PolynomialBasis], K: int = 7) -> None:
    """Checks that the methods of a polynomial basis agree with each other, and with the eigenvalues of a graph.

    Args:
        basis: the basis, a class whose constructor needs no arguments, or the name of a registered basis.
        K: the degree.

    Raises:
        TypeError: if this is not a basis.
        AssertionError: if a check fails; the message says which methods disagree, or what a method returned.

    >>> import polybasis as pb
    >>> from polybasis.testing import check_basis
    >>> check_basis(pb.bases.Legendre())
    """
    basis = named_basis(basis, K) if isinstance(basis, str) else _made_basis(basis)
    if isinstance(basis, ThreeTermBasis):
        _check_recurrence(basis.recurrence(K), K)
    mu = torch.linspace(-1, 1, 41, dtype=torch.float64)
    values = basis.evaluate(mu, K)
    _check_values("evaluate returned", values, (K + 1, 41))
    require(torch.linalg.matrix_rank(values) == K + 1, f"the polynomials do not span those of degree {K}")
    constant = basis.constant(K)
    _check_values("constant returned", constant, (K + 1,))
    one = constant @ values
    require(torch.allclose(one, torch.ones_like(one)), "constant does not give the polynomial 1")
    through = basis.to_chebyshev(K).T @ Chebyshev().evaluate(mu, K)
    require(torch.allclose(through, values, atol=1e-9), "to_chebyshev and evaluate give different polynomials")
    data = csbm(nodes=40, features=4, seed=1)
    P, x = data.graph @ torch.eye(40, dtype=torch.float64), as_dense(data.x).double()
    eigenvalues, U = torch.linalg.eigh(P)
    expected = torch.einsum("ni,ki,id->knd", U, basis.evaluate(eigenvalues, K), U.T @ x)
    own = optimal_basis(data.graph, x, K)
    _check_values("coordinates returned", basis.coordinates(own.gamma, own.sqrt_beta), (K + 1, K + 1, x.shape[1]))
    coordinates = torch.einsum("jnd,jkd->knd", own.vectors, own.coordinates(basis))
    require(torch.allclose(coordinates, expected, atol=1e-8), "coordinates disagrees with the eigenvalues of a graph")
    conv = PolyConv(x.shape[1], K, basis).double()
    for k in range(K + 1):
        with torch.no_grad():
            conv.alpha.zero_()
            conv.alpha[k] = 1
            same = torch.allclose(conv(x, data.graph), expected[k], atol=1e-8)
        require(same, f"the filter g_{k}(P) disagrees with the eigenvalues of a graph")


def _made_basis(basis: PolynomialBasis | type[PolynomialBasis]) -> PolynomialBasis:
    if isinstance(basis, type) and issubclass(basis, PolynomialBasis):
        try:
            return basis()
        except TypeError as error:
            raise TypeError(f"{basis.__name__}() raises: {error}; if it needs arguments, pass an instance") from error
    if not isinstance(basis, PolynomialBasis):
        raise TypeError(f"basis is {basis!r}; expected a polybasis.bases.PolynomialBasis")
    return basis


def _check_recurrence(found: Any, K: int) -> None:
    returned = f"recurrence({K}) returned"
    require(isinstance(found, Recurrence), f"{returned} a {type(found).__name__}; expected a pb.bases.Recurrence")
    for name, values in found._asdict().items():
        _check_values(f"{returned} {name} of", values, () if name == "s" else (K,))


def _check_values(returned: str, values: Any, shape: tuple[int, ...]) -> None:
    require(isinstance(values, Tensor), f"{returned} type {type(values).__name__}; expected a float64 tensor")
    require(values.dtype == torch.float64, f"{returned} {str(values.dtype).removeprefix('torch.')}; expected float64")
    require(values.shape == shape, f"{returned} shape {tuple(values.shape)}; expected {shape}")
