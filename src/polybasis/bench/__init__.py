"""Benchmarks: best of several runs after a warm-up, all in one process with the same threads and data type."""

from polybasis.bench.epochs import bench_epochs, bench_residual_epochs
from polybasis.bench.filters import bench_filters
from polybasis.bench.growth import bench_growth
from polybasis.bench.roofline import bench_roofline

__all__ = ["bench_epochs", "bench_filters", "bench_growth", "bench_residual_epochs", "bench_roofline"]
