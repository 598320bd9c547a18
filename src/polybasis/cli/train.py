"""`polybasis train`, `predict` and `tune`."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from polybasis.classifier import NodeClassifier
from polybasis.cli.display import console, results_table, say_result, training_bar
from polybasis.cli.options import AsJson, DataRoot, Model, Ray
from polybasis.cluster import spread
from polybasis.data.catalogue import CATALOGUE, load
from polybasis.data.own_files import OwnGraph, read_own_graph
from polybasis.files import write_atomically
from polybasis.nn.models import MODELS
from polybasis.store.basis_store import BasisStore, open_store
from polybasis.train.config import Config, default_config, stored_config
from polybasis.train.distributed import joined_team
from polybasis.train.runs import Run, run_splits, summarised
from polybasis.train.store_training import scaled_config, train_on_store
from polybasis.train.tune import Search, search_named
from polybasis.train.tune import tune as search

Features = Annotated[Path | None, typer.Option(help="Features: .csv, .parquet, .npy or .npz; structure alone without.")]
Edges = Annotated[Path | None, typer.Option(help="Edges: .csv or .parquet with a header; two nodes, perhaps a weight.")]


def _config(model: str | None, dataset: str | None, path: Path | None, epochs: int | None) -> Config:
    if path is not None:
        config = Config.from_toml(path)
        if model is not None and config.model != model:
            raise ValueError(f"{path} is for {config.model}, not for {model}")
    else:
        name = model or "optbasisgnn"
        published = stored_config(name, dataset) if dataset else None
        config = published or default_config(name)
    return config if epochs is None else replace(config, epochs=epochs)


def train(
    model: Annotated[str | None, typer.Option(help=f"Model: {', '.join(MODELS)}; optbasisgnn unless given.")] = None,
    dataset: Annotated[str | None, typer.Option(help="A data set by name; see `polybasis datasets`.")] = None,
    edges: Edges = None,
    features: Features = None,
    labels: Annotated[Path | None, typer.Option(help="Classes: .csv or .parquet with a header; node, class.")] = None,
    store: Annotated[Path | None, typer.Option(help="A store that `precompute` has made.")] = None,
    out: Annotated[Path | None, typer.Option(help="Own graph or store: the folder of the trained model.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with model and settings, as `tune` writes.")] = None,
    splits: Annotated[int, typer.Option(help="Named data set or store: number of splits.", min=1)] = 1,
    protocol: Annotated[str | None, typer.Option(help="Split protocol; the data set's usual one unless given.")] = None,
    jobs: Annotated[int, typer.Option(help="Splits at a time, in processes that share the threads.", min=1)] = 1,
    results: Annotated[Path, typer.Option(help="Results, one JSON line a run.")] = Path("runs/train.jsonl"),
    epochs: Annotated[int | None, typer.Option(help='Most epochs, or all with stop_on = "epochs".', min=1)] = None,
    batch: Annotated[int | None, typer.Option(help="Store: nodes of a batch, 10,000 unless given.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Seed of the model; split i uses seed + i.")] = 0,
    threads: Annotated[int | None, typer.Option(help="Threads; torch's number unless given.", min=1)] = None,
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Train a model on a named data set, on your own graph, or on a store.

    Named data sets use the settings their authors published where there are any. Finished runs are kept and not run
    again; a run that was killed goes on from its last checkpoint. A store serves the scaled-up models, in batches; for
    several processes: torchrun --nproc-per-node 2 -m polybasis train --store FOLDER.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    if sum(source is not None for source in (dataset, edges, store)) != 1:
        raise ValueError("train wants --dataset NAME, or --edges FILE --labels FILE --out FOLDER, or --store FOLDER")
    if store is not None:
        opened = open_store(store)
        scaled = _scaled_config(model, opened.name, config, epochs, batch)
        _train_store(scaled, opened, protocol, splits, seed, results, out, as_json)
        return
    settings = _config(model, dataset, config, epochs)
    if edges is not None:
        if labels is None or out is None:
            raise ValueError("with --edges, pass --labels FILE and --out FOLDER too")
        _train_own(settings, edges, features, labels, out, seed, as_json)
        return
    assert dataset is not None
    entry = CATALOGUE.get(dataset)
    if entry is None:
        raise ValueError(f"there is no data set {dataset!r}; expected one of {', '.join(CATALOGUE)}")
    runs = [Run(settings, dataset, protocol or entry.protocol, i, seed + i) for i in range(splits)]
    with training_bar(f"{settings.model} on {dataset}") as report:
        found = run_splits(runs, results, root=data_root, jobs=jobs, report=report, finished=say_result)
    if as_json:
        typer.echo(json.dumps({"results": found, "summary": summarised(found)}, indent=1))
    else:
        console.print(results_table(found))
        console.print(f"results in {results}")


def _scaled_config(model: str | None, dataset: str, path: Path | None, epochs: int | None, batch: int | None) -> Config:
    chosen = _config(model, None, path, None) if path is not None else scaled_config(model or "optbasisgnn", dataset)
    chosen = replace(chosen, batch=batch or chosen.batch)
    return chosen if epochs is None else replace(chosen, epochs=epochs)


def _train_store(
    config: Config,
    store: BasisStore,
    protocol: str | None,
    splits: int,
    seed: int,
    results: Path,
    out: Path | None,
    as_json: bool,
) -> None:
    if out is not None and splits > 1:
        raise ValueError("--out keeps one model: leave it out, or train on one split")
    with joined_team() as team, training_bar(f"{config.model} on {store.path}" if team.rank == 0 else None) as report:
        found = train_on_store(
            config, store, protocol=protocol, splits=splits, results=results, seed=seed, team=team,
            out=out, report=report, finished=say_result if team.rank == 0 else None,
        )  # fmt: skip
    if team.rank != 0:
        return
    if as_json:
        typer.echo(json.dumps({"results": found, "summary": summarised(found)}, indent=1))
    else:
        console.print(results_table(found))
        working = 1 - sum(run["waited"] for run in found) / max(1e-9, sum(run["seconds"] for run in found))
        console.print(f"results in {results}; {working:.0%} of the time in the model, the rest waiting for batches")
        if out is not None:
            console.print(f"model and predictions in {out}")


def _train_own(
    config: Config, edges: Path, features: Path | None, labels: Path, out: Path, seed: int, as_json: bool
) -> None:
    own = read_own_graph(edges, features, labels)
    classifier = NodeClassifier(config=config, seed=seed)
    checkpoint = out.parent / f".{out.name}.checkpoint.safetensors"
    with training_bar(config.model) as report:
        classifier.fit(own.graph, own.x, own.labels, report=report, checkpoint=checkpoint)
    only_these = not own.has_features or config.labels is not None
    classifier.save(out, notes={"nodes": own.nodes if only_these else None, "features": own.has_features})
    said = {"val_score": classifier.val_score_, "epochs": classifier.epochs_, "nodes": len(own.nodes)}
    if as_json:
        typer.echo(json.dumps({"model": str(out), **said}))
    else:
        console.print(
            f"{config.model} on {len(own.nodes)} nodes and {own.graph.num_edges} edges: validation accuracy "
            f"{classifier.val_score_:.4f} after {classifier.epochs_} epochs; model in {out}"
        )


def trained_model(model: Path, edges: Path, features: Path | None) -> tuple[NodeClassifier, OwnGraph]:
    """A trained model and a graph that it can serve."""
    classifier = NodeClassifier.load(model)
    own = read_own_graph(edges, features)
    expected = classifier.notes_.get("nodes")
    with_features = classifier.notes_.get("features", expected is None)
    if with_features and not own.has_features:
        raise ValueError(f"{model} was trained with {classifier.num_features_} features: pass --features")
    if expected is not None and (own.nodes != expected or own.has_features != with_features):
        by = "labels" if with_features else "structure alone"
        raise ValueError(f"{model} was trained on {by}: it can serve only the nodes it was trained on, in their order")
    return classifier, own


def predict(
    model: Annotated[Path, typer.Argument(help="The folder of a trained model.")],
    edges: Edges = None,
    features: Features = None,
    out: Annotated[Path | None, typer.Option(help="A CSV file; standard output unless given.")] = None,
) -> None:
    """Predict the classes of a graph's nodes: node, prediction, and a probability for each class."""
    if edges is None:
        raise ValueError("predict wants --edges FILE, and --features FILE where the model was trained with features")
    classifier, own = trained_model(model, edges, features)
    probabilities = classifier.predict_proba(own.graph, own.x)
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["node", "prediction", *(f"probability {name}" for name in classifier.classes_)])
    best = probabilities.argmax(axis=1)
    for name, i, row in zip(own.nodes, best, probabilities, strict=True):
        writer.writerow([name, classifier.classes_[i], *(f"{p:.6f}" for p in row)])
    if out is None:
        sys.stdout.write(table.getvalue())
    else:
        write_atomically(out, table.getvalue().encode())
        console.print(f"{len(own.nodes)} predictions in {out}")


