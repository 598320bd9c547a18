"""Mini-batch training on the rows of a store, optionally with several processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.data.dataset import Split
from polybasis.nn.models.model import Model, Precomputed
from polybasis.nn.models.precomputed import PrecomputedGNN
from polybasis.store.basis_store import BasisStore
from polybasis.train.config import Config
from polybasis.train.config_sections import BATCH_SIZE
from polybasis.train.distributed import ProcessGroup
from polybasis.train.fitting import Evaluation
from polybasis.train.objective import Objective


class Batches:
    """Reads the next batch while the current one is processed, with two batches in memory.

    Attributes:
        waited: seconds spent waiting for a batch.
    """

    def __init__(self, store: BasisStore) -> None:
        self.store = store
        self.waited = 0.0
        self._buffers = [np.empty((0, *store.vectors.shape[1:]), store.vectors.dtype) for _ in range(2)]

    def over(self, batches: list[NDArray[np.int64]]) -> Iterator[Tensor]:
        """Yields the vectors of each batch, (rows, K+1, channels); they are valid until the next batch is requested."""
        with ThreadPoolExecutor(1) as reader:
            coming = [reader.submit(self._read, 0, batches[0])] if batches else []
            for number in range(len(batches)):
                start = time.monotonic()
                vectors = coming.pop().result()
                self.waited += time.monotonic() - start
                if number + 1 < len(batches):
                    coming.append(reader.submit(self._read, (number + 1) % 2, batches[number + 1]))
                yield vectors

    def _read(self, buffer: int, rows: NDArray[np.int64]) -> Tensor:
        if len(self._buffers[buffer]) < len(rows):
            self._buffers[buffer] = np.empty((len(rows), *self._buffers[buffer].shape[1:]), self.store.vectors.dtype)
        out = self._buffers[buffer][: len(rows)]
        self.store.read(rows, out)
        return torch.from_numpy(out)


class MiniBatches:
    """Mini-batch training on the rows of a store."""

    def __init__(
        self,
        store: BasisStore,
        split: Split,
        config: Config,
        group: ProcessGroup | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.data, self.split, self._group = store, split, group
        self._config = config
        self.writes = group is None or group.rank == 0
        self._batch_size = config.optimizer.batch_size or BATCH_SIZE
        self._device, self._batches = device or _local_device(), Batches(store)
        self._gamma, self._sqrt_beta = store.gamma.to(self._device), store.sqrt_beta.to(self._device)

    @cached_property
    def objective(self) -> Objective:
        """The loss and the metric; predictions need neither."""
        return Objective.of(self._config, self.data, self.split.train)

    @property
    def waited(self) -> float:
        """Seconds spent waiting for data."""
        return self._batches.waited

    def make_model(self, config: Config) -> Model:
        model = config.make_model(self.data.num_features, self.data.num_outputs, len(self.data.rows), self.data.target)
        model.start_at(self.data.gamma, self.data.sqrt_beta)  # type: ignore[operator]
        if config.loss.output_bias == "prior":
            self.objective.start_output_bias(model, self.split.train)
        return model.to(self._device)

    def epoch(self, model: Model, optimizer: torch.optim.Optimizer) -> float:
        model.train()
        group, train, size = self._group, self.split.train, self._batch_size
        permutation = torch.randperm(len(train))
        order = train[permutation if group is None else group.broadcast(permutation)].numpy()
        whole = [np.sort(order[first : first + size]) for first in range(0, len(order), size)]
        shares = [slice(0, len(rows)) if group is None else group.share(len(rows)) for rows in whole]
        own = [rows[share] for rows, share in zip(whole, shares, strict=True)]
        total = torch.zeros((), device=self._device)
        for number, vectors in enumerate(self._batches.over(own)):
            optimizer.zero_grad()
            logits = model(self._on_basis(vectors, shares[number].start), None)
            weight = self.objective.total_weight(torch.from_numpy(whole[number]))
            loss = self.objective.summed_loss(logits, torch.from_numpy(own[number])) / weight
            loss.backward()  # type: ignore[no-untyped-call]
            if group is not None:
                group.all_reduce(p.grad for p in model.parameters() if p.grad is not None)
            optimizer.step()
            total += loss.detach() * weight
        if group is not None:
            group.all_reduce([total])
        return float(total) / self.objective.total_weight(train)

    @torch.no_grad()
    def evaluate(self, model: Model, nodes: Tensor) -> Evaluation:
        """Computes outputs for some rows. The batches are divided among the processes; each gets all outputs."""
        model.eval()
        result = torch.zeros(len(nodes), model.out_channels, device=self._device)
        batches = [slice(first, first + self._batch_size) for first in range(0, len(nodes), self._batch_size)]
        own = batches if self._group is None else batches[self._group.rank :: self._group.size]
        rows = nodes.numpy()
        for here, vectors in zip(own, self._batches.over([rows[here] for here in own]), strict=True):
            result[here] = model(self._on_basis(vectors), None)
        if self._group is not None:
            self._group.all_reduce([result])
        return Evaluation(result.cpu())

    def _on_basis(self, vectors: Tensor, offset: int = 0) -> Precomputed:
        scale = 2.0**-self.data.exponent
        return PrecomputedGNN.on_basis(vectors.to(self._device), self._gamma, self._sqrt_beta, offset, scale)

    def agree(self, epoch: int) -> None:
        if self._group is not None:
            self._group.require_equal(epoch, "checkpoints")


def _local_device() -> torch.device:
    """The GPU of this process if there are GPUs, else the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
