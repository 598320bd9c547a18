"""Imports what the commands need, so that processes forked from this one start at once and are killed at work."""

# ruff: noqa: F401
from __future__ import annotations

from functools import cache

import matplotlib.figure
import optuna
import pandas
import PIL.Image
import pyarrow.csv
import pyarrow.parquet
import rich.live
import scipy.stats
import torch
import typer.main

import polybasis.cli.app
import polybasis.cli.display
import polybasis.data.tables
import polybasis.experiments.node_classification
import polybasis.nn.models.ensemble
import polybasis.report.model_figures
import polybasis.report.page
import polybasis.store.named
import polybasis.store.precomputation
import polybasis.store.synthetic
import polybasis.train.evaluation
import polybasis.train.mini_batch
import polybasis.train.parallel
import polybasis.train.trained_model
import polybasis.train.tune

torch.set_num_threads(1)
typer.main.get_command = cache(typer.main.get_command)  # building the command takes longer than most cases
optuna.logging.set_verbosity(optuna.logging.WARNING)
