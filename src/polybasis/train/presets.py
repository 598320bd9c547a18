"""The hyperparameters that come with the package, in ``polybasis.presets``."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Literal

from polybasis.train.config import Config

Preset = Literal["published", "tuned", "honest"]


def load_preset(model: str, dataset: str, preset: Preset = "published") -> Config | None:
    """The hyperparameters that this package includes for a model and a data set, or None.

    Args:
        model: name of the model; ``honest`` has rows of its table in place of models.
        dataset: name of the data set.
        preset: ``published`` by the method's authors, ``tuned`` on validation data, or ``honest``: tuned with the same
            effort for every row of ``polybasis reproduce honest``.

    >>> from polybasis.train import load_preset
    >>> load_preset("favardgnn", "chameleon").preset
    'published'
    >>> load_preset("favardgnn", "csbm") is None
    True
    """
    file = resources.files("polybasis.presets").joinpath(preset, model, f"{dataset}.toml")
    return Config.from_dict(tomllib.loads(file.read_text()), str(file)) if file.is_file() else None
