"""
Six bases of the same polynomials
=================================

Each of these bases can express every filter of degree 6. They differ in where their functions are large and in how
strongly these are correlated, which determines how easily coefficients can be optimised.
"""

import matplotlib.pyplot as plt
import torch

import polybasis as pb

K = 6
bases = [pb.bases.Monomial(), pb.bases.Chebyshev(), pb.bases.Legendre()]
bases += [pb.bases.Jacobi(1.0, 1.0), pb.bases.Bernstein(K), pb.bases.ChebyshevInterpolation()]
mu = torch.linspace(-1, 1, 401, dtype=torch.float64)

figure, axes = plt.subplots(2, 3, figsize=(8, 4.4), sharex=True, layout="constrained")
for ax, basis in zip(axes.flat, bases, strict=True):
    ax.plot(mu, basis.evaluate(mu, K).T, linewidth=1.2)
    ax.set_title(type(basis).__name__)
for ax in axes[1]:
    ax.set_xlabel(r"eigenvalue $\mu$ of $P$")
plt.show()
