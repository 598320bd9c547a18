"""Configurations as documents: TOML files and plain dictionaries with one section per topic.

.. code-block:: toml

    preset = "published"

    [model]
    name = "optbasisgnn"
    hidden = 64
    K = 10

    [optimizer]
    lr = { linear = 0.01, coefficients = 0.005 }

    [stopping]
    epochs = 1000
    patience = 200

    [loss]
    class_weight = "balanced"
"""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any

from polybasis.train.config_sections import ENTRIES, SECTION_OF, SECTIONS


def flat_values(document: dict[str, Any], origin: str) -> dict[str, Any]:
    """The values of a document without its sections, as :meth:`Config.of` takes them.

    Args:
        document: values by section, as plain Python objects.
        origin: prefix of error messages.

    Raises:
        ValueError: for unknown sections or keys, or without a model.
    """
    known = {*SECTIONS, *ENTRIES}
    for key in document:
        if key not in known:
            raise ValueError(f"{origin}: unknown key {key!r}; expected {', '.join(sorted(known))}")
    values = dict(document)
    for name in SECTIONS:
        section = values.pop(name, {})
        if not isinstance(section, dict):
            raise ValueError(f"{origin}: {name} is {section!r}; expected a section [{name}]")
        for key in section:
            # Any other key of [model] is an argument of the model, which Config checks.
            default = "model" if name == "model" and key not in known else None
            if SECTION_OF.get(key, default) != name or key == "arguments":
                expected = ", ".join(item.name for item in fields(SECTIONS[name]))
                expected = expected.replace("arguments", "arguments of the model")
                raise ValueError(f"{origin}: unknown key {key!r} in [{name}]; expected {expected}")
        values |= section
    if "name" not in values:
        raise ValueError(f'{origin}: no model; add a section [model] with name = "optbasisgnn"')
    return values


def toml_text(document: dict[str, Any]) -> str:
    """A document as TOML."""
    lines: list[str] = []
    for name, value in document.items():
        if name in SECTIONS:
            lines += ["", f"[{name}]", *(f"{key} = {_toml(item)}" for key, item in value.items())]
        else:
            lines.append(f"{name} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        names = (
            key if re.fullmatch(r"[\w-]+", key, re.ASCII) else json.dumps(key, ensure_ascii=False) for key in value
        )
        inner = ", ".join(f"{name} = {_toml(item)}" for name, item in zip(names, value.values(), strict=True))
        return f"{{ {inner} }}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
