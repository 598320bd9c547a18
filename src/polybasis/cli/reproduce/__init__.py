"""`polybasis reproduce`: the tables and figures of the paper and of the results pages."""

from __future__ import annotations

import typer

from polybasis.cli.reproduce import (
    campuses,
    committed_lines,
    figures,
    filter_learning,
    honest,
    large_graphs,
    node_classification,
)

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Reproduce the tables and figures of the paper and of the results pages.",
)
app.command("node-classification")(node_classification.node_classification)
app.command("line")(committed_lines.line)
app.command("stale")(committed_lines.stale)
app.command("fresh-splits")(node_classification.fresh_splits)
app.command("honest")(honest.honest)
app.command("tune-honest")(honest.tune_honest)
app.command("portfolio")(honest.portfolio)
app.command("campuses")(campuses.campuses)
app.command("large-heterophilous")(large_graphs.large_heterophilous)
app.command("large-citation")(large_graphs.large_citation)
app.command("scale")(large_graphs.scale)
app.command("scale-size")(large_graphs.scale_size)
app.command("filter-learning")(filter_learning.filter_learning)
app.command("favard-convergence")(filter_learning.favard_convergence)
app.command("figure")(figures.figure)
