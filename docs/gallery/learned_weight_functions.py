"""
The weight functions that FavardGNN learns
==========================================

Each hidden channel learns a recurrence, and each recurrence corresponds to a weight function, which shows where on the
spectrum the channel distinguishes signals. The figure shows cumulative weight functions, with the Chebyshev weight in
orange. The spectrum ends at the dotted lines, but the paper's recurrence starts on an interval twice as long and stays
there. ``recurrence="bounded"`` keeps the weight function on the spectrum.
"""

import polybasis as pb
from polybasis.nn.interpret import filters_of
from polybasis.report.figures import draw_weight_functions

data = pb.data.csbm(nodes=600, features=60, phi=-0.5, seed=1)
classifier = pb.NodeClassifier("favardgnn", K=10, epochs=40, hidden=32).fit(data.graph, data.x, data.y)
filters = filters_of(classifier.model_, data.x, data.graph)
draw_weight_functions(*filters.weight_functions())
