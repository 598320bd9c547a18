"""Data-parallel training: several processes train one model, each on its share of every batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

ALIGNMENT = 256  # the first row of a share is a multiple of this, as dropout requires


@dataclass(frozen=True)
class ProcessGroup:
    """The processes that torchrun started to train together.

    Attributes:
        rank: index of this process.
        size: number of processes.
    """

    rank: int
    size: int

    def share(self, count: int) -> slice:
        """This process's share of ``count`` rows."""
        each = -(-count // (self.size * ALIGNMENT)) * ALIGNMENT
        first = self.rank * each
        return slice(first, max(first, min(count, first + each)))

    def all_reduce(self, tensors: Iterable[Tensor]) -> None:
        """Replaces each tensor with its sum over all processes."""
        for tensor in tensors:
            dist.all_reduce(tensor)

    def broadcast(self, tensor: Tensor) -> Tensor:
        """The first process's value of this tensor."""
        dist.broadcast(tensor, 0)
        return tensor

    def require_equal(self, number: int, what: str) -> None:
        """Checks that a number is the same in all processes; it differs if they do not see the same files.

        Args:
            number: this process's number.
            what: the things that are counted, for the error message.

        Raises:
            ValueError: if the numbers differ.
        """
        first = int(self.broadcast(torch.tensor(number)))
        differ = torch.tensor(int(first != number))
        self.all_reduce([differ])
        if differ:
            raise ValueError(f"the processes see different {what}; they need a shared results folder")


@contextmanager
def process_group() -> Iterator[ProcessGroup]:
    """Connects the processes that torchrun started.

    The processes disconnect when the work is done, because a process that exits while connected may be aborted. After
    an error they stay connected: other processes may be blocked in a reduction, and torchrun stops them.
    """
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    yield ProcessGroup(dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()
