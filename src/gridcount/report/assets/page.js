"use strict";
(() => {
  // Everything that comes from names reaches the page through textContent or setAttribute, never as markup.
  const data = JSON.parse(document.getElementById("data").textContent);
  const DASHES = ["", "7 3", "2.5 3", "9 3 2.5 3", "12 4", "5 2 1.5 2", "1.5 2.5", "7 3 1.5 3 1.5 3"];
  const COLOURS = 8;
  const colour = (m) => `var(--c${m % COLOURS})`;
  const dash = (m) => DASHES[(m + Math.floor(m / COLOURS)) % DASHES.length];

  // ---- small tools
  const element = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
  const shape = (tag, attributes = {}, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }
  function bytes(text) {
    const raw = atob(text), out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out.buffer;
  }
  const floats = (text) => new Float32Array(bytes(text));
  const integers = (text) => new Int32Array(bytes(text));
  const rounded = (value, digits = 1) => (Number.isFinite(value) ? value.toFixed(digits).replace("-", "−") : "–");
  const grouped = (value) => Math.round(value).toLocaleString("en");
  function short(value) {
    const size = Math.abs(value);
    if (size >= 1e6) return `${+(value / 1e6).toFixed(2)}M`.replace("-", "−");
    if (size >= 1e4) return `${+(value / 1e3).toFixed(1)}k`.replace("-", "−");
    return String(+value.toPrecision(4)).replace("-", "−");
  }
  function digitsOf(span) { return span > 20 ? 1 : span > 2 ? 2 : 4; }
  function ticks(low, high, count) {
    const raw = (high - low) / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((x) => x * power).find((x) => x >= raw) || raw;
    const out = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) out.push(i * step);
    return out;
  }
  function nearest(xs, x) {
    let low = 0, high = xs.length - 1;
    while (high - low > 1) { const middle = (low + high) >> 1; if (xs[middle] < x) low = middle; else high = middle; }
    return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
  }
  function outline(xs, ys, X, Y) {
    let d = "", pen = false;
    for (let i = 0; i < xs.length; i++) {
      if (!Number.isFinite(ys[i])) { pen = false; continue; }
      d += `${pen ? "L" : "M"}${X(xs[i]).toFixed(1)} ${Y(ys[i]).toFixed(1)}`;
      pen = true;
    }
    return d;
  }
  function area(xs, low, high, X, Y) {
    const up = [], down = [];
    for (let i = 0; i < xs.length; i++) {
      if (!Number.isFinite(low[i]) || !Number.isFinite(high[i])) continue;
      up.push(`${X(xs[i]).toFixed(1)} ${Y(high[i]).toFixed(1)}`);
      down.push(`${X(xs[i]).toFixed(1)} ${Y(low[i]).toFixed(1)}`);
    }
    return up.length ? `M${up.join("L")}L${down.reverse().join("L")}Z` : "";
  }
  function smoothed(values, window) {
    if (window < 2) return values;
    return Float64Array.from(values, (_, i) => {
      let total = 0, count = 0;
      for (let j = Math.max(0, i - window + 1); j <= i; j++) if (Number.isFinite(values[j])) { total += values[j]; count++; }
      return count ? total / count : NaN;
    });
  }
  function download(name, columns, rows) {
    const quote = (value) => {
      const text = value === null || value === undefined || Number.isNaN(value) ? "" : String(value);
      return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const csv = [columns, ...rows].map((row) => row.map(quote).join(",")).join("\n") + "\n";
    const url = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
    element("a", { href: url, download: `${name}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60000); // not before the browser has read it
  }
  const fileName = (...parts) => parts.join("-").replace(/[^A-Za-z0-9.]+/g, "-").replace(/^-|-$/g, "");

  // ---- a plot of lines: hovering shows values, dragging or the wheel zooms
  let clips = 0;
  class LinePlot {
    constructor(figure, options) {
      this.options = options;
      this.view = null;
      this.cursor = null;
      this.canvas = figure.querySelector(".canvas");
      this.svg = shape("svg", { class: "zoomable", tabindex: 0, role: "img", "aria-label": options.label });
      this.readout = element("div", { class: "readout", role: "status", hidden: "" });
      this.canvas.append(this.svg, this.readout);
      this.reset = figure.querySelector(".reset");
      this.reset.addEventListener("click", () => this.zoom(null));
      this.clip = `clip${clips++}`;
      this.listen();
      new ResizeObserver(() => this.draw()).observe(this.canvas);
    }
    zoom(view) {
      this.view = view;
      this.reset.hidden = view === null;
      this.draw();
    }
    limits() {
      const lines = this.lines;
      let x0 = Infinity, x1 = -Infinity;
      for (const line of lines) { x0 = Math.min(x0, line.x[0]); x1 = Math.max(x1, line.x[line.x.length - 1]); }
      if (!Number.isFinite(x0)) return { x: [0, 1], y: [0, 1] };
      if (x0 === x1) { x0 -= 0.5; x1 += 0.5; }
      const x = this.view ? this.view.x : [x0, x1];
      if (this.view && this.view.y) return { x, y: this.view.y, full: [x0, x1] };
      if (this.options.y && !this.view) return { x, y: this.options.y, full: [x0, x1] };
      let y0 = Infinity, y1 = -Infinity;
      const see = (value) => { if (Number.isFinite(value)) { y0 = Math.min(y0, value); y1 = Math.max(y1, value); } };
      for (const line of lines) {
        for (let i = 0; i < line.x.length; i++) {
          if (line.x[i] < x[0] || line.x[i] > x[1]) continue;
          see(line.y[i]);
          if (line.low) { see(line.low[i]); see(line.high[i]); }
          for (const seed of line.each || []) see(seed[i]);
        }
        if (line.paper !== undefined && !this.view) see(line.paper);
      }
      if (!Number.isFinite(y0)) [y0, y1] = [0, 1];
      const pad = (y1 - y0 || Math.abs(y0) || 1) * 0.06;
      return { x, y: [y0 - pad, y1 + pad], full: [x0, x1] };
    }
    draw() {
      const width = this.canvas.clientWidth;
      if (!width) return;
      const height = Math.round(Math.min(Math.max(width * 0.66, 210), 360));
      const box = { left: 46, right: width - 10, top: 8, bottom: height - 38 };
      this.lines = this.options.lines();
      const { x, y, full } = this.limits();
      this.full = full || x;
      const X = (value) => box.left + ((value - x[0]) / (x[1] - x[0])) * (box.right - box.left);
      const Y = (value) => box.bottom - ((value - y[0]) / (y[1] - y[0])) * (box.bottom - box.top);
      this.frame = { box, x, y, X, Y, width, height };
      const svg = this.svg;
      svg.replaceChildren();
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.setAttribute("height", height);
      svg.dataset.zoomed = this.view ? "yes" : "no";
      const { left, right, top, bottom } = box;
      svg.append(shape("clipPath", { id: this.clip }, shape("rect", { x: left, y: top, width: right - left, height: bottom - top })));
      for (const tick of ticks(y[0], y[1], height / 60)) {
        svg.append(shape("line", { class: "gridline", x1: left, x2: right, y1: Y(tick), y2: Y(tick) }));
        svg.append(shape("text", { x: left - 7, y: Y(tick) + 4, "text-anchor": "end" }, short(tick)));
      }
      for (const tick of ticks(x[0], x[1], width / 72)) {
        if (X(tick) < left - 1 || X(tick) > right + 1) continue;
        svg.append(shape("line", { class: "axis", x1: X(tick), x2: X(tick), y1: bottom, y2: bottom + 4 }));
        svg.append(shape("text", { x: X(tick), y: bottom + 17, "text-anchor": X(tick) > right - 12 ? "end" : "middle" }, short(tick)));
      }
      svg.append(shape("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
      svg.append(shape("text", { x: (left + right) / 2, y: height - 4, "text-anchor": "middle" }, this.options.xLabel));
      const inside = shape("g", { "clip-path": `url(#${this.clip})` });
      for (const line of this.lines) if (line.low) inside.append(shape("path", { class: "band", d: area(line.x, line.low, line.high, X, Y), style: `fill:${colour(line.m)}` }));
      for (const line of this.lines) {
        const stroke = `stroke:${colour(line.m)}`;
        if (line.paper !== undefined) inside.append(shape("path", { class: "paper", d: `M${left} ${Y(line.paper)}L${right} ${Y(line.paper)}`, style: stroke }));
        for (const seed of line.each || []) inside.append(shape("path", { class: "seed", d: outline(line.x, seed, X, Y), style: stroke }));
        inside.append(shape("path", { class: "series", "data-method": line.name, "stroke-dasharray": dash(line.m), d: outline(line.x, line.y, X, Y), style: stroke }));
        if (line.x.length === 1) inside.append(shape("circle", { cx: X(line.x[0]), cy: Y(line.y[0]), r: 3.5, style: `fill:${colour(line.m)}` }));
      }
      svg.append(inside);
      this.cross = shape("line", { class: "cross", y1: top, y2: bottom, x1: 0, x2: 0, visibility: "hidden" });
      this.rubber = shape("rect", { class: "rubber", visibility: "hidden" });
      svg.append(this.cross, this.rubber);
      if (!this.lines.length) svg.append(shape("text", { class: "empty", x: (left + right) / 2, y: (top + bottom) / 2, "text-anchor": "middle" }, this.options.empty?.() || "no method is selected"));
      this.showValues(this.cursor);
    }
    showValues(x) {
      this.cursor = x;
      const hide = x === null || !this.lines.length;
      this.readout.hidden = hide;
      this.cross.setAttribute("visibility", hide ? "hidden" : "visible");
      if (hide) return;
      const { X, box, y } = this.frame;
      const longest = this.lines.reduce((a, b) => (b.x.at(-1) > a.x.at(-1) ? b : a));
      const at = longest.x[nearest(longest.x, x)], digits = this.options.digits ?? digitsOf(y[1] - y[0]);
      const reached = this.lines.filter((line) => line.x[0] <= at && at <= line.x.at(-1)); // a shorter run has no value where it has ended
      const rows = reached.map((line) => ({ line, i: nearest(line.x, at) })).filter(({ line, i }) => Number.isFinite(line.y[i]));
      rows.sort((a, b) => b.line.y[b.i] - a.line.y[a.i]);
      this.readout.replaceChildren(element("strong", {}, this.options.xText(at)));
      for (const { line, i } of rows.slice(0, 12)) {
        const interval = line.low && Number.isFinite(line.low[i]) ? ` [${rounded(line.low[i], digits)}, ${rounded(line.high[i], digits)}]` : "";
        const paper = line.paper === undefined ? "" : `, paper ${rounded(line.paper)}`;
        this.readout.append(element("div", {}, element("i", { style: `background:${colour(line.m)}` }), element("span", {}, line.name), element("span", {}, rounded(line.y[i], digits) + interval + paper)));
      }
      this.cross.setAttribute("x1", X(at));
      this.cross.setAttribute("x2", X(at));
      const wide = this.readout.offsetWidth, room = this.canvas.clientWidth;
      const place = X(at) + 12 + wide < room ? X(at) + 12 : Math.max(0, X(at) - 12 - wide);
      this.readout.style.left = `${Math.min(place, Math.max(0, room - wide))}px`;
      this.readout.style.top = `${box.top + 4}px`;
    }
    around(factor, at) {
      const { x, y } = this.frame, [full0, full1] = this.full;
      const low = Math.max(full0, at - (at - x[0]) * factor), high = Math.min(full1, at + (x[1] - at) * factor);
      if (high - low < (full1 - full0) / 5000) return;
      this.zoom(low <= full0 && high >= full1 ? null : { x: [low, high], y: this.view ? this.view.y : null });
    }
    listen() {
      const svg = this.svg;
      const place = (event) => {
        const bounds = svg.getBoundingClientRect(), { box, x, y } = this.frame;
        const px = Math.min(Math.max(event.clientX - bounds.left, box.left), box.right), py = Math.min(Math.max(event.clientY - bounds.top, box.top), box.bottom);
        return { px, py, x: x[0] + ((px - box.left) / (box.right - box.left)) * (x[1] - x[0]), y: y[0] + ((box.bottom - py) / (box.bottom - box.top)) * (y[1] - y[0]) };
      };
      let start = null;
      svg.addEventListener("pointerdown", (event) => {
        if (event.button) return;
        svg.focus({ preventScroll: true });
        svg.setPointerCapture(event.pointerId);
        start = place(event);
      });
      svg.addEventListener("pointermove", (event) => {
        const now = place(event);
        this.showValues(now.x);
        if (!start) return;
        const tall = Math.abs(now.py - start.py) > 24, { box } = this.frame;
        for (const [name, value] of Object.entries({
          x: Math.min(now.px, start.px), width: Math.abs(now.px - start.px),
          y: tall ? Math.min(now.py, start.py) : box.top, height: tall ? Math.abs(now.py - start.py) : box.bottom - box.top,
        })) this.rubber.setAttribute(name, value);
        this.rubber.setAttribute("visibility", "visible");
      });
      svg.addEventListener("pointerup", (event) => {
        if (!start) return;
        const from = start, now = place(event);
        start = null;
        this.rubber.setAttribute("visibility", "hidden");
        if (Math.abs(now.px - from.px) < 8) return;
        const tall = Math.abs(now.py - from.py) > 24;
        this.zoom({ x: [Math.min(from.x, now.x), Math.max(from.x, now.x)], y: tall ? [Math.min(from.y, now.y), Math.max(from.y, now.y)] : null });
      });
      svg.addEventListener("pointercancel", () => { start = null; this.rubber.setAttribute("visibility", "hidden"); });
      svg.addEventListener("pointerleave", () => { if (!start) this.showValues(null); });
      svg.addEventListener("blur", () => this.showValues(null));
      svg.addEventListener("dblclick", () => this.zoom(null));
      svg.addEventListener("wheel", (event) => {
        if (document.activeElement !== svg && !event.ctrlKey) return; // the page scrolls until a plot is clicked
        event.preventDefault();
        this.around(event.deltaY < 0 ? 0.8 : 1.25, place(event).x);
      }, { passive: false });
      svg.addEventListener("keydown", (event) => {
        const { x } = this.frame, middle = this.cursor ?? (x[0] + x[1]) / 2, step = (x[1] - x[0]) / 50;
        const actions = {
          ArrowLeft: () => this.showValues(Math.max(x[0], middle - step)), ArrowRight: () => this.showValues(Math.min(x[1], middle + step)),
          "+": () => this.around(0.7, middle), "=": () => this.around(0.7, middle), "-": () => this.around(1.4, middle),
          Escape: () => { this.showValues(null); this.zoom(null); }, 0: () => this.zoom(null),
        };
        if (actions[event.key] && !event.ctrlKey && !event.metaKey) { event.preventDefault(); actions[event.key](); }
      });
    }
  }

  // ---- plots without zoom: they are redrawn when the page changes
  class StillPlot {
    constructor(figure, options) {
      this.options = options;
      this.canvas = figure.querySelector(".canvas");
      this.svg = shape("svg", { role: "img", "aria-label": options.label });
      this.canvas.append(this.svg);
      new ResizeObserver(() => this.draw()).observe(this.canvas);
    }
    draw() {
      const width = this.canvas.clientWidth;
      if (!width) return;
      this.svg.replaceChildren();
      const height = this.options.draw(this.svg, width);
      this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.svg.setAttribute("height", height);
    }
  }
  function intervals(rows, { digits = 1, middle = null, range = null }) {
    return (svg, width) => {
      const shown = rows(), step = 40, top = 4, bottom = top + step * shown.length;
      const ends = shown.flatMap((row) => [row.value, row.low ?? row.value, row.high ?? row.value]).concat(middle === null ? [] : [middle]);
      let [low, high] = range || [Math.min(...ends), Math.max(...ends)];
      if (!shown.length) [low, high] = [0, 1];
      const pad = range ? 0 : (high - low || Math.abs(low) || 1) * 0.12;
      low -= pad; high += pad;
      const X = (value) => 12 + ((value - low) / (high - low)) * (width - 24);
      for (const tick of ticks(low, high, width / 80)) {
        svg.append(shape("line", { class: "gridline", x1: X(tick), x2: X(tick), y1: top, y2: bottom }));
        svg.append(shape("text", { x: X(tick), y: bottom + 15, "text-anchor": "middle" }, short(tick)));
      }
      if (middle !== null) svg.append(shape("line", { class: "axis", "stroke-dasharray": "3 3", x1: X(middle), x2: X(middle), y1: top, y2: bottom }));
      shown.forEach((row, i) => {
        const y = top + step * i, text = `${row.name}: ${rounded(row.value, digits)}` + (row.low === null ? "" : ` [${rounded(row.low, digits)}, ${rounded(row.high, digits)}]`);
        const group = shape("g", { class: "estimate" }, shape("title", {}, text));
        const room = Math.floor((width - 80) / 7.2); // characters that fit
        group.append(shape("text", { class: "strong", x: 12, y: y + 15 }, row.name.length > room ? `${row.name.slice(0, room - 1)}…` : row.name));
        group.append(shape("text", { x: width - 12, y: y + 15, "text-anchor": "end" }, rounded(row.value, digits)));
        if (row.low !== null) group.append(shape("path", { d: `M${X(row.low)} ${y + 27}L${X(row.high)} ${y + 27}`, style: `stroke:${colour(row.m)};stroke-width:9;opacity:.32` }));
        group.append(shape("path", { d: `M${X(row.value)} ${y + 20}L${X(row.value)} ${y + 34}`, style: `stroke:${colour(row.m)};stroke-width:3` }));
        svg.append(group);
      });
      return bottom + 22;
    };
  }
  function settings(panel) {
    return (svg, width) => {
      const points = panel.points, height = Math.round(Math.min(Math.max(width * 0.62, 230), 340));
      const lean = points.length * 66 > width || points.some((point) => point.label.length > 14);
      const left = 46, right = width - 14, top = 10, bottom = height - (lean ? 74 : 30);
      const values = points.flatMap((point) => [point.mean - point.std, point.mean + point.std, ...point.seeds.map((seed) => seed[1])]);
      let low = Math.min(...values), high = Math.max(...values);
      const pad = (high - low || Math.abs(low) || 1) * 0.08;
      low -= pad; high += pad;
      const X = (i) => left + ((i + 0.5) / points.length) * (right - left), Y = (value) => bottom - ((value - low) / (high - low)) * (bottom - top);
      for (const tick of ticks(low, high, height / 60)) {
        svg.append(shape("line", { class: "gridline", x1: left, x2: right, y1: Y(tick), y2: Y(tick) }));
        svg.append(shape("text", { x: left - 7, y: Y(tick) + 4, "text-anchor": "end" }, short(tick)));
      }
      svg.append(shape("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
      for (const m of new Set(points.map((point) => point.a))) {
        const own = points.map((point, i) => [point, i]).filter(([point]) => point.a === m);
        svg.append(shape("path", { class: "series", style: `stroke:${colour(m)}`, "stroke-dasharray": dash(m), d: outline(own.map(([, i]) => i), own.map(([point]) => point.mean), X, Y) }));
      }
      points.forEach((point, i) => {
        const style = `stroke:${colour(point.a)}`, x = X(i), each = point.seeds.map((seed) => `seed ${seed[0]}: ${rounded(seed[1])}`).join(", ");
        const group = shape("g", { class: "estimate" }, shape("title", {}, `${point.algorithm}, ${point.label}: ${rounded(point.mean)} ± ${rounded(point.std)} (${each})`));
        for (const [, value] of point.seeds) group.append(shape("circle", { cx: x, cy: Y(value), r: 2.6, style: `fill:${colour(point.a)};opacity:.45` }));
        if (point.std > 0) group.append(shape("path", { class: "axis", style: `${style};stroke-width:1.6;fill:none`, d: `M${x - 5} ${Y(point.mean - point.std)}h10m-5 0V${Y(point.mean + point.std)}m-5 0h10` }));
        group.append(shape("circle", { cx: x, cy: Y(point.mean), r: 4.6, style: `fill:${colour(point.a)}` }));
        const label = point.label.length > 22 ? `${point.label.slice(0, 21)}…` : point.label;
        group.append(lean ? shape("text", { transform: `translate(${x + 4} ${bottom + 15}) rotate(-28)`, "text-anchor": "end" }, label) : shape("text", { x, y: bottom + 17, "text-anchor": "middle" }, label));
        svg.append(group);
      });
      return height;
    };
  }

  // ---- suites
  for (const suite of data.suites) {
    const room = document.getElementById(suite.id);
    const hidden = new Set(), plots = [];
    const visible = (m) => !hidden.has(m);
    const redraw = () => plots.forEach((plot) => plot.draw());
    for (const button of room.querySelectorAll(".legend button")) {
      button.addEventListener("click", () => {
        const m = +button.dataset.method;
        if (!hidden.delete(m)) hidden.add(m);
        for (const twin of room.querySelectorAll(`.legend button[data-method="${m}"]`)) twin.setAttribute("aria-pressed", visible(m));
        redraw();
      });
    }
    const control = (name) => room.querySelector(`[data-control="${name}"]`);
    for (const name of ["metric", "band", "smooth", "paper"]) control(name)?.addEventListener("change", redraw);

    for (const panel of suite.panels) {
      for (const series of panel.series) {
        series.x = integers(series.u);
        const all = floats(series.v), count = series.x.length;
        series.runs = series.seeds.map((_, i) => all.subarray(i * count, (i + 1) * count));
        const over = (f) => Float64Array.from(series.x, (_, i) => { const found = series.runs.map((run) => run[i]).filter(Number.isFinite); return found.length ? f(found) : NaN; });
        const mean = (found) => found.reduce((a, b) => a + b, 0) / found.length;
        const std = (found) => { const m = mean(found); return Math.sqrt(mean(found.map((v) => (v - m) ** 2))); };
        series.mean = over(mean);
        series.std = over(std);
        series.least = over((found) => Math.min(...found));
        series.most = over((found) => Math.max(...found));
        if (series.lo) { series.lo = floats(series.lo); series.hi = floats(series.hi); }
        for (const more of Object.values(series.more)) { more.x = more.u ? integers(more.u) : series.x; more.mean = floats(more.mean); more.std = more.std ? floats(more.std) : null; }
      }
      const lines = () => {
        const metric = control("metric")?.value || suite.metrics[0][0], band = control("band").value, window = +control("smooth").value;
        const soft = (values) => smoothed(values, window), found = [];
        for (const series of panel.series) {
          if (!visible(series.m)) continue;
          const line = { m: series.m, name: suite.methods[series.m] };
          if (metric === "headline") {
            if (!series.scored) continue;
            Object.assign(line, { x: series.x, y: soft(series.mean) });
            if (series.paper !== null && control("paper")?.checked) line.paper = series.paper;
            if (series.runs.length > 1) {
              if (band === "std") { line.low = soft(series.mean.map((v, i) => v - series.std[i])); line.high = soft(series.mean.map((v, i) => v + series.std[i])); }
              if (band === "interval" && series.lo) { line.low = soft(series.lo); line.high = soft(series.hi); }
              if (band === "range") { line.low = soft(series.least); line.high = soft(series.most); }
              if (band === "seeds") line.each = series.runs.map(soft);
            }
          } else if (series.more[metric]) {
            const more = series.more[metric];
            Object.assign(line, { x: more.x, y: soft(more.mean) });
            if (more.std) { line.low = soft(more.mean.map((v, i) => v - more.std[i])); line.high = soft(more.mean.map((v, i) => v + more.std[i])); }
          } else continue;
          if (line.x.length) found.push(line);
        }
        return found;
      };
      const figure = document.getElementById(panel.id);
      plots.push(new LinePlot(figure, { lines, label: panel.alt, xLabel: "updates", xText: (x) => `update ${grouped(x)}`, empty: () => (panel.series.some((series) => visible(series.m)) ? "not logged here: pick another figure" : null) }));
      figure.querySelector(".save").addEventListener("click", () => {
        const metric = control("metric")?.value || "headline";
        if (metric === "headline") {
          const rows = panel.series.filter((series) => series.scored).flatMap((series) => series.runs.flatMap((run, s) => Array.from(run, (value, i) => [suite.name, panel.dataset, suite.methods[series.m], series.seeds[s], series.x[i], Number.isFinite(value) ? +value.toPrecision(7) : null])));
          download(fileName(suite.name, panel.dataset, "curves"), ["suite", "dataset", "method", "seed", "updates", panel.metric], rows);
        } else {
          const rows = panel.series.filter((series) => series.more[metric]).flatMap((series) => { const more = series.more[metric]; return Array.from(more.x, (x, i) => [suite.name, panel.dataset, suite.methods[series.m], x, +more.mean[i].toPrecision(7), more.std ? +more.std[i].toPrecision(7) : null]); });
          download(fileName(suite.name, panel.dataset, metric), ["suite", "dataset", "method", "updates", `${metric}_mean`, `${metric}_std`], rows);
        }
      });
    }
    for (const panel of suite.ablation) {
      const figure = document.getElementById(panel.id);
      plots.push(new StillPlot(figure, { label: panel.alt, draw: settings(panel) }));
      figure.querySelector(".save").addEventListener("click", () => download(fileName(suite.name, panel.dataset, "ablation"), ["suite", "dataset", "algorithm", "setting", "mean", "std", "seed", "seed_score"], panel.points.flatMap((point) => point.seeds.map((seed) => [suite.name, panel.dataset, point.algorithm, point.label, point.mean, point.std, seed[0], seed[1]]))));
    }
    for (const aggregate of suite.aggregates) {
      const figure = document.getElementById(aggregate.id);
      const rows = () => aggregate.rows.filter((row) => visible(row.m)).map((row) => ({ ...row, name: suite.methods[row.m] }));
      plots.push(new StillPlot(figure, { label: aggregate.alt, draw: intervals(rows, {}) }));
      figure.querySelector(".save").addEventListener("click", () => download(fileName(suite.name, aggregate.name), ["suite", "method", "statistic", "value", "low", "high"], aggregate.rows.map((row) => [suite.name, suite.methods[row.m], aggregate.name, row.value, row.low, row.high])));
    }
    if (suite.profile) {
      const { profile } = suite, figure = document.getElementById(profile.id);
      const lines = () => profile.rows.filter((row) => visible(row.m)).map((row) => ({ m: row.m, name: suite.methods[row.m], x: profile.thresholds, y: row.share, low: row.low, high: row.high }));
      plots.push(new LinePlot(figure, { lines, label: profile.alt, y: [-0.02, 1.02], digits: 2, xLabel: "normalised score τ", xText: (x) => `runs above ${rounded(x)}` }));
      figure.querySelector(".save").addEventListener("click", () => download(fileName(suite.name, "profile"), ["suite", "method", "threshold", "share_above", "low", "high"], profile.rows.flatMap((row) => profile.thresholds.map((x, i) => [suite.name, suite.methods[row.m], x, row.share[i], row.low?.[i], row.high?.[i]]))));
    }
    if (suite.improvement) {
      const { improvement } = suite, figure = document.getElementById(improvement.id), pick = control("reference");
      const rows = () => improvement.pairs.filter((pair) => pair.a === +pick.value && visible(pair.b)).map((pair) => ({ ...pair, m: pair.b, name: `over ${suite.methods[pair.b]}` }));
      const plot = new StillPlot(figure, { label: improvement.alt, draw: intervals(rows, { digits: 2, middle: 0.5, range: [-0.02, 1.02] }) });
      plots.push(plot);
      pick.addEventListener("change", () => plot.draw());
      figure.querySelector(".save").addEventListener("click", () => download(fileName(suite.name, "improvement"), ["suite", "method", "than", "probability", "low", "high"], improvement.pairs.map((pair) => [suite.name, suite.methods[pair.a], suite.methods[pair.b], pair.value, pair.low, pair.high])));
    }
    for (const plot of plots) plot.draw();
  }
  for (const button of document.querySelectorAll("button[data-table]")) {
    const table = data.tables[button.dataset.table];
    button.addEventListener("click", () => download(table.file, table.columns, table.rows));
  }
  for (const sample of document.querySelectorAll(".legend button")) {
    const m = +sample.dataset.method;
    sample.prepend(shape("svg", { viewBox: "0 0 28 10", "aria-hidden": "true" }, shape("path", { d: "M1 5H27", "stroke-dasharray": dash(m), style: `stroke:${colour(m)};stroke-width:2.4;fill:none` })));
  }

  // ---- theme and navigation
  const theme = document.getElementById("theme"), dark = matchMedia("(prefers-color-scheme: dark)");
  const remembered = () => { try { return localStorage.getItem("gridcount-theme"); } catch { return null; } };
  const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const label = () => { theme.textContent = isDark() ? "Light" : "Dark"; theme.setAttribute("aria-label", `switch to the ${isDark() ? "light" : "dark"} theme`); };
  if (remembered()) document.documentElement.dataset.theme = remembered();
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("gridcount-theme", document.documentElement.dataset.theme); } catch { /* a page from a file may not remember */ }
    label();
  });
  dark.addEventListener("change", label);
  label();
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      for (const [id, link] of links) if (id === target.id) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  for (const id of links.keys()) watch.observe(document.getElementById(id));
  document.documentElement.dataset.ready = "yes";
})();
