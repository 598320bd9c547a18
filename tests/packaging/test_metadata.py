"""The files that describe the project agree with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
YAML = [ROOT / "CITATION.cff", *sorted((ROOT / ".github").rglob("*.yml"))]


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=~!; ]", requirement)[0] for requirement in requirements}


def extras_of(requirements: list[str]) -> set[str]:
    """The extras of polybasis itself that are among some requirements."""
    found = [re.fullmatch(r"polybasis\[(.*)\]", requirement) for requirement in requirements]
    return {extra for match in found if match for extra in match[1].split(",")}


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_yaml_is_valid(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_citation_and_changelog_have_the_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == PROJECT["version"]
    heading = f"## [{PROJECT['version']}] - {citation['date-released']}"
    assert heading in (ROOT / "CHANGELOG.md").read_text().splitlines()


def test_the_version_is_stated_once() -> None:
    version = f'"{PROJECT["version"]}"'
    assert not [path for path in (ROOT / "src").rglob("*.py") if version in path.read_text()]


def test_all_extras_of_users_are_in_all() -> None:
    assert extras_of(EXTRAS["all"]) == EXTRAS.keys() - {"all", "docs", "dev"}
    assert {"all", "docs"} <= extras_of(EXTRAS["dev"])


def test_packages_of_the_build_are_installed_for_the_tests() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert {*build} <= {*EXTRAS["dev"]}


def test_every_requirement_has_a_constraint() -> None:
    listed = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    required = names([*PROJECT["dependencies"], *(each for extra in EXTRAS.values() for each in extra)])
    normal = {name.replace("_", "-").lower() for name in required}
    assert normal - {"polybasis"} <= names(listed)


def test_workflows_run_files_that_exist() -> None:
    text = "".join(path.read_text() for path in YAML)
    assert ".ci/run" in text
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100, "not executable"
    for name in ("LICENSE", "SECURITY.md", "CONTRIBUTING.md"):
        assert (ROOT / name).exists()
