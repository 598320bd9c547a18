r"""
A graph larger than memory
==========================

A graph on disk, the optimal basis of its features computed block by block under a memory limit of your choice, and a
model that trains on a few rows at a time and never opens the graph again.

You will build a graph folder from files, precompute a *store*, train FavardGNN on it and predict, from the command line
and in Python.
"""

# %%
# Message passing needs the neighbours of every node in every epoch, and a graph that does not fit in memory turns each
# epoch into a tour of the disk. Polynomial filters of the features offer a way out. Every filter of degree K is
#
# .. math:: p(P)\, x = \|x\|\, V\, p(T)\, e_0,
#
# where the optimal basis :math:`V` and the tiny tridiagonal matrix :math:`T` depend on the graph and the features, but
# not on the filter. So they are computed once. Training only ever chooses :math:`p`, which takes rows of :math:`V` and
# no edges at all.
#
# Files to start from
# -------------------
#
# Our stand-in has 50,000 nodes in three classes, half a million edges, and 32 noisy features. Nine edges in ten join
# *different* classes, and only one node in ten has a known class. Edges are pairs of node numbers, in any order; a
# class of -1 is unknown.

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
# Edges may also be a CSV file separated by commas, or a Parquet file, with two columns of node numbers. Features and
# classes are arrays whose row *i* belongs to node *i*. If your nodes have names, leave out ``--nodes`` below and give
# tables as in :doc:`own_tables`; these are read into memory once, to build the folder.
#
# On this page, ``shell`` runs what you would
# type into a terminal:

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
# Two vectors per channel are all the Lanczos process needs at a time, so the features are cut into blocks of as many
# channels as the memory limit has room for. A plan costs nothing. The 640 MiB at the bottom are Python, torch and read
# buffers:

for limit in (642, 650, 1024):
    plan = pb.store.plan_precompute(graph, K=8, memory=limit << 20, rows=5_000)
    blocks = f"{len(plan.blocks)} blocks of {plan.blocks[0]:2} channels"
    print(f"{limit:5} MiB: {blocks}, {plan.memory >> 20} MiB at most")

# %%
# More memory means fewer blocks, and each block reads the graph's files once per degree. On the command line,
# ``precompute --dry-run`` prints the plan with an estimate of the time.
#
# Precompute the store
# --------------------
#
# The limit is tight on purpose, so that there are two blocks. Rows are kept for the nodes with a known class, which is
# what training needs; ``--rows all`` keeps every row, for predictions.

shell("polybasis precompute big.graph --out big.store --K 8 --memory 650MiB")

# %%
# Did it stay below the limit? The store keeps a log, with the peak memory of the whole process:

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
# ``train`` recognises a store. Batches are rows of it, read from disk while the previous batch is processed. The model
# is FavardGNN, whose basis is learned: it never needed a store of its own, because its parameters enter through
# :math:`p(T) e_0` only.

shell("polybasis train big.store --model favardgnn --epochs 8 --batch-size 500 --out model")

# %%
# How much of that is the graph's doing? A filter of degree 0 sees the features and nothing else. The same store serves
# it, and every other model and degree up to 8; this time from Python:

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
# Their responses follow from :math:`T` and the learned parameters, so drawing them needs neither the graph nor the
# vectors. Neither does the grey histogram behind them: it is the weight function of the optimal basis, which shows
# where on the spectrum the features have their energy. ``polybasis plot model big.store`` draws the responses over the
# whole of [-1, 1].

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
# Most of the energy is noise, spread around zero, and the filters leave it as it is. They amplify the left end of the
# spectrum, signals that change along most edges: that is where the classes are, on a graph whose neighbours differ.
#
# Predict
# -------
#
# A model that was trained on a store predicts on any store of the same features and degree, for the nodes whose rows
# that store keeps: add ``--rows all`` to ``precompute`` if you want all. It also predicts on the
# graph folder itself, if that fits in memory, as this one does. On the command line that is ``polybasis predict model
# big.graph --out predictions.csv``. In Python:

data = graph.load()
predicted = model.predict(data)
unknown = data.y.numpy() < 0
right = np.mean(predicted[unknown] == y[unknown])
print(f"{unknown.sum():,} nodes without a class; {right:.1%} predicted correctly")

# %%
# Those classes were never in any file: the script kept them in ``y`` to check.
#
# How it scales
# -------------
#
# Nothing above depends on the size of the graph, except for the time. Measured on two cores with 128 features and
# degree 10, on synthetic graphs with heavy-tailed degrees and random neighbours, which is the worst case for a cache
# (:doc:`/results/scale` has all columns):
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
# The last graph has the size of ogbn-papers100M. Its files are more than twice as large as the memory that was used.
#
# .. admonition:: Next steps
#
#    - :doc:`/how-to/larger-than-memory`: all commands, the method, and accuracy compared with training on the graph
#    - :doc:`cluster`: the same precomputation on several machines
#    - :doc:`/reference/file-formats`: what is inside the folders, and how they are verified
