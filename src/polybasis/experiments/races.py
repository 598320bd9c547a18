"""Races of ``auto`` in several processes, one thread each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from polybasis.train.auto import choose_config
from polybasis.train.config import Config
from polybasis.train.source import Source
from polybasis.worker_pool import WorkerPool

SECONDS = 60.0
OnRace = Callable[[str, int], None]


@dataclass(frozen=True, eq=False)
class Race:
    """A race on one split of a data set; the index of the split is also the seed.

    Attributes:
        source: the data set.
        split: index of the split.
        results: file of the results of ``auto``.
        configs: the candidates by name; None: those of ``auto``.
    """

    source: Source
    split: int
    results: Path
    configs: dict[str, Config] | None

    def run(self) -> Config:
        """The configuration of the winner; a race that was run before is not repeated."""
        arguments = (self.source, self.source.protocol, self.split, self.split, SECONDS, self.results)
        return choose_config(*arguments, configs=self.configs)


def run_races(races: list[Race], processes: int, on_race: OnRace | None = None) -> list[Config]:
    """The configurations of the winners, in the order of the races.

    Args:
        races: the races to run.
        processes: number of races to run in parallel.
        on_race: called after each race with the data set and the split.
    """
    configs: dict[int, Config] = {}
    waiting, broken = list(enumerate(races)), list[Exception]()

    def handle(number: int, outcome: Any) -> None:
        if isinstance(outcome, Exception):
            broken.append(outcome)
            return
        configs[number] = outcome
        if on_race is not None:
            on_race(races[number].source.name, races[number].split)

    pool = WorkerPool(min(processes, len(races)))
    try:
        while pool.busy or (waiting and not broken):
            while pool.idle and waiting and not broken:
                number, race = waiting.pop(0)
                pool.submit(number, _run_alone, race)
            pool.collect(handle)
    finally:
        pool.stop(handle)
    if broken:
        raise broken[0]
    return [configs[number] for number in range(len(races))]


def _run_alone(race: Race) -> Config:
    torch.set_num_threads(1)
    return race.run()
