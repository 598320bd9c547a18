"""
Every recurrence defines an orthonormal basis
=============================================

Four recurrences, and the weight functions for which their polynomials are orthonormal by Favard's theorem.
"""

import matplotlib.pyplot as plt
import torch

import polybasis as pb

moments = {
    "Chebyshev: all moments 1/2": torch.full((40,), 0.5),
    "uniform: even k / (2k + 1)": torch.tensor([p for k in range(1, 21) for p in (0.5, k / (2 * k + 1))]),
    "towards 1: odd moments 0.7": torch.tensor([0.7, 0.5] * 20),
    "both ends: even moments 0.6": torch.tensor([0.5, 0.6] * 20),
}
mu = torch.linspace(-1, 1, 401, dtype=torch.float64)
figure, axes = plt.subplots(2, 4, figsize=(8, 3.6), sharey="row", sharex=True, layout="constrained")
for (name, values), (above, below) in zip(moments.items(), axes.T, strict=True):
    basis = pb.bases.Favard.from_moments(values)
    above.plot(mu, basis.evaluate(mu, 4).T[:, 1:])
    nodes, weights = basis.weight_function(20)
    below.vlines(nodes, 0, weights, linewidth=2)
    above.set_title(name, fontsize=8)
    below.set_xlabel(r"$\mu$")
axes[0, 0].set(ylabel="$p_1, .., p_4$", ylim=(-4, 4))
axes[1, 0].set_ylabel("weight function")
