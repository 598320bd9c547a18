"""
Condition numbers of eight bases
================================

The condition number of filter learning on a photograph, one dot per combination of filters. It is the ratio between the
largest and the smallest curvature of the loss. Photographs are smooth, so their energy is concentrated at one end of
the spectrum, where the functions of a fixed basis look nearly alike. In the optimal basis, the condition number is 1.
"""

from polybasis.data.images import sample_photograph
from polybasis.experiments.figures import conditions
from polybasis.experiments.filter_learning import build_problem

conditions(build_problem([sample_photograph(side=80)]))
