"""
From CSV files to fraud scores
==============================

A payment service has two tables and a few hundred reviewed users. Which other users should it review?

You will train a graph neural network on raw tables, choose a metric and a threshold for a rare class, check whether the
probabilities are calibrated, and score next week's users, first from the command line and then in Python.
"""

# %%
# Three tables
# ------------
#
# You need a table of **edges** (who paid whom, and how much), a table of **features** (what is known about each user),
# and a table of **labels** for the users that have been reviewed. If you have such files, skip this block. It generates
# an example with 3,000 users, of whom 12% are fraudulent and 10% have been reviewed. As in real data, some cells are
# empty.

import numpy as np
import pyarrow as pa
from pyarrow import csv

rng = np.random.default_rng(0)
everyone = np.arange(3150)
first_week = everyone[:3000]  # the others join in the second week
numbers = rng.choice(16**5, len(everyone), replace=False)
names = np.array([f"u-{number:05x}" for number in numbers])
fraud = rng.random(len(everyone)) < 0.12
activity = rng.lognormal(sigma=0.7, size=len(everyone))
profile = {
    "age": (rng.normal(42, 13, len(everyone)) - 6 * fraud).clip(18, 90).round(),
    "country": rng.choice(["DE", "FR", "NL", "PL"], len(everyone), p=[0.5, 0.25, 0.15, 0.1]),
    "plan": np.where(rng.random(len(everyone)) < 0.2 + 0.15 * fraud, "business", "private"),
    "verified": rng.random(len(everyone)) < 0.85 - 0.25 * fraud,
    "logins": rng.poisson(5 + 2 * fraud).astype(float),
}


def write_week(number, users):
    often = activity[users] / activity[users].sum()
    payer, payee = rng.choice(users, (2, 8 * len(users)), p=often)
    among = fraud[payer] & (rng.random(len(payer)) < 0.6)  # fraudulent users pay each other
    payee[among] = rng.choice(users[fraud[users]], among.sum())
    payer, payee = payer[payer != payee], payee[payer != payee]
    amount = rng.lognormal(3, 1, len(payer)).round(2)
    payments = {"payer": names[payer], "payee": names[payee], "amount": amount}
    csv.write_csv(pa.table(payments), f"payments-week{number}.csv")
    columns = {"user": names[users]}
    for key, values in profile.items():
        columns[key] = pa.array(values[users], mask=rng.random(len(users)) < 0.06)
    csv.write_csv(pa.table(columns), f"users-week{number}.csv")


def write_labels(path, users):
    verdicts = np.where(fraud[users], "yes", "no")
    csv.write_csv(pa.table({"user": names[users], "fraud": verdicts}), path)


write_week(1, first_week)
write_week(2, everyone)
write_labels("reviewed.csv", rng.choice(first_week, 300, replace=False))
write_labels("truth.csv", everyone)  # the ground truth, only used to check the result at the end

# %%
# This is what the files look like:

from pathlib import Path

for name in ("payments-week1.csv", "users-week1.csv", "reviewed.csv"):
    print(name, *Path(name).read_text().splitlines()[:4], "", sep="\n")

# %%
# Train
# -----
#
# One command goes from the files to a model:

# sphinx_gallery_start_ignore
import io
import re
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout

from polybasis.cli import main


def shell(command):
    """Runs a command and prints what a terminal shows when it has ended."""
    sys.argv, output = shlex.split(command.replace("\\\n", " ")), io.StringIO()
    try:
        with redirect_stdout(output), redirect_stderr(output):
            main()
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(output.getvalue()) from None
    print(re.sub(r".*: epoch \d+ of at most .*\n", "", output.getvalue()))


# sphinx_gallery_end_ignore
shell("""
polybasis train --edges payments-week1.csv --merge sum \\
  --features users-week1.csv --labels reviewed.csv --epochs 100 \\
  --class-weight balanced --calibrate auto --threshold cost=1,10 --out fraud-model
""")

