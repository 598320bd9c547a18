"""
The optimal polynomials follow the signal
=========================================

Two signals on one graph: one smooth, one oscillating. Their energy is concentrated in different parts of the spectrum,
and the optimal polynomials of each signal are orthogonal with respect to its spectral density.
"""

import matplotlib.pyplot as plt
import networkx
import numpy as np
import torch

import polybasis as pb

graph = pb.Graph.from_networkx(networkx.random_regular_graph(4, 1500, seed=0))
noise = torch.randn(1500, 2, dtype=torch.float64)
smooth = pb.apply_response(graph, noise[:, :1], lambda mu: np.exp(2 * mu), variable="mu")
oscillating = pb.apply_response(graph, noise[:, 1:], lambda mu: np.exp(-2 * mu), variable="mu")
x = torch.cat([smooth, oscillating], dim=1)
basis = pb.optimal_basis(graph, x, K=30)
basis.sqrt_beta[0] = 1  # signals of length 1: their energy sums to 1
polynomials = pb.bases.Favard(basis.gamma, basis.sqrt_beta)

mu = torch.linspace(-1, 1, 401, dtype=torch.float64)
values = polynomials.evaluate(mu, 4)
nodes, weights = polynomials.weight_function()
figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
for channel, (ax, name) in enumerate(zip(axes, ("smooth", "oscillating"), strict=True)):
    ax.bar(nodes[:, channel], 40 * weights[:, channel], width=0.04, bottom=-4, color="#8888", label="energy")
    for k in range(1, 5):
        ax.plot(mu, values[k, :, channel], label=f"$p_{k}$")
    ax.set(title=f"{name} signal", xlabel=r"eigenvalue $\mu$ of $P$", ylim=(-4, 4))
axes[0].legend(ncols=5, fontsize=7, loc="upper center", columnspacing=1, handlelength=1.2)
