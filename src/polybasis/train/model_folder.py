"""Folders of saved models: a document and a file of weights, which is named after its SHA-256 hash."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from polybasis.checksums import FormerVersionWarning, read_document, write_document
from polybasis.files import write_atomically
from polybasis.foreign_files import regular_file
from polybasis.nn.models.own_models import load_model_file, model_file
from polybasis.registry import read_source

KIND, VERSION, OLDEST = "polybasis model", 2, 1


def write_model(folder: Path, document: dict[str, Any], weights: Mapping[str, torch.Tensor]) -> None:
    """Writes a model to a folder; an existing model in it stays valid until the new one is complete."""
    content = save_tensors({name: value.contiguous() for name, value in weights.items()})
    place = folder / _weights_name(content)
    write_atomically(place, content)
    write_document(folder / "model.json", {"format": KIND, "version": VERSION, "weights": place.name, **document})
    for old in folder.glob("weights-*.safetensors"):
        if old != place:
            old.unlink()


@contextmanager
def errors_naming_model(folder: Path) -> Iterator[None]:
    """Raises errors of a damaged model as ValueError with its folder, and FileNotFoundError if there is none."""
    if not (folder / "model.json").exists():
        raise FileNotFoundError(f"{folder / 'model.json'} does not exist; {folder} is not a saved model")
    problem = f"{folder} does not contain a readable model"
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError, SafetensorError) as error:
        reason = " ".join(str(error).split())  # torch's messages may have several lines
        raise ValueError(reason if reason.startswith(problem) else f"{problem}: {reason}") from error


def read_model_document(folder: Path) -> dict[str, Any]:
    """The document of a model, verified by its checksum; warns about an earlier version, which has none."""
    place = folder / "model.json"
    document = read_document(place, sealed=lambda document: document.get("version") == VERSION)
    if document.get("format") != KIND or document.get("version") not in (OLDEST, VERSION):
        found = f"format {document.get('format')!r}, version {document.get('version')}"
        raise ValueError(f"{found}; expected {KIND!r}, version {VERSION}")
    if document["version"] < VERSION:
        warnings.warn(
            f"{place} was written by an earlier version, without a checksum; train again to add one",
            FormerVersionWarning,
            stacklevel=3,
        )
    return document


def load_definition(document: dict[str, Any], given: str | Path | None) -> None:
    """Runs the file that defines a model, if it is given and has the recorded hash."""
    name, sha256 = document["config"]["model"]["name"], document["config"]["model"].get("sha256")
    if sha256 is None:
        if given is not None:
            raise ValueError(f"{name} is not defined in a file; omit --model-file {given} (model_file in Python)")
        return
    if given is not None:
        if read_source(Path(given))[1] != sha256:
            raise ValueError(f"{given} has changed since the model was trained; restore that version or train again")
        load_model_file(given, name.rpartition(":")[2], sha256=sha256, name=name)
    loaded = model_file(name)
    if loaded is None or loaded.sha256 != sha256:
        recorded = document["provenance"].get("model_file", name.rpartition(":")[0])
        raise ValueError(
            f"it was trained with {name}, from {recorded}; if you trust that file, pass it with --model-file, or in "
            "Python as model_file"
        )


def _weights_name(content: bytes) -> str:
    return f"weights-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"


def read_weights(folder: Path, name: str) -> dict[str, torch.Tensor]:
    """Reads the weights from a file of the folder and verifies the checksum in the file name."""
    if not re.fullmatch(r"weights-[0-9a-f]{16}\.safetensors", name):
        raise ValueError(f"{name!r} is not the name of a weights file")
    path = folder / name
    regular_file(path)
    content = path.read_bytes()
    if _weights_name(content) != path.name:
        raise ValueError(f"{path}: checksum mismatch")
    return load_tensors(content)
