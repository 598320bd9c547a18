"""The sentences of the results page and of the README quote the committed results.

A pattern finds each sentence; its groups are figures and names. A sentence that is rewritten needs a new pattern.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from polybasis.experiments import honest_page
from polybasis.experiments.classification_against_paper import TUNED_SPLITS
from polybasis.experiments.classification_rows import BASELINES, Rows
from polybasis.experiments.honest_sets import CAMPUSES
from polybasis.experiments.node_classification import DATASETS, PAPER_MODELS
from polybasis.files import read_lines
from polybasis.train.results import Difference, read_results

from . import quoted_results as quoted
from .quoted_results import ENSEMBLE, FIRST, FRESH, NAMES, PAGE, README, RESIDUAL_FAVARD, RESIDUAL_GCN, STRONG, WORDS

POINTS, INTERVAL = r"(\d+\.\d+)", r"(\d+\.\d+ ± \d+\.\d+)"
SMALLEST = ("texas", "cornell")
Differences = Mapping[quoted.Cell, Difference | None]  # those that were not run are None


def by_verdict(found: Differences) -> list[list[quoted.Cell]]:
    """The cells that are above, below, and not different."""
    ran = {cell: difference.verdict for cell, difference in found.items() if difference is not None}
    return [[cell for cell in ran if ran[cell] == verdict] for verdict in ("above", "below", "agrees")]


def counted(*groups: list[quoted.Cell]) -> list[str]:
    """The number of cells of each group, and their names."""
    return [word for cells in groups for word in (WORDS[len(cells)], *quoted.named(cells))]


def agreeing_cells() -> list[int]:
    """The cells of the paper's models that agree with the paper."""
    return [len(by_verdict(quoted.agreement(rows, PAPER_MODELS))[2]) for rows in (FIRST, FRESH)]


def cells_of_baselines() -> list[str]:
    """All, those that agree, those above, the highest, those below, and how many of these agree when tuned."""
    found = quoted.agreement(FIRST, BASELINES)
    above, below, agree = by_verdict(found)
    highest = max(found, key=lambda cell: found[cell].mean)
    tuned = {(model, name): quoted.from_reported(FIRST, name, (model, "tuned"), model) for model, name in below}
    counts = [str(len(cells)) for cells in (found, agree, above, below, by_verdict(tuned)[2])]
    return [*counts[:3], f"{found[highest].mean:.1f}", *quoted.named([highest]), *counts[3:]]


def comparisons() -> list[str]:
    """Those on the fresh splits, and on the first ones where those were not run."""
    first, fresh = quoted.comparisons(FIRST), quoted.comparisons(FRESH)
    above, below, agree = by_verdict({cell: fresh[cell] or first[cell] for cell in first})
    return [WORDS[len(first)], *counted(above, below), WORDS[len(agree)]]


def fresh_comparisons() -> list[str]:
    above, below, agree = by_verdict(quoted.comparisons(FRESH))
    return [word for model, name in (*above, *below) for word in (NAMES[model], name)] + [WORDS[len(agree)]]


def above_the_paper() -> list[str]:
    """The data sets on which the best single FavardGNN is above the paper's best model."""
    rows = {name: quoted.best(name, ("favardgnn",)) for name in DATASETS}
    return [name for name, row in rows.items() if quoted.from_best_reported(name, row).verdict == "above"]


def where_filters_differ() -> list[str]:
    """The data sets on which the residual networks differ, each with the one that is ahead."""
    names = [name for name, row, _ in STRONG.groups if row == RESIDUAL_FAVARD[0]]
    above, below, _ = by_verdict({("", name): STRONG.difference(name, RESIDUAL_FAVARD, RESIDUAL_GCN) for name in names})
    ahead = [(name, "Favard network") for _, name in above] + [(name, "GCN") for _, name in below]
    return [word for name, network in ahead for word in (NAMES.get(name, name), network)]


