r"""
A graph larger than memory, step by step
========================================

polybasis can keep a graph on disk, compute the optimal basis of its features block by block under a memory limit, and
train models on mini-batches of rows without opening the graph again.

You will build a graph folder from files, precompute a *store*, train FavardGNN on it and predict, from the command line
and in Python.
"""

# %%
# Message passing needs the neighbours of every node in every epoch. If the graph does not fit in memory, each epoch
# must read it from disk. Polynomial filters of the features avoid this. The output of every filter of degree K is
#
# .. math:: p(P)\, x = \|x\|\, V\, p(T)\, e_0,
#
# where the optimal basis :math:`V` and the small tridiagonal matrix :math:`T` depend on the graph and the features but
# not on the filter, so they are computed only once. Training only learns :math:`p`, which requires rows of :math:`V`
# but no edges.
#
# Create example files
# --------------------
#
# The example graph has 50,000 nodes in three classes, half a million edges, and 32 noisy features. Nine edges in ten
# join *different* classes, and only one node in ten has a known class. Edges are pairs of node numbers, in any order. A
# class of -1 means unknown.

import tempfile
from pathlib import Path

import numpy as np

folder = Path(tempfile.mkdtemp())  # to follow along, Path() in an empty folder of your own
nodes, edges, classes, features = 50_000, 500_000, 3, 32

rng = np.random.default_rng(0)
y = rng.integers(0, classes, nodes)
source = rng.integers(0, nodes, edges)
wanted = (y[source] + rng.choice(classes, edges, p=[0.1, 0.45, 0.45])) % classes
by_class = [np.flatnonzero(y == c) for c in range(classes)]
target = np.choose(wanted, [rng.choice(candidates, edges) for candidates in by_class])
centres = 0.15 * rng.standard_normal((classes, features))
x = centres[y] + rng.standard_normal((nodes, features))

np.save(folder / "edges.npy", np.stack([source, target], axis=1))
np.save(folder / "x.npy", x.astype(np.float32))
np.save(folder / "y.npy", np.where(rng.random(nodes) < 0.1, y, -1))

# %%
# Edges may also be a comma-separated CSV file or a Parquet file with two columns of node numbers. Features and classes
# are arrays whose row *i* belongs to node *i*. If your nodes have names, omit ``--nodes`` below and pass tables as in
# :doc:`own_tables`, but without weights and unused columns: a graph folder is unweighted. These tables are read into
# memory once to build the folder.
#
# On this page, ``shell`` runs what you would type into a terminal:

import shlex
import sys
from subprocess import PIPE, STDOUT, run


def shell(command):
    """Runs a command of polybasis in the folder of this page."""
    print("$", command)
    arguments = [sys.executable, "-m", *shlex.split(command)]
    done = run(arguments, cwd=folder, stdout=PIPE, stderr=STDOUT, text=True)
    print(done.stdout)
    done.check_returncode()


# %%
# Build the graph folder
# ----------------------
#
# ``datasets build`` sorts the edges on disk, one range of rows at a time, so their number is not limited by memory.
# Duplicates and self-loops are dropped, and each edge counts in both directions.

shell(
    "polybasis datasets build --edges edges.npy --nodes 50000 "
    "--features x.npy --labels y.npy --out big.graph --memory 1GiB"
)

# %%
# The result is a folder of memory-mapped arrays with checksums: the adjacency matrix in CSR format, the features column
# by column, and the classes. In Python, ``GraphFolder.open`` maps them without reading them.

import polybasis as pb

graph = pb.store.GraphFolder.open(folder / "big.graph")
print(f"{graph.nonzeros:,} nonzeros, {graph.x.shape} features: {type(graph.x).__name__}")

# %%
# Plan before you compute
# -----------------------
#
# The Lanczos process needs only two vectors per channel at a time. The features are therefore split into blocks of as
# many channels as the memory limit allows. Computing a plan is cheap. About 640 MiB are reserved for Python, torch and
# read buffers:

for limit in (642, 650, 1024):
    plan = pb.store.plan_precompute(graph, K=8, memory=limit << 20, rows=5_000)
    blocks = f"{len(plan.blocks)} blocks of {plan.blocks[0]:2} channels"
    print(f"{limit:5} MiB: {blocks}, {plan.memory >> 20} MiB at most")

# %%
# More memory means fewer blocks, and each block reads the graph files once per degree. On the command line,
# ``precompute --dry-run`` prints the plan with an estimate of the time.
#
# Precompute the store
# --------------------
#
# The limit is deliberately tight, so that there are two blocks. By default, only the rows of nodes with a known class
# are kept, because training needs no others. ``--rows all`` keeps every row, for predictions.

shell("polybasis precompute big.graph --out big.store --K 8 --memory 650MiB")

# %%
# The store contains a log with the peak memory of the process, which shows whether it stayed below the limit:

