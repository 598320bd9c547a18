"""The page of a model in headless Chromium: it fits, stays silent, follows the colour scheme and reacts."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

import polybasis as pb
from polybasis.report.charts import Chart, Series
from polybasis.report.page import Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--enable-logging=stderr"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--virtual-time-budget=10000"),
]  # fmt: skip
NAMES = ("'a' & b", "<img src=x onerror=alert(1)> a very long name of a class that would not fit into a page")

PROBE = """
const wait = () => new Promise(done => setTimeout(done, 0));
const frame = document.querySelector("iframe");
frame.addEventListener("load", async () => {
  const page = frame.contentDocument, view = frame.contentWindow, found = {errors: []};
  view.addEventListener("error", event => found.errors.push(event.message));
  const fire = (target, type, more) =>
    target.dispatchEvent(new view.PointerEvent(type, {bubbles: true, pointerType: "mouse", isPrimary: true, ...more}));
  const at = (svg, x, y) => {
    const plot = svg.querySelector(".plot").getBoundingClientRect();
    return {clientX: plot.left + x * plot.width, clientY: plot.top + y * plot.height};
  };
  const tip = place => { const tip = place.querySelector(".tip"); return tip.hidden ? null : tip.innerText; };
  const figures = [...page.querySelectorAll("figure.chart")];
  const charts = Object.fromEntries(figures.map(figure => [figure.getAttribute("aria-label"), figure]));
  const style = element => view.getComputedStyle(element);
  try {
    found.title = page.title;
    found.overflow = page.documentElement.scrollWidth - page.documentElement.clientWidth;
    found.dark = view.matchMedia("(prefers-color-scheme: dark)").matches;
    found.colours = [style(page.body).backgroundColor, style(page.body).color];
    found.line = style(page.querySelector(".plot .s0 path")).stroke;
    found.charts = Object.keys(charts);
    found.widths = Object.values(charts).map(f => f.getBoundingClientRect().width);
    found.tips = {};
    for (const [name, figure] of Object.entries(charts)) {
      const svg = figure.querySelector("svg");
      fire(svg, "pointermove", at(svg, 0.5, 0.5));
      found.tips[name] = tip(figure);
      fire(svg, "pointerleave", {});
    }
    found.left = Object.values(charts).filter(figure => tip(figure) !== null).length;

    const roc = charts["ROC curve"], svg = roc.querySelector("svg");
    const ticks = () => svg.querySelector(".xticks").textContent;
    found.ticks = [ticks()];
    const box = svg.querySelector(".plot");
    fire(svg, "pointerdown", {...at(svg, 0.25, 0.5), buttons: 1});
    fire(svg, "pointermove", {...at(svg, 0.5, 0.5), buttons: 1});
    fire(view, "pointerup", {});
    found.view = box.getAttribute("viewBox").split(" ").map(Number);
    found.plot = [+box.getAttribute("width"), +box.getAttribute("height")];
    found.ticks.push(ticks());
    roc.querySelector(".reset").click();
    found.ticks.push(ticks());
    found.reset = roc.querySelector(".reset") === null;

    const toggle = roc.querySelector("[data-toggle='1']");
    toggle.click();
    found.hidden = [toggle.getAttribute("aria-pressed"), style(svg.querySelector("[data-series='1']")).display];
    fire(svg, "pointermove", at(svg, 0.5, 0.5));
    found.tipOfHidden = tip(roc);
    toggle.click();

    const training = charts["Training loss"];
    training.focus();
    const press = key => training.dispatchEvent(new view.KeyboardEvent("keydown", {key, bubbles: true}));
    press("ArrowRight"); press("ArrowRight");
    found.keyboard = tip(training);
    press("Escape");
    found.escaped = tip(training);

    const slider = page.querySelector(".explorer input");
    const value = key => page.querySelector(`[data-value=${key}]`).textContent;
    const rule = () => page.querySelector(".explorer .rule path").getAttribute("d");
    found.explorer = [];
    for (const place of [slider.value, slider.min, slider.max]) {
      slider.value = place;
      slider.dispatchEvent(new view.Event("input", {bubbles: true}));
      found.explorer.push([value("flagged"), value("recall"), value("missed"), rule()]);
    }
    const cell = page.querySelector("table.matrix td.right");
    fire(cell, "pointerover", {});
    found.cell = [tip(page.querySelector(".matrix-frame")), cell.dataset.n];
    await wait();
  } catch (error) { found.errors.push(String(error)); }
  document.body.dataset.found = JSON.stringify(found);
});
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    data = pb.data.csbm(nodes=300, features=20, seed=1)
    data = pb.data.NodeDataset(name="own", graph=data.graph, x=data.x, y=data.y, classes=NAMES)
    classifier = pb.NodeClassifier(K=4, epochs=30).fit(
        data.graph, data.x, [NAMES[i] for i in data.y], torch.arange(100), torch.arange(100, 200)
    )
    classifier.report(folder / "report.html")
    return folder / "report.html"


