"""The command-line interface."""

from polybasis.cli.interruption import run_stoppable

__all__ = ["main"]


def main() -> None:
    """Runs the command line; signals are handled from before its modules are imported."""
    run_stoppable(_main)


def _main() -> None:
    from polybasis.cli.app import main

    main()
