"""Configurations: sections on disk, one set of defaults, and errors that name the file and the section."""

from __future__ import annotations

import json
import tomllib
from dataclasses import fields
from importlib import resources
from pathlib import Path

import pytest
import torch

from polybasis.nn.models.names import MODEL_CLASSES as MODELS
from polybasis.nn.models.names import PRECOMPUTED
from polybasis.train import Config, load_preset
from polybasis.train.config_sections import ENTRIES, SECTION_OF, SECTIONS

PRESETS = sorted(Path(str(resources.files("polybasis.presets"))).glob("*/*/*.toml"))
BUSY = Config.of(
    "favardgnn",
    hidden=32,
    K=4,
    dropout=0.2,
    recurrence="bounded",
    lr={"linear": 0.1, "recurrence": 3e-05},
    weight_decay=1e-08,
    ema_decay=0.9,
    epochs=7,
    patience=3,
    early_stopping="loss",
    ensemble_size=3,
    label_reuse=0.5,
    feature_transform="binarize",
    preset="custom",
)


def through_toml(config: Config, folder: Path) -> Config:
    path = folder / "config.toml"
    path.write_text(config.to_toml())
    return Config.from_toml(path)


# ---- documents -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: "/".join(path.with_suffix("").parts[-3:]))
def test_every_preset_is_valid_and_survives_a_round_trip(path: Path, tmp_path: Path) -> None:
    """A preset belongs to the model and the kind of preset that its folders name, and its model can be made."""
    preset, model, dataset = path.with_suffix("").parts[-3:]
    config = load_preset(model, dataset, preset)  # type: ignore[arg-type]
    assert config is not None
    name, _, filter_name = model.partition("residual-")  # a row of the honest table names the filter
    assert config.model.name == (name or "residual")
    assert config.model.arguments.get("filter", "") == filter_name
    assert config.preset == preset
    assert Config.from_dict(config.to_dict()) == config
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert through_toml(config, tmp_path) == config
    assert config.replace(hidden=8).make_model(5, 3, 7).out_channels == 3


def test_all_entries_survive_a_round_trip(tmp_path: Path) -> None:
    assert Config.from_dict(BUSY.to_dict()) == BUSY
    assert Config.from_dict(json.loads(json.dumps(BUSY.to_dict()))) == BUSY
    assert through_toml(BUSY, tmp_path) == BUSY
    stored = Config.of("sign", precomputed=True, batch_size=500, feature_transform="row-normalize", K=3)
    assert through_toml(stored, tmp_path) == stored
    assert tomllib.loads(stored.to_toml()) == stored.to_dict()


def test_every_key_belongs_to_one_section_or_to_none() -> None:
    """Any other name is taken for an argument of the model."""
    assert {item.name for item in fields(Config)} == {*SECTIONS, *ENTRIES}
    assert len(SECTION_OF) == sum(len(fields(section)) for section in SECTIONS.values())
    assert not {*SECTION_OF} & {*SECTIONS, *ENTRIES}


def test_a_document_is_a_copy_of_the_configuration() -> None:
    """Changing a document does not change the frozen configuration it came from."""
    config = Config.of("favardgnn")
    document = config.to_dict()
    document["optimizer"]["lr"]["linear"] = 9.0
    document["model"]["hidden"] = 1
    assert config == Config.of("favardgnn")


def test_a_published_preset() -> None:
    config = load_preset("favardgnn", "chameleon")
    assert config is not None
    assert config.model.arguments["K"] == 20
    assert config.optimizer.lr["recurrence"] == 0.02
    assert load_preset("mlp", "chameleon") is None
    for model in ("favardgnn", "optbasisgnn", "gpr-gnn", "bernnet", "chebnetii", "jacobiconv"):
        for dataset in ("chameleon", "squirrel", "actor"):
            assert load_preset(model, dataset) is not None


# ---- defaults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_there_is_one_set_of_defaults(model: str, tmp_path: Path) -> None:
    assert Config.of(model) == Config.from_dict({"model": {"name": model}})
    path = tmp_path / "config.toml"
    path.write_text(f'[model]\nname = "{model}"\n')
    assert Config.from_toml(path) == Config.of(model)


@pytest.mark.parametrize("model", PRECOMPUTED)
def test_there_is_one_set_of_defaults_on_a_precomputed_basis(model: str) -> None:
    """Those of the paper's scaled-up experiments."""
    config = Config.of(model, precomputed=True)
    assert config == Config.from_dict({"model": {"name": model, "precomputed": True}})
    assert (config.model.hidden, config.stopping.epochs, config.stopping.patience) == (512, 200, 30)
    assert config.optimizer.lr == {"linear": 0.001, "coefficients": 0.01, "recurrence": 0.01}


