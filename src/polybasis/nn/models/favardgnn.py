"""FavardGNN."""

from __future__ import annotations

from polybasis.nn.favard_conv import FavardConv, RecurrenceKind
from polybasis.nn.models.linear_filter_linear import LinearFilterLinear


class FavardGNN(LinearFilterLinear):
    """A filter in a learned orthonormal basis between two linear layers (Guo and Wei, 2023).

    Args:
        in_channels, hidden_channels, out_channels: features, filter channels, classes.
        K: degree of the filters.
        dropout: rate before the first and before the last linear layer.
        dropout2: rate on the signals that enter the filter.
        recurrence: how the basis is learned, ``free`` as in the paper or ``bounded``; see
            :class:`polybasis.nn.FavardConv`.

    >>> import polybasis as pb
    >>> pb.nn.FavardGNN(1433, 64, 7, K=10)
    FavardGNN(1433, 64, 7, K=10)
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        K: int = 10,
        dropout: float = 0.5,
        dropout2: float = 0.5,
        recurrence: RecurrenceKind = "free",
        num_nodes: int | None = None,
    ) -> None:
        conv = FavardConv(hidden_channels, K, recurrence=recurrence)
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes, conv, dropout, dropout2)
