"""Predictions as a table, which is built and written a block of rows at a time."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TextIO

from numpy.typing import NDArray

from polybasis.train.source import Data
from polybasis.train.trained_model import TrainedModel

ROWS = 1 << 16  # in a block
Block = dict[str, NDArray[Any]]
Cell = Callable[[Any], Any]


class PredictionTable:
    """The predictions of a model for all nodes of a data set, or for all rows of a store.

    ==============  =====================================================================================
    target          columns
    ==============  =====================================================================================
    two classes     ``node``, ``score``, ``prediction``, ``probability CLASS`` of each class
    classes         ``node``, ``prediction``, ``probability CLASS`` of each class
    labels          ``node``, ``prediction LABEL`` of each label, ``probability LABEL`` of each label
    a number        ``node``, ``prediction``
    ==============  =====================================================================================

    ``node`` is the node's name, or its number in the graph, which is not its row in a store of some nodes.
    ``score`` is the probability of the second class before calibration, which ranks nodes without ties. Probabilities
    are calibrated and predictions respect the threshold, if the model has them.

    Args:
        trained: the model.
        data: the data.

    Raises:
        ValueError: if the model cannot be applied to the data.
    """

    def __init__(self, trained: TrainedModel, data: Data) -> None:
        self.trained, self._nodes = trained, data.node_ids
        self._outputs = trained.logits(data)

    def __len__(self) -> int:
        return len(self._outputs)

    def blocks(self) -> Iterator[Block]:
        """The columns by name, in blocks of rows; at least one block."""
        for start in range(0, max(len(self), 1), ROWS):
            yield self._block(slice(start, start + ROWS))

    def _block(self, rows: slice) -> Block:
        trained, outputs = self.trained, self._outputs[rows]
        block: Block = {"node": self._nodes[rows]}
        if trained.target == "regression":
            return block | {"prediction": outputs[:, 0].numpy()}
        probabilities = trained.probabilities(outputs).numpy()
        decided = trained.decide(probabilities)
        if trained.target == "multi-label":
            block |= {f"prediction {name}": decided[:, i] for i, name in enumerate(trained.classes)}
        else:
            if len(trained.classes) == 2:
                block["score"] = trained.probabilities(outputs, calibrated=False).numpy()[:, 1]
            block["prediction"] = decided
        return block | {f"probability {name}": probabilities[:, i] for i, name in enumerate(trained.classes)}

    def write_csv(self, file: TextIO, cell: Cell | None = None) -> None:
        """Writes a CSV file; probabilities have six decimals and scores nine significant digits.

        Args:
            file: the file.
            cell: applied to every node and prediction; then every cell is quoted.
        """
        # A semicolon separates cells in some languages, so every cell is quoted for a spreadsheet.
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_MINIMAL if cell is None else csv.QUOTE_ALL)
        for number, block in enumerate(self.blocks()):
            if number == 0:
                writer.writerow(block)
            writer.writerows(zip(*(_texts(name, values, cell) for name, values in block.items()), strict=True))

    def write_parquet(self, file: BinaryIO) -> None:
        """Writes a Parquet file with one row group for each block."""
        import pyarrow as pa
        from pyarrow import parquet

        tables = (pa.table({name: _arrow(values) for name, values in block.items()}) for block in self.blocks())
        first = next(tables)
        with parquet.ParquetWriter(file, first.schema) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)

    def to_json(self) -> list[dict[str, Any]]:
        """One object for each node; probabilities are an object by class or label, and so are several labels."""
        rows = []
        for block in self.blocks():
            for values in zip(*(column.tolist() for column in block.values()), strict=True):
                row: dict[str, Any] = {}
                for name, value in zip(block, values, strict=True):
                    kind, _, label = name.partition(" ")
                    if label:
                        plural = {"probability": "probabilities", "prediction": "predictions"}[kind]
                        row.setdefault(plural, {})[label] = round(value, 6) if kind == "probability" else value
                    else:
                        row[name] = value
                rows.append(row)
        return rows


def _texts(name: str, values: NDArray[Any], cell: Cell | None) -> list[Any]:
    if name.startswith("probability "):
        return [f"{value:.6f}" for value in values.tolist()]
    if values.dtype.kind == "f":
        return [f"{value:.9g}" for value in values.tolist()]
    if values.dtype.kind == "b":
        return [int(value) for value in values.tolist()]
    return values.tolist() if cell is None else [cell(value) for value in values.tolist()]


def _arrow(values: NDArray[Any]) -> Any:
    import pyarrow as pa

    return pa.array(values.tolist(), pa.string()) if values.dtype.kind == "U" else pa.array(values)
