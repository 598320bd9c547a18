"""Tables of results: one row for each model and one column for each data set, as Markdown, LaTeX or CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from polybasis.files import parse_lines
from polybasis.foreign_files import regular_file
from polybasis.train.results import Result, summary

TableFormat = Literal["markdown", "latex", "csv"]
ERRORS = ("log_loss", "rmse", "mae")  # metrics of which less is better; they are not shown in percent
RUN_KEYS = (
    "key", "model", "dataset", "preset", "protocol", "split", "seed", "metric", "val_score", "test_score", "epochs",
    "seconds", "threads", "code", "data",
)  # fmt: skip
TABLE_OPTIONS = ("id", "target", "drop", "merge")


def read_result_files(paths: Iterable[Path]) -> tuple[list[Result], dict[Path, int]]:
    """Reads results files; a result that is in several of them is returned once.

    Args:
        paths: JSON Lines files.

    Returns:
        The results, and for each file the number of lines that are damaged or not results of training.

    Raises:
        FileNotFoundError, ValueError: if a file does not exist or is not regular.
    """
    found: dict[str, Result] = {}
    skipped: dict[Path, int] = {}
    for path in paths:
        regular_file(path)
        content = path.read_bytes()
        results = [line for line in parse_lines(content) if _is_result(line)]
        skipped[path] = sum(1 for line in content.splitlines() if line.strip()) - len(results)
        found |= {result["key"]: result for result in results}
    return list(found.values()), skipped


def _is_result(line: dict[str, Any]) -> bool:
    texts = (line.get(name) for name in ("key", "model", "dataset", "metric", "protocol", "preset"))
    score = line.get("test_score", False)
    known = isinstance(score, int | float) and not isinstance(score, bool) and math.isfinite(score)
    return (
        all(isinstance(text, str) for text in texts)
        and isinstance(line.get("config"), dict)
        and (known or score is None)
    )


@dataclass(frozen=True)
class Column:
    """The results on a data set: its name, split protocol and metric."""

    dataset: str
    protocol: str
    metric: str

    @property
    def is_error(self) -> bool:
        """Whether less is better."""
        return self.metric in ERRORS


@dataclass(frozen=True)
class Cell:
    """Mean test score, half-width of its 95% interval (0 for a single run) and number of runs.

    Scores are in percent, errors are not.
    """

    mean: float
    ci95: float
    runs: int


@dataclass(frozen=True)
class ResultsTable:
    """The mean test scores of models on data sets.

    Attributes:
        rows: names of the models, followed by what differs if there are several configurations or versions of the
            data.
        columns: the data sets.
        cells: by row and column; a model may lack results on a data set.
    """

    rows: list[str]
    columns: list[Column]
    cells: dict[tuple[str, Column], Cell]

    def render(self, format: TableFormat) -> str:
        """The table as text; the best mean of each column is bold in Markdown and LaTeX.

        Args:
            format: ``markdown``, ``latex`` (with booktabs) or ``csv``.

        Raises:
            ValueError: for another format.
        """
        if format not in get_args(TableFormat):
            raise ValueError(f"format is {format!r}; expected one of {', '.join(get_args(TableFormat))}")
        return {"markdown": self._markdown, "latex": self._latex, "csv": self._csv}[format]()

    def caption(self) -> str:
        """What the numbers are: the metric, the interval and the number of runs."""
        metrics = {column.metric for column in self.columns}
        runs = {cell.runs for cell in self.cells.values()}
        what = metrics.pop() if len(metrics) == 1 else "score"
        percent = "" if any(column.is_error for column in self.columns) else " in percent"
        number = f"over {runs.pop()} runs" if len(runs) == 1 else "with the number of runs in parentheses"
        return f"Test {what}{percent}: mean ± 95% interval (Student's t) {number}."

    def _labels(self) -> list[str]:
        """Names of the columns: the data set, and its metric and protocol where they differ."""
        several_metrics = len({column.metric for column in self.columns}) > 1
        labels = []
        for column in self.columns:
            protocols = {other.protocol for other in self.columns if other.dataset == column.dataset}
            more = [column.metric] * several_metrics + [column.protocol] * (len(protocols) > 1)
            labels.append(column.dataset + (f" ({', '.join(more)})" if more else ""))
        return labels

    def _best(self, column: Column) -> float | None:
        means = [cell.mean for (_, other), cell in self.cells.items() if other == column]
        return None if len(means) < 2 else min(means) if column.is_error else max(means)

    def _body(self, plus_minus: str) -> list[list[tuple[str, str, bool]]]:
        """For each cell its mean and interval, its number of runs if they differ, and whether it is the best."""
        show_runs = len({cell.runs for cell in self.cells.values()}) > 1
        best, body = {column: self._best(column) for column in self.columns}, []
        for row in self.rows:
            line = []
            for column in self.columns:
                cell = self.cells.get((row, column))
                if cell is None:
                    line.append(("", "", False))
                    continue
                digits = 4 if column.is_error else 2
                interval = f" {plus_minus} {cell.ci95:.{digits}f}" if cell.runs > 1 else ""
                text = f"{cell.mean:.{digits}f}{interval}"
                line.append((text, f" ({cell.runs})" if show_runs else "", cell.mean == best[column]))
            body.append(line)
        return body

    def _markdown(self) -> str:
        lines = [["model", *map(escape_markdown, self._labels())], ["---", *("---:" for _ in self.columns)]]
        for row, cells in zip(self.rows, self._body("±"), strict=True):
            shown = [f"**{text}**{runs}" if bold else text + runs for text, runs, bold in cells]
            lines.append([escape_markdown(row), *shown])
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"{table}\n\n{escape_markdown(self.caption())}\n"

    def _latex(self) -> str:
        lines = [" & ".join(["model", *map(escape_latex, self._labels())]) + r" \\", r"\midrule"]
        for row, cells in zip(self.rows, self._body(r"\pm"), strict=True):
            bolded = [(rf"\mathbf{{{text}}}" if bold else text, runs) for text, runs, bold in cells]
            shown = [f"${text}${runs}" if text else "--" for text, runs in bolded]
            lines.append(" & ".join([escape_latex(row), *shown]) + r" \\")
        return "\n".join(
            [
                f"% {escape_latex(self.caption())} Needs \\usepackage{{booktabs}}.",
                rf"\begin{{tabular}}{{l{'r' * len(self.columns)}}}",
                r"\toprule",
                *lines,
                r"\bottomrule",
                "\\end{tabular}\n",
            ]
        )

    def _csv(self) -> str:
        header = [f"{label} {part}" for label in self._labels() for part in ("mean", "ci95", "runs")]
        rows = []
        for row in self.rows:
            cells = [self.cells.get((row, column)) for column in self.columns]
            rows.append([row, *(value for cell in cells for value in _values(cell))])
        return _as_csv(["model", *header], rows)


def _values(cell: Cell | None) -> tuple[Any, Any, Any]:
    if cell is None:
        return "", "", ""
    return f"{cell.mean:.6g}", f"{cell.ci95:.6g}" if cell.runs > 1 else "", cell.runs


def results_table(results: Sequence[Result], metric: str | None = None) -> ResultsTable:
    """Summarises test scores by model and data set; see :func:`polybasis.train.results.summary`.

    Runs are averaged only if they have the same configuration and the same data: a model has a row for each of its
    configurations and for each version of the data, labelled with the values that differ. Of several runs on the same
    split with the same seed, which older versions wrote without the identity of the data, each has its own row.

    Args:
        results: results of jobs, from one or several files.
        metric: use only results with this metric.

    Raises:
        ValueError: if there are no results with a test score.
    """
    used = [result for result in results if result["test_score"] is not None and metric in (None, result["metric"])]
    if not used:
        known = ", ".join(sorted({result["metric"] for result in results})) or "none"
        wanted = "" if metric is None else f" and the metric {metric}"
        raise ValueError(f"no results with a test score{wanted}; found {len(results)} results (metrics: {known})")
    scores: dict[tuple[str, Column], list[float]] = {}
    for result, label in zip(used, _row_labels(used), strict=True):
        column = _column(result)
        scores.setdefault((label, column), []).append(result["test_score"] * (1 if column.is_error else 100))
    cells = {}
    for place, values in scores.items():
        found = summary(values)
        cells[place] = Cell(found["mean"], found["ci95"], len(values))
    return ResultsTable(list(dict.fromkeys(row for row, _ in cells)), list(dict.fromkeys(c for _, c in cells)), cells)


def _column(result: Result) -> Column:
    return Column(result["dataset"], result["protocol"], result["metric"])


def _row_labels(results: Sequence[Result]) -> list[str]:
    """The label of the row of each result: its model, and what tells apart results that must not be averaged."""
    by_model: dict[tuple[str, Column], list[Result]] = {}
    by_column: dict[Column, list[Result]] = {}
    for result in results:
        by_model.setdefault((result["model"], _column(result)), []).append(result)
        by_column.setdefault(_column(result), []).append(result)
    configs: dict[str, set[str]] = {}
    for (model, _), own in by_model.items():
        configs.setdefault(model, set()).update(_differing_values(own))
    data = {column: _differing_data(own) for column, own in by_column.items()}
    shown = []
    for result in results:
        values, facts = _config_facts(result), _data_facts(result)
        words = [f"{name}={values.get(name, 'default')}" for name in sorted(configs[result["model"]])]
        shown.append(words + [f"{name}={facts[name]}" for name in sorted(data[_column(result)] & facts.keys())])
    rows = [(result["model"], *words, _column(result)) for result, words in zip(results, shown, strict=True)]
    runs = Counter(
        (row, str(result.get("split")), str(result.get("seed"))) for row, result in zip(rows, results, strict=True)
    )
    repeated = {row for (row, *_), count in runs.items() if count > 1}
    labels = []
    for result, words, row in zip(results, shown, rows, strict=True):
        if row in repeated:  # of unknown data
            words = [*words, f"key={result['key']}"]
        labels.append(f"{result['model']} ({', '.join(words)})" if words else result["model"])
    return labels


def _differing_values(results: Sequence[Result]) -> set[str]:
    """The configuration values that differ, or the preset if it suffices."""
    configs = [_config_facts(result) for result in results]
    unequal = _unequal(configs)
    by_preset = len({config["preset"] for config in configs}) == _count(configs)
    return {"preset"} if unequal and by_preset else unequal


def _differing_data(results: Sequence[Result]) -> set[str]:
    """The options of tables that differ, and the hash of the data unless the options suffice."""
    data = [_data_facts(result) for result in results]
    options = [{name: value for name, value in facts.items() if name != "data"} for facts in data]
    suffice = all(options) and _count(options) == _count(data)
    return _unequal([facts for facts in options if facts]) | (set() if suffice else _unequal(data) & {"data"})


def _unequal(several: Sequence[dict[str, str]]) -> set[str]:
    """The names whose values differ, or that some lack."""
    names = {name for facts in several for name in facts}
    return {name for name in names if len({facts.get(name) for facts in several}) > 1}


def _count(several: Sequence[dict[str, str]]) -> int:
    """How many of the dictionaries are different."""
    return len({tuple(sorted(facts.items())) for facts in several})


def _config_facts(result: Result) -> dict[str, str]:
    facts = {name: _short(value) for name, value in _flattened(result["config"]).items()}
    return facts | {"preset": result["preset"]}


def _data_facts(result: Result) -> dict[str, str]:
    """The hash of the data and the options with which tables were read; older results have neither."""
    facts = {"data": str(result.get("data", "unknown")).rpartition("@")[2]}
    options = result.get("tables")
    if isinstance(options, dict):
        for name in TABLE_OPTIONS:
            value = options.get(name)
            facts[name] = ("+".join(map(str, value)) if isinstance(value, list) else str(value or "")) or "none"
    return facts


def _flattened(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of a configuration by their name inside a section, such as ``K`` and ``lr.linear``."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict):
            inner = "" if prefix == "" and key in ("model", "optimizer", "stopping") else f"{prefix}{key}."
            found |= _flattened(value, inner)
        else:
            found[f"{prefix}{key}"] = value
    return found


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 20 else f"{text[:12]}.."


def runs_csv(results: Sequence[Result]) -> str:
    """One row for each result, as CSV."""
    return _as_csv(
        RUN_KEYS, [["" if result.get(key) is None else result[key] for key in RUN_KEYS] for result in results]
    )


def _as_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def escape_markdown(text: str) -> str:
    r"""Escapes characters that Markdown would interpret.

    >>> print(escape_markdown("a|b_c"))
    a\|b\_c
    """
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", " ".join(text.split()))


LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def escape_latex(text: str) -> str:
    r"""Escapes characters that LaTeX would interpret.

    >>> print(escape_latex("50% of a_b"))
    50\% of a\_b
    """
    return "".join(LATEX.get(c, c) for c in " ".join(text.split()))
