"""The state of an unfinished training run, as one safetensors file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from polybasis.files import write_atomically


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
        progress: numbers such as the epoch.
    """
    tensors = {f"{key}.{name}": value for key, model in models.items() for name, value in model.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in best.items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": torch.as_tensor(value) for name, value in state.items()}
    tensors["random"] = torch.get_rng_state()
    content = save(
        {name: value.detach().clone().contiguous() for name, value in tensors.items()},
        metadata={"progress": json.dumps(progress), "job": path.stem},
    )
    write_atomically(path, content)


def read_checkpoint(
    path: Path, models: dict[str, torch.nn.Module], optimizer: torch.optim.Optimizer
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Restores models, optimiser and random state; returns the best model's state and the progress.

    Raises:
        ValueError: if the file is damaged or belongs to another job; the message gives the file.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
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
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())  # torch's messages may have several lines
        raise ValueError(f"{path} is not a checkpoint of this job ({reason}); remove it to start over") from error
