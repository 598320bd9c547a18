"""The site builds without warnings, needs no other host, and can be read on a desktop and on a phone."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from .browser import CHROMIUM, visit

pytestmark = pytest.mark.slow

LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
    "link": "href",
}
SEARCH = "search.html?q=OptBasisConv"


class Reader(HTMLParser):
    """The links, loaded resources and anchors of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.resources: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag in LOADED and values.get(LOADED[tag]):
            self.resources.append(values[LOADED[tag]])
        self.resources += [part.split()[0] for part in values.get("srcset", "").split(",") if part.strip()]


def pages_of(site: Path) -> dict[Path, Reader]:
    return {page: Reader(page) for page in sorted(site.rglob("*.html"))}


def test_the_site_has_every_part(site: Path) -> None:
    """The build itself is the fixture: it fails on any warning, and on any error of a tutorial."""
    for part in ("start", "auto_tutorials/index", "how-to/index", "explanation/one-identity", "reference/command-line"):
        assert (site / f"{part}.html").exists(), part
    assert len(list(site.rglob("*.html"))) > 100


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    outside = re.compile(r"^(?:https?:)?//")
    for page, read in pages_of(site).items():
        loaded = [resource for resource in read.resources if outside.match(resource)]
        assert not loaded, f"{page.relative_to(site)}: {loaded}"
    for sheet in site.rglob("*.css"):
        text = sheet.read_text()
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", text), sheet.relative_to(site)


def test_links_between_pages_resolve(site: Path) -> None:
    pages = pages_of(site)
    broken = []
    for page, read in pages.items():
        for link in [*read.links, *read.resources]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or not link.strip("#"):
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            known = pages[target].anchors if target in pages else None
            if not target.exists() or (known is not None and parts.fragment and unquote(parts.fragment) not in known):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert not broken, "\n".join(broken)


def test_types_of_arguments_list_their_values(site: Path) -> None:
    page = (site / "reference" / "api" / "generated" / "polybasis.nn.OptBasisConv.html").read_text()
    text = re.sub(r"<[^>]*>", "", page)
    assert re.search(r"scale \(\Wunit\W \| \Wsignal\W\)", text)


def read_by_people(site: Path) -> list[str]:
    """The pages that are not generated for one class or function each, and three of those."""
    names = [str(page.relative_to(site)) for page in sorted(site.rglob("*.html"))]
    written = [name for name in names if "/generated/" not in name and "genindex" not in name]
    generated = "reference/api/generated/polybasis"
    return [*written, f"{generated}.nn.OptBasisConv.html", f"{generated}.Graph.html", f"{generated}.data.csbm.html"]


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_pages_in_a_browser(site: Path, tmp_path: Path) -> None:
    """No page is wider than the window, cuts an output, has a broken image or formula, or writes to the console."""
    pages = [*(page for page in read_by_people(site) if not page.startswith("search")), SEARCH]
    found, console = visit(site, pages, (1280, 390), tmp_path)
    assert not console, "\n".join(console)
    assert found.keys() == {*pages}
    for page, seen in found.items():
        assert seen["title"], page
        assert not seen["broken"], page
        assert seen["typeset"] >= seen["formulas"], page
        assert max(seen["overflow"].values()) <= 0, f"{page}: {seen['overflow']}"
        assert not seen["cut"], page
        assert not seen["dark"]
    assert found[SEARCH]["hits"] > 0
    assert found["explanation/one-identity.html"]["formulas"] > 20


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_pages_in_the_dark(site: Path, tmp_path: Path) -> None:
    """The pages follow the system's setting."""
    pages = ["index.html", "auto_tutorials/own_tables.html", "reference/command-line.html"]
    found, console = visit(site, pages, (1280, 390), tmp_path, dark=True)
    assert not console, "\n".join(console)
    for page, seen in found.items():
        assert seen["dark"], page
        red, green, blue = map(int, re.findall(r"\d+", seen["paper"])[:3])
        assert max(red, green, blue) < 60, f"{page}: {seen['paper']}"
    comments = {colour for seen in found.values() for colour in seen["comments"]}
    assert comments
    for colour in comments:  # grey: quieter than the code
        channels = [int(part) for part in re.findall(r"\d+", colour)[:3]]
        assert max(channels) - min(channels) < 40, colour
