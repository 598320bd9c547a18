"""The command-line interface."""

import os

from polybasis.cli.interruption import run_stoppable
from polybasis.processes import end_with_parent

__all__ = ["main"]


def main() -> None:
    """Runs the command line; signals are handled from before its modules are imported."""
    run_stoppable(_main)


def _main() -> None:
    if "TORCHELASTIC_RUN_ID" in os.environ:  # torchrun leaves its processes behind if it is killed
        end_with_parent(os.getppid())
    from polybasis.cli.app import main

    main()
