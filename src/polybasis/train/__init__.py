"""Training: configurations, fitting, jobs, results, saved models and tuning."""

from typing import TYPE_CHECKING

from polybasis.lazy import lazy_exports

if TYPE_CHECKING:
    from polybasis.train.assessment import Assessment as Assessment
    from polybasis.train.assessment import assess as assess
    from polybasis.train.backtracking_adam import BacktrackingAdam as BacktrackingAdam
    from polybasis.train.config import Config as Config
    from polybasis.train.evaluation import evaluate as evaluate
    from polybasis.train.fitting import Fit as Fit
    from polybasis.train.fitting import fit as fit
    from polybasis.train.job import Job as Job
    from polybasis.train.job import run_job as run_job
    from polybasis.train.job import run_jobs as run_jobs
    from polybasis.train.presets import load_preset as load_preset
    from polybasis.train.source import Source as Source
    from polybasis.train.trained_model import TrainedModel as TrainedModel

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "assessment": ["Assessment", "assess"],
        "backtracking_adam": ["BacktrackingAdam"],
        "config": ["Config"],
        "evaluation": ["evaluate"],
        "fitting": ["Fit", "fit"],
        "job": ["Job", "run_job", "run_jobs"],
        "presets": ["load_preset"],
        "source": ["Source"],
        "trained_model": ["TrainedModel"],
    },
)
