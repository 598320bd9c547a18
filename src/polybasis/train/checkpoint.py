"""The state of a training that is under way, as one safetensors file."""

from __future__ import annotations

import json
from glob import escape
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from polybasis.files import write_atomically

STRANGE = "of another training (settings, seed or data differ); remove to start again"


def write_checkpoint(
    path: Path,
    models: dict[str, torch.nn.Module],
    optimizer: torch.optim.Optimizer,
    best: dict[str, Tensor],
    progress: dict[str, Any],
    training: str,
) -> None:
    """Writes models by name, the best model, optimiser, random state, numbers such as the epoch, and which training."""
    tensors = {f"{key}.{name}": value for key, model in models.items() for name, value in model.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in best.items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": torch.as_tensor(value) for name, value in state.items()}
    tensors["random"] = torch.get_rng_state()
    content = save(
        {name: value.detach().clone().contiguous() for name, value in tensors.items()},
        metadata={"progress": json.dumps(progress), "training": training},
    )
    write_atomically(path, content)


def refuse_strangers(checkpoint: Path, trainings: dict[Path, str]) -> None:
    """Refuses checkpoints of other trainings.

    Args:
        checkpoint: in its place, and in those whose names begin with its name, as members' do, ...
        trainings: ... there may be only these, each of this training.
    """
    there = sorted(checkpoint.parent.glob(f"{escape(checkpoint.name)}*"))
    strange = [str(file) for file in there if _training_of(file) != trainings.get(file)]
    if strange:
        raise ValueError(f"{' and '.join(strange)}: {STRANGE}")


def _training_of(path: Path) -> str:
    try:
        with safe_open(path, framework="pt") as file:
            return str(file.metadata()["training"])
    except (SafetensorError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a checkpoint of polybasis ({error}); remove it to start again") from error


def read_checkpoint(
    path: Path, models: dict[str, torch.nn.Module], optimizer: torch.optim.Optimizer, training: str
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Puts everything back; returns the best model and the numbers. A checkpoint of another training is refused."""
    if _training_of(path) != training:
        raise ValueError(f"{path}: {STRANGE}")
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        progress = json.loads(file.metadata()["progress"])

    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

    for key, model in models.items():
        try:
            model.load_state_dict(part(f"{key}."))
        except RuntimeError as error:
            raise ValueError(
                f"{path} is of a model with other weights (of another version); remove it to start again"
            ) from error
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in part("optimizer.").items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    torch.set_rng_state(tensors["random"])
    return part("best."), progress
