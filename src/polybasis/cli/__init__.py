"""The command line: commands, nothing else."""

from polybasis.cli.app import main

__all__ = ["main"]
