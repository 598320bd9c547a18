"""The history of a training run: losses and validation scores by epoch, and the epochs that were kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ROWS = 200  # at most, of a saved history
Row = tuple[int, float, float]


@dataclass(frozen=True)
class History:
    """The epochs of a training run, including those before an interruption.

    Attributes:
        rows: epoch, training loss and validation score of every epoch.
        kept_epochs: the epoch whose weights each model has; one, or one for each model of an ensemble.
    """

    rows: Sequence[Row] = ()
    kept_epochs: Sequence[int] = ()

    @classmethod
    def of_ensemble(cls, histories: Sequence[History], length: int) -> History:
        """The history of an ensemble, whose epochs are numbered consecutively.

        Args:
            histories: those of its models.
            length: maximum number of epochs of one model.
        """
        numbered = list(enumerate(histories))
        rows = [(i * length + epoch, loss, score) for i, history in numbered for epoch, loss, score in history.rows]
        return cls(rows, [i * length + epoch for i, history in numbered for epoch in history.kept_epochs])

    def to_dict(self) -> dict[str, Any]:
        """The history for the provenance of a model.

        Returns:
            ``history``: at most 200 evenly spaced rows, and those of the last and the kept epochs. ``kept_epochs``: the
            epoch whose weights each model has.
        """
        chosen = set(range(0, len(self.rows), -(-len(self.rows) // ROWS) or 1)) | {len(self.rows) - 1}
        rows = [row for i, row in enumerate(self.rows) if i in chosen or row[0] in self.kept_epochs]
        return {"history": rows, "kept_epochs": list(self.kept_epochs)}
