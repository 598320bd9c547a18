"""Imports are lazy, and lazily imported names are also declared for type checkers."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import polybasis

PACKAGES = ["polybasis", "polybasis.data", "polybasis.nn", "polybasis.nn.models", "polybasis.store", "polybasis.train"]


@pytest.mark.parametrize("name", PACKAGES)
def test_lazy_names_are_those_that_type_checkers_see(name: str) -> None:
    package = importlib.import_module(name)
    assert package.__file__ is not None
    (block,) = [node for node in ast.parse(Path(package.__file__).read_text()).body if isinstance(node, ast.If)]
    declared = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert declared == set(package.__all__)
    for offered in package.__all__:
        assert getattr(package, offered) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'polybasis' has no attribute 'Grpah'"):
        polybasis.Grpah  # type: ignore[attr-defined] # noqa: B018


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import polybasis", {"torch", "numpy", "matplotlib"}),
        ("import polybasis.cli.app", {"torch", "matplotlib", "pyarrow", "rich", "optuna", "torch_geometric"}),
        (
            "import polybasis as pb; pb.Graph, pb.optimal_basis, pb.nn.OptBasisGNN, pb.NodeClassifier, pb.train.fit",
            {
                "matplotlib",
                "optuna",
                "torch_geometric",
                "torchmetrics",
                "pyarrow",
                "PIL",
                "ogb",
                "ray",
                "torch._dynamo",
            },
        ),
    ],
)
def test_imports_are_lazy(code: str, absent: set[str]) -> None:
    script = f"{code}\nimport sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not absent & set(done.stdout.split())