import json

for line in (folder / "big.store" / "log.jsonl").read_text().splitlines():
    entry = json.loads(line)
    if "block" in entry:
        print(f"block {entry['block']}: peak memory {entry['peak_memory'] >> 20} MiB")

# %%
# An interrupted ``precompute`` resumes at the first missing block, and the finished store has the same bytes as one
# that was never interrupted. With ``--ray``, the blocks are computed on a cluster; see :doc:`cluster`.
#
# Train
# -----
#
# ``train`` recognises stores. A batch consists of rows of the store, which are read from disk while the previous batch
# is processed. FavardGNN learns its basis but can use the same store, because its parameters only affect
# :math:`p(T) e_0`.

shell("polybasis train big.store --model favardgnn --epochs 8 --batch-size 500 --out model")

# %%
# How much does the graph contribute? A filter of degree 0 sees only the features. You can use the same store for it, as
# for every other model and every degree up to 8. This time, train from Python:

source = pb.train.Source.folder(folder / "big.store")
for K in (0, 2):
    values = {"K": K, "epochs": 8, "batch_size": 500}
    config = pb.train.Config.of("favardgnn", precomputed=True, **values)
    job = pb.train.Job(config, source, source.protocol, split=0, seed=0)
    result = pb.train.run_job(job)
    print(f"K = {K}: test accuracy {result['test_score']:.1%}")

# %%
# Look at the filters
# -------------------
#
# The responses follow from :math:`T` and the learned parameters, so plotting them needs neither the graph nor the
# vectors. The same is true of the grey histogram, the weight function of the optimal basis, which shows how the energy
# of the features is distributed over the spectrum. ``polybasis plot model big.store`` draws the responses on all of
# [-1, 1].

import matplotlib.pyplot as plt

from polybasis.nn.interpret import filters_on_basis

store = pb.open_store(folder / "big.store")
model = pb.train.TrainedModel.load(folder / "model")
filters = filters_on_basis(model.model.conv, store.gamma, store.sqrt_beta)
inside = filters.mu.abs() < 0.5
mu, energy = pb.bases.Favard(store.gamma[:-1], store.sqrt_beta).weight_function()

_, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.plot(filters.mu[inside], filters.responses[inside], color="C0", linewidth=0.6, alpha=0.6)
ax.set(xlabel=r"eigenvalue $\mu$ of $P$", ylabel="response", ylim=(-4, 20))
behind = ax.twinx()
bins = np.linspace(-0.5, 0.5, 41)
behind.hist(mu.flatten(), bins, weights=energy.flatten(), color="#888", alpha=0.25)
behind.set_axis_off()
plt.show()

# %%
# Most of the energy is noise around zero, which the filters leave unchanged. They amplify the left end of the spectrum,
# that is, signals that change sign along most edges. On a heterophilous graph, this is where the classes are.
#
# Predict
# -------
#
# A model that was trained on a store can predict on any store with the same features and degree, for the nodes whose
# rows the store contains. Add ``--rows all`` to ``precompute`` to predict all nodes. The model also predicts on the
# graph folder itself if that fits in memory, as it does here. The command is
# ``polybasis predict model big.graph --out predictions.csv``. In Python:

data = graph.load()
predicted = model.predict(data)
unknown = data.y.numpy() < 0
right = np.mean(predicted[unknown] == y[unknown])
print(f"{unknown.sum():,} nodes without a class; {right:.1%} predicted correctly")

# %%
# These classes were not in any file; the script kept them in ``y`` for this check.
#
# How it scales
# -------------
#
# The same steps work for graphs of any size; only the time grows. The following was measured on two cores with 128
# features and degree 10, on synthetic graphs with heavy-tailed degrees and random neighbours, the worst case for a
# cache (:doc:`/results/scale` has all columns):
#
# ============  ===============  ========  ===========  =================
# nodes         nonzeros         time      peak memory  graph on disk
# ============  ===============  ========  ===========  =================
# 169,343       2,328,956        0.2 min   0.63 GiB     0.1 GiB
# 1,000,000     19,987,170       1.3 min   1.12 GiB     0.3 GiB
# 11,105,996    323,075,210      3.5 min   5.92 GiB     4.0 GiB
# 111,059,956   3,231,236,692    49.6 min  15.12 GiB    39.9 GiB
# ============  ===============  ========  ===========  =================
#
# The last graph has the size of ogbn-papers100M. Its files are more than twice as large as the peak memory.
#
# .. admonition:: Next steps
#
#    - :doc:`/how-to/larger-than-memory`: all commands
#    - :doc:`/explanation/stores`: the method, and accuracy compared with training on the graph
#    - :doc:`cluster`: the same precomputation on several machines
#    - :doc:`/reference/file-formats`: what is inside the folders, and how they are verified
