"""`polybasis tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polybasis.cli.data_flags import TrainingFlags, with_data_flags
from polybasis.cli.options import (
    AsJson,
    ClassWeight,
    MetricName,
    ModelName,
    Ray,
    known_model,
    parse_objective,
    refuse,
)
from polybasis.cli.printable import echo


@with_data_flags
def tune(
    flags: TrainingFlags,
    model: ModelName = None,
    metric: MetricName = None,
    class_weight: ClassWeight = None,
    trials: Annotated[int, typer.Option(help="Number of trials in the study, including earlier ones.", min=1)] = 100,
    splits: Annotated[int, typer.Option(help="Number of splits to average validation scores over.", min=1)] = 2,
    epochs: Annotated[
        int | None, typer.Option(help="Maximum number of epochs per trial; default: as in --start, or 500.", min=1)
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(help="Epochs without improvement before a trial stops; default: as in --start, or 100.", min=1),
    ] = None,
    protocol: Annotated[str | None, typer.Option(help="Split protocol; default: that of the data set.")] = None,
    study: Annotated[Path | None, typer.Option(help="Study file; several workers may share it.")] = None,
    start: Annotated[Path | None, typer.Option(help="Configuration (TOML) shared by all trials.")] = None,
    out: Annotated[Path | None, typer.Option(help="TOML file for the best configuration.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 0,
    ray: Ray = None,
    workers: Annotated[int | None, typer.Option(help="With --ray: number of workers; default: 4.", min=1)] = None,
    as_json: AsJson = False,
) -> None:
    """Tune hyperparameters on validation data; test nodes are never scored.

    To search with several workers, run the command several times with the same --study, or use a Ray cluster. An
    interrupted search resumes. Pass the result to `polybasis train --config FILE`.
    """
    from polybasis.cli.display import console, print_json, print_notes
    from polybasis.cluster import map_on_ray
    from polybasis.data.dataset import NodeDataset
    from polybasis.files import write_atomically
    from polybasis.registry import definitions
    from polybasis.train.config import Config
    from polybasis.train.job import adapt_config
    from polybasis.train.objective import scoring_metric
    from polybasis.train.presets import load_preset
    from polybasis.train.tune import Search, run_worker
    from polybasis.train.tune import tune as search_for

    if ray is None:
        refuse("--workers", workers, "a search without --ray")
    chosen = flags.chosen()
    data = chosen.open()
    if not isinstance(data, NodeDataset):
        raise ValueError(f"{chosen.name} is a store; tune on its graph folder or data set")
    model = known_model(model)
    shared = None if start is None else Config.from_toml(start)
    if shared is not None and model not in (None, shared.model.name):
        raise ValueError(f"--model is {model}; {start} is for {shared.model.name}")
    name = model or (shared.model.name if shared is not None else "optbasisgnn")
    stem = f"{name.replace(':', '-')}-{chosen.name}"
    study, out = study or Path("runs") / f"tune-{stem}.log", out or Path("runs") / f"{stem}.toml"
    published = load_preset(name, chosen.name)
    if published is not None and published.model.precomputed:
        published = None
    transform = None if published is None else published.feature_transform
    common = shared or Config.of(name, epochs=500, patience=100, feature_transform=transform)
    common = adapt_config(common.replace(**parse_objective(metric, class_weight)), chosen)
    length = {"epochs": epochs, "patience": patience}
    search = Search(
        start=common.replace(**{key: value for key, value in length.items() if value is not None}),
        protocol=protocol or chosen.protocol,
        trials=trials,
        study=study.absolute(),
        splits=splits,
        known=published,
    )
    print_notes(chosen)
    if ray is not None:
        jobs = [(chosen, search, seed + number, definitions()) for number in range(workers or 4)]
        for _, result in map_on_ray(run_worker, jobs, address=ray):
            result()

    def on_trial(count: int, score: float) -> None:
        console.print(f"{count} of {trials} trials, best validation score {score:.4f}", highlight=False)

    best, score = search_for(data, search, seed=seed, on_trial=on_trial)
    stopping = (shared or published or Config.of(name)).stopping
    best = best.replace(epochs=stopping.epochs, patience=stopping.patience)
    comment = f"# Tuned on {splits} splits of {chosen.name}, {trials} trials, validation score {score:.4f}.\n"
    write_atomically(out, (comment + best.to_toml()).encode())
    if as_json:
        print_json(
            {"config": best.to_dict(), "val_score": score, "metric": scoring_metric(best, data), "file": str(out)}
        )
    else:
        echo(f"best validation score {score:.4f}; configuration in {out}")