def against_published(dataset: str) -> list[str]:
    """Whether the residual Favard network's mean is above the best published score, and its interval contains it."""
    row, (best, _) = STRONG.summary(dataset, *RESIDUAL_FAVARD), quoted.best_published(dataset)
    assert row is not None
    contains = abs(row["mean"] - best) < row["ci95"]
    return ["above" if row["mean"] > best else "below", "contains" if contains else "excludes"]


def below_published() -> list[str]:
    """The data sets on which both residual networks are below the best published score."""
    names = [name for name in honest_page.published() if (name, *RESIDUAL_FAVARD) in STRONG.groups]
    best = {name: max(quoted.mean(STRONG, name, row) for row in (RESIDUAL_FAVARD, RESIDUAL_GCN)) for name in names}
    return [name for name in names if best[name] < quoted.best_published(name)[0]]


def rises(dataset: str) -> list[tuple[float, float]]:
    """The residual networks' means before and after they were tuned for the table of strong baselines."""
    rows = RESIDUAL_FAVARD, RESIDUAL_GCN
    return [(quoted.earlier(row[0], dataset), quoted.mean(STRONG, dataset, row)) for row in rows]


def chameleon_filtered() -> list[str]:
    """What the Favard network gained, and whether its interval contains the best published score."""
    (before, after), _ = rises("chameleon-filtered")
    return [f"{after - before:.1f}", against_published("chameleon-filtered")[1]]


def validation_range() -> float:
    """The range of validation scores over settings with the adjacency matrix that were tried on all ten splits."""
    scores: dict[str, list[float]] = {}
    for line in read_lines(quoted.RESULTS / "honest" / "explored.jsonl"):
        if line["dataset"] == "chameleon-filtered" and line["arguments"].get("adjacency"):
            scores.setdefault(str(line["arguments"]), []).append(100 * line["val_score"])
    means = [statistics.mean(own) for own in scores.values() if len(own) == 10]
    return max(means) - min(means)


def compared_ensembles() -> list[str]:
    """How many ensembles beat the published model, and how many differ from the paper's best model."""
    names = quoted.ensembles()
    single = by_verdict({("", name): FIRST.difference(name, ENSEMBLE, ("favardgnn", "published")) for name in names})
    best = by_verdict({("", name): quoted.from_best_reported(name, ENSEMBLE) for name in names})
    return [WORDS[len(single[0])], WORDS[len(best[0] + best[1])]]


def ensemble_on_other_splits() -> list[str]:
    """The ensemble on citeseer, on the splits that it was not tuned on, beside the paper's best model."""
    rows = Rows([one for one in FIRST.groups["citeseer", *ENSEMBLE] if one["split"] >= TUNED_SPLITS])
    numbers = [TUNED_SPLITS, len(rows.groups["citeseer", *ENSEMBLE])]
    best = quoted.best_reported("citeseer")
    side = "above" if quoted.from_reported(rows, "citeseer", ENSEMBLE, best).mean > 0 else "below"
    shown = [quoted.shown(rows, "citeseer", ENSEMBLE), side, quoted.reported(best, "citeseer")]
    return [*(WORDS[number] for number in numbers), *shown]


def on_tolokers() -> list[str]:
    """The residual Favard network, FavardGNN, the best published score and where it is, and the residual GCN."""
    rows = (RESIDUAL_FAVARD, ("favardgnn", ""), RESIDUAL_GCN)
    favard, shallow, gcn = (quoted.shown(STRONG, "tolokers", row) for row in rows)
    within = "within" if against_published("tolokers")[1] == "contains" else "outside"
    return [favard, shallow, f"{quoted.best_published('tolokers')[0]:.2f}", within, gcn]


def rounded_gains() -> list[str]:
    """The gain on tolokers, rounded up, and the smaller of the losses on the smallest graphs, rounded down."""
    losses = [-quoted.gain(name) for name in SMALLEST]
    return [WORDS[math.ceil(quoted.gain("tolokers"))], WORDS[math.floor(min(losses))]]


