"""
Spectra of graphs
=================

The distribution of the eigenvalues of the propagation operator for six graphs. ``spectral_density`` estimates it from
random signals without computing any eigenvalue, so it also works for graphs with millions of nodes.
"""

import matplotlib.pyplot as plt
import networkx as nx

import polybasis as pb
from polybasis.nn.interpret import spectral_density

graphs = {
    "grid, 30 x 30": nx.grid_2d_graph(30, 30),
    "4-regular, random": nx.random_regular_graph(4, 1000, seed=0),
    "dense, random": nx.gnp_random_graph(500, 0.1, seed=0),
    "preferential attachment": nx.barabasi_albert_graph(1000, 3, seed=0),
    "small world": nx.watts_strogatz_graph(1000, 6, 0.05, seed=0),
    "four communities": nx.planted_partition_graph(4, 150, 0.1, 0.01, seed=0),
}
figure, axes = plt.subplots(2, 3, figsize=(8, 4), sharex=True, layout="constrained")
for ax, (name, graph) in zip(axes.flat, graphs.items(), strict=True):
    edges, heights = spectral_density(pb.Graph.from_networkx(graph))
    ax.stairs(heights, edges, fill=True, alpha=0.7)
    ax.set(title=name, yticks=[])
for ax in axes[1]:
    ax.set_xlabel(r"eigenvalue $\mu$ of $P$")
plt.show()
