"""The Markdown documents of the project: their code blocks, commands and links."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {"_build", "auto_tutorials", "auto_gallery", "generated"}
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if not GENERATED & {*page.parts}]
EXAMPLES = [ROOT / "README.md", *PAGES]
LINKED = [
    *EXAMPLES,
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "native" / "README.md",
    *sorted((ROOT / "results").glob("*/README.md")),
]
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SHELLS = ("console", "bash", "sh")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line of the document that the text starts on."""

    language: str
    text: str
    line: int

    def commands(self) -> list[list[str]]:
        """The arguments of every `polybasis` command, the name of the program included, without comments."""
        lines = self.text.replace("\\\n", " ").splitlines()
        split = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
        return [words for words in split if "polybasis" in words and words[0] in ("polybasis", "torchrun")]


def blocks(document: Path) -> list[Block]:
    """The fenced blocks of a document, in order."""
    text = document.read_text()
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 2) for m in FENCE.finditer(text)]


def inline_commands(document: Path) -> list[str]:
    """The commands in inline code."""
    return re.findall(r"`(polybasis [a-z][^`\n]*)`", FENCE.sub("", document.read_text()))


def prose(document: Path) -> str:
    """The document without its fenced blocks and inline code."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", document.read_text()))


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", document.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
