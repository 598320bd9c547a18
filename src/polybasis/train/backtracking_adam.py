"""Adam for deterministic losses, with backtracking."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class BacktrackingAdam:
    """Adam that undoes steps that increase the loss.

    With a constant step size, Adam keeps overshooting a minimum that it has reached. This optimiser undoes a step if
    the loss exceeds its minimum so far by more than ``slack``; it then resets the momentum and halves the step size.
    The step size grows again with every accepted step. Use it for full batches without dropout, where the loss depends
    only on the parameters.

    Several independent problems may be trained together: the last axis of every parameter is divided into as many equal
    parts as there are losses, and each problem has its own step size.

    Args:
        groups: lists of parameters, each with its learning rate.
        slack: fraction by which a loss may exceed its minimum so far.

    >>> import torch
    >>> x = torch.nn.Parameter(torch.tensor([3.0, -1.0]))
    >>> adam = BacktrackingAdam([([x], 0.5)])
    >>> for _ in range(200):
    ...     losses = adam.step(lambda: x**2)  # two problems
    >>> bool((losses < 1e-4).all())
    True
    """

    def __init__(self, groups: list[tuple[list[torch.nn.Parameter], float]], slack: float = 0.005) -> None:
        self._parameters = [(parameter, lr) for parameters, lr in groups for parameter in parameters]
        self._slack = slack
        self._mean = [torch.zeros_like(parameter) for parameter, _ in self._parameters]
        self._square = [torch.zeros_like(parameter) for parameter, _ in self._parameters]
        self._losses: Tensor | None = None
        self._gradients: list[Tensor] = []

    def step(self, losses: Callable[[], Tensor]) -> Tensor:
        """Takes a step and returns the losses after it, (problems,).

        Args:
            losses: computes the losses from the current parameters.
        """
        if self._losses is None:
            self._losses, self._gradients = self._evaluated(losses)
            self._lowest = self._losses.clone()
            self._steps = torch.zeros_like(self._losses)
            self._share = torch.ones_like(self._losses)
        before = [parameter.detach().clone() for parameter, _ in self._parameters]
        mean = [BETA1 * m + (1 - BETA1) * g for m, g in zip(self._mean, self._gradients, strict=True)]
        square = [BETA2 * v + (1 - BETA2) * g**2 for v, g in zip(self._square, self._gradients, strict=True)]
        steps = self._steps + 1
        with torch.no_grad():
            for (parameter, lr), m, v in zip(self._parameters, mean, square, strict=True):
                first, second, share = (
                    self._expand(numbers, parameter) for numbers in (1 - BETA1**steps, 1 - BETA2**steps, self._share)
                )
                parameter.sub_(lr * share * (m / first) / ((v / second).sqrt() + EPSILON))
        found, gradients = self._evaluated(losses)
        kept = found <= self._lowest + self._slack * self._lowest.abs()
        with torch.no_grad():
            for i, (parameter, _) in enumerate(self._parameters):
                keep = self._expand(kept, parameter)
                parameter.copy_(torch.where(keep, parameter, before[i]))
                self._gradients[i] = torch.where(keep, gradients[i], self._gradients[i])
                self._mean[i] = torch.where(keep, mean[i], 0)
                self._square[i] = torch.where(keep, square[i], self._square[i])
        self._steps = torch.where(kept, steps, self._steps)
        self._share = torch.where(kept, (1.02 * self._share).clamp(max=1), self._share / 2)
        self._losses = torch.where(kept, found, self._losses)
        self._lowest = torch.minimum(self._lowest, self._losses)
        return self._losses

    def _evaluated(self, losses: Callable[[], Tensor]) -> tuple[Tensor, list[Tensor]]:
        found = losses()
        gradients = torch.autograd.grad(found.sum(), [parameter for parameter, _ in self._parameters])
        return found.detach(), list(gradients)

    @staticmethod
    def _expand(numbers: Tensor, parameter: Tensor) -> Tensor:
        """One number for each problem, expanded along the parameter's last axis."""
        if len(numbers) == 1:
            return numbers[0]
        return numbers.repeat_interleave(parameter.shape[-1] // len(numbers))
