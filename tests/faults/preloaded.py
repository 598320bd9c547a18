"""Imports what the commands need, so that processes forked from this one start at once."""

from __future__ import annotations

from functools import cache

import optuna
import torch
import typer.main

import polybasis.cli.app
import polybasis.data.tables
import polybasis.experiments
import polybasis.report.page
import polybasis.store.precomputation
import polybasis.store.synthetic
import polybasis.train.tune  # noqa: F401

torch.set_num_threads(1)
typer.main.get_command = cache(typer.main.get_command)  # building the command takes longer than most cases
optuna.logging.set_verbosity(optuna.logging.WARNING)
