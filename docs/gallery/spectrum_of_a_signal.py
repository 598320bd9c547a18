"""
The spectrum of a signal
========================

The distribution of the energy of a photograph-like signal over the spectrum of a grid, and the blur filter, learned
from the signal and its blurred copy.
"""

import networkx
import torch

import polybasis as pb

graph = pb.Graph.from_networkx(networkx.grid_2d_graph(30, 30))
x = torch.randn(900, 1)
y = pb.apply_response(graph, x, "low-pass")
learned = pb.GraphFilter(K=10).fit(graph, x, y)
learned.plot()
