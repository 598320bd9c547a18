"""The `polybasis` command. Errors are printed on one line to stderr; the exit status is 0 only on success.

The modules of the commands import torch and other large packages inside functions, so that help, version and completion
are fast.
"""

from __future__ import annotations

import logging
import sys
import warnings
from typing import Annotated, Any, NoReturn, TextIO

import typer

from polybasis.cli import (
    bench,
    datasets,
    demo,
    export,
    precompute,
    predict,
    report,
    reproduce,
    results,
    train,
    tune,
    verify,
)
from polybasis.cli.printable import printable

# ClickException, as the base class of UsageError, the base class of BadParameter: Typer may bundle its own Click.
CLICK_EXCEPTION: Any = typer.BadParameter.__mro__[2]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Polynomial graph filters with learnable and optimal bases.",
)
app.command("demo", short_help="Learn filters on a photograph; write a report.")(demo.demo)
app.command("train", short_help="Train a model.")(train.train)
app.command("predict", short_help="Predict every node with a saved model.")(predict.predict)
app.command("evaluate")(predict.evaluate)
app.command("report", short_help="Write an HTML report on a saved model.")(report.report)
app.command("plot", short_help="Plot the filters of a saved model.")(predict.plot)
app.command("export", short_help="Export a saved model as a torch.export program.")(export.export)
app.command("tune", short_help="Tune hyperparameters on validation data.")(tune.tune)
app.command("results", short_help="Print a table of results.")(results.results)
app.add_typer(datasets.app, name="datasets", short_help="List data sets and build graph folders.")
app.command("precompute", short_help="Precompute the optimal basis of a graph's features.")(precompute.precompute)
app.command("verify", short_help="Verify the checksums of stores, graph folders and models.")(verify.verify)
app.add_typer(reproduce.app, name="reproduce")
app.command("bench", short_help="Benchmark the filters on this machine.")(bench.bench)


def _print_version(wanted: bool) -> None:
    if wanted:
        from polybasis import __version__

        typer.echo(f"polybasis {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Polynomial graph filters with learnable and optimal bases."""


def main() -> None:
    """Runs the command line. User errors are printed on one line, without a traceback."""
    warnings.filterwarnings("ignore", "Sparse CSR tensor support", UserWarning)
    warnings.showwarning = _show_warning
    notices, logger = _NoticeHandler(), logging.getLogger("polybasis")
    logger.addHandler(notices)
    logger.setLevel(logging.INFO)
    try:
        sys.exit(app(standalone_mode=False))
    except CLICK_EXCEPTION as error:
        context = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message(), err=True)
            sys.exit(2)
        hint = f"; see {context.command_path} --help" if context is not None else ""
        message = error.format_message().replace(": Value error, ", ": ")  # a prefix of Pydantic, which parses options
        _exit(message.rstrip(".?") + hint, status=error.exit_code)
    except OSError as error:
        _exit(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    except (ValueError, TypeError, ImportError, OverflowError) as error:
        lines = getattr(error, "lines", [str(error)])  # a TableError has several lines
        _exit(*lines, *getattr(error, "__notes__", ()))
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "can't allocate memory" not in str(error):  # torch's MemoryError
            raise
        _exit(f"not enough memory ({error})")
    except typer.Abort:
        _exit("interrupted", status=130)
    finally:
        logger.removeHandler(notices)
        logger.setLevel(logging.NOTSET)


class _NoticeHandler(logging.Handler):
    """Prints log messages on one line, as errors are."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"polybasis: {printable(' '.join(record.getMessage().split()))}", file=sys.stderr, flush=True)


def _exit(*lines: str, status: int = 1) -> NoReturn:
    shown = [printable(" ".join(line.split())) for line in lines]
    print("polybasis: " + "\n".join(shown), file=sys.stderr)
    sys.exit(status)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Prints a warning on one line, without the place in the source that Python adds."""
    print(f"polybasis: warning: {printable(' '.join(str(message).split()))}", file=sys.stderr)
