r"""
Where a basis ends
==================

A star graph has three distinct eigenvalues, so the basis of a signal on it has at most three vectors, whatever the
degree. The matrix :math:`|V^\top V|` should be diagonal. In float32, the textbook recurrence continues, normalises
rounding errors and produces vectors that repeat the first ones. The kernels detect the rank and end the basis.
"""

import matplotlib.pyplot as plt
import networkx
import torch

import polybasis as pb

graph, x, K = pb.Graph.from_networkx(networkx.star_graph(200)), torch.randn(201, 1), 8
vectors, previous, beta = [x / x.norm()], torch.zeros_like(x), 0.0
for _ in range(K):
    step = graph @ vectors[-1] - beta * previous
    step = step - (step * vectors[-1]).sum() * vectors[-1]
    previous, beta = vectors[-1], step.norm()
    vectors.append(step / beta)
basis = pb.optimal_basis(graph, x, K)

figure, axes = plt.subplots(1, 2, figsize=(6.4, 3.2), layout="constrained")
titles = ("textbook recurrence", f"polybasis: rank {int(basis.rank)}")
for ax, title, V in zip(axes, titles, (torch.stack(vectors), basis.vectors), strict=True):
    image = ax.imshow(torch.einsum("knd,lnd->kl", V, V).abs(), vmin=0, vmax=1, cmap="Blues")
    ax.set(title=title, xlabel="vector", ylabel="vector")
    ax.grid(visible=False)
figure.colorbar(image, ax=axes, label=r"$|V^\top V|$", shrink=0.8)
plt.show()
