"""A deep network of filters: residual blocks with normalisation, a filter and an MLP."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from polybasis.bases.names import OWN_BASES
from polybasis.features import Features, SparseFeatures, as_dense
from polybasis.graph import Graph
from polybasis.nn.favard_conv import FavardConv
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models.link import adjacency_rows, required_nodes
from polybasis.nn.models.model import Model
from polybasis.nn.optbasis_conv import OptBasisConv
from polybasis.nn.piecewise_linear import PiecewiseLinearEncoding
from polybasis.nn.poly_conv import PolyConv

Filter = Literal["favard", "optbasis", "chebyshev", "bernstein", "monomial", "gcn", "sage", "gat", "none"]
Norm = Literal["layer", "batch", "none"]
Start = Literal["propagation", "identity"]
HEADS = 8  # attention heads of GAT


class GCNPropagation(torch.nn.Module):
    r"""The product :math:`\tilde P X` with self-loops: the convolution of GCN without its weights."""

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Returns the propagated signal, (N, channels)."""
        return graph.with_self_loops().propagate(x)


class NoFilter(torch.nn.Module):
    """The identity, which ignores the graph."""

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Returns the signal unchanged."""
        return x


class PyGConv(torch.nn.Module):
    """A convolution of PyTorch Geometric on a :class:`polybasis.Graph`; it ignores edge weights.

    Args:
        conv: The convolution, which takes a signal and the adjacency.
        adjacency: Creates the adjacency of a graph for signals of a data type.
    """

    def __init__(self, conv: Any, adjacency: Any) -> None:
        super().__init__()
        self.conv, self._adjacency = conv, adjacency

    def reset_parameters(self) -> None:
        """Draws new weights."""
        self.conv.reset_parameters()

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Returns the convolved signal, (N, channels)."""
        convolved: Tensor = self.conv(x, graph.derived(self._adjacency, x.dtype))
        return convolved