# %%
# Read the output from the top. First, it shows how polybasis interpreted your files. If a guess is wrong, correct it
# with a flag such as ``--id`` or ``--target``. The model then trains on 60% of the reviewed users, keeps the epoch
# with the best score on another 20%, and is tested once on the remaining 20%.
#
# Your own files will look different. The usual obstacles are:
#
# ===================================  =====================================================================
# your file has                        what to do
# ===================================  =====================================================================
# semicolons and decimal commas        nothing: both are detected, and the summary says so
# thousands separators (``1.234,50``)  remove them
# no header                            refer to columns as ``"column 1"``, ``"column 2"``, ..
# a date, free text or a phone number  ``--drop COLUMN``, or replace it with a number; repeat the flag for each column
# more than one number for an edge     name the weight ``weight``, or ``--drop`` the others
# an encoding other than UTF-8         convert it to UTF-8: ``iconv -f latin1 -t utf-8 old.csv > new.csv``
# the label among the features         omit ``--labels`` and pass ``--target COLUMN``
# ===================================  =====================================================================
#
# Now the flags, one by one.
#
# ``--merge sum``
#    adds up repeated payments between two users. Without it, repeated weighted edges are an error, because only you
#    know whether to add them, average them or keep the first.
#
# ``--class-weight balanced``
#    gives the rare class as much weight in the loss as the common one.
#
# ``--calibrate auto``
#    calibrates the probabilities on the validation users. Of the users with a calibrated probability of 30%,
#    about 30% should turn out to be fraudulent.
#
# ``--threshold cost=1,10``
#    sets the probability from which *yes* is predicted so that the cost is lowest if a missed fraud costs ten times as
#    much as an unnecessary review. To reach a given precision or recall instead, use ``precision=0.8`` or
#    ``recall=0.9``.
#
# You did not have to choose a metric. Accuracy would reward a model that never finds any fraud, so for rare classes the
# default is the area under the ROC curve: the probability that a fraudulent user is ranked above an honest one.
# ``--metric average_precision`` puts more weight on the top of the ranking.
#
# The table compares the model with two baselines it should beat: a constant prediction, and a linear model that sees
# the columns but not the payments. The intervals are wide. Sixty test users, ten of them fraudulent, are too few to
# tell how good the model is, and polybasis warns you about this. We will know more next week.
#
# Next week
# ---------
#
# A week later, there are new payments and 150 new users. You can pass the new files without any preparation. The saved
# model stores how to read them and how to convert columns to features, including the median that fills an empty cell.

shell("""
polybasis predict fraud-model --edges payments-week2.csv --features users-week2.csv \\
  --out scores.csv
""")

# %%
# The file has one row per user and opens in any spreadsheet:

print(*Path("scores.csv").read_text().splitlines()[:5], sep="\n")

# %%
# Because the data are synthetic, the ground truth is known, and we can check how good these scores are:

shell("""
polybasis evaluate fraud-model --edges payments-week2.csv \\
  --features users-week2.csv --labels truth.csv --metric average_precision
""")

# %%
# To share the results with colleagues, write a report. It is a single self-contained HTML file that you can send by
# email.

shell("""
polybasis report fraud-model --edges payments-week1.csv \\
  --features users-week1.csv --labels reviewed.csv --out fraud.html
""")

# %%
# *Scores* shows whether the graph improves on the columns alone. *Thresholds* shows how many reviews are needed to find
# how much fraud, and *Calibration* whether the probabilities can be trusted. *Filters* shows how the model uses the
# payments, and *Training* whether it stopped too early or too late. *Data* comes last, but check it first: were your
# tables read correctly?
#
# The same in Python
# ------------------
#
# In Python, all of this takes a few lines. ``read_tables`` takes the same arguments as the command line:

import polybasis as pb


def read(week, labels):
    files = f"payments-week{week}.csv", f"users-week{week}.csv", labels
    return pb.data.read_tables(*files, merge="sum")


week1 = read(1, "reviewed.csv")
split = week1.split("stratified", seed=0)


