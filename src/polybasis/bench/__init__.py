"""Honest timings: everything in one process, the same threads and data type, warm, the best of several."""

from polybasis.bench.epochs import bench_epochs
from polybasis.bench.filters import bench_filters
from polybasis.bench.growth import bench_growth

__all__ = ["bench_epochs", "bench_filters", "bench_growth"]
