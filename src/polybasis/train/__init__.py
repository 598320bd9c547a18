"""Training: configurations, fitting, jobs with results and saved models, tuning."""

from polybasis.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "backtracking_adam": ["BacktrackingAdam"],
        "config": ["Config", "load_preset"],
        "fitting": ["Fit", "fit"],
        "job": ["Job", "Source", "run_job", "run_jobs"],
        "trained_model": ["TrainedModel"],
    },
)
