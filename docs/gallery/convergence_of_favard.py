"""
How a learned basis converges
=============================

Three filters of one picture, learned with Adam over 240 epochs. A free recurrence, as in the paper, may move
its weight function off the spectrum, where a small step of the recurrence is a large one of the filter: the loss jumps.
A recurrence bounded by canonical moments cannot, and an optimiser that undoes bad steps does the rest.
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