def train(model):
    config = pb.train.Config.of(model, epochs=100, class_weight="balanced").for_own_data()
    return pb.train.TrainedModel.of(config, pb.train.fit(config, week1, split))


trained = train("optbasisgnn").calibrated(week1, split.val)
trained = trained.with_threshold(week1, split.val, cost=(1, 10))
print(f"yes from probability {trained.threshold.value:.4f}")

# %%
# ``NodeClassifier.load`` loads a model that was saved by the command line. It predicts on a data set:

week2 = read(2, "truth.csv")
classifier = pb.NodeClassifier.load("fraud-model")
probability = classifier.predict_proba(week2)[:, 1]
different = classifier.predict(week2) != trained.predict(week2)
print("predictions that differ:", different.sum())

# %%
# Is the ranking good, and are the probabilities right?
# -----------------------------------------------------
#
# *Whom should we review first?* Suppose you can review a few hundred of the 3,150 users. Sort them by score and count
# the fraud among the first: this is the upper figure. A multilayer perceptron on the same columns shows how much the
# payments add.
#
# *Is 30% really 30%?* Group the users into bins by predicted probability, and compare each bin with the observed
# frequency of fraud. In the lower figure, the dots should lie on the diagonal. The bars are 95% intervals, and the
# numbers count the users.

from polybasis.report.figures import COLOURS, figure

is_fraud = week2.y.numpy() == 1
columns_only = train("mlp").predict_proba(week2)[:, 1]

with figure(rows=2, width=4.8, height=7.2) as (drawn, (top, bottom)):
    for name, score in (("with payments", probability), ("columns only", columns_only)):
        found = is_fraud[np.argsort(-score, kind="stable")].cumsum() / is_fraud.sum()
        top.plot(np.arange(1, len(found) + 1), 100 * found, label=name)
    top.axline((0, 0), (len(is_fraud), 100), color="0.5", linestyle=":", label="at random")
    top.set(xlabel="users reviewed, highest scores first", ylabel="fraud found, %")
    top.set(xlim=(0, 1500), ylim=(0, 103))
    top.legend(loc="lower right")

    bins = np.digitize(probability, np.linspace(0, 1, 7)[1:-1])
    for b in np.unique(bins):
        inside = bins == b
        mean, share = probability[inside].mean(), is_fraud[inside].mean()
        bar = 1.96 * np.sqrt(share * (1 - share) / inside.sum())
        bottom.errorbar(mean, share, bar, fmt="o", color=COLOURS[0], capsize=2)
        below = {"xytext": (0, -4), "textcoords": "offset points", "ha": "center", "va": "top"}
        bottom.annotate(inside.sum(), (mean, share - bar), **below)
    bottom.axline((0, 0), (1, 1), color="0.5", linestyle=":")
    bottom.set(xlabel="predicted probability", ylabel="observed fraction of fraud")
    bottom.set(xlim=(-0.03, 1.03), ylim=(-0.1, 1.03))
drawn

# %%
first = np.argsort(-probability)[:300]
print(f"fraudulent among the 300 users with the highest scores: {is_fraud[first].sum()}")
print(f"fraudulent among all {len(is_fraud)} users: {is_fraud.sum()}")

# %%
# The ranking is good: with the payments, the same number of reviews finds far more fraud, and with all users as test
# data there is no longer any doubt about it. The probabilities are less reliable. In the middle of the scale they are
# too high, because class weights raise them, and the temperature, a single number fitted to sixty users, cannot fully
# correct this. Use them for ranking, but do not multiply them by amounts of money before you have reviewed more users.
# With 200 or more validation users, ``--calibrate auto`` may choose isotonic regression, which is more flexible than a
# temperature.
#
# .. admonition:: Next steps
#
#    - :doc:`/how-to/own-tables`: file formats, columns, and what polybasis detects
#    - :doc:`/how-to/scores`: metrics, calibration and thresholds in detail
#    - :doc:`/how-to/tuning`: let ``--model auto`` choose the model
#    - :doc:`filter_responses`: what the filters of such a model have learned
