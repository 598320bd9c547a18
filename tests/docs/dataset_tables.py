"""The tables of docs/reference/datasets.md. Run this file to write them anew from the catalogue."""

from __future__ import annotations

import re
from pathlib import Path

from polybasis.data.catalogue import CATALOGUE
from polybasis.data.entries import CAMPUSES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "datasets.md"
OTHERS = [name for name in CATALOGUE if name not in CAMPUSES]


def _statistics(name: str) -> str:
    about = CATALOGUE[name].description
    digits = ".3f" if about.measured else "g"
    homophily = "" if about.homophily is None else f"{about.homophily:{digits}}"
    shown = name if about.measured else f"{name} *"
    return f"{shown} | {about.nodes:,} | {about.edges:,} | {about.features:,} | {about.classes} | {homophily}"


def _table(head: str, align: str, rows: list[str]) -> str:
    return "\n".join(f"| {row} |" for row in (head, align, *rows))


def tables() -> dict[str, str]:
    """The tables by the name of their marker."""
    numbers, right = "nodes | edges | features | classes | homophily", "---: | ---: | ---: | ---: | ---:"
    protocols = [f"{_statistics(name)} | {CATALOGUE[name].protocol}" for name in OTHERS]
    tasks = [f"{name} | {CATALOGUE[name].description.task} | {CATALOGUE[name].description.paper}" for name in OTHERS]
    files = [
        f"{name} | `{entry.folder}` | {', '.join(f'`{file}`' for file in entry.files)} | {entry.source}"
        for name, entry in CATALOGUE.items()
        if name in OTHERS and entry.files
    ]
    return {
        "statistics": _table(f"data set | {numbers} | protocol", f"--- | {right} | ---", protocols),
        "tasks": _table("data set | task | paper", "--- | --- | ---", tasks),
        "campuses": _table(f"campus | {numbers}", f"--- | {right}", [_statistics(name) for name in CAMPUSES]),
        "files": _table("data set | folder | files | source", "--- | --- | --- | ---", files),
    }


def with_tables(page: str) -> str:
    """The page with the tables of the catalogue between its markers."""
    for name, table in tables().items():
        marked = re.compile(f"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        assert marked.search(page), f"no place for the table {name}"
        page = marked.sub(lambda found, table=table: f"{found[1]}{table}\n{found[2]}", page)
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
