"""
Reproduce the paper
===================

Which command makes which table, one experiment run live, and how to resume a table, or to check a single line of it
years later.
"""

# %%
# Tables and figures
# ------------------
#
# *Graph Neural Networks with Learnable and Optimal Polynomial Bases* (Guo and Wei, ICML 2023) has four tables of
# results, and each has a command.
#
# .. list-table::
#    :header-rows: 1
#    :widths: 30 52 18
#
#    * - in the paper
#      - command
#      - results
#    * - filter learning, its table and Figures 2 and 4
#      - ``polybasis reproduce filter-learning``, ``polybasis reproduce figure convergence``
#      - :doc:`committed </results/filter-learning>`
#    * - convergence of FavardGNN, Figure 3
#      - ``polybasis reproduce favard-convergence``
#      - :doc:`committed </results/filter-learning>`
#    * - node classification
#      - ``polybasis reproduce node-classification``
#      - :doc:`committed </results/node-classification>`
#    * - large heterophilous graphs
#      - ``polybasis reproduce large-heterophilous``
#      - not run, for want of the data
#    * - large citation graphs
#      - ``polybasis reproduce large-citation``
#      - not run, for want of the data
#
# Others go beyond the paper: ``fresh-splits`` repeats its main comparison on splits that no search has seen, ``honest``
# adds strong baselines and data without duplicate nodes, ``campuses`` tests on graphs that were not trained on, and
# ``scale`` compares training on a store with training on the graph. Data sets are read from ``$POLYBASIS_DATA`` and
# downloaded where possible; ``polybasis datasets`` says which are installed.
#
# Filter learning, live
# ---------------------
#
# The paper's first experiment needs no downloads if we put a photograph of our own in the place of its fifteen. Each
# colour channel passes through a filter, in four combinations, and polynomials of degree 10 are to learn the filters
# from before and after. All bases span the same polynomials, so all could reach the same error. Do they?

from polybasis.data.images import sample_photograph
from polybasis.experiments.figures import PAPER_BASES, convergence
from polybasis.experiments.filter_learning import build_problem, table_rows

problem = build_problem([sample_photograph()])
rows = table_rows(problem, bases=PAPER_BASES)

print(f"{'basis':24} {'mean MSE':>9}  {'epochs':>6}  {'condition':>9}")
for basis in PAPER_BASES:
    own = [row for row in rows if row["basis"] == basis]
    mse, epochs, condition = (
        sum(row[key] for row in own) / len(own) for key in ("mse", "epochs", "condition_at_start")
    )
    print(f"{basis:24} {mse:9.4f}  {epochs:6.0f}  {condition:9.1e}")
print(f"{'closed form':24} {float(problem.closed_form().mean()):9.5f}")

# %%
# The order of the paper's table appears at once: the optimal basis first, monomials last. The condition numbers say
# why. Adam has at most 500 epochs, and in an ill-conditioned basis that is not enough, whatever the basis could
# express. The last line is the least error of any polynomial of degree 10: :math:`c = V^\top y`, without an epoch.
#
# ``reproduce filter-learning`` does this for sixty samples, and prints the paper's figures beside ours. Here is one
# sample, epoch by epoch, as in the paper's Figure 2:

convergence(problem[[3]])

# %%
# Tables that take hours: stop and resume
# ---------------------------------------
#
# The other tables consist of *jobs*: one model, one data set, one split, one seed. A finished job is one line of JSON
# in a results file, and is not repeated. So the way to resume any command is to run it again. Let us train two splits
# of a synthetic graph, and then ask for three:

import tempfile
import time
from pathlib import Path

import polybasis as pb

results = Path(tempfile.mkdtemp()) / "gpr-gnn.jsonl"
config = pb.train.Config.of("gpr-gnn", epochs=60)
source = pb.train.Source.named("csbm")
jobs = [pb.train.Job(config, source, "per-class", split, seed=split) for split in range(3)]


def announce(result):
    """Prints the score of a job that has just finished."""
    print(f"split {result['split']}: test accuracy {result['test_score']:.1%}")


for number in (2, 3):
    start = time.perf_counter()
    print(f"asking for {number} splits")
    found = pb.train.run_jobs(jobs[:number], results, on_result=announce)
    print(f"{len(found)} results after {time.perf_counter() - start:.1f} s")

# %%
# The second time only the new split was trained. Jobs that were interrupted *within* training continue from a
# checkpoint, and two processes that share a results file divide its jobs among themselves. The same holds for the
# commands:
#
# .. code-block:: console
#
#    polybasis reproduce node-classification --models gcn,favardgnn --datasets chameleon --splits 20 --jobs 2
#
# Press Ctrl-C whenever you like, and run it again when you are ready.
#
# Check a single line
# -------------------
#
# Every table of this project is generated from such lines, and they are committed. A line records its configuration,
# data set, protocol, split and seed, which is enough to run it again. The scores must agree in *all* digits: filters,
# gradients and dropout have the same bits every time.

import subprocess
import sys

command = ["polybasis", "reproduce", "line", f"{results.name}:3"]
print("$", *command)
options = {"cwd": results.parent, "capture_output": True, "text": True}
done = subprocess.run([sys.executable, "-m", *command], **options)
print(done.stdout + done.stderr)

# %%
# The exit status is 1 if a digit differs, so a script can check as many lines as you have patience for. In a checkout
# with the data sets, pick any line of any table, for example the first split of GCN on texas, which takes seconds:
#
# .. code-block:: console
#
#    polybasis reproduce line results/node-classification/gcn.jsonl:131
#    polybasis reproduce stale
#
# The second command lists the lines whose code has changed since they were computed. It compares commits, and a changed
# comment counts: a stale line *may* be wrong, and ``reproduce line`` decides. Scores depend on the processor and on the
# versions of its libraries too, so on another machine a last digit may differ.
#
# .. admonition:: Next steps
#
#    - :doc:`/results/index`: all results, what agrees with the paper, and what does not
#    - :doc:`pictures`: filter learning on a picture of your own
#    - :doc:`cluster`: spread the jobs of a table over several machines
