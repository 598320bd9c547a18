"""
What rounding does to a basis
=============================

In float32, the three-term recurrence loses the orthogonality of its vectors as soon as an eigenvector has converged.
The kernels estimate this loss and reorthogonalise only when necessary.
"""

import matplotlib.pyplot as plt
import networkx
import torch

import polybasis as pb

graph = pb.Graph.from_networkx(networkx.gnp_random_graph(400, 0.25, seed=1))
x = torch.randn(400, 1)
degrees = range(2, 41, 2)


def textbook(K):
    """The Lanczos process as it is usually written."""
    vectors, previous, beta = [x / x.norm()], torch.zeros_like(x), 0.0
    for _ in range(K):
        step = graph @ vectors[-1] - beta * previous
        step = step - (step * vectors[-1]).sum() * vectors[-1]
        previous, beta = vectors[-1], step.norm()
        vectors.append(step / beta)
    return torch.stack(vectors)


def loss(vectors):
    gram = torch.einsum("knd,lnd->kl", vectors.double(), vectors.double())
    return float((gram - torch.diag(gram.diag().round())).abs().max())


figure, ax = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
ax.semilogy(degrees, [loss(textbook(K)) for K in degrees], "o-", label="textbook recurrence")
ax.semilogy(degrees, [loss(pb.optimal_basis(graph, x, K).vectors) for K in degrees], "s-", label="polybasis")
ax.set(xlabel="degree K", ylabel=r"$\max\,|V^\top V - I|$, float32")
ax.legend()
