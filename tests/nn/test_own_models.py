"""Models and bases from outside the package: names, clashes, files, entry points, and their use everywhere."""

from __future__ import annotations

import hashlib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

import polybasis as pb
from polybasis.bases.names import OWN_BASES
from polybasis.nn.interpret import filters_of
from polybasis.nn.models.names import OWN_MODELS, model_names
from polybasis.registry import Registry
from polybasis.testing import check_basis
from polybasis.train import Config
from polybasis.train.tune import ARGUMENTS, DROPOUTS, search_space

DATA = pb.data.csbm(nodes=120, features=20, seed=2)


@pytest.fixture(autouse=True)
def _empty_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in (OWN_MODELS, OWN_BASES):
        monkeypatch.setattr(registry, "_things", {})
        monkeypatch.setattr(registry, "_definitions", {})


class Mine(pb.nn.Model):
    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        K: int = 3,
        dropout: float = 0.0,
        basis: str = "chebyshev",
        act: Literal["relu", "tanh"] = "relu",
        skip: bool = False,
        copies: int = 3,
        share: float = 0.5,
        num_nodes: int | None = None,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        self.first = pb.nn.FeatureLinear(in_channels, hidden_channels)
        self.conv = pb.nn.PolyConv(hidden_channels, K, basis)
        self.last = torch.nn.Linear(hidden_channels, out_channels)

    def forward(self, x: Any, graph: pb.Graph) -> Tensor:
        return self.last(self.conv(self.first(x).relu(), graph))


class Gegenbauer(pb.bases.ThreeTermBasis):
    """C_k^(2): (k+1) C_{k+1} = 2 (k+2) mu C_k - (k+3) C_{k-1}."""

    def recurrence(self, K: int) -> pb.bases.Recurrence:
        k = torch.arange(K, dtype=torch.float64)
        return pb.bases.Recurrence(
            torch.ones((), dtype=torch.float64), 2 * (k + 2) / (k + 1), 0 * k, -(k + 3) / (k + 1)
        )


# ---- models --------------------------------------------------------------------------------------------------------


def test_a_registered_model_trains_saves_and_loads_by_its_name(tmp_path: Path) -> None:
    assert pb.register_model("mine", Mine) is Mine
    assert pb.nn.model_class("mine") is Mine
    assert "mine" in pb.nn.MODELS
    classifier = pb.NodeClassifier("mine", K=2, hidden=8, epochs=30).fit(DATA.graph, DATA.x, DATA.y)
    assert isinstance(classifier.model_, Mine)
    assert classifier.score(DATA.y) > 0.7
    classifier.save(tmp_path / "model")
    loaded = pb.NodeClassifier.load(tmp_path / "model")
    assert (loaded.predict_proba(DATA) == classifier.predict_proba()).all()
    assert loaded.config_ == classifier.config_ == Config.from_dict(classifier.config_.to_dict())
    assert filters_of(classifier.model_, DATA.x, DATA.graph).responses.shape == (201, 8)
    OWN_MODELS._things.clear()
    OWN_MODELS._definitions.clear()
    with pytest.raises(ValueError, match=r"unknown model 'mine'; expected one of mlp, gcn"):
        pb.NodeClassifier.load(tmp_path / "model")


def test_registered_names_are_in_error_messages_and_completion() -> None:
    from polybasis.cli.options import _model_names

    pb.register_model("mine")(Mine)
    with pytest.raises(ValueError, match=r"unknown model 'mien'; expected one of mlp, .*, ndls, mine$"):
        Config.of("mien")
    assert _model_names("mi") == ["mixhop", "mine"]
    pb.register_basis("gegenbauer", Gegenbauer)
    with pytest.raises(ValueError, match=r"basis is 'gegen'; expected one of monomial, .*, legendre, gegenbauer$"):
        pb.nn.PolyConv(2, 3, "gegen")
    with pytest.raises(ValueError, match=r"filter is 'gegen'; expected one of favard, .*, none, gegenbauer$"):
        pb.nn.ResidualFilterNet(2, 3, 2, filter="gegen")


def test_a_class_that_is_defined_again_replaces_the_first_one() -> None:
    """As when a cell of a notebook runs twice."""
    pb.register_model("mine", Mine)
    assert "depth" not in Config.of("mine").hyperparameters()

    class Again(Mine):
        def __init__(
            self,
            in_channels: int,
            hidden_channels: int,
            out_channels: int,
            depth: int = 1,
            num_nodes: int | None = None,
        ) -> None:
            super().__init__(in_channels, hidden_channels, out_channels)

    with pytest.raises(ValueError, match=r"the model 'mine' is already registered, as .*\.Mine; choose another name"):
        pb.register_model("mine", Again)
    Again.__qualname__ = Mine.__qualname__
    pb.register_model("mine", Again)
    assert Config.of("mine").hyperparameters() == {"depth": 1}


