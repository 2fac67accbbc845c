// Curves against message size: bus bandwidth as a share of its limit on a linear axis, where half a limit looks like half,
// or in GB/s on a logarithmic one; and latency. Beside them stands what other runs and settings reached
// (page.references.js). A reader zooms, leaves curves out, and looks at the samples behind a point (page.samples.js).

const LATENCY_TO_BYTES = 1 << 20;
const PLOT = {left: 58, right: 14, top: 20, bottom: 42};
// What tells two curves of one chart apart, and how it is written.
const VARIANTS = {
  backend: (v) => v, type: (v) => v, op: (v) => v ?? "no op", in_place: (v) => (v ? "in place" : "out of place"),
  group: (v) => (v === "world" ? "all together" : ["node", "rail", "half"].includes(v) ? `each ${v}` : `group ${v}`),
  ranks: (v) => plural(v, "rank"), nodes: (v) => plural(v, "node"), root: (v) => `root ${v ?? "none"}`,
  every_root: (v) => (v ? "all roots" : "one root"),
  register: (v) => `register ${v}`, cuda_graph: (v) => (v ? "CUDA graph" : "no CUDA graph"),
  aggregate: (v) => `${v ?? 1} in a group`, cta_policy: (v) => `CTA policy ${v ?? "default"}`,
  unalign: (v) => `unaligned by ${v ?? 0}`, arm: (v) => `arm ${v}`,
};

// ---- From measurements to series

function group_by(items, key) {
  const groups = new Map();
  for (const item of items) {
    const name = key(item);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(item);
  }
  return groups;
}

function series_of(measurements) {
  const fields = Object.keys(VARIANTS);
  const differing = fields.filter((f) => new Set(measurements.map((m) => m.case[f])).size > 1);
  const groups = group_by(measurements, (m) => JSON.stringify(fields.map((f) => m.case[f])));
  const together_first = [...groups.values()].sort((a, b) => (b[0].case.group === "world") - (a[0].case.group === "world"));
  return together_first.map((list) => {
    const c = list[0].case;
    const parts = differing.length ? differing.map((f) => VARIANTS[f](c[f])) : [c.type, c.op].filter(Boolean);
    return {label: parts.join(", "), list: list.sort((a, b) => a.case.bytes - b.case.bytes)};
  });
}

// The pair that was measured at every size, where some sizes have more pairs than others: a curve is of one set of pairs.
function common_pair(list) {
  const measured = list.filter((m) => m.pairs?.length > 0);
  if (measured.length < 2 || new Set(measured.map((m) => m.pairs.length)).size < 2) return null;
  const fewest = measured.reduce((best, m) => (m.pairs.length < best.pairs.length ? m : best));
  return fewest.pairs.find(([a, b]) => measured.every((m) => m.pairs.some(([c, d]) => a === c && b === d))) ?? null;
}

function bandwidth_point(m, pair) {
  const t = m.throughput;
  if (!t || !(t.busbw_gb_per_s > 0)) return null;
  const at = (us) => t.busbw_gb_per_s * t.median_us / us;
  const its = pair && m.pairs?.length > 1 ? m.pairs.find(([a, b]) => a === pair[0] && b === pair[1]) : null;
  if (its) {
    return {x: m.case.bytes, y: at(its[2]), low: null, high: null, limit: m.verdict.limit_gb_per_s, grade: "unknown",
      text: `${rate(at(its[2]))}, ${time(its[2])}`};
  }
  const [low, high] = t.ci95_us ? [at(t.ci95_us[1]), at(t.ci95_us[0])] : [null, null];
  const interval = low === null ? "" : ` (95 %: ${digits(low)} to ${digits(high)})`;
  const judged = m.verdict.fraction_of_limit === null ? "" : `, ${share(m.verdict.fraction_of_limit)} of the limit`;
  const pairs = m.pairs ? `, the slowest of ${plural(m.pairs.length, "pair")}` : "";
  return {x: m.case.bytes, y: t.busbw_gb_per_s, low, high, limit: m.verdict.limit_gb_per_s, grade: m.verdict.grade, samples: m.samples?.throughput,
    text: `${rate(t.busbw_gb_per_s)}${interval}, ${time(t.median_us)}${judged}${pairs}`};
}