def tune(
    dataset: Annotated[str, typer.Option(help="A data set by name.")],
    model: Model = "optbasisgnn",
    trials: Annotated[int, typer.Option(help="Trials in the study, earlier ones included.", min=1)] = 100,
    splits: Annotated[int, typer.Option(help="Splits that a trial's validation score is the mean of.", min=1)] = 2,
    epochs: Annotated[int, typer.Option(help="Most epochs of a trial.", min=1)] = 500,
    patience: Annotated[int, typer.Option(help="Epochs without a better score.", min=1)] = 100,
    protocol: Annotated[str | None, typer.Option(help="Split protocol.")] = None,
    study: Annotated[Path | None, typer.Option(help="Study file, which several workers may share.")] = None,
    start: Annotated[
        Path | None, typer.Option(help="TOML file: hidden width, mean, members, arguments for all trials.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="TOML file with the best settings, for `train --config`.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 0,
    ray: Ray = None,
    workers: Annotated[int, typer.Option(help="With --ray: workers, one processor each.", min=1)] = 4,
    data_root: DataRoot = None,
) -> None:
    """Search hyperparameters on validation data; the test nodes are never looked at.

    Start the command several times with the same --study to search with several workers, or use a cluster; a search
    that was stopped goes on.
    """
    if dataset not in CATALOGUE:
        raise ValueError(f"there is no data set {dataset!r}; expected one of {', '.join(CATALOGUE)}")
    study = study or Path("runs") / f"tune-{model}-{dataset}.log"
    out = out or Path("runs") / f"{model}-{dataset}.toml"
    published = stored_config(model, dataset)
    normalise = None if published is None else published.normalise
    common = Config.from_toml(start) if start is not None else Config(model, normalise=normalise)
    if common.model != model:
        raise ValueError(f"{start} is for {common.model}, not for {model}")
    arguments = Search(
        protocol=protocol or CATALOGUE[dataset].protocol,
        trials=trials,
        splits=splits,
        study=study.absolute(),
        start=replace(common, epochs=epochs, patience=patience),
        known=published,
    )
    if ray is not None:
        jobs = [(model, dataset, data_root, arguments, seed + number) for number in range(workers)]
        for _, result in spread(search_named, jobs, address=ray):
            result()

    def say(count: int, score: float) -> None:
        console.print(f"{count}/{trials} trials, best validation score {score:.4f}")

    best, value = search(model, load(dataset, data_root), arguments, seed=seed, finished=say)
    length = (published.epochs, published.patience) if published else (1000, 200)
    best = replace(best, epochs=length[0], patience=length[1])
    text = f"# Tuned on {splits} splits of {dataset}, {trials} trials, validation score {value:.4f}.\n{best.to_toml()}"
    write_atomically(out, text.encode())
    console.print(f"best validation score {value:.4f}; settings in {out}")
