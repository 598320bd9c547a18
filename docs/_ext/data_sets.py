"""The tables of the page on data sets, from the catalogue."""

from __future__ import annotations

import re
from typing import Any

from generated_text import add_directive, table
from sphinx.application import Sphinx

from polybasis.data.catalogue import CATALOGUE
from polybasis.data.entries import CAMPUSES

OTHERS = [name for name in CATALOGUE if name not in CAMPUSES]
NUMBERS = ("nodes", "edges", "features", "classes", "homophily")


def numbers(name: str) -> tuple[str, ...]:
    about = CATALOGUE[name].description
    homophily = "" if about.homophily is None else f"{about.homophily:{'.3f' if about.measured else 'g'}}"
    counted = (f"{about.nodes:,}", f"{about.edges:,}", f"{about.features:,}", str(about.classes))
    return (name if about.measured else f"{name} \\*", *counted, homophily)


def linked(paper: str) -> str:
    """A publication, with its arXiv number as a link."""
    return re.sub(r"arXiv:(\d+\.\d+)", r"`arXiv:\1 <https://arxiv.org/abs/\1>`__", paper)


def statistics() -> str:
    return table(("data set", *NUMBERS, "protocol"), [(*numbers(name), CATALOGUE[name].protocol) for name in OTHERS])


def tasks() -> str:
    told = [(name, CATALOGUE[name].description) for name in OTHERS]
    return table(("data set", "task", "paper"), [(name, about.task, linked(about.paper)) for name, about in told])


def campuses() -> str:
    return table(("campus", *NUMBERS), [numbers(name) for name in CAMPUSES])


def files() -> str:
    rows = [
        (name, f"``{entry.folder}``", ", ".join(f"``{file}``" for file in entry.files), entry.source)
        for name, entry in CATALOGUE.items()
        if name in OTHERS and entry.files
    ]
    return table(("data set", "folder", "files", "source"), rows)


def setup(app: Sphinx) -> dict[str, Any]:
    for name, text in {"statistics": statistics, "tasks": tasks, "campuses": campuses, "files": files}.items():
        add_directive(app, f"data-set-{name}", text)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