function latency_point(m) {
  const l = m.latency;
  if (!l || !(l.median_us > 0) || m.case.bytes > LATENCY_TO_BYTES) return null;
  const [low, high] = l.ci95_us ?? [null, null];
  const interval = low === null ? "" : ` (95 %: ${digits(low)} to ${digits(high)})`;
  return {x: m.case.bytes, y: l.median_us, low, high, grade: "unknown", samples: m.samples?.latency,
    text: `${time(l.median_us)}${interval}`};
}

// Every limit that verdicts of these measurements name, with the sizes that it was applied to.
function limit_lines(measurements) {
  const lines = new Map();
  for (const {case: c, verdict: v} of measurements) {
    if (!(v.limit_gb_per_s > 0)) continue;
    const short = `${rate(v.limit_gb_per_s)}${v.binding ? ` (${v.binding})` : ""}`, label = `${v.level} limit ${short}`;
    const line = lines.get(label) ?? {label, short, y: v.limit_gb_per_s, from: Infinity, to: 0};
    lines.set(label, {...line, from: Math.min(line.from, c.bytes), to: Math.max(line.to, c.bytes)});
  }
  return [...lines.values()];
}

// A published or tuned point is a share of the limit of the nearest size that this run measured.
function with_limits(references, measurements) {
  const limited = measurements.filter((m) => m.case.group === "world" && m.verdict.limit_gb_per_s > 0);
  const far = (m, bytes) => Math.abs(Math.log2(m.case.bytes / bytes));
  const limit = (bytes) => limited.reduce((best, m) => (best && far(best, bytes) <= far(m, bytes) ? best : m), null)
    ?.verdict.limit_gb_per_s ?? null;
  return references.map((series) => ({...series, points: series.points.map((p) => ({...p, limit: limit(p.x)}))}));
}

function as_share(p) {
  const part = (value) => (value === null || value === undefined ? value : value / p.limit);
  return {...p, y: part(p.y), low: part(p.low), high: part(p.high), figures: p};
}

// The plot with its bandwidths as shares of their limits; points without a limit have none.
function in_shares(plot) {
  const series = plot.series.map((s) => ({...s, points: s.points.filter((p) => p.limit > 0).map(as_share)}));
  const told = plot.limits.length === 1 ? plot.limits[0].label : plot.limits.length > 2 ? "the limit of each size"
    : `limits ${plot.limits.map((limit) => limit.short).join(", ")}`;
  return {...plot, series: series.filter((s) => s.points.length > 0), limits: [{label: `100 %: ${told}`, brief: "100 % of the limit", y: 1, from: 0, to: Infinity}]};
}

// ---- Scales

function share_scale(values, from, to) {
  const high = Math.max(1.1, ...values.map((value) => value * 1.05));
  const step = high > 4 ? 1 : 0.25, ticks = [];
  for (let tick = 0; tick <= high && ticks.length < 20; tick += step) ticks.push([tick, `${100 * tick} %`]);
  return {ticks, at: (value) => from + (to - from) * value / high};
}

function log_scale(values, from, to, padding) {
  let low = Math.log2(Math.min(...values)) - padding, high = Math.log2(Math.max(...values)) + padding;
  if (high - low < 2) [low, high] = [(low + high) / 2 - 1, (low + high) / 2 + 1];
  const at = (value) => from + (to - from) * (Math.log2(value) - low) / (high - low);
  return {low: 2 ** low, high: 2 ** high, at};
}

// Powers of two, far enough apart for `most` labels.
function size_ticks(scale, most) {
  const first = Math.ceil(Math.log2(scale.low) - 1e-9), last = Math.floor(Math.log2(scale.high) + 1e-9);
  const step = [1, 2, 3, 4, 5, 10].find((s) => (last - first) / s < most) ?? 10;
  const ticks = [];
  for (let exponent = first; exponent <= last; exponent += step) ticks.push(2 ** exponent);
  return ticks;
}

