"""Every check of polybasis.testing fails for a model or basis that lacks the property, and names it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

import polybasis as pb
from polybasis.features import as_dense
from polybasis.testing import check_basis, check_model


class Good(pb.nn.Model):
    """A model that passes all checks."""

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, K: int = 3, num_nodes: int | None = None
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        self.last = pb.nn.FeatureLinear(in_channels, out_channels)
        self.conv = pb.nn.PolyConv(out_channels, K)

    def forward(self, x: Any, graph: pb.Graph) -> Tensor:
        return self.conv(self.last(x), graph)


class TakesDirected(Good):
    def forward(self, x: Any, graph: pb.Graph) -> Tensor:
        return self.last(x)


TakesDirected.forward = lambda self, x, graph: self.last(x)  # type: ignore[method-assign,assignment]  # without the check


class Unused(Good):
    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int, num_nodes: int | None = None) -> None:
        super().__init__(in_channels, hidden_channels, out_channels)
        self.unused = torch.nn.Linear(2, 2)


class Ungrouped(Good):
    def parameter_groups(self) -> Any:
        return {"linear": list(self.last.parameters())}


class WrongShape(Good):
    def forward(self, x: Any, graph: pb.Graph) -> Tensor:
        return torch.cat([super().forward(x, graph)] * 2, dim=1)


class OneColumn(Good):
    def forward(self, x: Any, graph: pb.Graph) -> Tensor:
        return super().forward(x, graph)[:, :1]


class Nothing(Good):
    def forward(self, x: Any, graph: pb.Graph) -> Any:
        super().forward(x, graph)


class NotLearning(Good):
    def forward(self, x: Any, graph: pb.Graph) -> Tensor:
        return super().forward(x, graph) * 0


class NoReset(Good):
    def reset_parameters(self) -> None:
        self.last.reset_parameters()


class HiddenState(Good):
    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int, num_nodes: int | None = None) -> None:
        super().__init__(in_channels, hidden_channels, out_channels)
        self.offset = torch.rand(out_channels)

    def forward(self, x: Any, graph: pb.Graph) -> Tensor:
        return super().forward(x, graph) + self.offset


class Doubled(Good):
    def precompute(self, x: Any, graph: pb.Graph) -> Any:
        return 2 * as_dense(x)


class FalselyDeterministic(Good):
    deterministic = True  # type: ignore[assignment]

    def forward(self, x: Any, graph: pb.Graph) -> Tensor:
        return pb.nn.dropout(super().forward(x, graph), 0.5, self.training)


class ByPosition(Good):
    def forward(self, x: Any, graph: pb.Graph) -> Tensor:
        scores = super().forward(x, graph)
        return scores + torch.arange(len(scores)).to(scores).unsqueeze(1) * torch.tensor([0.0, 0.01]).to(scores)


def test_a_good_model_passes() -> None:
    check_model(Good)


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (TakesDirected, "TakesDirected accepts a directed graph"),
        (Unused, "the parameter unused.weight has no gradient"),
        (Ungrouped, "parameter_groups does not contain every trained parameter once"),
        (WrongShape, r"forward returned shape \(120, 4\); expected \(120, 2\)"),
        (OneColumn, r"forward returned shape \(120, 1\); expected \(120, 2\)"),
        (Nothing, "forward returned a NoneType; expected a tensor"),
        (NotLearning, "the loss is 0.6931 before and 0.6931 after 20 steps"),
        (NoReset, "reset_parameters does not reset conv.alpha"),
        (HiddenState, "a model that is saved and loaded has other scores"),
        (Doubled, "precompute changes its own result"),
        (FalselyDeterministic, "deterministic is True"),
        (ByPosition, "scores depend on the order of the nodes"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_model_that_lacks_a_property_fails(cls: type[pb.nn.Model], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_model(cls)


class WrongConstant(pb.bases.Legendre):
    def constant(self, K: int) -> Tensor:
        return 2 * super().constant(K)


class WrongCoordinates(pb.bases.Legendre):
    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor:
        return 2 * super().coordinates(gamma, sqrt_beta)


class WrongValues(pb.bases.Chebyshev):
    def evaluate(self, mu: Tensor, K: int) -> Tensor:
        return pb.bases.Legendre().evaluate(mu, K)


class Dependent(pb.bases.Chebyshev):
    def evaluate(self, mu: Tensor, K: int) -> Tensor:
        return super().evaluate(mu, 0).expand(K + 1, *mu.shape)


class WrongChange(pb.bases.Bernstein):
    def to_chebyshev(self, K: int) -> Tensor:
        return super().to_chebyshev(K).flip(1)


@pytest.mark.parametrize(
    ("basis", "message"),
    [
        (WrongConstant(), "constant does not give the polynomial 1"),
        (WrongCoordinates(), "coordinates disagrees with the eigenvalues"),
        (WrongValues(), "disagrees with the eigenvalues"),
        (Dependent(), "do not span those of degree 7"),
        (WrongChange(7), "to_chebyshev and evaluate give different polynomials"),
    ],
    ids=repr,
)
def test_a_basis_whose_methods_disagree_fails(basis: pb.bases.PolynomialBasis, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_basis(basis)


ONE, SEVEN = torch.ones((), dtype=torch.float64), torch.ones(7, dtype=torch.float64)


class Returned(pb.bases.ThreeTermBasis):
    """A basis with the given coefficients."""

    def __init__(self, found: Any) -> None:
        self.found = found

    def recurrence(self, K: int) -> pb.bases.Recurrence:
        return self.found  # type: ignore[no-any-return]


class ShortConstant(pb.bases.Bernstein):
    def constant(self, K: int) -> Tensor:
        return super().constant(K)[1:]


class FlatCoordinates(pb.bases.Legendre):
    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor:
        return super().coordinates(gamma, sqrt_beta).sum(-1)


@pytest.mark.parametrize(
    ("basis", "message"),
    [
        (Returned((ONE, SEVEN, SEVEN, SEVEN)), "recurrence(7) returned a tuple; expected a pb.bases.Recurrence"),
        (
            Returned(pb.bases.Recurrence(ONE, SEVEN, SEVEN, SEVEN[1:])),
            "recurrence(7) returned c of shape (6,); expected (7,)",
        ),
        (
            Returned(pb.bases.Recurrence(ONE, SEVEN.float(), SEVEN, SEVEN)),
            "recurrence(7) returned a of float32; expected float64",
        ),
        (
            Returned(pb.bases.Recurrence(1.0, SEVEN, SEVEN, SEVEN)),  # type: ignore[arg-type]
            "recurrence(7) returned s of type float; expected a float64 tensor",
        ),
        (ShortConstant(7), "constant returned shape (7,); expected (8,)"),
        (FlatCoordinates(), "coordinates returned shape (8, 8); expected (8, 8, 4)"),
    ],
    ids=["tuple", "length", "dtype", "float", "constant", "coordinates"],
)
def test_a_method_that_returns_something_else_is_named(basis: pb.bases.PolynomialBasis, message: str) -> None:
    with pytest.raises(AssertionError, match=f"^{re.escape(message)}$"):
        check_basis(basis)


def test_a_basis_may_be_a_class_without_arguments() -> None:
    check_basis(pb.bases.Legendre)
    for wrong, message in (
        (
            pb.bases.Bernstein,
            r"Bernstein\(\) raises: .*missing 1 .* argument: 'K'; if it needs arguments, pass an instance",
        ),
        (pb.bases.ThreeTermBasis, r"ThreeTermBasis\(\) raises: Can't instantiate abstract class"),
        (dict, "basis is <class 'dict'>; expected a polybasis.bases.PolynomialBasis"),
    ):
        with pytest.raises(TypeError, match=message):
            check_basis(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", pb.bases.names.NAMES)
def test_the_bases_of_the_package_pass(name: str) -> None:
    check_basis(name)
