"""Tables of a payment network in which one user in fifty is fraudulent, as raw as those of a practitioner.

    python benchmarks/fraud_tables.py fraud
    python benchmarks/fraud_tables.py fraud --next-week

This writes ``fraud/week1`` and ``fraud/week2``. Each has ``edges`` (ten weighted payments for each user, some pairs
repeatedly), ``users`` (40 numeric, categorical and boolean columns with gaps), ``labels`` (3% of the users) and
``truth`` (all users, to score against). The second week has 5% new users, another tenth of the payments and slightly
changed columns. From raw files to scores:

    polybasis train --edges fraud/week1/edges.csv --merge sum --features fraud/week1/users.csv \
        --labels fraud/week1/labels.csv --out fraud/model
    polybasis predict fraud/model --edges fraud/week2/edges.csv --merge sum --features fraud/week2/users.csv \
        --out fraud/scores.parquet
    polybasis evaluate fraud/model --edges fraud/week2/edges.csv --merge sum --features fraud/week2/users.csv \
        --labels fraud/week2/truth.csv --metric average_precision

`fraud_scores.py` runs these commands and scores the result on all users.

Fraudulent users make half of their payments among themselves, and these are three times as large as others. Ten of
the 40 columns are shifted a little, so a linear model of the columns has a ROC AUC of about 0.72. The difficulty is
set by two figures that do not depend on any model of this package: that of the columns alone, and that of
:func:`oracle`, which knows which columns are shifted and averages them over the neighbours. Log-normal amounts that
are the same for everyone would drown the graph: ten payments then count like four, and even the oracle has an average
precision below 0.5 unless it ignores the amounts.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import scipy.sparse as sp
from numpy.typing import NDArray

FRAUD, LABELLED, NEW = 0.02, 0.03, 0.05  # shares of users
PAYMENTS = 10  # for each user
AMOUNT_RATIO = 3.0
NUMERIC, CATEGORICAL, BOOLEAN = 24, 10, 6
SHIFTED = slice(0, None, 4)  # columns that differ
COUNTRIES = ["DE", "FR", "IT", "ES", "PL", "NL", "SE", "PT"]
GAPS = 0.06  # share of empty cells


class Population:
    """The users and payments of both weeks; the last 5% of the users are new in the second week.

    Args:
        users: number of users in the first week.
        seed: random seed.
        amount_ratio: ratio of payments among fraudulent users to other payments.
    """

    def __init__(self, users: int, seed: int, amount_ratio: float = AMOUNT_RATIO) -> None:
        self.rng, self.users = np.random.default_rng(seed), users
        every = users + round(NEW * users)
        self.names = np.array([f"user-{number:08x}" for number in self.rng.permutation(1 << 24)[:every]])
        self.fraud = self.rng.random(every) < FRAUD
        self.latent = self.rng.normal(size=(every, NUMERIC + CATEGORICAL + BOOLEAN))
        self.latent[:, SHIFTED] += 0.4 * self.fraud[:, None]
        self.labelled = self.rng.random(every) < LABELLED
        self.pairs, self.amounts = self._payments(every, PAYMENTS * every, amount_ratio)

    def _payments(self, users: int, count: int, amount_ratio: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Pairs of users, (2, count), and amounts; activity is log-normal."""
        activity = np.cumsum(self.rng.lognormal(sigma=0.7, size=users))
        pairs = np.searchsorted(activity, self.rng.random((2, count)) * activity[-1])
        among = self.fraud[pairs[0]] & (self.rng.random(count) < 0.5)
        pairs[1, among] = self.rng.choice(np.flatnonzero(self.fraud), among.sum())
        repeated = self.rng.random(count) < 0.01
        pairs[:, repeated] = pairs[:, self.rng.integers(0, count, repeated.sum())]
        amounts = self.rng.lognormal(3, 1, count)
        amounts[self.fraud[pairs].all(axis=0)] *= amount_ratio
        return pairs, np.round(amounts, 2)

    def week(self, number: int) -> dict[str, pa.Table]:
        """The tables of a week, by name."""
        rng = np.random.default_rng([number, self.users])
        known = self.users if number == 1 else len(self.names)
        # A tenth of the payments are made in one of the weeks only.
        made = (rng.random(len(self.amounts)) < 0.95) & (self.pairs.max(axis=0) < known)
        low, high = self.pairs[:, made & (self.pairs[0] != self.pairs[1])]
        amounts = self.amounts[made & (self.pairs[0] != self.pairs[1])]
        latent = self.latent[:known] + 0.2 * rng.normal(size=(known, self.latent.shape[1]))
        fraud = np.where(self.fraud[:known], "yes", "no")
        labelled = self.labelled[:known]
        names = self.names[:known]
        return {
            "edges": pa.table({"payer": names[low], "payee": names[high], "amount": amounts}),
            "users": pa.table({"user": names} | _columns(latent, rng)),
            "labels": pa.table({"user": names[labelled], "fraud": fraud[labelled]}),
            "truth": pa.table({"user": names, "fraud": fraud}),
        }


