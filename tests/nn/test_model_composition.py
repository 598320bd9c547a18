"""Every model composes with PyTorch: compilers, exported programs, transforms, modes and copies."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import scipy.sparse as sp
import torch
from conftest import random_graph
from torch import Tensor
from torch.func import functional_call

import polybasis as pb
from polybasis.features import Features, SparseFeatures
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models import MODELS, Model, model_class
from polybasis.nn.models.ensemble import Ensemble
from polybasis.nn.models.label_reuse import LabelReuse

NODES, FEATURES, HIDDEN, CLASSES = 9, 4, 5, 3
GRAPH = random_graph(NODES, 16)
SMALL: dict[str, Any] = {"K": 3, "layers": 2}  # arguments that keep models small


def model_of(name: str) -> Model:
    cls = model_class(name)
    arguments = {key: 0.0 for key in cls.hyperparameters() if "dropout" in key}
    arguments |= {key: value for key, value in SMALL.items() if key in cls.hyperparameters()}
    model = cls(FEATURES, HIDDEN, CLASSES, num_nodes=NODES, **arguments)
    with torch.no_grad():  # away from zero, where gradients vanish
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.rand_like(parameter))
    return model


def ensemble() -> Model:
    return Ensemble([model_of("gcn"), model_of("gcn")])


def label_reuse() -> Model:
    model = LabelReuse(model_class("gcn")(FEATURES + CLASSES, HIDDEN, CLASSES, dropout=0.0), 0.5, NODES)
    model.set_labels(torch.arange(4), torch.arange(NODES) % CLASSES)
    return model


BUILD: dict[str, Callable[[], Model]] = {
    **{name: (lambda name=name: model_of(name)) for name in MODELS},
    "ensemble": ensemble,
    "label reuse": label_reuse,
}


@pytest.fixture(params=BUILD)
def model(request: pytest.FixtureRequest) -> Model:
    """A model in evaluation mode: in training mode, LINKX updates the running statistics of its batch normalisation."""
    return BUILD[request.param]().double().eval()


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    yield
    torch.compiler.reset()


def features() -> Tensor:
    return torch.randn(NODES, FEATURES, dtype=torch.float64)


def sparse_features() -> SparseFeatures:
    x = features()
    return SparseFeatures(sp.csr_array((x * (x > 0)).numpy()), torch.float64)


def loss(z: Tensor) -> Tensor:
    return (z * torch.linspace(1, 2, z.numel(), dtype=z.dtype).view_as(z)).square().sum()


def learned(model: Model) -> dict[str, Tensor]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def gradients(model: Model, call: Callable[..., Tensor], x: Features, graph: pb.Graph) -> tuple[Tensor, ...]:
    z = call(x, graph)
    return z, *torch.autograd.grad(loss(z), tuple(learned(model).values()))


def assert_all_close(got: Any, expected: Any) -> None:
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)


# ---- compilers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("training", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_compiled_models_agree_with_eager_ones(model: Model, training: bool) -> None:
    """The first graph is used for the first time inside the compiled model; the second one is another object."""
    model.train(training)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for seed in (1, 2):
        x, graph, eager = features(), random_graph(NODES, 16, seed), copy.deepcopy(model)
        got = gradients(model, compiled, x, graph)
        assert_all_close(got, gradients(eager, eager, x, copy.deepcopy(graph)))


QUICK = ("optbasisgnn", "gcn", "mlp", "link", "sign")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in MODELS])
def test_compiled_models_take_sparse_features(name: str) -> None:
    model, x = model_of(name).double().eval(), sparse_features()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    expected = gradients(model, model, x.to_dense(), GRAPH)
    assert_all_close(gradients(model, compiled, x, GRAPH), expected)
    assert_all_close(gradients(model, model, x, GRAPH), expected)


@pytest.mark.parametrize("name", ["link", "sign", "gbp", "ndls", "label reuse"])
def test_compiled_models_take_precomputed_inputs(name: str) -> None:
    model = BUILD[name]().double().eval()
    inputs = model.precompute(features(), GRAPH)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert_all_close(compiled(inputs, GRAPH), model(inputs, GRAPH))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_models_compile_with_the_default_backend(name: str) -> None:
    model, x = model_of(name).double().train(), features()
    eager = copy.deepcopy(model)
    expected = gradients(eager, eager, x, GRAPH)
    assert_all_close(gradients(model, torch.compile(model, fullgraph=True), x, GRAPH), expected)


class OnGraph(torch.nn.Module):
    """A model with its graph."""

    def __init__(self, model: Model, graph: pb.Graph) -> None:
        super().__init__()
        self.model, self.graph = model, graph

    def forward(self, x: Features) -> Tensor:
        scores: Tensor = self.model(x, self.graph)
        return scores


def saved_and_loaded(program: torch.export.ExportedProgram) -> Any:
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file).module()


def test_exported_models(model: Model) -> None:
    """The graph is part of the program; it stays usable afterwards."""
    graph = random_graph(NODES, 16, seed=3)
    loaded = saved_and_loaded(torch.export.export(OnGraph(model, graph), (features(),)))
    x = features()
    assert_all_close(loaded(x), model(x, graph))


@pytest.mark.parametrize("name", QUICK)
def test_exported_models_take_sparse_features(name: str) -> None:
    model, x = model_of(name).double().eval(), sparse_features()
    program = torch.export.export(OnGraph(model, GRAPH), (x,)).module()
    assert_all_close(program(x.with_values(2 * x.values)), model(2 * x.to_dense(), GRAPH))


# ---- transforms ----------------------------------------------------------------------------------------------------


def applied(model: Model, x: Tensor) -> Callable[[dict[str, Tensor]], Tensor]:
    return lambda parameters: functional_call(model, parameters, (x, GRAPH))


def detached(model: Model) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in learned(model).items()}


def test_func_grad_agrees_with_autograd(model: Model) -> None:
    x = features()
    got = torch.func.grad(lambda parameters: loss(applied(model, x)(parameters)))(detached(model))
    assert_all_close(tuple(got.values()), gradients(model, model, x, GRAPH)[1:])


def test_vmap_over_stacked_parameters_agrees_with_a_loop(model: Model) -> None:
    models, x = [model, copy.deepcopy(model)], features()
    with torch.no_grad():
        for parameter in models[1].parameters():
            parameter.add_(0.1)
    parameters, buffers = torch.func.stack_module_state(models)  # type: ignore[arg-type]
    got = torch.func.vmap(lambda *state: functional_call(model, state, (x, GRAPH)))(parameters, buffers)
    assert_all_close(got, torch.stack([each(x, GRAPH) for each in models]))


def test_vmap_over_features_agrees_with_a_loop(model: Model) -> None:
    several = torch.randn(3, NODES, FEATURES, dtype=torch.float64)
    got = torch.func.vmap(model, (0, None))(several, GRAPH)
    assert_all_close(got, torch.stack([model(x, GRAPH) for x in several]))


def test_jvp_agrees_with_finite_differences(model: Model) -> None:
    x, parameters = features(), detached(model)
    direction = {name: torch.randn_like(parameter) for name, parameter in parameters.items()}
    value, got = torch.func.jvp(applied(model, x), (parameters,), (direction,))
    assert_all_close(value, model(x, GRAPH))
    step = 1e-6
    ahead, behind = (
        applied(model, x)({name: parameters[name] + sign * step * direction[name] for name in parameters})
        for sign in (1, -1)
    )
    torch.testing.assert_close(got, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-5)


def test_gradgradcheck(model: Model) -> None:
    names, x = list(learned(model)), features()
    leaves = [parameter.requires_grad_() for parameter in detached(model).values()]

    def scores(*parameters: Tensor) -> Tensor:
        return applied(model, x)(dict(zip(names, parameters, strict=True))).square()

    assert torch.autograd.gradgradcheck(scores, leaves, fast_mode=True)


# ---- modes, data types and copies ----------------------------------------------------------------------------------


def test_autocast(model: Model) -> None:
    """Scores and gradients have the precision of bfloat16, and no part fails because of it."""
    model, x = model.float(), features().float()
    with torch.no_grad():
        expected = model(x, GRAPH)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = model(x, GRAPH)
        loss(z.float()).backward()
    assert (z.float() - expected).norm() < 0.1 * expected.norm()
    assert all(torch.isfinite(parameter.grad).all() for parameter in learned(model).values())


def test_a_graph_first_used_in_inference_mode_trains_later(model: Model) -> None:
    graph, x = random_graph(NODES, 16, seed=4), features()
    with torch.inference_mode():
        inferred = model(x, graph)
    z, *bars = gradients(model, model, x, graph)
    assert_all_close(z, inferred)
    assert all(torch.isfinite(bar).all() for bar in bars)


def test_a_graph_first_used_in_a_transform_stays_usable(model: Model) -> None:
    graph, x = random_graph(NODES, 16, seed=5), features()
    torch.func.vmap(torch.func.grad(lambda x: loss(model(x, graph))))(torch.stack([x, x]))
    assert_all_close(model(x, graph), model(x, copy.deepcopy(graph)))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_have_the_same_scores(model: Model, copied: Callable[[Model], Model]) -> None:
    x = features()
    model(x, GRAPH)
    assert torch.equal(copied(model)(x, GRAPH), model(x, GRAPH))


def test_averaged_models(model: Model) -> None:
    averaged, x = torch.optim.swa_utils.AveragedModel(model), features()
    averaged.update_parameters(model)
    assert_all_close(averaged(x, GRAPH), model(x, GRAPH))


def test_double_precision_is_double_precision(model: Model) -> None:
    """A model in float32 differs from its copy in float64 by rounding of float32, and that in float64 has float64."""
    x = features()
    z = model(x, GRAPH)
    assert z.dtype == torch.float64
    torch.testing.assert_close(copy.deepcopy(model).float()(x.float(), GRAPH).double(), z, rtol=1e-3, atol=1e-3)


@pytest.fixture
def _default_double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("_default_double")
@pytest.mark.parametrize("name", BUILD)
def test_models_under_a_default_of_double_precision(name: str) -> None:
    model = BUILD[name]()
    z = model(features(), GRAPH)
    assert z.dtype == torch.float64
    loss(z).backward()
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}


@pytest.mark.usefixtures("_default_double")
@pytest.mark.parametrize(
    "arguments",
    [
        *({"model": name} for name in MODELS),
        {"model": "gcn", "ensemble_size": 2},
        {"model": "gcn", "label_reuse": 0.5},
        {"model": "optbasis", "precomputed": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("words", [8, 80])  # dense and sparse features
def test_classifiers_under_a_default_of_double_precision(arguments: dict[str, Any], words: int, tmp_path: Path) -> None:
    data = pb.data.csbm(nodes=60, features=words, seed=2)
    classifier = pb.NodeClassifier(**arguments, hidden=4, epochs=2).fit(data.graph, data.x, data.y)
    expected = classifier.predict_proba()
    classifier.save(tmp_path / "model")
    loaded = pb.NodeClassifier.load(tmp_path / "model")
    torch.testing.assert_close(loaded.predict_proba(data.graph, data.x), expected)


# ---- dropout -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled_dropout_draws_a_new_mask_at_every_call(backend: str) -> None:
    compiled = torch.compile(lambda x: dropout(x, 0.5, training=True), fullgraph=True, backend=backend)
    x = torch.ones(100, 20, requires_grad=True)
    first, second = compiled(x), compiled(x)
    assert not torch.equal(first, second)
    assert torch.equal(torch.autograd.grad(first.sum(), x)[0], first.detach())
    assert 0.4 < float((first != 0).float().mean()) < 0.6
    if backend == "aot_eager":  # the random numbers of eager mode
        torch.manual_seed(7)
        again = compiled(x)
        torch.manual_seed(7)
        assert torch.equal(dropout(x, 0.5, training=True), again)


def test_dropout_in_transforms() -> None:
    x = torch.rand(6, 5, dtype=torch.float64)

    def dropped(x: Tensor) -> Tensor:
        return dropout(x, 0.5, training=True)

    torch.manual_seed(1)
    expected = dropped(x)
    torch.manual_seed(1)
    assert torch.equal(torch.func.jvp(dropped, (x,), (x,))[1], expected)
    torch.manual_seed(1)
    assert torch.equal(torch.func.grad(lambda x: (dropped(x) * x).sum())(x), 2 * expected)
    several = x.expand(3, 6, 5)
    torch.manual_seed(1)
    assert torch.equal(torch.func.vmap(dropped, randomness="same")(several), expected.expand(3, 6, 5))
    different = torch.func.vmap(dropped, randomness="different")(several)
    assert not torch.equal(different[0], different[1])


@pytest.mark.parametrize("sparse", [False, True])
def test_models_train_with_compiled_dropout(sparse: bool) -> None:
    model = pb.nn.OptBasisGNN(FEATURES, 16, CLASSES, K=3).double()
    x = sparse_features() if sparse else features()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.manual_seed(3)
    got = gradients(model, compiled, x, GRAPH)
    torch.manual_seed(3)
    assert_all_close(got, gradients(model, model, x, GRAPH))


# ---- sparse products -----------------------------------------------------------------------------------------------


def test_derivatives_of_sparse_products() -> None:
    """First and second derivatives in the weights and in the values, forward and backward."""
    x = sparse_features()
    weight = torch.randn(FEATURES, 2, dtype=torch.float64, requires_grad=True)
    values = x.values.clone().requires_grad_()

    def product(weight: Tensor, values: Tensor) -> Tensor:
        return x.with_values(values) @ weight

    torch.testing.assert_close(product(weight, values), x.to_dense() @ weight)
    assert torch.autograd.gradcheck(product, (weight, values), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(product, (weight, values))


def test_vmap_of_sparse_products_agrees_with_a_loop() -> None:
    x, weights = sparse_features(), torch.randn(3, FEATURES, 2, dtype=torch.float64)
    expected = torch.stack([x.to_dense() @ weight for weight in weights])
    torch.testing.assert_close(torch.func.vmap(lambda weight: x @ weight)(weights), expected)
    values = torch.stack([x.values, 2 * x.values])
    got = torch.func.vmap(lambda values: x.with_values(values) @ weights[0])(values)
    torch.testing.assert_close(got, torch.stack([expected[0], 2 * expected[0]]))


def test_sparse_features_are_trees_of_tensors() -> None:
    x, layer = sparse_features(), FeatureLinear(FEATURES, 2).double()
    parameters = dict(layer.named_parameters())
    got = torch.func.grad(lambda parameters, x: functional_call(layer, parameters, (x,)).sum())(parameters, x)
    torch.testing.assert_close(got["weight"], x.to_dense().sum(0).expand(2, -1))
