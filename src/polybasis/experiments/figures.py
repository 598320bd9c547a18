"""The paper's figures and additional ones.

This module computes the data; :mod:`polybasis.report.figures` draws them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from polybasis.bases import named_basis
from polybasis.data.dataset import NodeDataset
from polybasis.data.images import ImageSignals, to_pixels
from polybasis.experiments.bumps import FILTERS
from polybasis.experiments.filter_learning import (
    BASES,
    COMBINATIONS,
    VARIANTS,
    Learner,
    Optimization,
    Problem,
    condition_numbers,
    learn,
    train_variant,
)
from polybasis.features import transform_features
from polybasis.graph_filter import GraphFilter
from polybasis.nn.interpret import Filters, filters_of, spectral_density
from polybasis.report import figures as drawing
from polybasis.responses import apply_response
from polybasis.train.fitting import fit
from polybasis.train.presets import load_preset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER_BASES = ("optimal", "chebyshev-interpolation", "favard", "bernstein", "monomial")


def sample_title(sample: tuple[str, tuple[str, ...]]) -> str:
    """Formats the image and filter names of a sample."""
    return f"{sample[0]}: {' / '.join(sample[1])}"


def representation() -> Figure:
    """Draws the expansion of the filter lambda^2 + 1 in several bases (the paper's Figure 1)."""
    mu = torch.linspace(-1, 1, 201, dtype=torch.float64)
    chebyshev = torch.from_numpy(np.polynomial.Polynomial([2.0, -2.0, 1.0]).convert(kind=np.polynomial.Chebyshev).coef)
    expansions = {}
    for name in ("monomial", "chebyshev", "bernstein", "legendre"):
        basis = named_basis(name, 2)
        coefficients = torch.linalg.solve(basis.to_chebyshev(2), chebyshev)
        expansions[name] = (coefficients.numpy(), basis.evaluate(mu, 2).numpy())
    return drawing.draw_representation(expansions, r"$\lambda^2 + 1$, $\lambda = 1 - \mu$")


def convergence(problem: Problem, bases: tuple[str, ...] = PAPER_BASES, epochs: int = 500) -> Figure:
    """Draws the loss curves of several bases, one panel per sample (the paper's Figures 2 and 4).

    Args:
        problem: the samples.
        bases: the bases to train.
        epochs: number of epochs.
    """
    optimization = Optimization(epochs=epochs, tolerance=0)
    curves = {basis: learn(Learner(basis, problem), optimization).curves.numpy() for basis in bases}
    return drawing.draw_convergence(curves, [sample_title(sample) for sample in problem.samples], problem.closed_form())


def bumps(problem: Problem, epochs: int = 10_000) -> Figure:
    """Draws long loss curves of monomials, the paper's Favard basis and our variant (the paper's Figure 3, left).

    Args:
        problem: the samples.
        epochs: number of epochs.
    """
    variants = [variant for variant in VARIANTS if variant.name in FILTERS]
    curves = {variant.name: train_variant(variant, problem, epochs).curves.numpy() for variant in variants}
    return drawing.draw_convergence(curves, [sample_title(sample) for sample in problem.samples], problem.closed_form())


def chameleon_bumps(rows: list[dict[str, object]], stride: int) -> Figure:
    """Draws long loss curves of a linear classifier from stored results (the paper's Figure 3, right).

    Args:
        rows: results of :func:`polybasis.experiments.filter_results.run_chameleon`.
        stride: number of epochs between two stored losses.
    """
    curves = {str(row["variant"]): np.asarray(row["losses"])[:, None] for row in rows}
    title = f"all nodes of {rows[0]['dataset']}"
    return drawing.draw_convergence(curves, [title], ylabel="cross entropy", stride=stride)


def filtered_images(image: ImageSignals) -> Figure:
    """Draws an image after each combination of filters, and after filters of degree 10 learned in closed form."""
    rows = [("", [("original", to_pixels(image.x, image.shape))])]
    for filters in COMBINATIONS:
        true, learned = torch.empty_like(image.x), torch.empty_like(image.x)
        for channel, name in enumerate(filters):
            x = image.x[:, [channel]]
            y = apply_response(image.graph, x, name)
            true[:, [channel]] = y
            nonzero = bool((x != 0).any())
            learned[:, [channel]] = GraphFilter().fit(image.graph, x, y).transform(image.graph, x) if nonzero else y
        pictures = [("true", to_pixels(true, image.shape)), ("learned", to_pixels(learned, image.shape))]
        error = (true - learned).abs().mean(1)
        intensity = (255 * error / max(float(error.max()), 1e-12)).to(torch.uint8).view(*image.shape).numpy()
        pictures.append((f"difference, maximum {float(error.max()):.2g}", np.repeat(intensity[..., None], 3, axis=2)))
        rows.append((" / ".join(filters).replace(" / ", "\n"), pictures))
    return drawing.draw_images(rows)


def learned_responses(dataset: NodeDataset) -> Figure:
    """Draws the frequency responses of OptBasisGNN trained with its published hyperparameters.

    Raises:
        ValueError: if there are none for this data set.
    """
    filters = _trained_filters("optbasisgnn", dataset)
    return drawing.draw_responses(filters.mu, filters.responses, spectral_density(dataset.graph))


def learned_weight_functions(dataset: NodeDataset) -> Figure:
    """Draws the weight functions of FavardGNN trained with its published hyperparameters.

    Raises:
        ValueError: if there are none for this data set.
    """
    weights = _trained_filters("favardgnn", dataset).weight_functions()
    assert weights is not None
    return drawing.draw_weight_functions(*weights)


def _trained_filters(model: str, dataset: NodeDataset) -> Filters:
    config = load_preset(model, dataset.name)
    if config is None:
        raise ValueError(f"{model} has no published hyperparameters for {dataset.name}")
    fitted = fit(config, dataset, dataset.split("per-class", 0))
    return filters_of(fitted.model, transform_features(dataset.x, config.feature_transform), dataset.graph)


def conditions(problem: Problem) -> Figure:
    """Draws the condition number of the Hessian for each basis and sample."""
    return drawing.draw_conditions({basis: condition_numbers(Learner(basis, problem)).numpy() for basis in BASES})
