"""
Condition numbers of eight bases
================================

The condition number of filter learning on a photograph, one dot for each combination of filters: the factor by which
the steepest direction of the loss exceeds the flattest. Photographs are smooth, so their energy is at one end of the
spectrum, where the functions of a fixed basis are nearly alike. In the optimal basis the number is 1.
"""

from polybasis.data.images import sample_photograph
from polybasis.experiments.figures import conditions
from polybasis.experiments.filter_learning import build_problem

conditions(build_problem([sample_photograph(side=80)]))
