"""Training: configurations, the fit loop, checkpoints, runs over splits, tuning."""

from polybasis.train.backtracking_adam import BacktrackingAdam
from polybasis.train.config import Config, default_config, stored_config
from polybasis.train.fitting import Fit
from polybasis.train.graph_training import fit
from polybasis.train.runs import Run, run_splits

__all__ = ["BacktrackingAdam", "Config", "Fit", "Run", "default_config", "fit", "run_splits", "stored_config"]
