r"""Filter learning on images: the paper's multi-channel experiment, reduced to K+1 dimensions.

A polynomial filter of degree K maps a signal into its Krylov space, :math:`p(P)x = \|x\| V p(T) e_0`. For a fixed
signal x and target y, the squared error of a filter with coordinates c in the optimal basis V is
:math:`\|c - V^\top y\|^2` plus the squared distance of y from the Krylov space. In every basis, c follows from the
small tridiagonal matrix T. Training therefore never touches arrays of the graph's size, and all samples train together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from polybasis.bases import Favard, named_basis
from polybasis.data.images import ImageSignals, grid_graph
from polybasis.krylov import optimal_basis
from polybasis.nn.favard_conv import bounded_basis, free_basis
from polybasis.responses import apply_response
from polybasis.train.backtracking_adam import BacktrackingAdam

K = 10
BASES = (
    "optimal",
    "chebyshev-interpolation",
    "bernstein",
    "favard",
    "monomial",
    "chebyshev",
    "jacobi",
    "legendre",
)
# The bases whose layers in the authors' code take PyG's get_laplacian, which removes self-loops. The targets and the
# layers of the paper's three other bases have self-loops.
WITHOUT_LOOPS = ("chebyshev-interpolation", "bernstein")
COMBINATIONS = (
    ("band-reject", "low-pass", "high-pass"),
    ("high-pass", "high-pass", "low-pass"),
    ("high-pass", "low-pass", "high-pass"),
    ("low-pass", "band-reject", "band-reject"),
)
CHANNELS = 3  # Y, Cb, Cr
JACOBI = (1.0, 1.0)  # the exponents; Legendre has (0, 0)


@dataclass(frozen=True)
class Problem:
    r"""Filter-learning samples, projected onto their Krylov spaces. The channels of a sample are adjacent.

    Attributes:
        samples: image name and filter names (one per channel) of each sample.
        gamma, sqrt_beta: (K+1, channels), the entries of T; ``channels`` counts those of all samples.
        target: (K+1, channels), :math:`V^\top y`.
        residual: (channels,), the squared distance of y from the Krylov space.
        num_nodes: number of pixels of an image.
    """

    samples: list[tuple[str, tuple[str, ...]]]
    gamma: Tensor
    sqrt_beta: Tensor
    target: Tensor
    residual: Tensor
    num_nodes: int

    def losses(self, coordinates: Tensor) -> Tensor:
        """Computes the mean squared error of each sample.

        Args:
            coordinates: (K+1, channels), each filter's output in the optimal basis.

        Returns:
            (samples,).
        """
        errors = (coordinates - self.target).square().sum(0) + self.residual
        return errors.view(len(self.samples), CHANNELS).sum(1) / (CHANNELS * self.num_nodes)

    def closed_form(self) -> Tensor:
        """Returns the minimum mean squared error of each sample, (samples,), attained at the target coordinates."""
        return self.losses(self.target)

    def __getitem__(self, samples: list[int]) -> Problem:
        """Returns the problem restricted to the samples with these indices."""
        channels = torch.tensor([CHANNELS * sample + channel for sample in samples for channel in range(CHANNELS)])
        return Problem(
            [self.samples[sample] for sample in samples],
            self.gamma[:, channels],
            self.sqrt_beta[:, channels],
            self.target[:, channels],
            self.residual[channels],
            self.num_nodes,
        )


def build_problem(
    images: Iterable[ImageSignals],
    combinations: tuple[tuple[str, ...], ...] = COMBINATIONS,
    *,
    learn_with_loops: bool = True,
) -> Problem:
    """Filters every image with every combination of filters and projects the results onto Krylov spaces.

    Args:
        images: images of the same size.
        combinations: names of one filter per channel, for each combination.
        learn_with_loops: learn polynomials of the operator that defines the targets, the grid with self-loops. If
            False, learn polynomials of the grid without self-loops; targets do not change.

    Returns:
        A problem with ``len(images) * len(combinations)`` samples.

    Raises:
        ValueError: if there are no images, or their sizes differ.
    """
    samples: list[tuple[str, tuple[str, ...]]] = []
    parts, num_nodes = [], 0
    for image in images:
        if samples and image.graph.num_nodes != num_nodes:
            raise ValueError(
                f"{image.name} has {image.graph.num_nodes} pixels but earlier images have {num_nodes}; "
                "pass images of the same size"
            )
        num_nodes = image.graph.num_nodes
        operator = image.graph if learn_with_loops else grid_graph(*image.shape, self_loops="drop")
        basis = optimal_basis(operator, image.x, K)
        filtered = {name: apply_response(image.graph, image.x, name) for name in sorted({*sum(combinations, ())})}
        for filters in combinations:
            y = torch.stack([filtered[name][:, channel] for channel, name in enumerate(filters)], dim=1)
            target = torch.einsum("knd,nd->kd", basis.vectors, y)
            residual = (y - torch.einsum("knd,kd->nd", basis.vectors, target)).square().sum(0)
            samples.append((image.name, filters))
            parts.append((basis.gamma, basis.sqrt_beta, target, residual))
    if not samples:
        raise ValueError("images is empty; pass at least one image")
    gamma, sqrt_beta, target, residual = (torch.cat(arrays, dim=-1) for arrays in zip(*parts, strict=True))
    return Problem(samples, gamma, sqrt_beta, target, residual, num_nodes)


Recurrence = Literal["free", "positive", "bounded"]
Init = Literal["paper", "optimal"]


class Learner(torch.nn.Module):
    """Learns one filter per channel of a problem, all in the same basis.

    Args:
        basis: one of :data:`BASES`.
        problem: the samples.
        recurrence: parameters of the Favard basis: ``free`` for gamma and sqrt_beta as in the paper, ``positive`` for
            gamma and log sqrt_beta, ``bounded`` for canonical moments.
        init: initial recurrence of a Favard basis that is not ``bounded``: ``paper`` for gamma = 0 and sqrt_beta = 1,
            ``optimal`` for the recurrence coefficients of the optimal basis.
    """

    def __init__(self, basis: str, problem: Problem, recurrence: Recurrence = "free", init: Init = "paper") -> None:
        super().__init__()
        self.problem, self.name, self.recurrence = problem, basis, recurrence
        shape = problem.target.shape
        alpha = torch.zeros(shape, dtype=torch.float64)
        alpha[0] = 1
        self.fixed: Tensor | None = None
        if basis == "optimal":
            self.fixed = torch.eye(shape[0], dtype=torch.float64).unsqueeze(-1) * problem.sqrt_beta[0]
        elif basis == "favard":
            gamma, sqrt_beta = torch.zeros_like(alpha[1:]), torch.ones_like(alpha)
            if init == "optimal":
                gamma, sqrt_beta[1:] = problem.gamma[:-1].clone(), problem.sqrt_beta[1:].clamp(min=0.01)
            if recurrence == "bounded":
                self.moments = torch.nn.Parameter(torch.zeros(2 * K, shape[1], dtype=torch.float64))
            else:
                self.gamma = torch.nn.Parameter(gamma)
                self.beta = torch.nn.Parameter(sqrt_beta.log() if recurrence == "positive" else sqrt_beta)
        else:
            polynomials = named_basis(basis, K, *JACOBI)
            self.fixed = polynomials.coordinates(problem.gamma, problem.sqrt_beta)
            alpha = polynomials.constant(K).unsqueeze(-1).expand(shape).clone()
        self.alpha = torch.nn.Parameter(alpha)

    def basis_coordinates(self) -> Tensor:
        """Returns the basis vectors in the optimal basis, (K+1, K+1, channels): column k holds g_k(P) x."""
        if self.fixed is not None:
            return self.fixed
        return self.favard().coordinates(self.problem.gamma, self.problem.sqrt_beta)

    def favard(self) -> Favard:
        """Returns the Favard basis of the current parameters."""
        if self.recurrence == "bounded":
            return bounded_basis(self.moments)
        return free_basis(self.gamma, self.beta.exp() if self.recurrence == "positive" else self.beta)

    def losses(self) -> Tensor:
        """Computes the mean squared error of each sample, (samples,)."""
        # BernNet and ChebNetII constrain their coefficients to be nonnegative, and so do the paper's experiments.
        nonnegative = self.name in ("bernstein", "chebyshev-interpolation")
        alpha = self.alpha.relu() if nonnegative else self.alpha
        return self.problem.losses(torch.einsum("jkd,kd->jd", self.basis_coordinates(), alpha))

    def parameter_groups(self, lr: float, lr_recurrence: float) -> list[tuple[list[torch.nn.Parameter], float]]:
        """Returns the parameters with their learning rates: the coefficients, then the recurrence if it is learned."""
        recurrence = [parameter for name, parameter in self.named_parameters() if name != "alpha"]
        return [([self.alpha], lr), (recurrence, lr_recurrence)] if recurrence else [([self.alpha], lr)]


@dataclass(frozen=True)
class Optimization:
    """Options of Adam and the stopping rule.

    The paper's text gives a learning rate of 0.1 and its published code 0.01; its results match 0.01.

    Attributes:
        lr: learning rate of the coefficients.
        lr_recurrence: learning rate of a learned recurrence.
        weight_decay: weight decay; unused with ``backtracking``, which compares losses without a penalty.
        epochs: maximum number of epochs.
        tolerance: a sample stops when its loss changes by less than this between two epochs; 0 disables stopping.
        backtracking: undo steps that increase the loss (:class:`~polybasis.train.backtracking_adam.BacktrackingAdam`).
    """

    lr: float = 0.01
    lr_recurrence: float = 0.05
    weight_decay: float = 5e-4
    epochs: int = 500
    tolerance: float = 1e-4
    backtracking: bool = False


@dataclass(frozen=True)
class History:
    """Losses of all samples during training.

    Attributes:
        curves: (epochs, samples), the losses before each step, or after it with backtracking.
        epochs: (samples,), the number of epochs after which each sample stopped.
    """

    curves: Tensor
    epochs: Tensor

    def final(self) -> Tensor:
        """Returns the loss of each sample in the epoch it stopped at, (samples,)."""
        return self.curves.gather(0, (self.epochs - 1).unsqueeze(0)).squeeze(0)

    def largest_rise(self, after: int = 100) -> Tensor:
        """Returns the largest relative rise of each loss above its running minimum, (samples,).

        Args:
            after: number of initial epochs to skip.
        """
        minimum = self.curves.cummin(0).values
        return ((self.curves - minimum) / minimum)[after:].amax(0)


def learn(learner: Learner, optimization: Optimization | None = None) -> History:
    """Trains all samples of a problem together.

    Adam updates are elementwise, so each sample has the loss curve it would have alone. Samples that meet the stopping
    rule stay in the batch until all have met it or ``epochs`` is reached.

    Args:
        learner: the filters, updated in place.
        optimization: options of the optimiser; the defaults if omitted.

    Returns:
        The losses of all samples.
    """
    optimization = optimization or Optimization()
    groups = learner.parameter_groups(optimization.lr, optimization.lr_recurrence)
    stopped = torch.zeros(len(learner.problem.samples), dtype=torch.bool)
    epochs = torch.full((len(stopped),), optimization.epochs)
    curves: list[Tensor] = []
    backtracking = BacktrackingAdam(groups) if optimization.backtracking else None
    adam = torch.optim.Adam(
        [{"params": parameters, "lr": lr} for parameters, lr in groups], weight_decay=optimization.weight_decay
    )
    for epoch in range(optimization.epochs):
        if backtracking is not None:
            losses = backtracking.step(learner.losses)
        else:
            adam.zero_grad()
            current = learner.losses()
            current.sum().backward()  # type: ignore[no-untyped-call]
            adam.step()
            losses = current.detach()
        curves.append(losses)
        if optimization.tolerance > 0 and epoch > 0:
            converged = (losses - curves[-2]).abs() < optimization.tolerance
            epochs = torch.where(converged & ~stopped, epoch + 1, epochs)
            stopped |= converged
            if stopped.all():
                break
    return History(torch.stack(curves), epochs.clamp(max=len(curves)))


def condition_numbers(learner: Learner) -> Tensor:
    """Computes the condition number of the Hessian of each sample's loss with respect to its coefficients.

    Channels whose Krylov space has fewer than K+1 dimensions, such as the chroma of a grey image, have a singular
    Hessian and are ignored.

    Returns:
        (samples,), the largest condition number over the channels; 1 if all channels are ignored.
    """
    singular_values = torch.linalg.svdvals(learner.basis_coordinates().detach().movedim(-1, 0))
    conditions = (singular_values[:, 0] / singular_values[:, -1].clamp(min=1e-300)) ** 2
    full_rank = (learner.problem.sqrt_beta > 0).all(0)
    return torch.where(full_rank, conditions, 1.0).view(-1, CHANNELS).amax(1)


def table_rows(
    problem: Problem, optimization: Optimization | None = None, bases: tuple[str, ...] = BASES
) -> list[dict[str, Any]]:
    """Trains every basis on every sample; the paper's table averages these rows over the samples.

    Args:
        problem: the samples.
        optimization: options of the optimiser; the defaults if omitted.
        bases: some of :data:`BASES`.

    Returns:
        One row per basis and sample.
    """
    optimization = optimization or Optimization()
    rows = []
    closed_form = problem.closed_form().tolist()
    for basis in bases:
        learner = Learner(basis, problem)
        conditions = condition_numbers(learner).tolist()
        history = learn(learner, optimization)
        for i, (image, filters) in enumerate(problem.samples):
            rows.append(
                {
                    "basis": basis,
                    "image": image,
                    "filters": list(filters),
                    "lr": optimization.lr,
                    "mse": float(history.final()[i]),
                    "epochs": int(history.epochs[i]),
                    "closed_form": closed_form[i],
                    "condition_at_start": conditions[i],
                }
            )
    return rows


@dataclass(frozen=True)
class Variant:
    """A basis, its parameters and its optimiser, for the convergence experiment.

    Attributes:
        name: name in the results.
        basis, recurrence, init: arguments of :class:`Learner`.
        lr_recurrence, backtracking: options of :class:`Optimization`.
    """

    name: str
    basis: str = "favard"
    recurrence: Recurrence = "free"
    init: Init = "paper"
    lr_recurrence: float = 0.05
    backtracking: bool = False


VARIANTS = (
    Variant("monomial", basis="monomial"),
    Variant("optimal", basis="optimal"),
    Variant("favard"),
    Variant("favard, recurrence lr 0.002", lr_recurrence=0.002),
    Variant("favard, positive", recurrence="positive"),
    Variant("favard, optimal init", init="optimal"),
    Variant("favard, bounded", recurrence="bounded"),
    Variant("favard, backtracking", backtracking=True),
    Variant("favard, optimal init, backtracking", init="optimal", backtracking=True),
    Variant("favard, bounded, backtracking", recurrence="bounded", backtracking=True),
)


def train_variant(variant: Variant, problem: Problem, epochs: int = 10_000) -> History:
    """Trains a variant without early stopping, as the paper does to examine the convergence of FavardGNN.

    Args:
        variant: the basis and its optimiser.
        problem: the samples.
        epochs: number of epochs.

    Returns:
        The losses of all samples.
    """
    learner = Learner(variant.basis, problem, variant.recurrence, variant.init)
    optimization = Optimization(
        epochs=epochs, tolerance=0, backtracking=variant.backtracking, lr_recurrence=variant.lr_recurrence
    )
    return learn(learner, optimization)
