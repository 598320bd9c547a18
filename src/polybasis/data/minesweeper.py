"""A board of hidden mines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from polybasis.data.dataset import NodeDataset, make_dataset

# Half of the eight directions; edges are made undirected.
_NEIGHBOURS = ((0, 1), (1, -1), (1, 0), (1, 1))


def mine_board(
    rows: int = 100, columns: int = 100, mines: float = 0.2, hidden: float = 0.5, seed: int = 0
) -> NodeDataset:
    """Generates a grid of cells, some with a mine, as in the game Minesweeper; classes are ``safe`` and ``mine``.

    Each cell is connected to its up to eight neighbours. Its features are the number of mines among them, one-hot from
    0 to 8, or a tenth feature if the cell hides the number. The construction follows *minesweeper* (`Platonov et al.,
    2023 <https://arxiv.org/abs/2302.11640>`_). The features of a single cell say little, so a model has to combine the
    numbers of several cells.

    Args:
        rows: height of the board.
        columns: width of the board.
        mines: fraction of cells with a mine.
        hidden: fraction of cells that hide their number.
        seed: random seed.

    Raises:
        ValueError: if the board has fewer than two rows or columns or no mine, or a fraction is not between 0 and 1.

    >>> mine_board(rows=20, columns=30).graph
    Graph(num_nodes=600, num_edges=2252)
    """
    if rows < 2 or columns < 2:
        raise ValueError(f"the board has {rows} rows and {columns} columns; expected at least 2 of each")
    for name, share in (("mines", mines), ("hidden", hidden)):
        if not 0 < share < 1:
            raise ValueError(f"{name} is {share}; expected a fraction between 0 and 1")
    rng = np.random.default_rng(seed)
    nodes = rows * columns
    cells = np.arange(nodes).reshape(rows, columns)
    edges = np.concatenate([_pairs(cells, *step) for step in _NEIGHBOURS], axis=1)  # (2, edges)
    mine = rng.random(nodes) < mines
    if not mine.any():
        raise ValueError(f"the board of {nodes} cells has no mine; use more cells or a larger fraction of mines")
    number = np.zeros(nodes, dtype=int)
    for here, there in (edges, edges[::-1]):
        np.add.at(number, here, mine[there])
    number[rng.random(nodes) < hidden] = 9
    x = torch.nn.functional.one_hot(torch.from_numpy(number), 10).float()
    data = make_dataset("mine-board", torch.from_numpy(edges), x, torch.from_numpy(mine.astype(int)))
    return replace(data, metric="roc_auc", classes=("safe", "mine"))


def _pairs(cells: np.ndarray, down: int, right: int) -> np.ndarray:
    """Both ends of all edges in one direction, (2, edges)."""
    first = cells[: len(cells) - down, max(0, -right) : cells.shape[1] - max(0, right)]
    second = cells[down:, max(0, right) : cells.shape[1] + min(0, right)]
    return np.stack([first.ravel(), second.ravel()])