def _columns(latent: NDArray[np.float64], rng: np.random.Generator) -> dict[str, Any]:
    """Columns of three types from standard normal ones, with gaps."""
    columns: dict[str, Any] = {}
    for i, values in enumerate(latent.T):
        if i % 20 < 12:  # numeric, half of them with a long tail
            name, cells = f"number {i}", np.round(100 * np.exp(values) if i % 2 else values, 3)
        elif i % 20 < 17:
            edges = np.linspace(-1.5, 1.5, len(COUNTRIES) - 1)
            name, cells = f"category {i}", np.array(COUNTRIES)[np.searchsorted(edges, values)]
        else:
            name, cells = f"flag {i}", np.where(values > 0.5, "true", "false")
        columns[name] = pa.array(cells, mask=rng.random(len(values)) < GAPS)
    return columns


def oracle(tables: dict[str, pa.Table], weighted: bool = True) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Scores of all users by someone who knows how the tables were made, and who is fraudulent.

    The sum of the shifted columns is averaged over neighbours of up to six steps, with the symmetric normalisation of
    the weighted graph; the six averages and the sum are combined by a logistic regression on the truth.

    Args:
        tables: the tables of a week.
        weighted: use the amounts.
    """
    from sklearn.linear_model import LogisticRegression

    users, edges = tables["users"], tables["edges"]
    names = {name: i for i, name in enumerate(users["user"].to_pylist())}
    total = np.zeros(len(names))
    for column in users.columns[1:][SHIFTED]:
        cells = column.to_pylist()
        values = np.array([np.nan if v is None else COUNTRIES.index(v) if isinstance(v, str) else v for v in cells])
        total += np.nan_to_num((values - np.nanmean(values)) / np.nanstd(values))
    ends = [np.array([names[name] for name in edges[column].to_pylist()]) for column in ("payer", "payee")]
    amounts = edges["amount"].to_numpy() if weighted else np.ones(len(edges))
    adjacency = sp.coo_array((amounts, ends), shape=(len(names), len(names))).tocsr()
    adjacency = adjacency + adjacency.T
    scale = sp.diags_array(np.maximum(adjacency.sum(axis=1), 1e-9) ** -0.5)
    operator, steps = scale @ adjacency @ scale, [total]
    for _ in range(6):
        steps.append(operator @ steps[-1])
    inputs = np.stack(steps, axis=1)
    inputs = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    fraud = np.array(tables["truth"]["fraud"].to_pylist()) == "yes"
    return LogisticRegression(max_iter=1000).fit(inputs, fraud).decision_function(inputs), fraud


def write(table: pa.Table, path: Path) -> None:
    """Writes a CSV or Parquet file, by its suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    else:
        pa.csv.write_csv(table, path)


def main() -> None:
    """Writes the tables of one week."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--users", type=int, default=200_000)
    parser.add_argument("--format", choices=["csv", "parquet"], default="csv")
    parser.add_argument("--next-week", action="store_true", help="write the second week")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    number = 2 if chosen.next_week else 1
    for name, table in Population(chosen.users, chosen.seed).week(number).items():
        path = chosen.folder / f"week{number}" / f"{name}.{chosen.format}"
        write(table, path)
        print(f"{path}: {table.num_rows:,} rows, {table.num_columns} columns")


if __name__ == "__main__":
    main()
