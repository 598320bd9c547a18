"""The state of an unfinished training run, as one safetensors file with a checksum in its metadata."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from polybasis.checksums import FormerVersionWarning, digest
from polybasis.files import write_atomically
from polybasis.foreign_files import regular_file


def write_checkpoint(
    path: Path,
    models: dict[str, torch.nn.Module],
    optimizer: torch.optim.Optimizer,
    best: dict[str, Tensor],
    progress: dict[str, Any],
) -> None:
    """Writes a checkpoint.

    Args:
        path: the file, named after the job's key, so that jobs do not share checkpoints.
        models: the model and, if there is one, its moving average, by name.
        optimizer: the optimiser whose state is saved.
        best: state of the best model so far.
        progress: plain values, such as the epoch and the history.
    """
    tensors = {f"{key}.{name}": value for key, model in models.items() for name, value in model.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in best.items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": torch.as_tensor(value) for name, value in state.items()}
    tensors["random"] = torch.get_rng_state()
    tensors = {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}
    metadata = {"progress": json.dumps(progress), "job": path.stem}
    write_atomically(path, save(tensors, {**metadata, "checksum": _checksum(tensors, metadata)}))


def read_checkpoint(
    path: Path, models: dict[str, torch.nn.Module], optimizer: torch.optim.Optimizer
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Restores models, optimiser and random state; returns the best model's state and the progress.

    Raises:
        ValueError: if the file is damaged or belongs to another job; the message gives the file.
    """
    try:
        tensors, metadata = _read(path)
        if metadata["job"] != path.stem:
            raise ValueError(f"it belongs to job {metadata['job']}")
        progress: dict[str, Any] = json.loads(metadata["progress"])

        def part(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

        for key, model in models.items():
            model.load_state_dict(part(f"{key}."))
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in part("optimizer.").items():
            index, key = name.split(".", 1)
            state.setdefault(int(index), {})[key] = value
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        torch.set_rng_state(tensors["random"])
        return part("best."), progress
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())  # torch's messages may have several lines
        raise ValueError(f"{path} is not a checkpoint of this job ({reason}); remove it to start over") from error


def verify_checkpoint(path: Path) -> None:
    """Reads a checkpoint and verifies its checksum.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if the file is damaged.
    """
    try:
        _read(path)
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error})") from error


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    regular_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, RuntimeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    checksum = metadata.pop("checksum", None)
    if checksum is None:
        warnings.warn(
            f"{path} was written by an earlier version, without a checksum", FormerVersionWarning, stacklevel=3
        )
    elif checksum != _checksum(tensors, metadata):
        raise ValueError("checksum mismatch")
    return tensors, metadata


def _checksum(tensors: dict[str, Tensor], metadata: dict[str, str]) -> str:
    """Checksum of the contents: names, types, shapes and values of the tensors, and metadata."""
    parts = [
        f"{name} {value.dtype} {tuple(value.shape)} {digest(value.reshape(-1).view(torch.uint8).numpy())}"
        for name, value in sorted(tensors.items())
    ]
    return digest(json.dumps([parts, metadata], sort_keys=True))
