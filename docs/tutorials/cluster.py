"""
Use a cluster with Ray
======================

Precompute a store on several machines, share a search for hyperparameters among them, and spread the jobs of a table:
one flag, and the same results as on one machine.
"""

# %%
# What a cluster is good for
# --------------------------
#
# The channels of a signal never meet in a polynomial filter of the features, so machines that compute different
# channels have nothing to say to each other. The same holds for the trials of a search and the jobs of a table.
# polybasis therefore uses `Ray <https://www.ray.io>`__ as a queue of independent jobs that survives the loss of a
# machine, and nothing more. Install it with ``pip install 'polybasis[ray]'``.
#
# Start Ray once on each machine. All of them must see the same files under the same paths, as on a network file system:
#
# .. code-block:: console
#
#    ray start --head --port 6379                # on the first machine, here called head
#    ray start --address head:6379               # on each of the others
#
# From then on, ``--ray head:6379`` sends jobs there, and so does ``--ray auto`` on any of these machines. On a machine
# without a cluster, ``--ray auto`` starts Ray for the duration of the command, which is good enough to try it.
#
# A graph, and its store on one machine
# -------------------------------------
#
# A random graph with heavy-tailed degrees serves as an example. Under a tight memory limit its 32 features fall into
# several blocks:

import tempfile
from pathlib import Path

import polybasis as pb

folder = Path(tempfile.mkdtemp())  # where the files of this page go
sizes = {"nodes": 50_000, "edges": 200_000, "features": 32}
graph = pb.store.make_synthetic(folder / "graph", **sizes, labelled=0.1)
plan = pb.store.plan_precompute(graph, K=8, memory=650 << 20, rows=5_000)
print(f"{len(plan.blocks)} blocks, {plan.memory >> 20} MiB each")
alone = pb.store.precompute(graph, folder / "alone", K=8, memory=650 << 20)

# %%
# The same store on the cluster
# -----------------------------
#
# Each block is a job that asks Ray for as many processors as one machine would use and for the memory of the plan, so
# that Ray runs as many at a time as fit. A block is written whole or not at all; if its machine is lost, another one
# computes it again.
#
# This page allows Ray fifteen seconds. On a slower machine, or without Ray, it is built without this one output, and
# says so in its place.

import os
import shlex
import subprocess
import sys
from importlib.util import find_spec


def shell(command, seconds):
    """Runs a command in the folder of this page; returns whether it finished in time."""
    print("$", command)
    arguments = [sys.executable, "-m", *shlex.split(command)]
    options = {"env": {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}, "timeout": seconds}
    try:
        done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, **options)
    except subprocess.TimeoutExpired:
        return False
    print(done.stdout + done.stderr)
    return "Ray did not start" not in done.stderr and done.check_returncode() is None


finished = find_spec("ray") is not None and shell(
    "polybasis precompute graph --out together --K 8 --memory 650MiB --ray auto", seconds=15
)
if not finished:
    print("[not executed: Ray is not installed, or did not finish in fifteen seconds]")

# %%
# Which machine computed a block makes no difference to its bits, so neither does the number of machines:

if finished:
    files = ("vectors.npy", "rows.npy", "y.npy")
    for name in files:
        same = (folder / "together" / name).read_bytes() == (alone.path / name).read_bytes()
        print(name, "has the same bytes" if same else "differs")
else:
    print("[not executed]")

# %%
# Press Ctrl-C, or lose the head node, and finished blocks stay on disk. The same command goes on with the missing ones,
# with or without ``--ray``.
#
# Searches and tables
# -------------------
#
# These commands take the same flag. Workers of a search share one study, so that each proposes trials in the light of
# all others' results; jobs of a table run in any order, and their lines have the same scores as on one machine:
#
# .. code-block:: console
#
#    polybasis tune chameleon --model favardgnn --trials 200 --ray head:6379 --workers 8 --study study.log
#    polybasis reproduce node-classification --ray head:6379
#    polybasis reproduce large-citation --memory 20GiB --ray head:6379
#
# In Python, it is the argument ``cluster``:
#
# .. code-block:: python
#
#    pb.store.precompute(graph, "store", K=10, memory=20 << 30, cluster="head:6379")
#    pb.train.run_jobs(jobs, "runs/table.jsonl", cluster="head:6379")
#
# .. list-table:: What can go wrong, and what happens
#    :header-rows: 1
#
#    * - event
#      - what polybasis does
#    * - there is no cluster at the address
#      - stops within ten seconds, and names the address
#    * - no machine has the memory that a job needs
#      - says how much it needs before anything starts
#    * - a machine is lost
#      - runs its job on another one, up to five times
#    * - a job fails
#      - reports the original error, not Ray's wrapper
#
# .. admonition:: Next steps
#
#    - :doc:`larger_than_memory`: what a store is, and how to train on it
#    - :doc:`/how-to/larger-than-memory`: how the basis is computed, and its cost up to 111 million nodes
#    - :doc:`/how-to/training`: searches, jobs and results
