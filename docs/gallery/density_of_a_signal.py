"""
Estimate the spectral density of a signal
=========================================

The cumulative energy of a signal over the spectrum, computed exactly from all 900 eigenvectors and approximated by the
weight function of its optimal basis. Degree K needs K products with the graph and gives a step function with K+1 steps.
"""

import matplotlib.pyplot as plt
import networkx
import torch

import polybasis as pb

graph = pb.Graph.from_networkx(networkx.grid_2d_graph(30, 30))
x = pb.apply_response(graph, torch.randn(900, 1), lambda mu: 0.2 + (mu - 0.1) ** 2, variable="mu")
eigenvalues, eigenvectors = torch.linalg.eigh(graph @ torch.eye(900, dtype=torch.float64))
energy = (eigenvectors.T @ x)[:, 0] ** 2

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.plot(eigenvalues, energy.cumsum(0) / energy.sum(), color="#888", linewidth=3, alpha=0.6, label="exact")
for K in (4, 10, 30):
    nodes, weights = pb.optimal_basis(graph, x, K).weight_function()
    ax.step(nodes[:, 0], weights[:, 0].cumsum(0) / weights.sum(), where="post", linewidth=1.2, label=f"K = {K}")
ax.set(xlabel=r"eigenvalue $\mu$ of $P$", ylabel="share of the energy")
ax.legend()
plt.show()
