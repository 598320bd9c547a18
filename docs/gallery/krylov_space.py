"""
One space, two bases
====================

A delta signal at the centre of a grid, the vectors :math:`P^k x`, and the optimal basis of the space they span. The
powers look more and more alike; the vectors of the optimal basis are orthogonal.
"""

import matplotlib.pyplot as plt
import networkx
import torch

import polybasis as pb

graph = pb.Graph.from_networkx(networkx.grid_2d_graph(31, 31)).with_self_loops()
x = torch.zeros(31 * 31, 1)
x[31 * 31 // 2] = 1
basis = pb.optimal_basis(graph, x, K=16)
powers = torch.einsum("knd,kmd->mnd", basis.vectors, basis.coordinates(pb.bases.Monomial()).float())

orange, blue = torch.tensor([0.9, 0.4, 0.1]), torch.tensor([0.2, 0.5, 0.9])  # positive, negative
shown = (0, 2, 4, 8, 16)
figure, axes = plt.subplots(2, len(shown), figsize=(8, 3.6), layout="constrained")
for row, vectors, name in zip(axes, (powers, basis.vectors), ("$P^{%d} x$", "$v_{%d}$"), strict=True):
    for ax, k in zip(row, shown, strict=True):
        image = vectors[k].reshape(31, 31) / vectors[k].abs().max()
        colours = torch.where(image[..., None] > 0, orange, blue)
        ax.imshow(torch.cat([colours, image.abs().sqrt()[..., None]], dim=-1))  # zero is transparent
        ax.set_title(name % k, fontsize=12)
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(True)
