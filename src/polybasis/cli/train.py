"""`polybasis train`."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polybasis.cli.data_flags import TrainingFlags, with_data_flags
from polybasis.cli.decisions import Calibrate, ThresholdFor, check_decisions, decide
from polybasis.cli.options import (
    AsJson,
    ClassWeight,
    MetricName,
    ModelName,
    Threads,
    known_model,
    parse_objective,
    parse_values,
    refuse,
)

if TYPE_CHECKING:
    from polybasis.train.config import Config
    from polybasis.train.job import Job
    from polybasis.train.results import Result
    from polybasis.train.source import Source

AUTO = "auto"
PROTOCOL_HELP = (
    "Split protocol: per-class, stratified, train-val, random, fixed or linkx; default: that of the data set."
)


@with_data_flags
def train(
    flags: TrainingFlags,
    model: ModelName = None,
    config: Annotated[Path | None, typer.Option(help="Configuration (TOML), for example written by `tune`.")] = None,
    set_values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Override a configuration value, such as K=10; repeatable."),
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate of all parameters.", min=0)] = None,
    epochs: Annotated[int | None, typer.Option(help="Maximum number of epochs.", min=1)] = None,
    batch_size: Annotated[int | None, typer.Option(help="Stores: nodes per batch; default: 10,000.", min=1)] = None,
    metric: MetricName = None,
    class_weight: ClassWeight = None,
    calibrate: Calibrate = None,
    threshold: ThresholdFor = None,
    time_limit: Annotated[
        float | None,
        typer.Option(help="With --model auto: seconds per split to choose and train a model; default: 60.", min=0.1),
    ] = None,
    splits: Annotated[int, typer.Option(help="Number of splits, starting from split 0.", min=1)] = 1,
    split: Annotated[int | None, typer.Option(help="Train on this split only.", min=0)] = None,
    protocol: Annotated[str | None, typer.Option(help=PROTOCOL_HELP)] = None,
    seed: Annotated[int, typer.Option(help="Seed of the model; split i uses seed + i.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder to save the model to.")] = None,
    results: Annotated[Path, typer.Option(help="Results file, one JSON line per run.")] = Path("runs/train.jsonl"),
    resume: Annotated[bool, typer.Option("--resume", help="Fail if no run of this configuration was started.")] = False,
    jobs: Annotated[int, typer.Option(help="Number of splits to train in parallel.", min=1)] = 1,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Train a model on a named data set, a graph folder, a store, or your own tables.

    By default, uses the hyperparameters published for the model and data set, if there are any. Finished runs are
    skipped, and interrupted runs resume from their last checkpoint. A changed configuration starts a new run. On a
    store, models train in batches; to use several processes, run
    torchrun --nproc-per-node 2 -m polybasis train STORE.

    --model auto trains a portfolio of models on each split, compares them on the validation nodes and trains the
    best one. All candidates are listed in a file next to the results.

    For your own tables, 20% of the labelled nodes are held out for testing. The test score is printed with its 95%
    interval, next to those of a constant prediction and of a linear model of the columns.

    Examples:

      polybasis train chameleon --model favardgnn --splits 10

      polybasis train tolokers --model auto --time-limit 60

      polybasis train --edges edges.csv --features features.csv --labels labels.csv --out model

      polybasis train --edges payments.tsv.gz --merge sum --features users.parquet --target fraud --calibrate auto
    """
    import torch

    from polybasis.cli.display import console, print_assessment, print_notes, print_result, print_results, training_bar
    from polybasis.cli.summary import print_advice, print_plan
    from polybasis.train.job import Job, run_jobs

    if threads is not None:
        torch.set_num_threads(threads)
    if split is not None and splits > 1:
        raise ValueError("--split trains on one split; it does not apply to --splits above 1")
    if out is not None and splits > 1:
        raise ValueError("--out saves one model; it does not apply to --splits above 1")
    values = parse_values(set_values or [], lr=lr, epochs=epochs, batch_size=batch_size)
    objective = parse_objective(metric, class_weight)
    for name in objective.keys() & values.keys():
        raise ValueError(f"--set {name}={values[name]}: {name} is set twice")
    values |= objective
    chosen = flags.chosen()
    on_store = chosen.kind == "store"
    if batch_size is not None and not on_store:
        raise ValueError("--batch-size does not apply to a graph in memory; it applies to stores only")
    if "TORCHELASTIC_RUN_ID" in os.environ:
        refuse("--jobs", jobs if jobs > 1 else None, "torchrun, whose processes train one model together")
        if not on_store:
            raise ValueError("torchrun can train on stores only; start polybasis without torchrun")
    model, protocol = known_model(model), protocol or chosen.protocol
    numbers = range(splits) if split is None else range(split, split + 1)
    if model == AUTO:
        given: dict[str, object] = {
            "--config": config,
            "--set": set_values,
            "--lr": lr,
            "--epochs": epochs,
            "--batch-size": batch_size,
        }
        given |= {"--metric": metric, "--class-weight": class_weight}
        for flag, value in given.items():
            refuse(flag, value, "--model auto, which chooses the configuration")
        print_notes(chosen)
        configs = _race(chosen, protocol, numbers, seed, time_limit or 60.0, results)
    else:
        refuse("--time-limit", time_limit, "models other than auto")
        configs = dict.fromkeys(numbers, _configuration(model, config, chosen, on_store, values))
    configuration = configs[numbers[0]]
    planned = [Job(own, chosen, protocol, i, seed + i) for i, own in configs.items()]
    if resume:
        _check_started(planned, results)
    if calibrate is not None or threshold is not None:
        check_decisions(calibrate, threshold, out, chosen.open())
    if model != AUTO:
        print_notes(chosen)
    print_plan(planned[0])
    trained: set[str] = set()

    def on_result(result: Result) -> None:
        trained.add(result["key"])
        if splits > 1:
            print_result(result)

    with ExitStack() as stack:
        group, on_epoch = None, None
        if "TORCHELASTIC_RUN_ID" in os.environ:
            from polybasis.train.distributed import process_group

            group = stack.enter_context(process_group())
        if group is None or group.rank == 0:
            on_epoch = stack.enter_context(training_bar(f"{configuration.model.name} on {chosen.name}"))
        found = run_jobs(planned, results, out=out, processes=jobs, group=group, on_epoch=on_epoch, on_result=on_result)
    if group is not None and group.rank > 0:
        return
    _print_repeated(len(planned) - len(trained), len(planned), results)
    decided = None if out is None else decide(planned[0], out, calibrate, threshold)
    more = {} if out is None else {"model": str(out)}
    print_results(found, as_json, **more)
    if len(found) == 1 and "assessment" in found[0] and not as_json:
        print_assessment(found[0])
    if decided is not None:
        console.print(decided, highlight=False, soft_wrap=True)
    if planned[0].config.model.arguments.get("scale") != configuration.model.arguments.get("scale"):
        console.print(
            f"{configuration.model.name} was trained with scale=signal, so its predictions do not depend on the size "
            "of the graph; use --set scale=unit for the paper's filter",
            soft_wrap=True,
        )
    console.print(f"results in {results}" + ("" if out is None else f", model in {out}"), soft_wrap=True)
    print_advice(planned[0], out, calibrate is not None, threshold is not None)


