"""The command-line interface."""

import os
import sys

from polybasis.cli.interruption import run_stoppable
from polybasis.processes import end_with_parent

__all__ = ["main"]


def main() -> None:
    """Runs the command line; signals are handled from before its modules are imported."""
    run_stoppable(_main)


def _main() -> None:
    under_torchrun = "TORCHELASTIC_RUN_ID" in os.environ
    if under_torchrun:  # torchrun leaves its processes behind if it is killed
        end_with_parent(os.getppid())
    from polybasis.cli.app import main

    try:
        main()
    except SystemExit as end:
        if under_torchrun and not end.code:
            _leave()
        raise


def _leave() -> None:
    """Ends a process whose work is done, without the shutdown in which threads of gloo may still abort it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