def auto_on_unseen_graphs() -> list[str]:
    """The mean difference of auto from the best model on validation, the number of graphs, and those far below."""
    section = (quoted.RESULTS / "honest" / "README.md").read_text().split("## auto on unseen graphs")[1]
    found = {
        row[0]: float(row[6]) for row in map(quoted.cells, section.splitlines()) if len(row) == 9 and row[1].isdigit()
    }
    far = {name: value for name, value in found.items() if value < -3}
    worst = [word for name, value in far.items() for word in (name, f"{value:+.2f}")]
    return [f"{-statistics.mean(found.values()):.2f}", str(len(found)), *worst]


def auto_with_encoding() -> list[str]:
    """How far auto with encoded features is below the residual Favard network on the same splits of tolokers."""
    encoded = read_results(quoted.RESULTS / "honest" / "tolokers-encoded.jsonl")
    splits = {line["split"]: line["test_score"] for line in encoded}
    tuned = {line["split"]: line["test_score"] for line in STRONG.groups["tolokers", *RESIDUAL_FAVARD]}
    return [f"{100 * statistics.mean(tuned[i] - score for i, score in splits.items()):.2f}"]


def above_linkx(row: str, reference: str) -> list[str]:
    """The number of campuses on which a row is above another one, and their names."""
    found = {name: STRONG.difference(name, (row, ""), (reference, "")) for name in CAMPUSES}
    above, _, _ = by_verdict({(row, name): difference for name, difference in found.items()})
    return [WORDS[len(above)], ", ".join(name for _, name in above)]


def across_campuses() -> list[str]:
    """OptBasisGNN trained on other campuses and on each alone, and how many models differ significantly."""
    page = (quoted.RESULTS / "campuses" / "README.md").read_text()
    rows = {row[0]: row for row in map(quoted.cells, page.splitlines()) if len(row) == 5}
    together, alone = rows["optbasisgnn"][1:3]
    intervals = [re.fullmatch(r"([+-]\S+) ± (\S+)", row[3]) for row in rows.values()]
    differ = [found for found in intervals if found and abs(float(found[1])) > float(found[2])]
    return [together, alone, WORDS[len(differ)], WORDS[sum(found is not None for found in intervals)]]


