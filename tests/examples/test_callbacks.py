"""The example of callbacks logs every epoch and ends training; TensorBoard and MLflow are stand-ins here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("callbacks", ROOT / "examples" / "callbacks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_epoch_is_logged(example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scalars: list[tuple[int, str, float]] = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            assert folder == "board"

        def add_scalar(self, name: str, value: float, epoch: int) -> None:
            scalars.append((epoch, name, value))

        def flush(self) -> None:
            pass

    logged: list[dict[str, Any]] = []
    board, mlflow = ModuleType("torch.utils.tensorboard"), ModuleType("mlflow")
    board.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    mlflow.log_metrics = lambda values, step: logged.append({"epoch": step, **values})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", board)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    file = tmp_path / "history.csv"
    fitted = example.main(["--csv", str(file), "--tensorboard", "board", "--mlflow", "--stop-at", "0.7"])
    assert pd.read_csv(file).to_dict("records") == fitted.history_ == logged
    expected = [(row["epoch"], name, row[name]) for row in fitted.history_ for name in ("train_loss", "val_score")]
    assert scalars == expected
    assert fitted.history_[-1]["val_score"] >= 0.7 > max(row["val_score"] for row in fitted.history_[:-1])
    assert fitted.val_score_ == fitted.history_[-1]["val_score"]