// Text beside each.
function value_ticks(scale) {
  if (scale.ticks) return scale.ticks;
  const decades = Math.log10(scale.high / scale.low);
  const steps = decades > 3 ? [1] : decades > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
  const ticks = [];
  for (let decade = Math.floor(Math.log10(scale.low)); decade <= Math.log10(scale.high); decade++) {
    for (const step of steps) {
      const value = Number((step * 10 ** decade).toPrecision(2));
      if (value >= scale.low && value <= scale.high) ticks.push([value, String(value)]);
    }
  }
  return ticks;
}

// ---- Drawing

function marker(index, x, y, r = 3.6) {
  const paths = [
    `M${x - r},${y}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0z`,
    `M${x - r},${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
    `M${x},${y - r * 1.25}l${r * 1.2},${r * 2.1}h${-r * 2.4}z`,
    `M${x},${y - r * 1.35}l${r * 1.35},${r * 1.35}l${-r * 1.35},${r * 1.35}l${-r * 1.35},${-r * 1.35}z`,
  ];
  return shape("path", {class: "marker", d: paths[index % paths.length]});
}

// Curves beyond the four shapes of markers are dashed; what is not of this run's plain calls is dotted.
const dashes_of = (series) => (series.reference ? "1.5 4" : series.index >= 4 ? "6 3" : null);
const class_of = (series) => `series-${series.index % 6}${series.reference ? " reference" : ""}`;

function draw_axes(svg, plot, x, y, width, height) {
  for (const [value, text] of value_ticks(y)) {
    svg.append(shape("line", {class: "grid", x1: PLOT.left, x2: width - PLOT.right, y1: y.at(value), y2: y.at(value)}),
      shape("text", {x: PLOT.left - 7, y: y.at(value) + 4, "text-anchor": "end"}, text));
  }
  for (const value of size_ticks(x, (width - PLOT.left) / 62)) {
    svg.append(shape("line", {class: "grid", x1: x.at(value), x2: x.at(value), y1: PLOT.top, y2: height - PLOT.bottom}),
      shape("text", {x: x.at(value), y: height - PLOT.bottom + 18, "text-anchor": "middle"}, size(value)));
  }
  svg.append(shape("text", {x: 0, y: 11}, plot.shares ? "share of the limit" : plot.unit),
    shape("text", {x: width - PLOT.right, y: height - 5, "text-anchor": "end"}, "message size"));
}

// Lines across the sizes that they hold for; a lone one across the whole chart. Labels keep clear of each other.
function draw_limits_of(svg, plot, x, y, width) {
  let free = -Infinity;
  const inside = (value) => Math.min(Math.max(x.at(value), PLOT.left), width - PLOT.right);
  for (const limit of [...plot.limits].sort((a, b) => b.y - a.y)) {
    const alone = plot.limits.length === 1;
    const x1 = alone ? PLOT.left : Math.min(inside(limit.from), width - PLOT.right - 24);
    const x2 = alone ? width - PLOT.right : Math.max(inside(limit.to), x1 + 24);
    const label = Math.max(y.at(limit.y) - 6, free + 15);
    free = label;
    const fits = !limit.brief || limit.label.length * 7 < width - PLOT.left - PLOT.right;
    svg.append(shape("line", {class: "limit", x1, x2, y1: y.at(limit.y), y2: y.at(limit.y)}),
      shape("text", {class: "limit-label", x: PLOT.left + 6, y: label}, fits ? limit.label : limit.brief));
  }
}

function draw_series(svg, series, x, y) {
  const group = shape("g", {class: class_of(series)});
  const whole = series.points.filter((p) => p.low !== null && p.low !== undefined);
  if (whole.length > 1) {
    const upper = whole.map((p) => `${x.at(p.x)},${y.at(p.high)}`);
    const lower = whole.map((p) => `${x.at(p.x)},${y.at(p.low)}`).reverse();
    group.append(shape("path", {class: "band", d: `M${[...upper, ...lower].join("L")}z`}));
  }
  const line = series.points.map((p) => `${x.at(p.x)},${y.at(p.y)}`).join("L");
  if (!series.scattered) group.append(shape("path", {class: "line", d: `M${line}`, "stroke-dasharray": dashes_of(series)}));
  for (const p of series.points) {
    group.append(marker(series.index, x.at(p.x), y.at(p.y)));
    if (FLAGGED.includes(p.grade)) {
      group.append(shape("circle", {class: `flag ${p.grade}`, cx: x.at(p.x), cy: y.at(p.y), r: 7.5}));
    }
  }
  svg.append(group);
}

// What is left of a plot: the curves that are not hidden, between the sizes that are zoomed to.
function shown_of(plot, state) {
  const [first, last] = state.zoom ?? [0, plot.sizes.length - 1];
  const from = plot.sizes[first], to = plot.sizes[last];
  const within = (series) => ({...series, points: series.points.filter((p) => p.x >= from && p.x <= to)});
  const shown = {...plot, sizes: plot.sizes.slice(first, last + 1), shares: state.shares,
    series: plot.series.filter((s) => !state.hidden.has(s.label)).map(within).filter((s) => s.points.length > 0),
    limits: plot.limits.filter((limit) => limit.to >= from && limit.from <= to)};
  return state.shares ? in_shares(shown) : shown;
}

function draw_plot(svg, plot, width) {
  const height = Math.round(Math.min(Math.max(width * 0.62, 240), 340));
  const points = plot.series.flatMap((s) => s.points);
  const values = [...points.flatMap((p) => [p.y, p.low ?? p.y, p.high ?? p.y]), ...plot.limits.map((l) => l.y)];
  const x = log_scale(plot.sizes, PLOT.left + 6, width - PLOT.right - 6, 0);
  const [floor, ceiling] = [height - PLOT.bottom, PLOT.top];
  const y = plot.shares ? share_scale(values, floor, ceiling) : log_scale(values.length ? values : [1, 10], floor, ceiling, 0.45);
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  draw_axes(svg, plot, x, y, width, height);
  const own_on_top = [...plot.series].sort((a, b) => Boolean(b.reference) - Boolean(a.reference));
  for (const series of own_on_top) draw_series(svg, series, x, y);
  draw_limits_of(svg, plot, x, y, width);
  const cursor = shape("line", {class: "cursor", y1: PLOT.top, y2: height - PLOT.bottom, visibility: "hidden"});
  const chosen_area = shape("rect", {class: "chosen", y: PLOT.top, height: height - PLOT.bottom - PLOT.top, visibility: "hidden"});
  svg.append(cursor, chosen_area);
  return {x, cursor, chosen_area, width};
}

// ---- Reading values and zooming

function readout_rows(plot, bytes) {
  return plot.series.flatMap((series) => series.points.filter((p) => p.x === bytes).map((p) => {
    const flagged = ["slow", "wrong", "failed"].includes(p.grade);
    return element("li", {}, plot.series.length > 1 ? `${series.label}: ` : "", p.text, flagged ? " " : "",
      flagged ? grade_mark(p.grade) : "");
  }));
}

// Pointer, touch and arrow keys move through the sizes; the lines of text below the chart say what is there.
function make_readable(svg, chart) {
  const place = (event) => {
    const box = svg.getBoundingClientRect();
    return (event.clientX - box.left) / box.width * chart.geometry.width;
  };
  const nearest = (at) => {
    const {sizes} = chart.shown, distance = (bytes) => Math.abs(chart.geometry.x.at(bytes) - at);
    return sizes.reduce((best, bytes, index) => (distance(bytes) < distance(sizes[best]) ? index : best), 0);
  };
  let pressed = null;
  svg.addEventListener("pointermove", (event) => {
    chart.read(nearest(place(event)));
    if (pressed === null) return;
    const area = chart.geometry.chosen_area, at = place(event);
    area.setAttribute("x", Math.min(pressed, at));
    area.setAttribute("width", Math.abs(at - pressed));
    area.setAttribute("visibility", "visible");
  });
  svg.addEventListener("pointerdown", (event) => {
    chart.read(nearest(place(event)));
    if (event.pointerType === "mouse" && event.button === 0) pressed = place(event);
  });
  svg.addEventListener("pointerup", (event) => {
    const from = pressed, to = place(event);
    pressed = null;
    chart.geometry.chosen_area.setAttribute("visibility", "hidden");
    if (from !== null && Math.abs(to - from) > 10) chart.zoom_to(nearest(Math.min(from, to)), nearest(Math.max(from, to)));
  });
  svg.addEventListener("pointerleave", () => {
    pressed = null;
    chart.geometry.chosen_area.setAttribute("visibility", "hidden");
  });
  const at = () => Math.max(chart.shown.sizes.indexOf(chart.at), 0), last = () => chart.shown.sizes.length - 1;
  const steps = {ArrowLeft: () => at() - 1, ArrowRight: () => at() + 1, Home: () => 0, End: last};
  const others = {"+": () => chart.zoom_by(0.5), "-": () => chart.zoom_by(2), Escape: chart.zoom_out, 0: chart.zoom_out};
  svg.addEventListener("focus", () => chart.read(chart.at === null ? last() : at()));
  svg.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(steps[event.key] || others[event.key])) return;
    event.preventDefault();
    if (steps[event.key]) chart.read(steps[event.key]());
    else others[event.key]();
  });
}

// Grades that are a ring around a point.
const FLAGGED = ["slow", "wrong", "failed"];

// A curve's name shows it or leaves it out. Rings are explained where there are any.
function legend(plot, chart) {
  const swatch = (series) => shape("svg", {viewBox: "0 0 26 12", "aria-hidden": "true"},
    series.scattered ? "" : shape("path", {class: "line", d: "M1,6H25", "stroke-dasharray": dashes_of(series)}),
    marker(series.index, 13, 6));
  const grades = FLAGGED.filter((grade) => plot.series.some((series) => series.points.some((p) => p.grade === grade)));
  const rings = grades.map((grade) => element("li", {class: "flagged"}, shape("svg", {viewBox: "0 0 16 16", "aria-hidden": "true"},
    shape("circle", {class: `flag ${grade}`, cx: 8, cy: 8, r: 6})), `judged ${grade}`));
  if (plot.series.length < 2) return rings.length > 0 ? element("ul", {class: "legend"}, ...rings) : "";
  return element("ul", {class: "legend"}, ...plot.series.map((series) => {
    const toggle = element("button", {type: "button", class: "toggle", "aria-pressed": "true"}, swatch(series), series.label);
    toggle.addEventListener("click", () => chart.toggle(series.label));
    chart.toggles.set(series.label, toggle);
    return element("li", {class: class_of(series)}, toggle);
  }), ...rings);
}

// Draws at the width that there is, and again when it changes: text keeps its size on a phone.
function redraw_on_resize(figure, svg, draw) {
  const redraw = () => draw(Math.round(Math.min(Math.max(svg.parentElement.clientWidth, 260), 900)));
  redraw();
  let last = figure.clientWidth;
  // In the next frame, because drawing changes the height that is being observed.
  new ResizeObserver(() => requestAnimationFrame(() => {
    if (figure.clientWidth === last || figure.clientWidth === 0) return;
    last = figure.clientWidth;
    redraw();
  })).observe(figure);
}

function chart_csv(plot) {
  const row = (s, p, {y, low, high} = p.figures ?? p) => [s.label, p.x, y, low, high, p.limit ?? null];
  return csv_text([["curve", "bytes", plot.unit, "low", "high", "limit"], ...plot.series.flatMap((s) => s.points.map((p) => row(s, p)))]);
}

// What a reader can do with a chart, and what stands in the address of it.
class Chart {
  constructor(plot, svg, readout) {
    Object.assign(this, {plot, svg, readout, name: control_name(plot.title), hidden: new Set(), zoom: null, at: null,
      by_share: plot.series.some((s) => !s.reference && s.points.some((p) => p.limit > 0)), shares: false, samples: null, toggles: new Map(), geometry: null, width: 0, shown: plot});
    this.shares = this.by_share;
    this.zoom_out = () => this.zoom_to(null, null);
  }
  draw(width = this.width) {
    this.width = width;
    this.shown = shown_of(this.plot, this);
    this.geometry = draw_plot(this.svg, this.shown, width);
    if (this.samples) this.samples.drawn = false;
    if (this.at !== null && this.shown.sizes.includes(this.at)) this.read(this.shown.sizes.indexOf(this.at));
    else if (this.samples) this.samples.draw(this.shown, this.at, this.width);
  }
  read(index) {
    const {sizes} = this.shown, bytes = sizes[Math.min(Math.max(index, 0), sizes.length - 1)];
    const {x, cursor} = this.geometry;
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, x.at(bytes));
    cursor.setAttribute("visibility", "visible");
    const heading = element("li", {}, element("strong", {}, size(bytes)));
    this.readout.replaceChildren(heading, ...readout_rows(this.shown, bytes));
    if (this.samples && (this.at !== bytes || !this.samples.drawn)) this.samples.draw(this.shown, bytes, this.width);
    this.at = bytes;
  }
  // To these of the sizes that are shown; null: to all there are.
  zoom_to(first, last) {
    const base = this.zoom?.[0] ?? 0;
    this.set_zoom(first === null || last - first < 1 ? null : [base + first, base + last]);
    remember(`${this.name}.zoom`, this.zoom ? this.zoom.map((index) => this.plot.sizes[index]).join("-") : "");
  }
  zoom_by(factor) {
    const [first, last] = this.zoom ?? [0, this.plot.sizes.length - 1], middle = this.plot.sizes.indexOf(this.at);
    const half = Math.max((last - first) * factor / 2, 1), centre = middle < 0 ? (first + last) / 2 : middle;
    const from = Math.max(Math.round(centre - half), 0), to = Math.min(Math.round(centre + half), this.plot.sizes.length - 1);
    if (from === 0 && to === this.plot.sizes.length - 1) this.zoom_out();
    else this.zoom_to(from - (this.zoom?.[0] ?? 0), to - (this.zoom?.[0] ?? 0));
  }
  set_zoom(zoom) {
    this.zoom = zoom;
    this.whole.hidden = zoom === null;
    this.draw();
  }
  toggle(label) {
    if (!this.hidden.delete(label)) this.hidden.add(label);
    this.show_hidden();
    remember(`${this.name}.without`, this.plot.series.flatMap((s, i) => (this.hidden.has(s.label) ? [i] : [])).join(" "));
  }
  show_hidden() {
    for (const [label, toggle] of this.toggles) toggle.setAttribute("aria-pressed", String(!this.hidden.has(label)));
    this.draw();
  }
  // Shares of the limit, or figures on a logarithmic axis.
  set_shares(shares) {
    this.shares = shares && this.by_share;
    this.figures.setAttribute("aria-pressed", String(!this.shares));
    this.draw();
  }
  follow_address() {
    add_control(`${this.name}.axis`, (text) => this.set_shares(text === ""));
    add_control(`${this.name}.zoom`, (text) => {
      const [from, to] = text.split("-").map((bytes) => this.plot.sizes.indexOf(Number(bytes)));
      this.set_zoom(from >= 0 && to > from ? [from, to] : null);
    });
    add_control(`${this.name}.without`, (text) => {
      const indices = text.split(" ").filter(Boolean).map(Number);
      this.hidden = new Set(indices.map((index) => this.plot.series[index]?.label));
      this.show_hidden();
    });
  }
}

function chart_tools(chart, samples) {
  const {plot, svg} = chart, name = (ending) => file_name(plot.title, ending);
  chart.whole = button("Whole range", `${plot.title}: all sizes`, chart.zoom_out);
  chart.whole.hidden = true;
  chart.figures = button(plot.unit, `${plot.title}: ${plot.unit} on a logarithmic axis`, () => {
    chart.set_shares(!chart.shares);
    remember(`${chart.name}.axis`, chart.shares ? "" : "log");
  });
  chart.figures.setAttribute("aria-pressed", "false");
  chart.figures.hidden = !chart.by_share;
  return element("p", {class: "tools"}, chart.figures, chart.whole,
    button("\u2212", `${plot.title}: zoom out`, () => chart.zoom_by(2)), button("+", `${plot.title}: zoom in`, () => chart.zoom_by(0.5)),
    samples ?? "", button("SVG", `Save ${plot.title} as SVG`, () => save(name("svg"), "image/svg+xml", svg_text(svg, plot.title))),
    button("PNG", `Save ${plot.title} as PNG`, () => save_png(svg_text(svg, plot.title), name("png"))),
    button("CSV", `Save ${plot.title} as CSV`, () => save(name("csv"), "text/csv", chart_csv(chart.shown))));
}

// Adds itself to the document before it draws: its width is known only there.
function add_chart(parent, plot) {
  plot.sizes = [...new Set(plot.series.flatMap((s) => s.points.map((p) => p.x)))].sort((a, b) => a - b);
  plot.series.forEach((series, index) => { series.index = index; });
  const svg = shape("svg", {tabindex: "0", role: "img", class: "chart", "aria-label":
    `${plot.title}, ${plot.unit} against message size. Arrow keys read the values, plus and minus zoom.`});
  const readout = element("ul", {class: "readout", "aria-live": "polite"}, element("li", {class: "quiet hint"},
    "Point at the curve, or use the arrow keys, to read values; drag across it to zoom."));
  readout.style.minHeight = `${1.55 * Math.min(plot.series.length + 1, 4)}em`;
  const chart = new Chart(plot, svg, readout);
  const samples = samples_of(chart);
  const caption = element("figcaption", {}, plot.title, element("span", {class: "quiet small"}, plot.note));
  const figure = element("figure", {}, caption, element("div", {}, svg), legend(plot, chart),
    readout, chart_tools(chart, samples?.press), samples?.box ?? "");
  parent.append(figure);
  redraw_on_resize(figure, svg, (width) => chart.draw(width));
  make_readable(svg, chart);
  chart.follow_address();
  samples?.follow_address();
}

// A curve of one pair at all sizes, and beside it the slowest pair of each size that has more pairs.
function bandwidths_of({label, list}) {
  const pair = common_pair(list), whole = (m) => bandwidth_point(m, null);
  if (!pair) return [{label, points: list.map(whole).filter(Boolean)}];
  const named = (name) => [label, name].filter(Boolean).join(", ");
  return [{label: named(`ranks ${pair[0]} and ${pair[1]}`), points: list.map((m) => bandwidth_point(m, pair)).filter(Boolean)},
    {label: named("the slowest of all pairs measured"), scattered: true,
      points: list.filter((m) => m.pairs?.length > 1).map(whole).filter(Boolean)}];
}

function plot_of(series, point) {
  const drawn = series.map((s) => ({label: s.label, points: s.list.map(point).filter(Boolean)}));
  return drawn.filter((s) => s.points.length > 0);
}

// ---- Which charts there are

// Sizes that a series needs to be a curve.
const LEAST_SIZES = 2;

// The curves of each operation: {name, list, plots}; what was measured at one size only is left for a table.
function operations_of(report) {
  const transfers = report.measurements.filter((m) => m.case.collective !== "communicator");  // which have sizes
  return [...group_by(transfers, (m) => case_name(m.case))].map(([name, list]) => {
    const series = series_of(list).filter((s) => s.list.length >= LEAST_SIZES);
    return {name, list, plots: plots_of(report, name, series.flatMap((s) => s.list))};
  });
}

// The figure of an operation, as the console chooses it: a bad one, else of most pairs, else of the largest message.
function main_figure(list) {
  const weight = (m) => [m.verdict.grade !== "ok" && m.verdict.grade !== "unknown" ? 1 : 0, m.pairs?.length ?? 0, m.case.bytes];
  const first_is_less = (a, b) => a.map((value, i) => value - b[i]).find((difference) => difference !== 0) ?? 0;
  return of_all_ranks(list).filter((m) => m.throughput?.busbw_gb_per_s > 0).sort((a, b) => first_is_less(weight(b), weight(a)))[0];
}

function main_figure_text(list) {
  const main = main_figure(list);
  if (!main) return "";
  const part = main.verdict.fraction_of_limit, of = main.pairs?.length > 1 ? `, the slowest of ${plural(main.pairs.length, "pair")}` : "";
  const several = new Set(of_all_ranks(list).map((m) => ranks_text(m.case))).size > 1;  // in an import of several jobs
  return `${size(main.case.bytes)}${several ? `, ${ranks_text(main.case)}` : ""}: ${rate(main.throughput.busbw_gb_per_s)}${part === null ? "" : `, ${share(part)} of the limit`}${of}. `;
}

function plots_of(report, name, list) {
  if (list.length === 0) return [];
  const simulated = is_simulated(report) ? "Simulated. " : "", series = series_of(list);
  const pairs = list[0].case.collective === "p2p" ? "Each point is of the slowest pair measured at its size. " : "";
  return [
    {title: `${name}: bus bandwidth`, unit: "GB/s", limits: limit_lines(list),
      series: [...series.flatMap(bandwidths_of).filter((s) => s.points.length > 0), ...bandwidth_references(report, list, series)],
      note: `${main_figure_text(list)}${simulated}${pairs}Median of bursts, with its 95 % interval.`},
    {title: `${name}: latency`, unit: "\u00b5s", limits: [],
      series: [...plot_of(series, latency_point), ...latency_references(series)],
      note: `${simulated}${pairs}Median of single operations up to 1 MiB.`},
  ].filter((plot) => plot.series.some((s) => !s.reference && s.points.length >= LEAST_SIZES));
}

// The curve that a reader looks at first: all_reduce, else the first collective, else whatever there is.
function main_operation(operations) {
  const drawn = operations.filter(({plots}) => plots.length > 0);
  return drawn.find(({name}) => name === "all_reduce") ?? drawn.find(({list}) => list[0].case.collective !== "p2p") ?? drawn[0] ?? null;
}

function draw_curve(report, section) {
  const main = main_operation(operations_of(report));
  section.hidden = main === null;
  if (main) add_chart(section, main.plots[0]);
}

// Once for each operation and kind of ranks: what was measured at one size, where there is nothing to draw.
function one_size_table(list) {
  const among = (c) => [c.group === "world" ? "" : `each ${c.group}`, ranks_text(c)].filter(Boolean).join(", ");
  return simple_table("Measured at one size", [
    ["Operation", (m) => case_name(m.case)], ["Among", (m) => among(m.case)], ["Size", (m) => size(m.case.bytes), "number"],
    ["GB/s", (m) => digits(m.throughput?.busbw_gb_per_s), "number"], ["\u00b5s", (m) => digits((m.throughput ?? m.latency)?.median_us), "number"],
    ["Of limit", (m) => share(m.verdict.fraction_of_limit), "number"], ["Verdict", (m) => grade_mark(m.verdict.grade)],
  ], list);
}

function folded_charts(title, plots) {
  return folded(`${title} (${plots.length})`, (box) => {
    const row = element("div", {class: "charts"});
    box.append(row);
    for (const plot of plots) add_chart(row, plot);
  }, plots.map((plot) => control_name(plot.title)));
}

function draw_charts(report, section) {
  const operations = operations_of(report), main = main_operation(operations);
  const rest = operations.flatMap((operation) => operation.plots.filter((plot) => plot !== main.plots[0])
    .map((plot) => ({...operation, plot})));
  const point_to_point = rest.filter(({list}) => list[0].case.collective === "p2p").map(({plot}) => plot);
  const [bandwidth, latency] = ["GB/s", "\u00b5s"].map((unit) => rest.map(({plot}) => plot)
    .filter((plot) => plot.unit === unit && !point_to_point.includes(plot)));
  const row = element("div", {class: "charts"});
  section.append(row);
  for (const plot of bandwidth) add_chart(row, plot);
  for (const [title, plots] of [["Latency", latency], ["Point to point", point_to_point]]) {
    if (plots.length > 0) section.append(folded_charts(title, plots));
  }
  const single = operations.flatMap(({list}) => series_of(list)).filter((s) => s.list.length < LEAST_SIZES).flatMap((s) => s.list);
  if (single.length > 0) {
    section.append(folded(`Measured at one size only (${single.length})`, (box) => box.append(one_size_table(single))));
  }
  section.hidden = report.measurements.length > 0 && !section.querySelector("details, .charts > *");
  if (report.measurements.length === 0) section.append(element("p", {}, "No sizes were measured, so there is nothing to draw."));
}
