"""
The weight functions that FavardGNN learns
==========================================

Each hidden channel learns a recurrence, and each recurrence belongs to a weight function: where on the spectrum the
channel tells signals apart. Here they are cumulated from left to right, with the Chebyshev weight in orange. The
spectrum ends at the dotted lines, but the recurrence of the paper starts on an interval twice as long, and stays there;
``recurrence="bounded"`` keeps it inside.
"""

import polybasis as pb
from polybasis.nn.interpret import filters_of
from polybasis.report.figures import draw_weight_functions

data = pb.data.csbm(nodes=600, features=60, phi=-0.5, seed=1)
classifier = pb.NodeClassifier("favardgnn", K=10, epochs=40, hidden=32).fit(data.graph, data.x, data.y)
filters = filters_of(classifier.model_, data.x, data.graph)
draw_weight_functions(*filters.weight_functions())
