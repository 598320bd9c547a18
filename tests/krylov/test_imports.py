"""The mathematics imports neither PyTorch Geometric nor the libraries of training and plotting."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import polybasis as pb

HEAVY = ["torch_geometric", "matplotlib", "optuna", "torchmetrics", "scipy.fft", "scipy.sparse.linalg"]


@pytest.mark.parametrize("module", ["graph", "krylov", "bases", "tridiagonal", "responses", "nn.optbasis_conv"])
def test_imports_are_light(module: str) -> None:
    """The packages above the module are replaced by empty ones, so that only its own imports count."""
    root = Path(pb.__file__).parent
    script = f"""
import importlib, sys, types
for name, path in (("polybasis", {str(root)!r}), ("polybasis.nn", {str(root / "nn")!r})):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [path]
importlib.import_module("polybasis.{module}")
print([name for name in {HEAVY} if name in sys.modules])
"""
    printed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert printed.strip() == "[]"
