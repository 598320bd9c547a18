"""Piecewise linear encoding of numeric features."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


class PiecewiseLinearEncoding(torch.nn.Module):
    r"""Encodes each feature by its position in bins that are bounded by quantiles of the training nodes.

    With the boundaries :math:`b_0 \le \dots \le b_B` of the bins of a feature, a value :math:`x` becomes the numbers

    .. math:: e_t(x) = \mathrm{clip}\left(\frac{x - b_{t-1}}{b_t - b_{t-1}}, 0, 1\right), \qquad t = 1, \dots, B

    (`"On Embeddings for Numerical Features in Tabular Deep Learning" <https://arxiv.org/abs/2203.05556>`_, Gorishniy et
    al., 2022). Bins of width zero give 0. A linear layer on the encoding is a continuous, piecewise linear function of
    each feature, so skewed distributions and outliers have a bounded effect. Values outside the range of the training
    nodes are clipped.

    Args:
        in_features: The number of features.
        bins: The number of bins B of each feature.

    Shapes:
        - **input:** features :math:`(N, \text{in\_features})`
        - **output:** :math:`(N, \text{in\_features} \cdot B)`

    >>> import torch, polybasis as pb
    >>> encoding = pb.nn.PiecewiseLinearEncoding(1, bins=2)
    >>> encoding.fit(torch.tensor([[0.0], [1.0], [10.0]]))
    >>> encoding(torch.tensor([[0.5], [1.0], [5.5]]))
    tensor([[0.5000, 0.0000],
            [1.0000, 0.0000],
            [1.0000, 0.5000]])
    """

    boundaries: Tensor

    def __init__(self, in_features: int, bins: int) -> None:
        super().__init__()
        if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
            raise ValueError(f"bins is {bins!r}; expected a positive integer")
        self.in_features, self.bins = in_features, bins
        self.register_buffer("boundaries", torch.linspace(0, 1, bins + 1).repeat(in_features, 1))

    def fit(self, x: Tensor) -> None:
        """Sets the boundaries to quantiles of some nodes; before, they divide the interval from 0 to 1.

        Args:
            x: The features of the nodes, (n, in_features).

        Raises:
            ValueError: If there are no nodes, or values that are not finite.
        """
        self._check(x)
        if len(x) == 0:
            raise ValueError("x has no rows; expected the features of at least one node")
        if not torch.isfinite(x).all():
            raise ValueError("x has values that are not finite; replace them first")
        quantiles = np.quantile(x.detach().cpu().double().numpy(), np.linspace(0, 1, self.bins + 1), axis=0)
        self.boundaries.copy_(torch.from_numpy(quantiles.T))

    def forward(self, x: Tensor) -> Tensor:
        """Returns the encoded features."""
        self._check(x)
        dtype = x.dtype if x.is_floating_point() else self.boundaries.dtype
        half = self.boundaries.to(dtype) / 2  # differences of halves do not overflow
        low, width = half[:, :-1], half.diff(dim=1)  # (in_features, B)
        inside = (x.to(dtype).unsqueeze(-1) / 2 - low) / width.clamp(min=torch.finfo(dtype).tiny)
        return torch.where(width > 0, inside.clamp(0, 1), 0).flatten(1)

    def _check(self, x: Tensor) -> None:
        if x.dim() != 2 or x.shape[1] != self.in_features:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected (N, {self.in_features})")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_features}, bins={self.bins})"
