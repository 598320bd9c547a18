"""`polybasis tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polybasis.cli.options import (
    AsJson,
    DataRoot,
    Edges,
    Features,
    Labels,
    ModelName,
    Ray,
    SourceName,
    chosen_source,
    refuse,
)


def tune(
    source: SourceName = None,
    edges: Edges = None,
    features: Features = None,
    labels: Labels = None,
    model: ModelName = None,
    trials: Annotated[int, typer.Option(help="Trials in the study, earlier ones included.", min=1)] = 100,
    splits: Annotated[int, typer.Option(help="Splits that a trial's validation score is averaged over.", min=1)] = 2,
    epochs: Annotated[int, typer.Option(help="Maximum number of epochs of a trial.", min=1)] = 500,
    patience: Annotated[int, typer.Option(help="Epochs without improvement before a trial stops.", min=1)] = 100,
    protocol: Annotated[str | None, typer.Option(help="Split protocol; default: that of the data.")] = None,
    study: Annotated[Path | None, typer.Option(help="File of the study, which several workers may share.")] = None,
    start: Annotated[Path | None, typer.Option(help="TOML file with a configuration that all trials share.")] = None,
    out: Annotated[Path | None, typer.Option(help="TOML file for the best configuration.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 0,
    ray: Ray = None,
    workers: Annotated[int | None, typer.Option(help="With --ray: number of workers; default: 4.", min=1)] = None,
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Search hyperparameters on validation data; test nodes are never scored.

    Run the command several times with the same --study to search with several workers, or use a Ray cluster. An
    interrupted search resumes. `polybasis train --config FILE` uses the result.
    """
    from polybasis.cli.display import console, print_json
    from polybasis.cluster import map_on_ray
    from polybasis.data.dataset import NodeDataset
    from polybasis.files import write_atomically
    from polybasis.train.config import Config, load_preset
    from polybasis.train.tune import Search, run_worker
    from polybasis.train.tune import tune as search_for

    if ray is None:
        refuse("--workers", workers, "a search without --ray")
    if edges is not None and labels is None:
        raise ValueError("--edges needs --labels FILE to train on")
    chosen = chosen_source(source, edges, features, labels, data_root)
    data = chosen.open()
    if not isinstance(data, NodeDataset):
        raise ValueError(f"{source} is a store; tune on its graph folder or data set")
    name = model or "optbasisgnn"
    study = study or Path("runs") / f"tune-{name}-{chosen.name}.log"
    out = out or Path("runs") / f"{name}-{chosen.name}.toml"
    published = load_preset(name, chosen.name)
    if published is not None and published.model.precomputed:
        published = None
    common = Config.from_toml(start) if start is not None else Config.of(name)
    if common.model.name != name:
        raise ValueError(f"--model is {name}; {start} is for {common.model.name}")
    if start is None and published is not None:
        common = common.replace(feature_transform=published.feature_transform)
    search = Search(
        start=common.replace(epochs=epochs, patience=patience),
        protocol=protocol or chosen.protocol,
        trials=trials,
        study=study.absolute(),
        splits=splits,
        known=published,
    )
    if ray is not None:
        jobs = [(chosen, search, seed + number) for number in range(workers or 4)]
        for _, result in map_on_ray(run_worker, jobs, address=ray):
            result()

    def on_trial(count: int, score: float) -> None:
        console.print(f"{count} of {trials} trials, best validation score {score:.4f}", highlight=False)

    best, score = search_for(data, search, seed=seed, on_trial=on_trial)
    length = (published or Config.of(name)).stopping
    best = best.replace(epochs=length.epochs, patience=length.patience)
    comment = f"# Tuned on {splits} splits of {chosen.name}, {trials} trials, validation score {score:.4f}.\n"
    write_atomically(out, (comment + best.to_toml()).encode())
    if as_json:
        print_json({"config": best.to_dict(), "val_score": score, "metric": data.metric, "file": str(out)})
    else:
        typer.echo(f"best validation score {score:.4f}; configuration in {out}")
