"""`polybasis export`."""

from __future__ import annotations

from pathlib import Path

import torch

import polybasis as pb
from polybasis.features import as_dense

from .conftest import Run


def test_a_saved_model_is_exported(run: Run, tmp_path: Path) -> None:
    assert run("train", "csbm", "--model", "gcn", "--epochs", 2, "--out", "model").status == 0
    done = run("export", "model", "csbm", "--out", "gcn.pt2")
    assert (done.status, done.stdout, done.stderr) == (0, "", "program in gcn.pt2\n")
    data = pb.data.csbm()
    program = torch.export.load(tmp_path / "gcn.pt2").module()
    expected = pb.train.TrainedModel.load("model").logits(data)
    torch.testing.assert_close(program(as_dense(data.x)), expected, rtol=1e-4, atol=1e-5)
    assert run("train", "csbm", "--model", "mixhop", "--epochs", 1, "--out", "mixhop").status == 0
    refused = run("export", "mixhop", "csbm", "--any-graph")
    assert refused.status == 1
    (line,) = refused.stderr.splitlines()
    assert line.startswith("polybasis: mixhop cannot be exported by torch")
    assert not (tmp_path / "model.pt2").exists()
