"""Links lead somewhere, the README stays short, and retired words do not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .documents import GENERATED, LINK, LINKED, ROOT, anchors, prose

RETIRED = re.compile(
    r"\bmembers\b|told class|LabelledModel|stop_on|(?-i:Team)\b|let_go|mend the", re.IGNORECASE
)  # renamed to ensemble, label reuse, LabelReuse, early_stopping, ProcessGroup, drop_pages
TEXT = {".md", ".py", ".pyi", ".toml"}


@pytest.mark.parametrize("document", LINKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_exist(document: Path) -> None:
    for target in LINK.findall(prose(document)):
        if re.match(r"[a-z]+:", target) or GENERATED & {*target.split("/")}:  # the build checks generated pages
            continue
        path, _, anchor = target.partition("#")
        place = (document.parent / path).resolve() if path else document
        assert place.exists(), f"{document.name}: {target}"
        assert place.is_relative_to(ROOT), f"{document.name}: {target} leaves the repository"
        assert not anchor or anchor in anchors(place), f"{document.name}: {target} has no such heading"


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 130


def test_no_placeholder_is_left() -> None:
    found = [path for path in (ROOT / "docs").rglob("*") if path.suffix in {".md", ".py", ".rst"}]
    assert not [
        path for path in [*found, ROOT / "README.md"] if re.search(r"\bTODO\b|[A-Z]-PARAGRAPH", path.read_text())
    ]


def test_retired_words_are_gone() -> None:
    found = [path for folder in ("src", "docs") for path in (ROOT / folder).rglob("*") if path.suffix in TEXT]
    files = [path for path in found if not GENERATED & {*path.parts}]
    lines = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in [*files, ROOT / "README.md"]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if RETIRED.search(line)
    ]
    assert not lines, "\n".join(lines)


QUOTING = [ROOT / "README.md", ROOT / "docs" / "results" / "index.md"]
FIGURE = re.compile(r"[+-]?\d+\.\d+ ± \d+\.\d+")


@pytest.mark.parametrize("document", QUOTING, ids=lambda path: path.name)
def test_every_quoted_interval_is_on_a_generated_page(document: Path) -> None:
    """The pages in results/ are generated from committed lines; a figure that is not on one of them has no file."""
    pages = "\n".join(page.read_text() for page in (ROOT / "results").glob("*/README.md"))
    known = {*FIGURE.findall(pages)}
    quoted = FIGURE.findall(document.read_text())
    assert quoted
    assert not [figure for figure in quoted if figure not in known]