# ---- changes -------------------------------------------------------------------------------------------------------


def test_replace_finds_the_section_of_each_value() -> None:
    changed = Config.of("favardgnn").replace(hidden=7, lr=0.05, patience=3, K=2, label_reuse=0.5)
    assert changed.model.hidden == 7
    assert changed.optimizer.lr == {"linear": 0.05}
    assert changed.stopping.patience == 3
    assert changed.model.arguments == {"K": 2}
    assert changed.label_reuse == 0.5
    assert changed.replace(dropout=0.1).model.arguments == {"K": 2, "dropout": 0.1}
    assert changed.model.arguments == {"K": 2}  # the original stays as it was
    assert changed.replace(label_reuse=None).label_reuse is None
    assert changed.replace() == changed


def test_roles_have_their_own_rates() -> None:
    """A role without an entry uses that of the linear layers."""
    config = Config.of("favardgnn").replace(lr={"linear": 0.1, "recurrence": 0.3}, weight_decay=0.2)
    optimizer = config.make_optimizer(config.make_model(4, 2, 5))
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.1, 0.3]
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.2, 0.2, 0.2]
    default = Config.of("favardgnn")
    groups = default.make_optimizer(default.make_model(4, 2, 5)).param_groups
    assert [group["weight_decay"] for group in groups] == [5e-4, 0.0, 0.0]
    names = [id(parameter) for group in groups for parameter in group["params"]]
    assert len(names) == len(set(names)) == len(list(default.make_model(4, 2, 5).parameters()))


def test_an_ensemble_has_models_of_one_kind_with_different_weights() -> None:
    model = Config.of("gcn", hidden=4, ensemble_size=3).make_model(5, 2, 7)
    assert repr(model) == "Ensemble(3 x GCN(5, 4, 2))"
    first, second, _ = model.models.children()  # type: ignore[union-attr]
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


# ---- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[model]\nname = "mlp"\n[optimizer]\nlearning_rate = 1', r"unknown key 'learning_rate' in \[optimizer\]"),
        ('[model]\nname = "mlp"\n[optimizer]\nepochs = 1', r"unknown key 'epochs' in \[optimizer\]; expected lr"),
        ('[model]\nname = "mlp"\n[stopping]\nlr = 1', r"unknown key 'lr' in \[stopping\]; expected epochs"),
        ('[model]\nname = "mlp"\nlr = 0.1', r"unknown key 'lr' in \[model\]"),
        ('[model]\nname = "mlp"\nepochs = 3', r"unknown key 'epochs' in \[model\]"),
        ('[model]\nname = "mlp"\nensemble_size = 3', r"unknown key 'ensemble_size' in \[model\]"),
        ('[model]\nname = "mlp"\narguments = { dropout = 0.1 }', r"unknown key 'arguments' in \[model\]"),
        ('[model]\nname = "mlp"\n[training]\nepochs = 1', "unknown key 'training'; expected ensemble_size"),
        ('epochs = 1\n[model]\nname = "mlp"', "unknown key 'epochs'"),
        ("model = 3", r"model is 3; expected a section \[model\]"),
        ('model = "mlp"', r"model is 'mlp'; expected a section \[model\]"),
        ("[model]\nhidden = 3", r"no model; add a section \[model\]"),
        ('[model]\nname = "optbasis"', "unknown model 'optbasis'; expected one of mlp, gcn"),
        ('[model]\nname = "mlp"\nK = 3', "unknown key 'K' for mlp; expected one of layers, dropout, .*hidden, lr"),
        ('[model]\nname = "mlp"\nhidden = 0', "hidden is 0; expected a positive integer"),
        ('[model]\nname = "mlp"\nhidden = "64"', "hidden is '64'; expected a positive integer"),
        ('[model]\nname = "sign"\nprecomputed = "no"', "precomputed is 'no'; expected true or false"),
        ('[model]\nname = "sign"\nprecomputed = 1', "precomputed is 1; expected true or false"),
        ('[model]\nname = "mlp"\n[optimizer]\nlr = { linear = -1 }', "lr.linear is -1; expected a non-negative number"),
        ('[model]\nname = "mlp"\n[optimizer]\nlr = nan', "lr.linear is nan; expected a non-negative number"),
        ('[model]\nname = "mlp"\n[optimizer]\nlr = { all = 1 }', "lr has no entry for the role 'linear'"),
        ('[model]\nname = "mlp"\n[optimizer]\nlr = { linear = 1, all = 1 }', "lr has the unknown role 'all'"),
        ('[model]\nname = "mlp"\n[optimizer]\nlr = "fast"', "lr has no entry for the role 'linear'"),
        ('[model]\nname = "mlp"\n[optimizer]\nema_decay = 1.5', "ema_decay is 1.5; expected a number between 0 and 1"),
        ('[model]\nname = "mlp"\n[stopping]\nearly_stopping = "auc"', "early_stopping is 'auc'; expected score, loss"),
        ('[model]\nname = "mlp"\n[stopping]\nepochs = 0', "epochs is 0; expected a positive integer"),
        ('[model]\nname = "mlp"\n[stopping]\nepochs = true', "epochs is True; expected a positive integer"),
        ('feature_transform = "columns"\n[model]\nname = "mlp"', "feature_transform is 'columns'; expected row-norm"),
        ('ensemble_size = 0\n[model]\nname = "mlp"', "ensemble_size is 0; expected a positive integer"),
        ('label_reuse = 1\n[model]\nname = "mlp"', "label_reuse is 1; expected a number between 0 and 1"),
        ('label_reuse = 0.5\n[model]\nname = "link"', "label_reuse adds features; it does not apply to link"),
        (
            'label_reuse = 0.5\n[model]\nname = "sign"\nprecomputed = true',
            "label_reuse adds features; it does not apply to a precomputed basis",
        ),
        ("model = ", "Invalid value"),
    ],
)
def test_invalid_documents(text: str, message: str, tmp_path: Path) -> None:
    """The message begins with the file, is one line, and names the section or the key."""
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as raised:
        Config.from_toml(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"config\.toml: "):
        Config.from_toml(path)


