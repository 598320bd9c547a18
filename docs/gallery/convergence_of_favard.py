"""
How a learned basis converges
=============================

Three filters of one picture, learned with Adam over 240 epochs. With a free recurrence, as in the paper, the weight
function may move off the spectrum. A small step in the recurrence then becomes a large step in the filter, and the loss
jumps. Bounding the recurrence by canonical moments prevents this. An optimiser that undoes bad steps removes the
remaining jumps.
"""

from polybasis.data.images import sample_photograph
from polybasis.experiments.figures import sample_title
from polybasis.experiments.filter_learning import VARIANTS, build_problem, train_variant
from polybasis.report.figures import draw_convergence

problem = build_problem([sample_photograph(side=50)])[[3]]
shown = ("monomial", "favard", "favard, bounded, backtracking")
variants = [variant for variant in VARIANTS if variant.name in shown]
curves = {variant.name: train_variant(variant, problem, epochs=240).curves for variant in variants}
draw_convergence(curves, [sample_title(problem.samples[0])], problem.closed_form())
