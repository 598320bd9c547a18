"""
Reproduce the paper
===================

This tutorial lists the command for each table of the paper, runs one experiment live, and shows how to resume a table
and how to check a single line of it years later.
"""

# %%
# Tables and figures
# ------------------
#
# Each result table of *Graph Neural Networks with Learnable and Optimal Polynomial Bases* (Guo and Wei, ICML 2023) has
# a command.
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
#      - not run (data not available to us)
#    * - large citation graphs
#      - ``polybasis reproduce large-citation``
#      - not run (data not available to us)
#
# Other commands go beyond the paper. ``fresh-splits`` repeats the main comparison on splits that were never used for
# tuning, ``honest`` adds strong baselines and data without duplicate nodes, ``campuses`` tests models on graphs they
# were not trained on, and ``scale`` compares training on a store with training on the graph. Data sets are read from
# ``$POLYBASIS_DATA`` and downloaded where possible; ``polybasis datasets`` shows which are installed.
#
# Filter learning, live
# ---------------------
#
# The paper's first experiment needs no downloads if we replace its fifteen photographs with one of our own. Each colour
# channel passes through a filter, in four combinations, and polynomials of degree 10 learn these filters from the
# pictures before and after. All bases span the same polynomials, so all could reach the same error. Do they?

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
# The order is the same as in the paper's table: the optimal basis comes first and monomials last. The condition numbers
# explain why. Adam runs for at most 500 epochs, which is not enough in an ill-conditioned basis, even though every
# basis can express the solution. The last line is the smallest error of any polynomial of degree 10, obtained from
# :math:`c = V^\top y` without any training.
#
# ``reproduce filter-learning`` does this for sixty samples and prints the paper's results next to ours. The next figure
# shows the error on one sample by epoch, as in the paper's Figure 2:

convergence(problem[[3]])

# %%
# Stop and resume long experiments
# --------------------------------
#
# The other tables consist of *jobs*. Each job trains one model on one data set, split and seed. A finished job is one
# line of JSON in a results file and is not repeated, so you resume any command by running it again. For example, train
# on two splits of a synthetic graph, and then on three:

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
# The second call only trained on the new split. Jobs that are interrupted *during* training resume from a checkpoint,
# and two processes with the same results file share its jobs. Commands work the same way:
#
# .. code-block:: console
#
#    polybasis reproduce node-classification --models gcn,favardgnn --datasets chameleon --splits 20 --jobs 2
#
# You can press Ctrl-C at any time and run the command again later.
#
# Check a single line
# -------------------
#
# Every table of this project is generated from such lines, which are committed to the repository. A line records its
# configuration, data set, protocol, split and seed, which is all you need to repeat it. The scores must agree in *all*
# digits, because filters, gradients and dropout are deterministic.

import subprocess
import sys

command = ["polybasis", "reproduce", "line", f"{results.name}:3"]
print("$", *command)
options = {"cwd": results.parent, "capture_output": True, "text": True}
done = subprocess.run([sys.executable, "-m", *command], **options)
print(done.stdout + done.stderr)

# %%
# The exit status is 1 if any digit differs, so you can check lines in a script. In a checkout with the data sets, pick
# any line of any table, for example the first split of GCN on texas, which takes seconds:
#
# .. code-block:: console
#
#    polybasis reproduce line results/node-classification/gcn.jsonl:131
#    polybasis reproduce stale
#
# The second command lists the lines whose code has changed since they were computed. It compares commits, so even a
# changed comment counts. A stale line *may* be wrong; ``reproduce line`` tells. Scores also depend on the processor and
# on library versions, so the last digit may differ on another machine.
#
# .. admonition:: Next steps
#
#    - :doc:`/results/index`: all results, and where they agree or disagree with the paper
#    - :doc:`pictures`: filter learning on a picture of your own
#    - :doc:`cluster`: distribute the jobs of a table over several machines