def _print_repeated(count: int, runs: int, results: Path) -> None:
    """Says how many of the runs were skipped because the results file has them."""
    from polybasis.cli.display import console

    if count == 0:
        return
    runs_are, were = ("this run is", "was") if runs == 1 else (f"{count} of {runs} runs are", "were")
    more = "use another --results or --seed to train again"
    console.print(f"{runs_are} already in {results} and {were} not repeated; {more}", highlight=False, soft_wrap=True)


def _check_started(planned: list[Job], results: Path) -> None:
    """Raises ValueError if no job has a result or a checkpoint."""
    from polybasis.train.results import read_results

    finished = {result["key"] for result in read_results(results)}
    if not any(job.key in finished or job.has_checkpoint(results) for job in planned):
        raise ValueError(
            f"--resume: there is no run of this configuration in {results}; check the flags, or omit --resume to "
            "start a new run"
        )


def _race(
    source: Source, protocol: str, splits: range, seed: int, time_limit: float, results: Path
) -> dict[int, Config]:
    """Chooses a configuration for each split; prints the candidates."""
    from polybasis.cli.display import console, print_candidate
    from polybasis.train.auto import choose_config, races_file

    configs = {}
    for i in splits:
        console.print(f"choosing a model for split {i} of {source.name}", highlight=False)
        configs[i] = choose_config(source, protocol, i, seed + i, time_limit, results, print_candidate)
        console.print(
            f"chose {configs[i].model.name}; candidates in {races_file(results)}", highlight=False, soft_wrap=True
        )
    return configs


def _configuration(
    model: str | None, path: Path | None, source: Source, precomputed: bool, values: dict[str, Any]
) -> Config:
    """The configuration in a file, else the published one, else the default one, with some values changed."""
    from polybasis.train.config import Config
    from polybasis.train.presets import load_preset

    if path is not None:
        chosen = Config.from_toml(path)
        if model is not None and chosen.model.name != model:
            raise ValueError(f"--model is {model}; {path} is for {chosen.model.name}")
    else:
        name = model or "optbasisgnn"
        published = None if source.kind == "tables" else load_preset(name, source.name)
        if source.kind == "tables":
            chosen = Config.of_own_data(name, len(source.open().y))
        elif published is None or published.model.precomputed != precomputed:
            chosen = Config.of(name, precomputed=precomputed)
        else:
            chosen = published
    for table in ("lr", "weight_decay"):
        if isinstance(values.get(table), dict):  # some roles only; the others keep their values
            values[table] = getattr(chosen.optimizer, table) | values[table]
    return chosen.replace(**values, preset="custom") if values else chosen
