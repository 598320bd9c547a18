"""Links between pages of the site and files of the repository.

Documents outside ``docs``, such as ``SECURITY.md``, become pages by a page that includes them. In Markdown, links are
relative to the file they are written in, so that they also work in a checkout: this extension rewrites links of and to
included documents to links between pages.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<path>[^)\s:#]+)(?P<anchor>#[^)\s]*)?\)")
INCLUDE = re.compile(r"^```\{include\} (\S+)$", re.MULTILINE)


def included_documents(docs: Path) -> dict[Path, Path]:
    """The documents outside ``docs`` that pages include, with those pages."""
    pages = [page for page in docs.rglob("*.md") if "_build" not in page.parts]
    found = {(page.parent / path).resolve(): page for page in pages for path in INCLUDE.findall(page.read_text())}
    return {document: page for document, page in found.items() if not document.is_relative_to(docs)}


def relocate(text: str, source: Path, page: Path, docs: Path) -> str:
    """The text with links that are right on a page, from text with links that are right in a source file."""
    included = included_documents(docs)

    def link(found: re.Match[str]) -> str:
        target = (source.parent / found["path"]).resolve()
        if not target.exists():
            return found[0]
        if target.is_dir():  # a checkout shows its files, the site has no page for it
            return found["text"]
        target = included.get(target, target)
        return f"[{found['text']}]({os.path.relpath(target, page.parent)}{found['anchor'] or ''})"

    return LINK.sub(link, text)


def on_source(app: Sphinx, docname: str, content: list[str]) -> None:
    page = Path(app.env.doc2path(docname))
    if page.suffix == ".md":
        content[0] = relocate(content[0], page, page, Path(app.srcdir))


def on_include(app: Sphinx, path: Path, parent: str, content: list[str]) -> None:
    page = Path(app.env.doc2path(app.env.docname))
    content[0] = relocate(content[0], (Path(app.srcdir) / path).resolve(), page, Path(app.srcdir))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", on_source)
    app.connect("include-read", on_include)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
