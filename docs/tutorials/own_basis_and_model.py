"""
A basis and a model of your own
===============================

Write a polynomial basis in seven lines and a model in sixteen, and run the tests that all built-in ones pass.

You will register both by name, check them with polybasis, see what these checks catch, and train the model from Python
and from the command line.
"""

# %%
# A basis
# -------
#
# Most useful families of polynomials obey a three-term recurrence,
#
# .. math:: g_0(\mu) = s, \qquad g_{k+1}(\mu) = (a_k\,\mu + b_k)\, g_k(\mu) + c_k\, g_{k-1}(\mu),
#
# and polybasis only needs its coefficients to evaluate the polynomials on numbers and on graphs, with gradients and
# native kernels. As an example, take the Chebyshev polynomials of the third kind, :math:`V_0 = 1`,
# :math:`V_1 = 2\mu - 1`, :math:`V_{k+1} = 2\mu V_k - V_{k-1}`. They are orthogonal with respect to a weight that grows
# towards :math:`\mu = 1`, so they resolve smooth signals more finely than oscillating ones.

import torch

import polybasis as pb


@pb.register_basis("chebyshev-third")
class ChebyshevThird(pb.bases.ThreeTermBasis):
    def recurrence(self, K):
        one, ones = torch.ones((), dtype=torch.float64), torch.ones(K, dtype=torch.float64)
        b = 0 * ones
        b[:1] = -1  # only V_1 = 2 mu - 1 has a constant term
        return pb.bases.Recurrence(s=one, a=2 * ones, b=b, c=-ones)


# %%
# To plot the polynomials, evaluate the basis:

from polybasis.report.figures import figure

mu = torch.linspace(-1, 1, 401, dtype=torch.float64)
with figure(2, width=8.4, height=3, sharex=True) as (drawn, axes):
    for ax, basis in zip(axes, (ChebyshevThird(), pb.bases.Chebyshev()), strict=True):
        for k, polynomial in enumerate(basis.evaluate(mu, 4)):
            ax.plot(mu, polynomial, label=f"$g_{k}$")
        ax.set(title=type(basis).__name__, xlabel=r"eigenvalue $\mu$", xticks=[-1, 0, 1])
    axes[1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
drawn

# %%
# ``check_basis`` tests whether the implementation is correct. On a graph with known eigenvalues, it checks that the
# polynomials span all polynomials of their degree, that conversions agree with each other, and that the filter
# :math:`g_k(P)` scales every eigenvector correctly.

from polybasis.testing import check_basis, check_model

check_basis("chebyshev-third")

# %%
# No output means success. To see what a failure looks like, introduce a mistake and set the coefficients of
# :math:`\mu` to zero:


class Wrong(ChebyshevThird):
    def recurrence(self, K):
        return super().recurrence(K)._replace(a=torch.zeros(K, dtype=torch.float64))


try:
    check_basis(Wrong())
except AssertionError as error:
    print(error)

# %%
# A model
# -------
#
# A model is a subclass of ``pb.nn.Model``. The constructor arguments after ``out_channels`` are its hyperparameters,
# and ``forward`` maps features and a graph to a score per class. This model filters in the new basis. It also passes
# the unfiltered signal to the last layer, for nodes that differ from their neighbours.


@pb.register_model("side-by-side")
class SideBySide(pb.nn.Model):
    def __init__(self, in_channels, hidden_channels, out_channels, K=6, dropout=0.3, num_nodes=None):
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        self.first = pb.nn.FeatureLinear(in_channels, hidden_channels)
        self.conv = pb.nn.PolyConv(hidden_channels, K, basis="chebyshev-third")
        self.last = torch.nn.Linear(2 * hidden_channels, out_channels)
        self.dropout = dropout

    def forward(self, x, graph):
        h = self.first(pb.nn.dropout(x, self.dropout, self.training)).relu()
        both = torch.cat([h, self.conv(h, graph)], dim=1)
        return self.last(pb.nn.dropout(both, self.dropout, self.training))


check_model("side-by-side")

# %%
# This single line ran the following tests:

from polybasis.testing import MODEL_CHECKS

for check in MODEL_CHECKS:
    print("-", check.__doc__.split("\n")[0].replace("`", ""))

# %%
# The tests catch mistakes that are easy to make and hard to notice. The following model, for example, adds a number to
# the scores of each node that depends on the order in which nodes are stored:


class ByPosition(SideBySide):
    def forward(self, x, graph):
        return super().forward(x, graph) + torch.linspace(0, 1, graph.num_nodes).unsqueeze(1)


try:
    check_model(ByPosition)
except AssertionError as error:
    print(error)

# %%
# Train it
# --------
#
# You can use a registered name wherever you can use a built-in model. Pass hyperparameters as keyword arguments:

data = pb.data.csbm(nodes=600, features=50, phi=0.4, seed=2)
split = data.split("stratified", seed=0)
for name in ("side-by-side", "mlp"):
    classifier = pb.NodeClassifier(name, dropout=0.5, epochs=60)
    classifier.fit(data.graph, data.x, data.y, train_mask=split.train, val_mask=split.val)
    print(f"{name}: validation accuracy {classifier.score(data.y, split.val):.1%}")

# %%
# On the command line
# -------------------
#
# A command runs in a separate process that does not know your classes. Copy the two imports and the two classes, with
# their decorators, into a file ``mine.py``. Then pass the file and the class:

# sphinx_gallery_start_ignore
import re
import subprocess
import sys
from pathlib import Path

source = Path(globals().get("__file__", "own_basis_and_model.py")).read_text()
registered = re.findall(r"^@pb\.register.*?(?=\n\n\n)", source, re.MULTILINE | re.DOTALL)
Path("mine.py").write_text("\n\n".join(["import torch", "import polybasis as pb", *registered]))


def shell(command):
    """Runs a command and prints what a terminal shows when it has ended."""
    done = subprocess.run(f"{sys.executable} -m {command}", shell=True, text=True, capture_output=True)
    print(re.sub(r".*: epoch \d+ of at most .*\n", "", done.stderr + done.stdout))
    done.check_returncode()


# sphinx_gallery_end_ignore
shell("polybasis train csbm --model mine.py:SideBySide --epochs 30 --out mine")

# %%
# ``tune`` derives the search space from the constructor. It recognises ``K`` and ``dropout`` by name, searches a
# ``Literal`` over its values, and searches a positive number around its default.
#
# .. code-block:: console
#
#    polybasis tune csbm --model mine.py:SideBySide --trials 20
#
# A saved model contains the hash of the file but not its code, and loading it never runs a file that you did not name.
# Pass ``--model-file mine.py`` to ``predict`` and ``evaluate``. To share a model, declare it as an entry point of a
# package. Its name then works for everyone who installs the package.
#
# .. admonition:: Next steps
#
#    - :doc:`/how-to/own-models-and-bases`: entry points, hyperparameters, bases without a recurrence
#    - :doc:`filter_responses`: compare your basis with the built-in ones, and read its filters
#    - :doc:`own_network`: a layer in a network and a training loop of your own
