"""Pages in headless Chromium, loaded one after the other into a frame from a local server."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ["quic", "background-networking", "component-update", "sync", "gpu"]
FLAGS = ["--headless", "--no-sandbox", "--no-first-run", *(f"--disable-{part}" for part in QUIET)]
FLAGS += ["--enable-logging=stderr", "--virtual-time-budget=1000000"]
PROBE = """
const frame = document.querySelector("iframe"), found = {};
const wait = milliseconds => new Promise(done => setTimeout(done, milliseconds));
const load = page => new Promise(done => { frame.onload = done; frame.src = page; });
async function measure(page) {
  await load(page);
  const view = frame.contentWindow, shown = view.document;
  if (view.MathJax?.startup?.promise) await view.MathJax.startup.promise;
  await wait(200);
  const overflow = {};
  for (const width of WIDTHS) {
    frame.width = width;
    await wait(50);
    overflow[width] = shown.documentElement.scrollWidth - width;
  }
  found[page] = {
    overflow,
    title: shown.title,
    broken: [...shown.images].filter(image => image.complete && !image.naturalWidth).map(image => image.src),
    formulas: shown.querySelectorAll(".math").length,
    typeset: shown.querySelectorAll("mjx-container svg").length,
    dark: view.matchMedia("(prefers-color-scheme: dark)").matches,
    paper: view.getComputedStyle(shown.body).backgroundColor,
    hits: shown.querySelectorAll("#search-results li").length,
    cut: [...shown.querySelectorAll("pre")].filter(box => box.scrollHeight > box.clientHeight + 1).length,
    comments: [...shown.querySelectorAll(".highlight .c1")].map(word => view.getComputedStyle(word).color),
  };
}
(async () => {
  for (const page of PAGES) await measure(page);
  document.body.dataset.found = JSON.stringify(found);
})();
"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a line of log for each."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of a folder."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def visit(
    site: Path, pages: Sequence[str], widths: Sequence[int], scratch: Path, dark: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """What every page looks like, and the lines of the console.

    Args:
        site: The folder of the site; a page with the frame is written to it for a moment.
        pages: Pages relative to the site, with a query or without.
        widths: Widths of the window.
        scratch: The folder of the browser's profile.
        dark: Whether the system's setting is dark.
    """
    outer = site / "outer-page-of-the-test.html"
    script = PROBE.replace("PAGES", json.dumps(list(pages))).replace("WIDTHS", json.dumps(list(widths)))
    outer.write_text(
        f'<!doctype html><body><iframe width="{widths[0]}" height="900"></iframe><script>{script}</script>'
    )
    setting = ["--blink-settings=preferredColorScheme=0"] if dark else []
    try:
        with served(site) as address:
            command = [str(CHROMIUM), *FLAGS, *setting, f"--user-data-dir={scratch}", "--dump-dom"]
            done = subprocess.run(
                [*command, f"{address}/{outer.name}"], capture_output=True, text=True, timeout=600, check=True
            )
    finally:
        outer.unlink()
    data = re.search(r'data-found="([^"]*)"', done.stdout)
    assert data, done.stderr[-2000:]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(data[1])), console
