"""The paper's figures and new ones: what they show. How they look is :mod:`polybasis.report.figures`."""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.figure import Figure

from polybasis.bases import named_basis
from polybasis.data.dataset import NodeDataset
from polybasis.data.images import ImageSignals, to_pixels
from polybasis.experiments.filter_learning import (
    BASES,
    COMBINATIONS,
    WAYS,
    Learner,
    Problem,
    Settings,
    condition_numbers,
    learn,
    long_training,
)
from polybasis.features import transform_features
from polybasis.graph_filter import GraphFilter
from polybasis.nn.interpret import Filters, filters_of, spectral_density
from polybasis.report import figures as drawing
from polybasis.responses import apply_response
from polybasis.train.config import load_preset
from polybasis.train.fitting import fit

PAPER_BASES = ("optimal", "chebyshev-interpolation", "favard", "bernstein", "monomial")


def title_of(sample: tuple[str, tuple[str, ...]]) -> str:
    """Image and filters in a line."""
    return f"{sample[0]}: {' / '.join(sample[1])}"


def representation() -> Figure:
    """How different bases add up to the same filter, lambda^2 + 1 (the paper's first figure)."""
    mu = torch.linspace(-1, 1, 201, dtype=torch.float64)
    in_chebyshev = torch.from_numpy(
        np.polynomial.Polynomial([2.0, -2.0, 1.0]).convert(kind=np.polynomial.Chebyshev).coef
    )
    shown = {}
    for name in ("monomial", "chebyshev", "bernstein", "legendre"):
        basis = named_basis(name, 2)
        coefficients = torch.linalg.solve(basis.to_chebyshev(2), in_chebyshev)
        shown[name] = (coefficients.numpy(), basis.evaluate(mu, 2).numpy())
    return drawing.draw_representation(shown, r"$\lambda^2 + 1$, $\lambda = 1 - \mu$")


def convergence(problem: Problem, bases: tuple[str, ...] = PAPER_BASES, epochs: int = 500) -> Figure:
    """Losses by epoch for every sample of a small problem (the paper's second and fourth figures)."""
    settings = Settings(epochs=epochs, tolerance=0)
    curves = {basis: learn(Learner(basis, problem), settings).curves.numpy() for basis in bases}
    return drawing.draw_convergence(curves, [title_of(sample) for sample in problem.samples], problem.closed_form())


def bumps(problem: Problem, epochs: int = 10_000) -> Figure:
    """Ten thousand epochs of the learned basis, of monomials, and of the way out (the paper's third figure, left)."""
    shown = [way for way in WAYS if way.name in ("monomial", "favard", "favard, bounded, guarded")]
    curves = {way.name: long_training(way, problem, epochs).curves.numpy() for way in shown}
    return drawing.draw_convergence(curves, [title_of(sample) for sample in problem.samples], problem.closed_form())


def chameleon_bumps(rows: list[dict[str, object]], kept_every: int) -> Figure:
    """The same for a classifier (the paper's third figure, right), from results that were kept."""
    curves = {str(row["way"]): np.asarray(row["losses"])[:, None] for row in rows}
    title = f"all nodes of {rows[0]['dataset']}"
    return drawing.draw_convergence(curves, [title], ylabel="cross entropy", every=kept_every)


def filtered_images(image: ImageSignals) -> Figure:
    """An image, what the filters make of it, and what filters of degree 10 learned in closed form make of it."""
    rows = [("", [("original", to_pixels(image.x, image.shape))])]
    for filters in COMBINATIONS:
        true, learned = torch.empty_like(image.x), torch.empty_like(image.x)
        for channel, name in enumerate(filters):
            x = image.x[:, [channel]]
            y = apply_response(image.graph, x, name)
            true[:, [channel]] = y
            known = bool((x != 0).any())
            learned[:, [channel]] = GraphFilter().fit(image.graph, x, y).transform(image.graph, x) if known else y
        pictures = [("true", to_pixels(true, image.shape)), ("learned", to_pixels(learned, image.shape))]
        error = (true - learned).abs().mean(1)
        heat = (255 * error / max(float(error.max()), 1e-12)).to(torch.uint8).view(*image.shape).numpy()
        pictures.append((f"difference, at most {float(error.max()):.2g}", np.repeat(heat[..., None], 3, axis=2)))
        rows.append((" / ".join(filters).replace(" / ", "\n"), pictures))
    return drawing.draw_images(rows)


def learned_responses(dataset: NodeDataset) -> Figure:
    """What OptBasisGNN, trained with its published settings, does to the spectrum."""
    filters = _trained_filters("optbasisgnn", dataset)
    return drawing.draw_responses(filters.mu, filters.responses, spectral_density(dataset.graph))


def learned_weight_functions(dataset: NodeDataset) -> Figure:
    """The weight functions that FavardGNN, trained with its published settings, has found."""
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
    """Condition numbers of the Hessian by basis and sample."""
    return drawing.draw_conditions({basis: condition_numbers(Learner(basis, problem)).numpy() for basis in BASES})
