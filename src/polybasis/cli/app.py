"""The `polybasis` command: errors on one line on stderr, exit status 0 only on success."""

from __future__ import annotations

import sys
import warnings
from typing import NoReturn

import typer

from polybasis.cli import bench, datasets, demo, plot, precompute, reproduce, train

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Polynomial graph filters with learnable and optimal bases.",
)
app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("predict")(train.predict)
app.command("tune")(train.tune)
app.add_typer(datasets.app, name="datasets")
app.add_typer(reproduce.app, name="reproduce")
app.command("plot")(plot.plot)
app.command("precompute")(precompute.precompute)
app.command("bench")(bench.bench)


@app.callback()
def options() -> None:
    """Polynomial graph filters with learnable and optimal bases."""


def main() -> None:
    """Runs the command line; what a user did wrong becomes one line, not a traceback."""
    warnings.filterwarnings("ignore", "Sparse CSR tensor support", UserWarning)
    try:
        app()
    except OSError as error:
        _leave(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    except (ValueError, TypeError, ImportError, OverflowError) as error:
        _leave(str(error))
    except KeyboardInterrupt:
        _leave("interrupted")


def _leave(why: str) -> NoReturn:
    sys.exit(f"polybasis: {' '.join(why.split())}")
