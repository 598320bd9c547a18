"""Verifies everything that the package writes: stores, graph folders, saved models, checkpoints and studies."""

from __future__ import annotations

import warnings
from pathlib import Path

from polybasis.checksums import FormerVersionWarning, OnBytes


def verify(path: str | Path, on_bytes: OnBytes | None = None) -> str:
    """Reads all files of a folder, or one file, and verifies their checksums.

    Args:
        path: a store, a graph folder, a saved model, a checkpoint (``.safetensors``) or the file of a study (``.log``).
        on_bytes: called with the number of bytes after each block of a large file.

    Returns:
        What was verified, such as ``store``.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a file is damaged, was written by an earlier version, without checksums, or the path is none of
            these; the message gives the file.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", FormerVersionWarning)
        try:
            return _verify(Path(path), on_bytes)
        except FormerVersionWarning as notice:
            raise ValueError(str(notice)) from None


def _verify(path: Path, on_bytes: OnBytes | None) -> str:
    if (path / "store.json").exists():
        from polybasis.store.basis_store import open_store

        open_store(path).verify(on_bytes)
        return "store"
    if (path / "graph.json").exists():
        from polybasis.store.graph_folder import GraphFolder

        GraphFolder.open(path).verify(on_bytes)
        return "graph folder"
    if (path / "model.json").exists():
        from polybasis.train.trained_model import verify_model

        verify_model(path)
        return "model"
    if path.suffix == ".safetensors":
        from polybasis.train.checkpoint import verify_checkpoint

        verify_checkpoint(path)
        return "checkpoint"
    if path.suffix == ".log":
        from polybasis.train.study_file import verify_study

        verify_study(path)
        return "study"
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    raise ValueError(f"{path} is not a store, graph folder, model, checkpoint (.safetensors) or study (.log)")