def opened(page: Path, width: int, mode: str, folder: Path, probe: str = PROBE) -> tuple[dict[str, Any], str]:
    """What a script finds in the page, opened in a frame of some width, and what was logged."""
    outer = folder / f"{mode}-{width}.html"
    frame = f'<iframe width="{width}" height="900" style="border:0" srcdoc="{html.escape(page.read_text())}"></iframe>'
    outer.write_text(f"<!doctype html><body>{frame}<script>{probe}</script></body>")
    dark = ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if mode == "dark" else []
    command = [str(CHROMIUM), *FLAGS, *dark, f"--user-data-dir={folder / mode}", "--dump-dom", outer.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    data = re.search(r'data-found="([^"]*)"', done.stdout)
    assert data, done.stderr[-2000:]
    return json.loads(html.unescape(data[1])), done.stderr


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_report_in_a_browser(report: Path, width: int, mode: str, tmp_path: Path) -> None:
    found, log = opened(report, width, mode, tmp_path)
    assert "CONSOLE" not in log
    assert found["errors"] == []
    assert found["title"] == "optbasisgnn on graph"
    assert found["overflow"] <= 0
    assert all(0.3 * width < size <= width for size in found["widths"])
    assert found["dark"] == (mode == "dark")
    paper, ink = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in found["colours"])
    assert (paper < 150 and ink > 600) if mode == "dark" else (paper > 600 and ink < 150)
    assert found["line"] == ("rgb(86, 180, 233)" if mode == "dark" else "rgb(0, 114, 178)")

    # The pointer over every chart shows a tooltip, which goes when the pointer leaves.
    assert all(found["tips"].values()), found["tips"]
    assert {"ROC curve", "Responses", "Training loss", "Degrees"} <= set(found["tips"])
    assert "from probability" in found["tips"]["ROC curve"]
    assert "5th to 95th percentile" in found["tips"]["Responses"]
    assert found["left"] == 0

    # Dragging zooms to the chosen part; the button undoes it.
    x, _, length, _ = found["view"]
    assert x == pytest.approx(0.25 * found["plot"][0], abs=3)
    assert length == pytest.approx(0.25 * found["plot"][0], abs=3)
    before, zoomed, after = found["ticks"]
    assert before == after == "00.20.40.60.81"
    assert zoomed in "0.250.30.350.40.450.5"
    assert "0.350.4" in zoomed
    assert found["reset"]

    assert found["hidden"] == ["false", "none"]
    assert found["tipOfHidden"] is None
    assert "epoch" in found["keyboard"]
    assert found["escaped"] is None

    start, strict, permissive = found["explorer"]
    assert permissive[0].endswith("(100%)")
    assert permissive[1:3] == ["100%", "0"]
    assert len({start[3], strict[3], permissive[3]}) == 3
    assert found["cell"][0].startswith(f"{found['cell'][1]} nodes (")
    assert f"class: {NAMES[0]}" in found["cell"][0]


def test_ticks_of_the_script_are_those_of_the_page(tmp_path: Path) -> None:
    """Python draws the ticks of a chart, the script draws them after zooming; a zoom to all changes nothing."""
    page = Page("ticks")
    page.heading("All")
    for i, (low, high) in enumerate([(0, 1), (-3e-6, 2e-6), (0, 8e7), (0.013, 0.0131), (-47.0, 1234.0)]):
        series = Series(name="a", x=[low, high], y=[low, high])
        page.charts(Chart(title=str(i), xlabel="x", ylabel="y", series=[series], x=(low, high), y=(low, high)))
    page.write(tmp_path / "page.html")
    probe = """
    const frame = document.querySelector("iframe");
    frame.addEventListener("load", () => {
      const view = frame.contentWindow, found = {before: [], after: []};
      for (const svg of frame.contentDocument.querySelectorAll(".canvas > svg")) {
        const texts = () => [...svg.querySelectorAll(".xticks text, .yticks text")].map(text => text.textContent);
        const plot = svg.querySelector(".plot").getBoundingClientRect(), clientY = plot.top + plot.height / 2;
        const fire = (target, type, clientX) => target.dispatchEvent(
          new view.PointerEvent(type, {bubbles: true, pointerType: "mouse", clientX, clientY, buttons: 1}));
        found.before.push(texts());
        fire(svg, "pointerdown", plot.left - 5);
        fire(svg, "pointermove", plot.right + 5);
        fire(view, "pointerup", 0);
        found.after.push(texts());
      }
      document.body.dataset.found = JSON.stringify(found);
    });
    """
    found, log = opened(tmp_path / "page.html", 800, "light", tmp_path, probe)
    assert "CONSOLE" not in log
    assert len(found["before"]) == 5
    assert found["before"] == found["after"]