def test_batch_size_applies_only_to_a_precomputed_basis() -> None:
    with pytest.raises(ValueError, match="batch_size applies only to models on a precomputed basis"):
        Config.of("optbasisgnn", batch_size=100)
    assert Config.of("optbasisgnn", precomputed=True, batch_size=100).optimizer.batch_size == 100
    with pytest.raises(ValueError, match="batch_size is 0; expected a positive integer"):
        Config.of("optbasisgnn", precomputed=True, batch_size=0)


@pytest.mark.parametrize("model", MODELS)
def test_precomputed_applies_only_to_models_that_have_it(model: str) -> None:
    if model in PRECOMPUTED:
        assert Config.of(model, precomputed=True, K=3, hidden=4).make_model(5, 2, 7).out_channels == 2
        return
    with pytest.raises(ValueError, match=f"{model} has no precomputed version; expected one of optbasisgnn"):
        Config.of(model, precomputed=True)
    with pytest.raises(ValueError, match=f"config: {model} has no precomputed version"):
        Config.from_dict({"model": {"name": model, "precomputed": True}}, "config")


def test_arguments_of_the_two_versions_of_a_model_differ() -> None:
    Config.of("optbasisgnn", dropout2=0.1)
    with pytest.raises(ValueError, match="unknown key 'dropout2' for optbasisgnn; did you mean 'dropout'"):
        Config.of("optbasisgnn", precomputed=True, dropout2=0.1)
    Config.of("favardgnn", precomputed=True, start="chebyshev")
    with pytest.raises(ValueError, match="unknown key 'start' for favardgnn"):
        Config.of("favardgnn", start="chebyshev")


# ---- own data ------------------------------------------------------------------------------------------------------


def test_large_own_data_is_trained_for_less_time() -> None:
    small, large = (Config.of_own_data("optbasisgnn", nodes) for nodes in (20_000, 20_001))
    assert small == Config.of("optbasisgnn").for_own_data()
    assert (large.stopping.epochs, large.stopping.patience, large.model.arguments["K"]) == (500, 50, 5)
    assert large.replace(epochs=1000, patience=200, K=10).model == small.replace(K=10).model
    chosen = Config.of_own_data("optbasisgnn", 10**6, epochs=1000, patience=200, K=10, scale="unit")
    assert (chosen.stopping, chosen.model.arguments) == (small.stopping, {"K": 10, "scale": "unit"})


def test_models_of_low_degree_or_without_one_keep_it() -> None:
    assert "K" not in Config.of_own_data("residual", 10**6).model.arguments
    assert Config.of_own_data("residual", 10**6).optimizer.lr == {"linear": 0.003}
    assert "K" not in Config.of_own_data("mlp", 10**6).model.arguments
