"""The data sets of the table of strong baselines."""

from __future__ import annotations

from polybasis.experiments.node_classification import DATASETS as PAPER_DATASETS

CAMPUSES = (  # the eight smallest of the 28
    "usfca72", "oberlin44", "hamilton46", "williams40", "vassar85", "wesleyan43", "bucknell39", "rochester38",
)  # fmt: skip
TUNING_CAMPUS = "wake73"  # the smallest of the others
# The default data sets and the number of splits of each.
DATASETS = {
    **dict.fromkeys(("chameleon-filtered", "tolokers", "amazon-computers", "coauthor-cs"), 10),
    **dict.fromkeys(("dblp", "blogcatalog"), 5),
    **dict.fromkeys(CAMPUSES, 5),
    **dict.fromkeys(("texas", "cornell"), 10),
}
MORE_DATASETS = (
    *PAPER_DATASETS, "roman-empire", "amazon-ratings", "minesweeper", "questions", "squirrel-filtered", "penn94",
)  # fmt: skip