def make_filter(name: Filter | str, channels: int, K: int, start: Start = "propagation") -> torch.nn.Module:
    """Creates a filter that maps a signal and a graph to a signal with the same channels.

    Args:
        name: ``favard`` (with a bounded recurrence), ``optbasis`` (scaled with its signal), ``chebyshev``,
            ``bernstein``, ``monomial`` and registered bases have coefficients for each channel. ``gcn`` multiplies by
            the propagation matrix with self-loops, ``sage`` and ``gat`` are layers of PyTorch Geometric, ``none`` is
            the identity.
        channels: The number of channels.
        K: The degree of polynomial filters.
        start: The initial polynomial: ``propagation`` is P itself, ``identity`` is 1.

    Raises:
        ValueError: If the name is unknown, or the degree is 0 and the filter starts at P.
    """
    if name not in get_args(Filter) and OWN_BASES.find(name) is None:
        expected = (*get_args(Filter), *OWN_BASES.names())
        raise ValueError(f"filter is {name!r}; expected one of {', '.join(expected)}")
    if start not in get_args(Start):
        raise ValueError(f"start is {start!r}; expected {' or '.join(get_args(Start))}")
    if name == "none":
        return NoFilter()
    if name == "gcn":
        return GCNPropagation()
    if name == "sage":
        from torch_geometric.nn import SAGEConv

        return PyGConv(SAGEConv(channels, channels), _pattern)
    if name == "gat":
        from torch_geometric.nn import GATConv

        if channels % HEADS:
            raise ValueError(f"hidden_channels is {channels}; gat needs a multiple of {HEADS}, its attention heads")
        return PyGConv(GATConv(channels, channels // HEADS, HEADS), edge_index_of)
    conv: FavardConv | OptBasisConv | PolyConv
    if name == "favard":
        conv = FavardConv(channels, K, recurrence="bounded")
    elif name == "optbasis":
        conv = OptBasisConv(channels, K, scale="signal")
    else:
        conv = PolyConv(channels, K, name)
    if start == "propagation":
        _start_at_propagation(conv)
    return conv


def edge_index_of(graph: Graph, dtype: torch.dtype) -> Tensor:
    """Both directions of every edge, (2, nonzeros)."""
    return graph.edge_index()


def _pattern(graph: Graph, dtype: torch.dtype) -> Tensor:
    """The adjacency matrix without weights, with which PyG's layers multiply instead of gathering messages."""
    size = (graph.num_nodes, graph.num_nodes)
    ones = torch.ones(len(graph.indices), dtype=dtype)
    return torch.sparse_csr_tensor(graph.indptr.long(), graph.indices.long(), ones, size, check_invariants=False)


@torch.no_grad()
def _start_at_propagation(conv: FavardConv | OptBasisConv | PolyConv) -> None:
    r"""Sets the coefficients to those of the polynomial :math:`\mu`, so that the filter is P.

    In the optimal basis they would depend on the signal; there, the filter starts at the basis vector of degree 1.
    """
    if conv.K < 1:
        raise ValueError("K is 0; a filter that starts at P needs K of at least 1")
    conv.alpha.zero_()
    if isinstance(conv, OptBasisConv):
        conv.alpha[1] = 1
        return
    points = torch.cos(torch.pi * (torch.arange(conv.K + 1, dtype=torch.float64) + 0.5) / (conv.K + 1))
    values = conv.basis.evaluate(points, conv.K).detach()  # (K+1, K+1) or (K+1, K+1, channels)
    values = values.unsqueeze(-1) if values.dim() == 2 else values
    conv.alpha.copy_(torch.linalg.solve(values.permute(2, 1, 0), points).T)


def make_norm(name: Norm, channels: int) -> torch.nn.Module:
    """Creates a normalisation of the channels.

    Args:
        name: ``layer`` normalises each node, ``batch`` each channel, ``none`` nothing.
        channels: The number of channels.

    Raises:
        ValueError: If the name is unknown.
    """
    if name not in get_args(Norm):
        raise ValueError(f"norm is {name!r}; expected one of {', '.join(get_args(Norm))}")
    if name == "none":
        return torch.nn.Identity()
    return torch.nn.LayerNorm(channels) if name == "layer" else torch.nn.BatchNorm1d(channels)


class FilterBlock(torch.nn.Module):
    r"""A residual block.

    .. math:: Y = X + \mathrm{MLP}(\mathrm{filter}(\mathrm{norm}(X)))

    The MLP has one hidden layer of the same width, with GELU, and dropout after both of its linear layers.

    Args:
        channels: The number of channels.
        filter: The name of the filter; see :func:`make_filter`.
        K: The degree of the filter.
        dropout: The dropout probability.
        norm: The name of the normalisation; see :func:`make_norm`.
        start: The initial polynomial of the filter; see :func:`make_filter`.
    """

    def __init__(self, channels: int, filter: Filter | str, K: int, dropout: float, norm: Norm, start: Start) -> None:
        super().__init__()
        self.norm = make_norm(norm, channels)
        self.conv = make_filter(filter, channels, K, start)
        self.first = torch.nn.Linear(channels, channels)
        self.last = torch.nn.Linear(channels, channels)
        self.dropout, self._start = dropout, start

    def reset_parameters(self) -> None:
        """Restores the initial filter and draws new weights."""
        for module in (self.norm, self.conv, self.first, self.last):
            reset = getattr(module, "reset_parameters", None)
            if callable(reset):
                reset()
        if isinstance(self.conv, FavardConv | OptBasisConv | PolyConv) and self._start == "propagation":
            _start_at_propagation(self.conv)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Returns the output of the block, (N, channels)."""
        filtered = self.conv(self.norm(x), graph)
        hidden = torch.nn.functional.gelu(dropout(self.first(filtered), self.dropout, self.training))
        change: Tensor = self.last(hidden)
        return x + dropout(change, self.dropout, self.training)


class ResidualFilterNet(Model):
    r"""A deep network of residual blocks, each with its own filter for every channel.

    .. math::
        X_0 = \mathrm{GELU}(X W_0 + b_0), \qquad
        X_{l+1} = X_l + \mathrm{MLP}_l(\mathrm{filter}_l(\mathrm{norm}_l(X_l))), \qquad
        Y = \mathrm{norm}(X_L)\, W_1 + b_1

    With ``jumping``, the last layer sees the outputs of all blocks, :math:`\mathrm{norm}([X_0, \dots, X_L])`, as in
    `"Representation Learning on Graphs with Jumping Knowledge Networks" <https://arxiv.org/abs/1806.03536>`_ (Xu et
    al., 2018). With ``adjacency``, the rows of the adjacency matrix are features too, as in `LINKX
    <https://arxiv.org/abs/2110.14446>`_ (Lim et al., 2021): :math:`X_0 = \mathrm{GELU}(X W_0 + A W_A + b_0)`. With
    ``bins``, every feature is first replaced by a :class:`polybasis.nn.PiecewiseLinearEncoding`.

    With ``filter="gcn"``, ``"sage"`` or ``"gat"`` it follows the baselines of `"A Critical Look at the Evaluation of
    GNNs under Heterophily" <https://arxiv.org/abs/2302.11640>`_ (Platonov et al., 2023).

    Args:
        in_channels: The number of features.
        hidden_channels: The number of filter channels.
        out_channels: The number of classes.
        filter: The filter: ``"favard"``, ``"optbasis"``, ``"chebyshev"``, ``"bernstein"``, ``"monomial"``, ``"gcn"``,
            ``"sage"``, ``"gat"``, ``"none"`` or a registered basis; see
            :func:`polybasis.nn.models.residual.make_filter`.
        blocks: The number of blocks.
        K: The degree of the filters; ``gcn``, ``sage``, ``gat`` and ``none`` have none.
        dropout: The dropout probability.
        feature_dropout: The dropout probability of the features and of the rows of the adjacency matrix.
        norm: The normalisation: ``"layer"``, ``"batch"`` or ``"none"``.
        jumping: Concatenate the outputs of the first layer and of all blocks before the last layer.
        adjacency: Use the rows of the adjacency matrix as features; the model is then transductive.
        bins: The number of bins in which each dense numeric feature is encoded; 0 leaves features as they are.
            :func:`polybasis.train.fit` sets the bins to quantiles of the training nodes; before your own training loop,
            call ``model.fit_features(x, train_nodes)``. Feature dropout then drops single entries of the encoding.
        start: The initial filter of every channel: ``"propagation"`` is P, or the basis vector of degree 1 for
            ``"optbasis"``; ``"identity"`` hides the graph until the coefficients have grown.
        num_nodes: The number of nodes; needed only with ``adjacency``.

    >>> import torch, polybasis as pb
    >>> model = pb.nn.ResidualFilterNet(10, 64, 2, filter="favard", blocks=3, K=4)
    >>> model
    ResidualFilterNet(10, 64, 2, filter='favard', blocks=3, K=4)
    >>> model(torch.rand(3, 10), pb.Graph.from_edge_index([[0, 1], [1, 2]])).shape
    torch.Size([3, 2])
    """

    training_defaults: ClassVar[dict[str, Any]] = {"lr": 0.003, "weight_decay": 0.0}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        filter: Filter | str = "favard",
        blocks: int = 3,
        K: int = 4,
        dropout: float = 0.2,
        feature_dropout: float = 0.0,
        norm: Norm = "layer",
        jumping: bool = False,
        adjacency: bool = False,
        bins: int = 0,
        start: Start = "propagation",
        num_nodes: int | None = None,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        if blocks < 1:
            raise ValueError(f"blocks is {blocks}; expected at least 1")
        if bins < 0:
            raise ValueError(f"bins is {bins}; expected the number of bins, or 0 for features as they are")
        self.filter, self.K, self.jumping = filter, K, jumping
        self.dropout, self.feature_dropout = dropout, feature_dropout
        self.encoding = PiecewiseLinearEncoding(in_channels, bins) if bins else None
        self.first = FeatureLinear(in_channels * max(1, bins), hidden_channels)
        self.rows: FeatureLinear | None = None
        if adjacency:
            nodes = required_nodes(num_nodes, "residual with adjacency")
            self.rows, self.transductive = FeatureLinear(nodes, hidden_channels, bias=False), True
        self.blocks = torch.nn.ModuleList(
            FilterBlock(hidden_channels, filter, K, dropout, norm, start) for _ in range(blocks)
        )
        last_channels = hidden_channels * (blocks + 1 if jumping else 1)
        self.norm = make_norm(norm, last_channels)
        self.last = FeatureLinear(last_channels, out_channels)

    def fit_features(self, x: Features, nodes: Tensor) -> None:
        """Fits the bins of the encoding to the features of the training nodes.

        Args:
            x: features, (N, in_channels).
            nodes: the training nodes.

        Raises:
            ValueError: if features that are to be encoded are sparse.
        """
        if self.encoding is None:
            return
        if isinstance(x, SparseFeatures):
            raise ValueError(f"x has {x.shape[1]} sparse features; bins encode dense ones: set bins=0")
        self.encoding.fit(x[nodes])

    def forward(self, x: Features, graph: Graph) -> Tensor:
        if self.encoding is not None:
            x = self.encoding(as_dense(x))
        hidden = self.first(dropout(x, self.feature_dropout, self.training))
        if self.rows is not None:
            rows = graph.derived(adjacency_rows)
            hidden = hidden + self.rows(dropout(rows, self.feature_dropout, self.training))
        outputs = [dropout(torch.nn.functional.gelu(hidden), self.dropout, self.training)]
        for block in self.blocks:
            outputs.append(block(outputs[-1], graph))
        return self.last(self.norm(torch.cat(outputs, dim=-1) if self.jumping else outputs[-1]))

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, filter={self.filter!r}, blocks={len(self.blocks)}, K={self.K})"
