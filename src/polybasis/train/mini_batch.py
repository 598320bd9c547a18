"""Training on a store: rows of a precomputed basis in batches, perhaps by several processes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from polybasis.data.dataset import Split
from polybasis.nn.models.model import Model, Precomputed
from polybasis.nn.models.precomputed import PrecomputedGNN
from polybasis.store.basis_store import BasisStore
from polybasis.store.batches import Batches
from polybasis.train.config import BATCH_SIZE, Config
from polybasis.train.distributed import ProcessGroup, local_device


class MiniBatches:
    """Rows of a store, a batch at a time."""

    def __init__(self, store: BasisStore, split: Split, config: Config, group: ProcessGroup | None = None) -> None:
        self.data, self.split, self._group = store, split, group or ProcessGroup()
        self.writes = self._group.rank == 0
        self._batch_size = config.optimizer.batch_size or BATCH_SIZE
        self._device, self._batches = local_device(), Batches(store)
        self._gamma, self._sqrt_beta = store.gamma.to(self._device), store.sqrt_beta.to(self._device)

    @property
    def waited(self) -> float:
        """Seconds spent waiting for data."""
        return self._batches.waited

    def make_model(self, config: Config) -> Model:
        model = config.make_model(self.data.channels, self.data.num_classes, len(self.data))
        model.start_at(self.data.gamma, self.data.sqrt_beta)  # type: ignore[operator]
        return model.to(self._device)

    def epoch(self, model: Model, optimizer: torch.optim.Optimizer) -> float:
        model.train()
        group, train = self._group, self.split.train
        order = train[group.broadcast(torch.randperm(len(train)))].numpy()
        size = self._batch_size
        whole = [np.sort(order[first : first + size]) for first in range(0, len(order), size)]
        shares = [group.share(len(rows)) for rows in whole]
        own = [rows[share] for rows, share in zip(whole, shares, strict=True)]
        total = torch.zeros((), device=self._device)
        for number, vectors in enumerate(self._batches.over(own)):
            optimizer.zero_grad()
            logits = model(self._on_basis(vectors, shares[number].start), None)
            y = self.data.y[torch.from_numpy(own[number])].to(self._device)
            loss = cross_entropy(logits, y, reduction="sum") / len(whole[number])
            loss.backward()  # type: ignore[no-untyped-call]
            group.all_reduce(p.grad for p in model.parameters() if p.grad is not None)
            optimizer.step()
            total += loss.detach() * len(whole[number])
        group.all_reduce([total])
        return float(total) / len(order)

    @torch.no_grad()
    def logits(self, model: Model, nodes: Tensor) -> Tensor:
        """Class scores of some rows; each process computes some batches, and all processes get all scores."""
        model.eval()
        result = torch.zeros(len(nodes), self.data.num_classes, device=self._device)
        batches = [slice(first, first + self._batch_size) for first in range(0, len(nodes), self._batch_size)]
        own, rows = batches[self._group.rank :: self._group.size], nodes.numpy()
        for here, vectors in zip(own, self._batches.over([rows[here] for here in own]), strict=True):
            result[here] = model(self._on_basis(vectors), None)
        self._group.all_reduce([result])
        return result.cpu()

    def _on_basis(self, vectors: Tensor, offset: int = 0) -> Precomputed:
        return PrecomputedGNN.on_basis(vectors.to(self._device), self._gamma, self._sqrt_beta, offset)

    def agree(self, epoch: int) -> None:
        self._group.require_equal(epoch, "checkpoints")
