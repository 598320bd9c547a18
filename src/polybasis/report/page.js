"use strict";
// Tooltips, crosshair, zoom and legends for the charts of charts.py; the threshold slider; tooltips of matrices.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const SCALES = { linear: v => v, log: Math.log10, symlog: v => Math.asinh(v / 2) };
  const INVERSE = { linear: v => v, log: v => 10 ** v, symlog: v => 2 * Math.sinh(v) };

  const text = (value, digits = 4) => {
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-4 || size >= 1e6)) {
      const [factor, power] = value.toExponential(digits - 1).split("e");
      return `${+factor}e${+power}`.replace(/-/g, "−");
    }
    return (+value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 10 }).replace("-", "−");
  };

  const element = (name, attributes, parent) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.append(made);
    return made;
  };

  // A tooltip inside a positioned container; it shows plain text only.
  const tooltip = container => {
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    tip.setAttribute("role", "status");
    container.append(tip);
    return {
      hide() { tip.hidden = true; },
      show(lines, x, y) {
        tip.textContent = lines.join("\n");
        tip.hidden = false;
        const room = container.clientWidth - tip.offsetWidth;
        const beside = x + 14 <= room ? x + 14 : x - tip.offsetWidth - 14;
        tip.style.left = `${Math.max(0, Math.min(beside, room))}px`;
        tip.style.top = `${Math.max(0, y - tip.offsetHeight - 10)}px`;
      },
    };
  };

  const roundTicks = (low, high) => {
    const raw = (high - low) / 5, unit = 10 ** Math.floor(Math.log10(raw));
    const step = unit * ([1, 2, 5].find(s => raw <= 1.0001 * s * unit) || 10), found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(+(i * step).toPrecision(12));
    return found;
  };

  function setUp(figure) {
    const canvas = figure.querySelector(".canvas"), svg = canvas.querySelector("svg"), plot = svg.querySelector(".plot");
    const chart = JSON.parse(svg.dataset.chart), box = svg.viewBox.baseVal;
    const [left, top, width, height] = ["x", "y", "width", "height"].map(name => +plot.getAttribute(name));
    const groups = [...plot.querySelectorAll("[data-series]")], hidden = new Set();
    const full = [0, 0, width, height];
    let view = full, start = null, brush = null, position = null;
    const over = element("g", { class: "over" }, svg), tip = tooltip(canvas);

    const axis = (limits, scale, length, flipped) => {
      const [low, high] = limits.map(SCALES[scale]);
      const turn = share => flipped ? 1 - share : share;
      return {
        place: value => length * turn((SCALES[scale](value) - low) / (high - low)),
        value: place => INVERSE[scale](low + turn(place / length) * (high - low)),
      };
    };
    const X = axis(chart.x, chart.xscale, width, false), Y = axis(chart.y, chart.yscale, height, true);
    const shownX = place => left + (place - view[0]) / view[2] * width;
    const shownY = place => top + (place - view[1]) / view[3] * height;
    const background = chart.series.map(s => s.kind === "background" && s.y ? Math.max(...s.y) : 0);

    const series = chart.series.flatMap((s, i) => s.x === undefined ? [] : [{
      ...s, number: i,
      points: chart.positions[s.x].map((x, k) => ({
        x, y: s.y[k], upper: s.upper && s.upper[k], note: s.notes && s.notes[k], px: X.place(x),
        py: background[i] ? height * (1 - 0.92 * s.y[k] / background[i]) : Y.place(s.upper ? (s.y[k] + s.upper[k]) / 2 : s.y[k]),
      })).filter(point => point.x !== null && point.y !== null),
    }]);
    const visible = () => series.filter(s => !hidden.has(s.number) && s.points.length);

    const nearest = (points, distance) => points.reduce((best, point) => distance(point) < distance(best) ? point : best);

    const clear = () => { over.replaceChildren(); tip.hide(); };

    function show(px, py) {
      clear();
      const found = visible().map(s => [s, nearest(s.points, p =>
        chart.nearest && py !== null ? Math.hypot((p.px - px) / view[2], (p.py - py) / view[3]) : Math.abs(p.px - px))]);
      if (!found.length) return;
      const chosen = chart.nearest
        ? [nearest(found, ([, p]) => Math.hypot((p.px - px) / view[2], py === null ? 0 : (p.py - py) / view[3]))] : found;
      const head = nearest(chosen, ([, p]) => Math.abs(p.px - px))[1];
      const at = shownX(head.px);
      if (at < left - 1 || at > left + width + 1) return;
      position = [head.px, head.py];
      element("line", { x1: at, x2: at, y1: top, y2: top + height }, over);
      const value = p => p.upper === undefined ? text(p.y) : `${text(p.y)} to ${text(p.upper)}`;
      const lines = [`${chart.xlabel}: ${text(head.x)}`];
      for (const [s, p] of chosen) {
        if (!chart.nearest && Math.abs(p.px - head.px) > width / 8) continue;
        if (!["band", "background", "bars", "bounds"].includes(s.kind) && p.py >= view[1] - 1 && p.py <= view[1] + view[3] + 1) {
          element("circle", { cx: shownX(p.px), cy: shownY(p.py), r: 4, class: groups[s.number].getAttribute("class") }, over);
        }
        if (chart.nearest) lines.unshift(s.name);
        lines.push(chart.nearest ? `${chart.ylabel}: ${value(p)}` : `${s.name}: ${value(p)}`);
        if (p.note) lines.push(p.note);
      }
      const scale = svg.clientWidth / box.width;
      tip.show(lines, at * scale, Math.max(top + 60, Math.min(...chosen.map(([, p]) => shownY(p.py)))) * scale);
    }

    function drawTicks(name, axis, scale, from, length, shown) {
      if (scale !== "linear") return;
      const group = svg.querySelector(`.${name}`), [a, b] = [axis.value(from), axis.value(from + length)];
      group.replaceChildren();
      for (const value of roundTicks(Math.min(a, b), Math.max(a, b))) {
        const place = shown(axis.place(value)), across = name === "xticks";
        element("path", { d: across ? `M${place} ${top}v${height}` : `M${left} ${place}h${width}` }, group);
        element("text", across ? { x: place, y: top + height + 16 } : { x: left - 6, y: place + 4 }, group).textContent = text(value, 6);
      }
    }

    function zoom(target) {
      view = target;
      plot.setAttribute("viewBox", view.join(" "));
      drawTicks("xticks", X, chart.xscale, view[0], view[2], shownX);
      drawTicks("yticks", Y, chart.yscale, view[1], view[3], shownY);
      clear();
      const button = figure.querySelector(".reset");
      if (view !== full && !button) {
        const made = document.createElement("button");
        Object.assign(made, { type: "button", className: "reset", textContent: "Reset zoom" });
        made.addEventListener("click", () => zoom(full));
        figure.append(made);
      } else if (view === full && button) button.remove();
    }

    // The chosen part of the horizontal axis, with the vertical axis fitted to what is visible there.
    function zoomTo(a, b) {
      let low = 0, high = height;
      const inside = visible().filter(s => s.kind !== "background").flatMap(s => s.points.filter(p => p.px >= a && p.px <= b));
      if (chart.yscale === "linear" && inside.length) {
        const places = inside.flatMap(p => p.upper === undefined ? [p.py] : [Y.place(p.y), Y.place(p.upper)]);
        const ends = [Math.max(0, Math.min(...places)), Math.min(height, Math.max(...places))];
        const margin = Math.max(0.06 * (ends[1] - ends[0]), 0.01 * height);
        low = Math.max(0, ends[0] - margin);
        high = Math.min(height, ends[1] + margin);
      }
      zoom([a, low, b - a, high - low]);
    }

    const locate = event => {
      const place = svg.getBoundingClientRect(), scale = box.width / place.width;
      const px = (event.clientX - place.left) * scale - left, py = (event.clientY - place.top) * scale - top;
      return [view[0] + px / width * view[2], view[1] + py / height * view[3]];
    };
    const within = px => Math.max(view[0], Math.min(view[0] + view[2], px));

    svg.addEventListener("pointermove", event => {
      const [px, py] = locate(event);
      if (start !== null && event.buttons & 1) {
        clear();
        const [a, b] = [start, within(px)].sort((m, n) => m - n);
        brush = b - a > view[2] / 60 ? [a, b] : null;
        if (brush) element("rect", { x: shownX(a), y: top, width: shownX(b) - shownX(a), height }, over);
      } else if (px < view[0] - 8 || px > view[0] + view[2] + 8) clear();
      else show(px, py);
    });
    svg.addEventListener("pointerdown", event => {
      const [px, py] = locate(event);
      if (event.pointerType === "mouse") { start = within(px); event.preventDefault(); figure.focus({ preventScroll: true }); }
      else show(px, py);
    });
    addEventListener("pointerup", () => { if (brush) zoomTo(...brush); start = brush = null; });
    svg.addEventListener("pointerleave", () => { if (start === null) clear(); });
    svg.addEventListener("dblclick", () => zoom(full));

    figure.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape") { clear(); if (view !== full) zoom(full); }
      if (!step || event.target !== figure || !visible().length) return;
      event.preventDefault();
      const places = [...new Set(visible()[0].points.map(p => p.px))].filter(p => p >= view[0] && p <= view[0] + view[2]);
      places.sort((a, b) => a - b);
      const current = position === null ? -1 : places.reduce((best, p, i) =>
        Math.abs(p - position[0]) < Math.abs(places[best] - position[0]) ? i : best, 0);
      const next = Math.max(0, Math.min(places.length - 1, current + step * Math.ceil(places.length / 100)));
      show(places[next], chart.nearest && position ? position[1] : null);
    });
    figure.addEventListener("blur", clear);

    for (const button of figure.querySelectorAll("[data-toggle]")) {
      button.addEventListener("click", () => {
        const number = +button.dataset.toggle, hide = !hidden.has(number);
        hidden[hide ? "add" : "delete"](number);
        groups[number].classList.toggle("hidden", hide);
        button.setAttribute("aria-pressed", String(!hide));
        clear();
      });
    }
    figure.moveRule = value => {
      const rule = groups.find((group, i) => chart.series[i].kind === "rule");
      rule.firstChild.setAttribute("d", `M${X.place(value)} 0V${height}`);
    };
  }

  function setUpMatrix(frame) {
    const tip = tooltip(frame), head = [...frame.querySelectorAll("thead th")].slice(1).map(cell => cell.textContent);
    frame.addEventListener("pointerover", event => {
      const cell = event.target.closest("td");
      if (!cell) return tip.hide();
      const row = cell.parentElement, counts = [...row.querySelectorAll("td")].map(other => +other.dataset.n);
      const total = counts.reduce((a, b) => a + b, 0), actual = row.querySelector("th").textContent;
      const share = total ? ` (${(100 * cell.dataset.n / total).toFixed(1)}% of ${total.toLocaleString("en")})` : "";
      const place = cell.getBoundingClientRect(), own = frame.getBoundingClientRect();
      const lines = [`${(+cell.dataset.n).toLocaleString("en")} nodes${share}`, `class: ${actual}`, `predicted: ${head[cell.cellIndex - 1]}`];
      tip.show(lines, place.left - own.left + place.width / 2, place.top - own.top);
    });
    frame.addEventListener("pointerleave", tip.hide);
  }

  function setUpExplorer(explorer) {
    const data = JSON.parse(explorer.dataset.decisions), slider = explorer.querySelector("input");
    const percent = share => `${(100 * share).toPrecision(3)}%`, count = n => n.toLocaleString("en");
    slider.addEventListener("input", () => {
      const i = +slider.value, flagged = data.flagged[i], hits = data.hits[i];
      const values = {
        threshold: text(data.threshold[i]), flagged: `${count(flagged)} (${percent(flagged / data.nodes)})`,
        precision: percent(hits / flagged), recall: percent(hits / data.positives),
        wrong: count(flagged - hits), missed: count(data.positives - hits),
      };
      for (const [name, value] of Object.entries(values)) explorer.querySelector(`[data-value="${name}"]`).textContent = value;
      slider.setAttribute("aria-valuetext", `${values.flagged} flagged, precision ${values.precision}, recall ${values.recall}`);
      explorer.querySelector("figure.chart").moveRule(100 * flagged / data.nodes);
    });
  }

  document.querySelectorAll("figure.chart").forEach(setUp);
  document.querySelectorAll(".matrix-frame").forEach(setUpMatrix);
  document.querySelectorAll(".explorer").forEach(setUpExplorer);
})();
