"""
Use a cluster with Ray
======================

Precompute a store on several machines, distribute a hyperparameter search, and distribute the jobs of a results table.
All of this takes one flag and gives the same results as on one machine.
"""

# %%
# When to use a cluster
# ---------------------
#
# A polynomial filter of the features processes each channel independently, so machines that compute different channels
# need no communication. The same is true of the trials of a search and the jobs of a table. polybasis therefore uses
# `Ray <https://www.ray.io>`__ only as a queue of independent jobs that survives the loss of a machine. Install it with
# ``pip install 'polybasis[ray]'``.
#
# Start Ray once on each machine. All machines need access to the same files under the same paths, for example through a
# network file system:
#
# .. code-block:: console
#
#    ray start --head --port 6379                # on the first machine, here called head
#    ray start --address head:6379               # on each of the others
#
# Then ``--ray head:6379`` sends jobs to this cluster, and so does ``--ray auto`` on any of its machines. On a machine
# without a cluster, ``--ray auto`` starts Ray for the duration of the command, which is enough to try it.
#
# Compute a store on one machine
# ------------------------------
#
# As an example, generate a random graph with heavy-tailed degrees. Under a tight memory limit, its 32 features are
# split into several blocks:

import tempfile
from pathlib import Path

import polybasis as pb

folder = Path(tempfile.mkdtemp())  # holds the files of this page
sizes = {"nodes": 50_000, "edges": 200_000, "features": 32}
graph = pb.store.make_synthetic(folder / "graph", **sizes, labelled=0.1)
plan = pb.store.plan_precompute(graph, K=8, memory=650 << 20, rows=5_000)
print(f"{len(plan.blocks)} blocks, {plan.memory >> 20} MiB each")
alone = pb.store.precompute(graph, folder / "alone", K=8, memory=650 << 20)

# %%
# Compute the same store on the cluster
# -------------------------------------
#
# Each block is a job. It requests the processors that one machine would use and the memory given in the plan, so Ray
# runs as many blocks at a time as fit. Blocks are written atomically. If a machine is lost, another one recomputes its
# block.
#
# This page allows Ray fifteen seconds. If the machine that builds it is slower or lacks Ray, this output is replaced by
# a note.

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
# The bits of a block do not depend on the machine that computes it, so the store does not depend on the number of
# machines:

if finished:
    files = ("vectors.npy", "rows.npy", "y.npy")
    for name in files:
        same = (folder / "together" / name).read_bytes() == (alone.path / name).read_bytes()
        print(name, "has the same bytes" if same else "differs")
else:
    print("[not executed]")

# %%
# If you press Ctrl-C or lose the head node, finished blocks remain on disk. The same command then computes the missing
# ones, with or without ``--ray``.
#
# Distribute searches and tables
# ------------------------------
#
# The following commands take the same flag. The workers of a search share one study, so each proposes trials based on
# the results of all workers. The jobs of a table run in any order and have the same scores as on one machine:
#
# .. code-block:: console
#
#    polybasis tune chameleon --model favardgnn --trials 200 --ray head:6379 --workers 8 --study study.log
#    polybasis reproduce node-classification --ray head:6379
#    polybasis reproduce large-citation --memory 20GiB --ray head:6379
#
# In Python, use the argument ``cluster``:
#
# .. code-block:: python
#
#    pb.store.precompute(graph, "store", K=10, memory=20 << 30, cluster="head:6379")
#    pb.train.run_jobs(jobs, "runs/table.jsonl", cluster="head:6379")
#
# .. list-table:: Failures and how they are handled
#    :header-rows: 1
#
#    * - event
#      - what polybasis does
#    * - there is no cluster at the address
#      - stops within ten seconds and names the address
#    * - no machine has enough memory for a job
#      - reports the required memory before anything starts
#    * - a machine is lost
#      - runs its job on another one, up to five times
#    * - a job fails
#      - reports the original error, not Ray's wrapper
#
# .. admonition:: Next steps
#
#    - :doc:`larger_than_memory`: what a store is, and how to train on it
#    - :doc:`/explanation/stores`: how the basis is computed, and its cost for up to 111 million nodes
#    - :doc:`/how-to/training`: searches, jobs and results
