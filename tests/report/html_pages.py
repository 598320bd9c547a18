"""Checks of HTML pages with the parser of the standard library."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "img", "input", "br", "link", "hr", "source"}
INLINE_ONLY = {"p", "h1", "h2", "h3", "span", "small", "figcaption", "button", "a", "dt"}  # hold no block elements
BLOCKS = {"p", "div", "table", "figure", "ul", "dl", "h1", "h2", "h3", "pre", "nav", "main", "header"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.problems: list[str] = []
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.elements.append((tag, found))
        if len(found) < len(attrs):
            self.problems.append(f"repeated attribute of <{tag}>")
        if self.open and self.open[-1] in INLINE_ONLY and tag in BLOCKS:
            self.problems.append(f"<{tag}> inside <{self.open[-1]}>")
        if found.get("id") in self.ids:
            self.problems.append(f"id {found['id']!r} occurs twice")
        self.ids |= {found["id"]} if "id" in found else set()
        for name in ("src", "href", "xlink:href", "action", "poster", "srcset"):
            if name in found:
                self.links.append(found[name])
        self.problems += [f"{name} of <{tag}>" for name in found if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes another element")

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))


def _read(text: str) -> _Reader:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader


def problems_of(text: str) -> list[str]:
    """What is wrong with a page: its nesting, ids, links within it, handlers in attributes, or external resources."""
    page = _read(text)
    problems = page.problems + [f"<{tag}> is not closed" for tag in page.open]
    for link in page.links:
        if link.startswith("#"):
            problems += [] if link[1:] in page.ids else [f"no element for {link}"]
        elif not link.startswith("data:image/"):
            problems.append(f"external resource {link[:60]}")
    style = "".join(data for tag, data in page.texts if tag == "style")
    problems += [f"external resource in the style sheet: {found}" for found in re.findall(r"@import|url\(", style)]
    problems += [] if text.startswith("<!doctype html>") else ["no doctype"]
    return problems


def charts_of(text: str) -> dict[str, dict[str, Any]]:
    """The data of each chart by its title."""
    found, title = {}, ""
    for tag, attributes in _read(text).elements:
        title = attributes["aria-label"] if tag == "figure" and "aria-label" in attributes else title
        if "data-chart" in attributes:
            found[title] = json.loads(attributes["data-chart"])
    return found


def decisions_of(text: str) -> dict[str, Any]:
    """The data of the threshold slider."""
    (found,) = (attributes for _, attributes in _read(text).elements if "data-decisions" in attributes)
    return dict(json.loads(found["data-decisions"]))


def text_of(text: str) -> str:
    """The text of a page, without its style sheet and script."""
    return " ".join(" ".join(data for tag, data in _read(text).texts if tag not in ("style", "script")).split())
