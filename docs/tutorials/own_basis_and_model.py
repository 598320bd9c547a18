"""
A basis and a model of your own
===============================

A polynomial basis in seven lines, a model in sixteen, and every test that the built-in ones have to pass.

You will register both by name, let polybasis check them, see what the checks catch, and train the model from Python and
from the command line.
"""

# %%
# A basis
# -------
#
# Most useful families of polynomials obey a three-term recurrence,
#
# .. math:: g_0(\mu) = s, \qquad g_{k+1}(\mu) = (a_k\,\mu + b_k)\, g_k(\mu) + c_k\, g_{k-1}(\mu),
#
# and its coefficients are all that polybasis needs to evaluate them, on numbers and on graphs, with gradients and in
# the native kernels. Take the Chebyshev polynomials of the third kind, :math:`V_0 = 1`, :math:`V_1 = 2\mu - 1`,
# :math:`V_{k+1} = 2\mu V_k - V_{k-1}`. They are orthogonal under a weight that grows towards :math:`\mu = 1`, so they
# resolve smooth signals more finely than oscillating ones.

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
# What do they look like? A basis evaluates itself:

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
# Is it right? ``check_basis`` compares it with the eigenvalues of a graph: the polynomials span all those of their
# degree, conversions agree with each other, and the filter :math:`g_k(P)` does to every eigenvector what it should.

from polybasis.testing import check_basis, check_model

check_basis("chebyshev-third")

# %%
# Silence is success. To see what failure looks like, make a mistake: stop scaling the polynomials after the first.


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
# A model is a subclass of ``pb.nn.Model``: a constructor whose arguments after ``out_channels`` are its
# hyperparameters, and a ``forward`` from features and a graph to a score for each class. This one filters in the new
# basis, and shows its last layer the unfiltered signal as well, for nodes that differ from their neighbours.


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
# That was one line for these tests:

from polybasis.testing import MODEL_CHECKS

for check in MODEL_CHECKS:
    print("-", check.__doc__.split("\n")[0].replace("`", ""))

# %%
# They catch what is easy to get wrong and hard to notice. Here is a model that adds a number to each node, in the order
# in which the nodes happen to be stored:


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
# A registered name works wherever the name of a built-in model does. Hyperparameters are keywords:

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
# A command is a process of its own and has not seen your classes. Copy the two imports and the two classes, with their
# decorators, into a file ``mine.py``. That is all of it. Then name the file and the class:

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
# ``tune`` knows what to search from the constructor: ``K`` and ``dropout`` by their names, a ``Literal`` over its
# values, a positive number around its default.
#
# .. code-block:: console
#
#    polybasis tune csbm --model mine.py:SideBySide --trials 20
#
# A saved model remembers the hash of the file, not its code. Loading it never runs a file that you did not name:
# pass ``--model-file mine.py`` to ``predict`` and ``evaluate``. To give a model to others, make it an entry point of a
# package, and its name works for everybody who installs it.
#
# .. admonition:: Next steps
#
#    - :doc:`/how-to/own-models-and-bases`: entry points, hyperparameters, bases without a recurrence
#    - :doc:`filter_responses`: compare your basis with the built-in ones, and read its filters
#    - :doc:`own_network`: a layer in a network and a training loop of your own
