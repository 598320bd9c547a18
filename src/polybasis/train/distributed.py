"""Several processes that train one model, each on its share of every batch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

ALIGNED = 256  # rows a share begins at a multiple of, for dropout's sake


@dataclass(frozen=True)
class ProcessGroup:
    """The processes of a training; one alone unless torchrun has started more.

    Attributes:
        rank: this process.
        size: how many there are.
    """

    rank: int = 0
    size: int = 1

    def share(self, count: int) -> slice:
        """This process's part of so many rows."""
        each = -(-count // (self.size * ALIGNED)) * ALIGNED
        first = self.rank * each
        return slice(first, max(first, min(count, first + each)))

    def add_up(self, tensors: Iterable[Tensor]) -> None:
        """Makes each tensor the sum over all processes."""
        if self.size > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def as_first(self, tensor: Tensor) -> Tensor:
        """What the first process has of this tensor."""
        if self.size > 1:
            dist.broadcast(tensor, 0)
        return tensor

    def agree(self, number: int, what: str) -> None:
        """Refuses to go on where processes have different numbers, as those that do not see the same files."""
        first = int(self.as_first(torch.tensor(number)))
        differ = torch.tensor(int(first != number))
        self.add_up([differ])
        if differ:
            raise ValueError(f"the processes do not have the same {what}: let them see the same results folder")


@contextmanager
def joined_team() -> Iterator[ProcessGroup]:
    """The processes that torchrun has started, connected while they work; this one alone without it.

    They disconnect when the work is done, since a process that exits while it is still connected may be aborted.
    After an error they do not: the others may be waiting for a sum that never comes, and torchrun ends them.
    """
    if not dist.is_available() or not dist.is_torchelastic_launched():
        yield ProcessGroup()
        return
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    yield ProcessGroup(dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()


def own_device() -> torch.device:
    """A GPU for each process where there are GPUs, else the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
