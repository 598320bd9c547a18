"""Training callbacks that log to CSV, TensorBoard or MLflow, or stop training at a given score.

    python examples/callbacks.py --csv history.csv --stop-at 0.9
    python examples/callbacks.py --tensorboard runs/callbacks
    python examples/callbacks.py --mlflow

A callback receives the progress after each epoch. ``pb.StopTraining`` ends training and keeps the best model so far.
TensorBoard and MLflow are not dependencies of polybasis; install them with pip install tensorboard mlflow
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import polybasis as pb
from polybasis.train.fitting import Progress

Callback = Callable[[Progress], None]


def metrics(progress: Progress) -> dict[str, float]:
    return {"train_loss": progress.train_loss, "val_score": progress.val_score}


def to_csv(path: Path) -> Callback:
    """Appends one line per epoch, so that you can read the file during training."""
    path.write_text("epoch,train_loss,val_score\n")

    def on_epoch(progress: Progress) -> None:
        with path.open("a", newline="") as file:
            csv.writer(file).writerow([progress.epoch, *metrics(progress).values()])

    return on_epoch


def to_tensorboard(folder: str) -> Callback:
    from torch.utils.tensorboard import SummaryWriter  # needs the package tensorboard

    writer = SummaryWriter(folder)

    def on_epoch(progress: Progress) -> None:
        for name, value in metrics(progress).items():
            writer.add_scalar(name, value, progress.epoch)
        writer.flush()

    return on_epoch


def to_mlflow(progress: Progress) -> None:
    """Logs to the active run of MLflow, or to a new one."""
    import mlflow

    mlflow.log_metrics(metrics(progress), step=progress.epoch)


def stop_at(score: float) -> Callback:
    def on_epoch(progress: Progress) -> None:
        if progress.val_score >= score:
            raise pb.StopTraining

    return on_epoch


def every(callbacks: Sequence[Callback]) -> Callback:
    """Combines several callbacks, called in order."""

    def on_epoch(progress: Progress) -> None:
        for callback in callbacks:
            callback(progress)

    return on_epoch


def main(arguments: Sequence[str] | None = None) -> pb.NodeClassifier:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--tensorboard", metavar="FOLDER")
    parser.add_argument("--mlflow", action="store_true")
    parser.add_argument("--stop-at", type=float, metavar="SCORE")
    chosen = parser.parse_args(arguments)
    callbacks: list[Callback] = []
    if chosen.csv is not None:
        callbacks.append(to_csv(chosen.csv))
    if chosen.tensorboard is not None:
        callbacks.append(to_tensorboard(chosen.tensorboard))
    if chosen.mlflow:
        callbacks.append(to_mlflow)
    if chosen.stop_at is not None:  # the last one: the others see the last epoch too
        callbacks.append(stop_at(chosen.stop_at))
    data = pb.data.csbm(nodes=500, features=50)
    classifier = pb.NodeClassifier("favard", K=4, epochs=100)
    classifier.fit(data.graph, data.x, data.y, on_epoch=every(callbacks))
    print(f"{classifier.epochs_} epochs, validation score {classifier.val_score_:.3f}")
    return classifier


if __name__ == "__main__":
    main()
