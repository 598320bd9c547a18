"""Examples in the documentation run: Python blocks and commands of a document, in order, in one folder and namespace.

Every command is parsed. A command also runs unless a word of it is in ``ONLY_PARSED``. TOML blocks are configurations.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

import polybasis as pb
from polybasis.cli import main
from polybasis.cli.app import app
from polybasis.data import CATALOGUE

from .documents import EXAMPLES, ROOT, SHELLS, blocks, inline_commands

ONLY_PARSED = {
    "bench": "takes minutes",
    "demo": "takes minutes; has a test of its own",
    "reproduce": "takes minutes, or needs data sets that are not generated",
    "--ray": "starts a cluster; tests/store/test_cluster.py does",
    **{name: "a data set that is not generated" for name in CATALOGUE if name not in ("csbm", "mine-board")},
}
COMMANDS = [
    pytest.param(words, id=f"{document.name}:{block.line} {' '.join(words)}")
    for document in EXAMPLES
    for block in blocks(document)
    if block.language in SHELLS
    for words in block.commands()
]


def arguments_of(words: list[str]) -> list[str]:
    """The arguments of `polybasis` itself, however it is started."""
    return words[words.index("polybasis") + 1 :]


def only_parsed(arguments: list[str]) -> bool:
    """Whether a command cannot run here."""
    return bool(ONLY_PARSED.keys() & {*arguments})


def resolve(arguments: list[str]) -> tuple[Any, list[str]]:
    """The command, or command of a group, that the arguments name, and the other arguments."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands") and arguments:
        assert arguments[0] in command.commands, f"no command {arguments[0]!r}"
        command, arguments = command.commands[arguments[0]], arguments[1:]
    return command, arguments


@pytest.mark.parametrize("words", COMMANDS)
def test_command_is_valid(words: list[str]) -> None:
    """Its flags exist, its values have the right types, and no required one is missing."""
    command, rest = resolve(arguments_of(words))
    command.make_context(command.name, rest)


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda path: path.name)
def test_inline_commands_have_known_flags(document: Path) -> None:
    """Commands in the text may have placeholders, so that only their names and flags are checked."""
    for text in inline_commands(document):
        command, rest = resolve(text.split()[1:])
        known = {flag for parameter in command.params for flag in parameter.opts}
        assert {word for word in rest if word.startswith("--")} <= known, f"{document.name}: {text}"


def write_tables() -> None:
    """The tables that README.md takes as given."""
    data = pb.data.csbm(nodes=120, features=4)
    rows = {
        "edges": ["source,target", *(f"{a},{b}" for a, b in zip(*data.graph.edge_index().tolist(), strict=True))],
        "features": ["node,a,b,c,d", *(f"{i}," + ",".join(map(str, row)) for i, row in enumerate(data.x.tolist()))],
        "labels": ["node,class", *(f"{i},{c}" for i, c in enumerate(data.y.tolist()))],
    }
    for name, lines in rows.items():
        Path(f"{name}.csv").write_text("\n".join(lines) + "\n")


def run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Runs a command; training takes five epochs unless the document says how many."""
    arguments = arguments_of(words)
    if arguments[0] == "train" and "--epochs" not in arguments and "auto" not in arguments:
        arguments = [*arguments, "--epochs", "5"]
    if words[0] == "torchrun":
        launcher = [sys.executable, "-m", "torch.distributed.run", *words[1 : words.index("polybasis") + 1]]
        return subprocess.run([*launcher, *arguments], capture_output=True).returncode
    monkeypatch.setattr(sys, "argv", ["polybasis", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda path: path.name)
def test_configurations_are_valid(document: Path) -> None:
    for block in blocks(document):
        if block.language == "toml":
            pb.train.Config.from_dict(tomllib.loads(block.text), f"{document.name}:{block.line}")


@pytest.mark.slow
@pytest.mark.parametrize("document", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POLYBASIS_DATA", str(tmp_path / "data"))
    if document.name == "README.md":
        write_tables()
    torch.manual_seed(0)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(document):
        place = f"{document.relative_to(ROOT)}:{block.line}"
        if block.language == "python":
            # Lines before the code keep the document's line numbers in tracebacks.
            exec(compile("\n" * (block.line - 1) + block.text, str(document), "exec"), namespace)
        elif block.language in SHELLS:
            for words in block.commands():
                if not only_parsed(arguments_of(words)):
                    assert run(words, monkeypatch) == 0, f"{place}: {' '.join(words)}\n{capsys.readouterr().err}"


@pytest.mark.slow
def test_demo_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command of `make demo` writes a page with its figures inside."""
    assert "$(BIN)/polybasis demo --out demo" in (ROOT / "Makefile").read_text()
    monkeypatch.chdir(tmp_path)
    assert run(["polybasis", "demo", "--out", "demo", "--splits", "1"], monkeypatch) == 0
    page = (tmp_path / "demo" / "report.html").read_text()
    assert page.count("<img") + page.count("<svg") >= 4
