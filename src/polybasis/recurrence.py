"""Three-term recurrences, the form in which polynomials are evaluated on numbers and on graphs."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Recurrence(NamedTuple):
    r"""Coefficients of a three-term recurrence.

    .. math:: g_0(\mu) = s, \qquad g_{k+1}(\mu) = (a_k \mu + b_k)\, g_k(\mu) + c_k\, g_{k-1}(\mu)

    Attributes:
        s: The constant polynomial, () or (d,).
        a: The factors of :math:`\mu`, (K,), or (K, d) with one column per channel.
        b: The constant terms, of the same shape.
        c: The factors of :math:`g_{k-1}`, of the same shape; ``c[0]`` is unused.

    >>> import polybasis as pb
    >>> pb.bases.Chebyshev().recurrence(3).a
    tensor([1., 2., 2.], dtype=torch.float64)
    """

    s: Tensor
    a: Tensor
    b: Tensor
    c: Tensor

    def per_channel(self, channels: int) -> Recurrence:
        """Repeats a shared recurrence for every channel; one that already has channels is returned as is.

        Args:
            channels: The number of channels d.

        Returns:
            The recurrence with ``s`` of shape (d,) and ``a``, ``b``, ``c`` of shape (K, d).
        """
        if self.s.dim() == 1:
            return self
        return Recurrence(*(values.unsqueeze(-1).expand(*values.shape, channels) for values in self))