@pytest.mark.parametrize("name", ["gcn", "optbasis", "auto"])
def test_names_of_the_package_are_taken(name: str) -> None:
    with pytest.raises(ValueError, match=f"the name '{name}' is taken by polybasis"):
        pb.register_model(name, Mine)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "../a", "a:b", "-a", "a\n"])
def test_invalid_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"is not a valid name of a model; use letters, digits"):
        pb.register_model(name, Mine)


class Abstract(pb.nn.Model):
    pass


class NoNodes(Mine):
    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, hidden_channels, out_channels)


class NoDefault(Mine):
    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, depth: int, num_nodes: int | None = None
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels)


class Reserved(Mine):
    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, lr: float = 1, num_nodes: int | None = None
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels)


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (torch.nn.Linear, r"is <class 'torch.nn.*Linear'>; expected a subclass of polybasis.nn.Model"),
        (Abstract, "the model 'bad' does not implement forward"),
        (NoNodes, r"expected NoNodes\(in_channels, hidden_channels, out_channels, .., num_nodes=None\)"),
        (NoDefault, "the model 'bad' has no default for depth; hyperparameters need defaults"),
    ],
)
def test_classes_that_cannot_be_trained_are_refused(cls: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pb.register_model("bad", cls)
    assert "bad" not in model_names()


def test_arguments_that_are_keys_of_every_configuration_are_refused() -> None:
    pb.register_model("reserved", Reserved)
    with pytest.raises(ValueError, match=r"an argument 'lr', which is a key of every configuration; rename it"):
        Config.of("reserved")


def test_the_search_space_follows_from_the_constructor() -> None:
    pb.register_model("mine", Mine)
    assert search_space(Config.of("mine")) == {
        "K": ARGUMENTS["K"],
        "dropout": DROPOUTS,
        "act": ["relu", "tanh"],
        "skip": [False, True],
        "copies": [1, 3, 6],
        "share": [0.25, 0.5, 0.75],
    }


# ---- files ---------------------------------------------------------------------------------------------------------

FILE = f"""
from pathlib import Path
from {Mine.__module__} import Mine
Path("ran").write_text("yes")

class Net(Mine):
    pass

value = 3
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a model that leaves a trace when it runs; its contents differ between tests."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(f"{FILE}# {tmp_path}\n")
    return path


def test_a_model_in_a_file_is_identified_by_its_hash(file: Path) -> None:
    name = pb.load_model_file(f"{file}:Net")
    assert name == "mine.py:Net"
    config = Config.of(name)
    assert config.model.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert config.to_dict()["model"] == {"name": name, "hidden": 64, "sha256": config.model.sha256}
    assert Config.from_dict(config.to_dict()) == config
    file.write_text(file.read_text() + "# changed")
    pb.load_model_file(file, "Net")
    with pytest.raises(ValueError, match=r"mine.py:Net was configured with the SHA-256 hash [0-9a-f]{64}; the loaded"):
        Config.from_dict(config.to_dict())


def test_configurations_and_saved_models_never_run_a_file(file: Path) -> None:
    name = pb.load_model_file(file, "Net")
    pb.NodeClassifier(name, hidden=4, epochs=1).fit(DATA.graph, DATA.x, DATA.y).save("model")
    OWN_MODELS._things.clear()
    OWN_MODELS._definitions.clear()
    Path("ran").unlink()
    document = {"model": {"name": "mine.py:Net"}}
    with pytest.raises(ValueError, match=r"'mine.py:Net' is not part of an installed package; pass the file"):
        Config.from_dict(document)
    with pytest.raises(ValueError, match=r"it was trained with mine.py:Net, from .*; if you trust that file, pass it"):
        pb.train.TrainedModel.load("model")
    Path("other.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    with pytest.raises(ValueError, match=r": other.py has changed since the model was trained; restore that"):
        pb.NodeClassifier.load("model", model_file="other.py")
    assert not Path("ran").exists()
    file.rename("renamed.py")  # the hash counts, not the name
    assert type(pb.train.TrainedModel.load("model", "renamed.py").model).__name__ == "Net"
    assert type(pb.NodeClassifier.load("model", model_file="renamed.py").model_).__name__ == "Net"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mine.py:Nix", "mine.py does not define 'Nix'; it defines Net"),
        ("mine.py:value", r"value in .*mine.py is 3; expected a subclass of polybasis.nn.Model"),
        ("mine.py:", "does not name a model in a file; expected FILE.py:Class"),
        ("mine.txt:Net", "does not name a model in a file; expected FILE.py:Class"),
        ("absent.py:Net", "absent.py does not exist"),
        ("broken.py:Net", r"broken.py:2: ZeroDivisionError: division by zero"),
        ("syntax.py:Net", r"syntax.py:1: SyntaxError"),
        ("exits.py:Net", r"exits.py:1: SystemExit: 3"),
        (".:Net", "does not name a model in a file"),
    ],
)
def test_files_that_define_no_model_are_refused_with_one_line(file: Path, text: str, message: str) -> None:
    Path("broken.py").write_text("# nothing\n1 / 0\n")
    Path("syntax.py").write_text("def (")
    Path("exits.py").write_text("raise SystemExit(3)")
    with pytest.raises((ValueError, FileNotFoundError), match=message) as raised:
        pb.load_model_file(text)
    assert "\n" not in str(raised.value)


# ---- entry points --------------------------------------------------------------------------------------------------


def with_entry_points(monkeypatch: pytest.MonkeyPatch, registry: Registry[Any], **values: list[str]) -> None:
    points = {name: [EntryPoint(name, v, registry._group) for v in found] for name, found in values.items()}
    monkeypatch.setitem(vars(registry), "_entry_points", points)


def test_entry_points_are_loaded_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    here = f"{__name__}:Mine"
    with_entry_points(monkeypatch, OWN_MODELS, theirs=[here, here], twice=[here, "other:Net"], broken=["nowhere:Net"])
    assert pb.nn.model_class("theirs") is Mine
    assert Config.of("theirs").model.sha256 is None
    assert OWN_MODELS.definition("theirs") is None  # worker processes find it themselves
    with pytest.raises(ValueError, match=rf"'twice' is provided by other:Net and {here}; uninstall all but one"):
        pb.nn.model_class("twice")
    with pytest.raises(ValueError, match=r"'broken' of nowhere:Net cannot be imported .*No module named 'nowhere'"):
        pb.nn.model_class("broken")
    with pytest.raises(ValueError, match=f"the model 'theirs' is already provided by {here}"):
        pb.register_model("theirs", Mine)


def test_a_basis_of_an_entry_point_is_a_filter_of_the_residual_network(monkeypatch: pytest.MonkeyPatch) -> None:
    with_entry_points(monkeypatch, OWN_BASES, theirs=[f"{__name__}:Gegenbauer"])
    model = pb.nn.ResidualFilterNet(20, 8, 2, filter="theirs", blocks=1, K=3)
    assert isinstance(model.blocks[0].conv.basis, Gegenbauer)


# ---- bases ---------------------------------------------------------------------------------------------------------


def test_a_registered_basis_works_wherever_a_basis_has_a_name() -> None:
    """Gegenbauer polynomials against SciPy, in PolyConv, in the residual network and in plots."""
    import scipy.special

    assert pb.register_basis("gegenbauer")(Gegenbauer) is Gegenbauer
    check_basis("gegenbauer")
    mu = torch.linspace(-1, 1, 11, dtype=torch.float64)
    values = pb.bases.named_basis("gegenbauer", 5).evaluate(mu, 5)
    for k in range(6):
        torch.testing.assert_close(values[k], torch.from_numpy(scipy.special.eval_gegenbauer(k, 2, mu.numpy())))
    residual = pb.nn.ResidualFilterNet(20, 8, 2, filter="gegenbauer", blocks=1, K=3).eval()
    graph, x = DATA.graph, torch.randn(120, 8)
    torch.testing.assert_close(residual.blocks[0].conv(x, graph), graph @ x)  # it starts at P
    filters = filters_of(residual, DATA.x, graph)
    torch.testing.assert_close(filters.responses, filters.mu.unsqueeze(1).expand(-1, 8), atol=1e-6, rtol=0)
    fitted = pb.NodeClassifier("residual", filter="gegenbauer", blocks=1, epochs=20).fit(graph, DATA.x, DATA.y)
    assert fitted.score(DATA.y) > 0.7


def test_a_basis_may_depend_on_the_degree() -> None:
    @pb.register_basis("reversed")
    def reversed_bernstein(K: int) -> pb.bases.PolynomialBasis:
        return pb.bases.Bernstein(K)

    assert repr(pb.nn.PolyConv(2, 5, "reversed").basis) == "Bernstein(5)"
    pb.register_basis("none-at-all", lambda: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match=r"'none-at-all' is None; expected a polybasis.bases.PolynomialBasis"):
        pb.nn.PolyConv(2, 5, "none-at-all")
    for taken in ("chebyshev", "favard", "gcn"):
        with pytest.raises(ValueError, match=f"the name '{taken}' is taken by polybasis"):
            pb.register_basis(taken, Gegenbauer)
