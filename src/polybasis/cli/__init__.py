"""The command-line interface."""

from polybasis.cli.app import main

__all__ = ["main"]
