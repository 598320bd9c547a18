"""
The basis decides how fast a filter is learned
==============================================

A filter of degree 10 is fitted by gradient descent in five bases. All of them can express the same filters, but the
condition number of the Hessian differs, and with it the number of steps.
"""

import matplotlib.pyplot as plt
import networkx
import torch

import polybasis as pb

K = 10
graph = pb.Graph.from_networkx(networkx.grid_2d_graph(40, 40))
x = torch.randn(1600, 1, dtype=torch.float64)
y = pb.apply_response(graph, x, "band-pass")

basis = pb.optimal_basis(graph, x, K)
target = basis.vectors[:, :, 0] @ y[:, 0]  # the coordinates of the best filter of degree K
bases = {
    "monomial": pb.bases.Monomial(),
    "Bernstein": pb.bases.Bernstein(K),
    "Chebyshev": pb.bases.Chebyshev(),
    "Legendre": pb.bases.Legendre(),
}
coordinates = {name: basis.coordinates(other)[:, :, 0] for name, other in bases.items()}
coordinates["optimal"] = torch.eye(K + 1, dtype=torch.float64)

# %%
# Column k of the matrix ``G`` holds the coordinates of the k-th basis function in the optimal basis, so the loss is
# :math:`\|G c - t\|^2` and no step needs the graph. The step size is the best fixed one.

figure, ax = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
for name, G in coordinates.items():
    eigenvalues = torch.linalg.eigvalsh(G.T @ G)
    rate = 2 / (eigenvalues[0] + eigenvalues[-1])
    c, errors = torch.zeros(K + 1, dtype=torch.float64), []
    for _ in range(200):
        residual = G @ c - target
        errors.append(float(residual.norm() / target.norm()))
        c -= rate * G.T @ residual
    condition = float(eigenvalues[-1] / eigenvalues[0])
    ax.semilogy([max(error, 1e-9) for error in errors], label=f"{name}, condition {condition:.2g}")
ax.set(xlabel="gradient steps", ylabel="distance from the best filter", ylim=(1e-9, 2))
ax.legend(loc="upper right", bbox_to_anchor=(1, 0.93))
