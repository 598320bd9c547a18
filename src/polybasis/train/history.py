"""The history of a training run: losses and validation scores by epoch, and the epochs that were kept."""

from __future__ import annotations

from typing import Any

from polybasis.train.fitting import OnEpoch, Progress

ROWS = 200  # at most, of a saved history


class History:
    """A callback that records every epoch that is trained in this process.

    Args:
        length: maximum number of epochs of one model; the epochs of an ensemble are numbered consecutively.
        on_epoch: called after every epoch that has been recorded.

    Attributes:
        rows: epoch, training loss and validation score of every epoch.
    """

    def __init__(self, length: int, on_epoch: OnEpoch | None = None) -> None:
        self.rows: list[tuple[int, float, float]] = []
        self._length, self._on_epoch = length, on_epoch
        self._kept: dict[int, int] = {}

    def __call__(self, progress: Progress) -> None:
        self.rows.append((progress.epoch, progress.train_loss, progress.val_score))
        self._kept[progress.epoch // self._length] = progress.best_epoch
        if self._on_epoch is not None:
            self._on_epoch(progress)

    def to_dict(self) -> dict[str, Any]:
        """The history for the provenance of a model.

        Returns:
            ``history``: at most 200 evenly spaced rows, and those of the last and the kept epochs. ``kept_epochs``: the
            epoch whose weights each model has, which may precede the first row if the run was resumed.
        """
        kept = list(self._kept.values())
        chosen = set(range(0, len(self.rows), -(-len(self.rows) // ROWS) or 1)) | {len(self.rows) - 1}
        rows = [row for i, row in enumerate(self.rows) if i in chosen or row[0] in kept]
        return {"history": rows, "kept_epochs": kept}
