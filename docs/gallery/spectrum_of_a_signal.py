"""
The spectrum of a signal
========================

Where on the spectrum of a grid a photograph-like signal has its energy, and the filter that its blurred copy has been
through, learned from the two.
"""

import networkx
import torch

import polybasis as pb

graph = pb.Graph.from_networkx(networkx.grid_2d_graph(30, 30))
x = torch.randn(900, 1)
y = pb.apply_response(graph, x, "low-pass")
learned = pb.GraphFilter(K=10).fit(graph, x, y)
learned.plot()
