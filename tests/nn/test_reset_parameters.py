"""``reset_parameters`` restores what constructors set: the same constants, or new draws from the same distribution."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import polybasis as pb
from polybasis.nn.filter_layer import FilterLayer
from polybasis.nn.models import MODELS
from polybasis.nn.models.decoupled import SharedFilter, pagerank
from polybasis.nn.models.jacobiconv import DecomposedFilter

K = 4
BASES = ["monomial", "chebyshev", "chebyshev-interpolation", "bernstein", "jacobi", "legendre"]
LAYERS: dict[str, Callable[[], FilterLayer]] = {
    "optbasis": lambda: pb.nn.OptBasisConv(5, K),
    "favard": lambda: pb.nn.FavardConv(5, K),
    "favard-bounded": lambda: pb.nn.FavardConv(5, K, recurrence="bounded"),
    "shared": lambda: SharedFilter(5, K, pb.bases.Monomial(), pagerank(K, 0.1)),
    "shared-fixed": lambda: SharedFilter(5, K, pb.bases.Bernstein(K), torch.ones(K + 1), learned=False),
    "decomposed": lambda: DecomposedFilter(5, K, 1.0, 0.5, 2.0),
    **{name: (lambda name=name: pb.nn.PolyConv(5, K, name)) for name in BASES},
}
SHIFT = 100.0  # far outside every initial distribution


def perturb(module: torch.nn.Module) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(SHIFT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_returns_to_its_initial_values(kind: str, dtype: torch.dtype) -> None:
    """Layers draw no random numbers, so a reset layer is a new one."""
    layer, new = LAYERS[kind]().to(dtype), LAYERS[kind]().to(dtype)
    state = torch.get_rng_state()
    for _ in range(2):
        perturb(layer)
        layer.reset_parameters()
        assert layer.state_dict().keys() == new.state_dict().keys()
        for name, parameter in layer.named_parameters():
            assert parameter.dtype == dtype
            assert parameter.requires_grad == new.get_parameter(name).requires_grad
            assert torch.equal(parameter, new.get_parameter(name)), name
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_reset_keeps_the_parameters_of_an_optimiser(kind: str) -> None:
    layer = LAYERS[kind]()
    parameters = dict(layer.named_parameters())
    storage = {name: parameter.data_ptr() for name, parameter in parameters.items()}
    layer.reset_parameters()
    for name, parameter in layer.named_parameters():
        assert parameter is parameters[name]
        assert parameter.data_ptr() == storage[name]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_returns_to_its_initial_distribution(name: str) -> None:
    def new(seed: int) -> torch.nn.Module:
        torch.manual_seed(seed)
        return MODELS[name](40, 16, 3, num_nodes=60)

    model, same_seed, other_seed = new(1), new(1), new(2)
    perturb(model)
    torch.manual_seed(1)
    model.reset_parameters()
    first = {key: parameter.detach().clone() for key, parameter in model.named_parameters()}
    perturb(model)
    torch.manual_seed(1)
    model.reset_parameters()
    for key, parameter in model.named_parameters():
        initial = same_seed.get_parameter(key)
        assert parameter.requires_grad == initial.requires_grad
        assert torch.equal(parameter, first[key]), f"{key} depends on more than the seed"
        if torch.equal(initial, other_seed.get_parameter(key)):  # a constant
            assert torch.equal(parameter, initial), key
            continue
        # Initial weights and biases are uniform on an interval around 0, or nearly so.
        drawn = torch.cat([initial.flatten(), other_seed.get_parameter(key).flatten()])
        assert parameter.abs().max() <= 2 * drawn.abs().max(), key
        assert parameter.unique().numel() > 1, key
        if parameter.numel() >= 100:
            assert float(parameter.detach().std()) == pytest.approx(float(drawn.detach().std()), rel=0.3), key


@pytest.mark.parametrize("name", ["mlp", "favardgnn", "optbasisgnn", "jacobiconv", "gpr-gnn", "bernnet", "chebnetii"])
def test_a_reset_model_is_a_new_one_under_the_same_seed(name: str) -> None:
    """Linear layers draw in the order in which they are constructed: first, then last."""
    torch.manual_seed(3)
    model = MODELS[name](40, 16, 3)
    initial = {key: value.clone() for key, value in model.state_dict().items()}
    perturb(model)
    torch.manual_seed(3)
    model.reset_parameters()
    for key, value in model.state_dict().items():
        assert torch.equal(value, initial[key]), key
