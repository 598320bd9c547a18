"""The keys of a configuration, from the dataclasses; the hyperparameters of models, from their constructors."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from generated_text import add_directive, table
from google_sections import entries
from sphinx.application import Sphinx

from polybasis.nn import MODELS, model_class
from polybasis.train.config import Config
from polybasis.train.config_sections import SECTIONS

HAND_WRITTEN = {"arguments", "sha256"}  # not keys of their own


def shown(value: Any) -> str:
    if value is None or value == {}:
        return ""
    if isinstance(value, dict):
        return ", ".join(f"{name} ``{number}``" for name, number in value.items())
    return f"``{str(value).lower() if isinstance(value, bool) else value}``"


def keys(section: str = "") -> str:
    """The keys of a section, or of no section, with the defaults on a graph and on a precomputed basis."""
    graph, store = Config.of("optbasisgnn"), Config.of("optbasisgnn", precomputed=True)
    kind = SECTIONS[section] if section else Config
    told = entries(kind, "Attributes")
    rows = []
    for item in fields(kind):
        if item.name in SECTIONS or item.name in HAND_WRITTEN:
            continue
        values = [getattr(getattr(config, section) if section else config, item.name) for config in (graph, store)]
        default = "" if item.name == "name" else shown(values[0])
        if values[0] != values[1] and item.name != "precomputed":
            default += f"; precomputed: {shown(values[1])}"
        rows.append((f"``{item.name}``", default, told[item.name]))
    return table(("key", "default", "meaning"), rows, "18 27 55")


def hyperparameters() -> str:
    """The arguments of every model with their defaults."""
    rows = []
    for name in MODELS:
        arguments = model_class(name).hyperparameters()
        text = ", ".join(f"``{key} = {value!r}``" for key, value in arguments.items())
        rows.append((f":class:`{name} <{page(model_class(name))}>`", text))
    return table(("model", "arguments and defaults"), rows, "25 75")


def page(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def setup(app: Sphinx) -> dict[str, Any]:
    add_directive(app, "configuration-keys", keys)
    add_directive(app, "model-hyperparameters", hyperparameters)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