SENTENCES: list[tuple[Path, str, Callable[[], Sequence[str]]]] = [
    (PAGE, r"All (\w+) cells that we ran agree", lambda: [WORDS[sum(agreeing_cells())]]),
    (PAGE, r"\| all (\d+) cells", lambda: [str(sum(agreeing_cells()))]),
    (
        PAGE,
        r"Of (\w+) paired comparisons, (\w+) are in their favour \((.+?); (.+?), though not .+?\), "
        r"(\w+) against them \((.+?)\), and (\w+) are undecided",
        comparisons,
    ),
    (
        PAGE,
        r"(\w+) differences remain on the fresh splits \((.+?), (.+?)\) and (\w+) on the first twenty \((.+?)\)",
        lambda: counted(quoted.after_holm(FRESH), quoted.after_holm(FIRST)),
    ),
    (
        PAGE,
        rf"(\d+) cells of baselines \| (\d+) \| (\d+) are above the paper, by up to {POINTS} points \((.+?)\).+? "
        r"(\d+) are below: .+?; tuned, all (\d+) agree",
        cells_of_baselines,
    ),
    (PAGE, r"Only (\w+) is above the paper's best model", above_the_paper),
    (
        PAGE,
        rf"on twenty fresh splits it has {INTERVAL}",
        lambda: [quoted.shown(FRESH, "squirrel", ("favardgnn", "tuned"))],
    ),
    (PAGE, rf"graph with (\d+) million nodes takes {POINTS} minutes on two cores", lambda: quoted.largest_graph()[:2]),
    (PAGE, r"gains almost (\w+) points on tolokers, but loses (\w+) or more on the smallest graphs", rounded_gains),
    (PAGE, r"gains almost (\w+) points over FavardGNN", lambda: rounded_gains()[:1]),
    (
        PAGE,
        r"it loses (\d+) and (\d+) points to the best shallow filter",
        lambda: [f"{-quoted.gain(name):.0f}" for name in SMALLEST],
    ),
    (
        PAGE,
        r"not significantly different on any data set except (.+?), where the (.+?) is ahead, "
        r"and (.+?), where the (.+?) is ahead",
        where_filters_differ,
    ),
    (
        PAGE,
        r"Favard network is (\w+) the published mean, and its interval (\w+) it",
        lambda: against_published("tolokers"),
    ),
    (
        PAGE,
        rf"Favard filters rise from {POINTS} to {POINTS} and the GCN from {POINTS} to {POINTS}",
        lambda: [f"{value:.2f}" for rise in rises("tolokers") for value in rise],
    ),
    (
        PAGE,
        rf"Favard network has gained {POINTS} points by the rows .+? Its interval (\w+) the published score",
        chameleon_filtered,
    ),
    (PAGE, r"features on all ten splits are within (\w+) points", lambda: [WORDS[math.ceil(validation_range())]]),
    (
        PAGE,
        rf"is {POINTS} points below the single model .+? in the mean over (\d+) graphs. .+? "
        r"It is more than three points below only on (\w+) \((.+?)\)",
        auto_on_unseen_graphs,
    ),
    (
        README,
        rf"{POINTS} points below the single model .+? in the mean over (\d+) graphs that had no part",
        lambda: auto_on_unseen_graphs()[:2],
    ),
    (PAGE, rf"encoded, as `auto` does by default, it is {POINTS} points below", auto_with_encoding),
    (
        PAGE,
        r"Favard network is above LINKX on (\w+) \((.+?)\) and `auto` on (\w+) \((.+?)\)",
        lambda: above_linkx("residual-favard", "linkx") + above_linkx("auto", "linkx"),
    ),
    (PAGE, r"five LINKX models, `auto` is above on (\w+)", lambda: above_linkx("auto", "linkx-5")[:1]),
    (
        PAGE,
        rf"OptBasisGNN trained on twenty other campuses has {POINTS}% .+? alone {POINTS}%; (\w+) of (\w+) models",
        across_campuses,
    ),
    (
        PAGE,
        r"All (\w+) ensembles beat our single published model on the same splits, and (\w+) differs",
        compared_ensembles,
    ),
    (
        PAGE,
        rf"tuned on the first (\w+) splits; on the other (\w+) it reaches {INTERVAL}, (\w+) the paper's {INTERVAL}",
        ensemble_on_other_splits,
    ),
    (
        README,
        r"fresh splits, (\w+) beats the best tuned baseline on (\w+), (\w+) is worse than it on (\w+), and the "
        r"intervals of the other (\w+) differences contain zero",
        fresh_comparisons,
    ),
    (
        README,
        rf"they reach {INTERVAL} ROC AUC on tolokers, where FavardGNN alone has {INTERVAL}\. The best published single "
        rf"model has {POINTS}, which is (\w+) that interval\. .+? not significantly worse \({INTERVAL}\)",
        on_tolokers,
    ),
    (README, r"On (\w+) other newer benchmarks we do not reach", lambda: [WORDS[len(below_published())]]),
]


@pytest.mark.parametrize(("document", "pattern", "compute"), SENTENCES)
def test_sentences_have_the_figures_of_the_results(
    document: Path, pattern: str, compute: Callable[[], Sequence[str]]
) -> None:
    sentence = re.search(pattern, " ".join(document.read_text().split()), re.IGNORECASE)
    assert sentence, f"{document.name} has no sentence like {pattern!r}"
    found, expected = [*sentence.groups()], [*compute()]
    assert found == expected, f"{document.name}, {sentence[0]!r}: the page has {found}, the results give {expected}"
