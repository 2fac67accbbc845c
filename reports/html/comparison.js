// Draws the page of a comparison from the JSON embedded in it: the answer, each band, the map of sizes, what differs.

const ANSWERS = {
  "regression": {word: "REGRESSION", sign: "\u25bc", look: "slow"},
  "no regression": {word: "NO REGRESSION", sign: "\u2713", look: "ok"},
  "inconclusive": {word: "INCONCLUSIVE", sign: "?", look: "unknown"},
};

function change(ratio) {
  const percent = 100 * (ratio - 1);
  return `${percent < 0 ? "\u2212" : "+"}${Math.abs(percent).toFixed(1)} %`;
}

function interval(effect) { return `${change(effect.ci95[0])} to ${change(effect.ci95[1])}`; }

function chance(p) { return p < 0.001 ? "< 0.001" : p.toFixed(3); }

function answer_mark(row) {
  const {word, sign, look} = ANSWERS[row.answer];
  const more = row.spread_rose ? " (spread)" : "";
  return element("span", {class: `grade ${look}`}, element("span", {"aria-hidden": "true"}, `${sign} `), word + more);
}

// ---- The answer

function draw_verdict(c, header) {
  const wrong = c.troubles.some((trouble) => trouble.wrong_data);
  const shown = c.troubles.length > 0
    ? {word: wrong ? "WRONG DATA" : "FAILED", sign: "\u2715", look: "wrong"} : ANSWERS[c.answer];
  document.title = `${shown.word}: p5bench comparison${c.provenance === "simulated" ? " (simulated)" : ""}`;
  const banner = (look, title, text) => element("p", {class: `banner ${look}`}, element("strong", {}, title), text);
  const lines = [element("p", {class: "product"}, `p5bench ${c.version} comparison${c.made ? `, ${c.made}` : ""}`)];
  if (c.provenance === "simulated") lines.push(banner("simulated", "SIMULATED", "All figures come from a model."));
  if (c.provenance === "mixed") {
    lines.push(banner("simulated", "MIXED", "Not all figures were measured by p5bench: see the sides."));
  }
  if (c.provenance === "imported") lines.push(banner("simulated", "IMPORTED", "The figures were measured by another program."));
  lines.push(element("h1", {class: shown.look},
    element("span", {class: "sign", "aria-hidden": "true"}, element("span", {}, shown.sign)), shown.word),
    element("p", {class: "because"}, c.headline));
  if (c.troubles.length > 0) {
    lines.push(element("ul", {class: "cards"}, ...c.troubles.map((trouble) => element("li", {class: "card error"},
      element("h3", {}, element("span", {class: "tag"}, trouble.wrong_data ? "wrong data" : "failed"),
        case_text(trouble.case)), element("p", {}, trouble.what)))));
  }
  header.append(...lines);
}

function case_text(c) {
  return [c.collective, c.pattern, c.pair, size(c.bytes), c.type, c.op].filter(Boolean).join(" ");
}

// ---- Bands

const FOREST = {left: 260, right: 20, row: 26, top: 30};

// One line a band: its interval, and a field that reaches to what matters.
function forest(rows) {
  const width = 900, height = FOREST.top + FOREST.row * rows.length + 10;
  const ends = rows.flatMap((row) => [Math.log(row.time.ci95[0]), Math.log(row.time.ci95[1]), Math.log1p(row.matters)]);
  const most = Math.max(0.02, ...ends.map(Math.abs).filter(Number.isFinite)) * 1.05;
  const x = (ratio) => FOREST.left + (width - FOREST.left - FOREST.right) *
    (Math.max(-most, Math.min(most, Math.log(ratio))) + most) / (2 * most);
  const svg = shape("svg", {class: "forest", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": "Change of each band with its interval; the table below has the figures"});
  svg.append(shape("text", {x: x(1), y: 14, "text-anchor": "middle"}, "same"),
    shape("text", {x: width - FOREST.right, y: 14, "text-anchor": "end"}, `slower, to ${change(Math.exp(most))}`),
    shape("text", {x: FOREST.left, y: 14}, `faster, to ${change(Math.exp(-most))}`));
  rows.forEach((row, index) => {
    const y = FOREST.top + FOREST.row * (index + 0.5), [low, high] = row.time.ci95;
    const line = shape("g", {class: ANSWERS[row.answer].look});
    line.append(
      shape("rect", {class: "matters", x: x(1 / (1 + row.matters)), width: x(1 + row.matters) - x(1 / (1 + row.matters)),
        y: y - FOREST.row * 0.38, height: FOREST.row * 0.76}),
      shape("text", {class: "name", x: FOREST.left - 12, y: y + 4, "text-anchor": "end"},
        `${row.collective}, ${row.quantity}, ${row.band}`),
      shape("line", {class: "interval", x1: x(low), x2: x(high), y1: y, y2: y}),
      shape("circle", {class: "dot", cx: x(row.time.ratio), cy: y, r: 4.5}));
    svg.append(line);
  });
  svg.append(shape("line", {class: "zero", x1: x(1), x2: x(1), y1: FOREST.top - 8, y2: height - 6}));
  return svg;
}

function draw_bands(c, section) {
  section.append(
    element("p", {}, "Each line is the sizes of one band together. The grey field reaches to what matters: an interval that " +
      "ends inside it is no regression, one that lies to the right of its inner third is one."),
    element("figure", {}, forest(c.bands)),
    simple_table("Bands", [
      ["Collective", (row) => row.collective], ["Quantity", (row) => row.quantity], ["Band", (row) => row.band],
      ["Sizes", (row) => String(row.sizes), "number"],
      ["Launches", (row) => `${row.base_launches}, ${row.new_launches}`, "number"],
      ["Time", (row) => change(row.time.ratio), "number"], ["95 % interval", (row) => interval(row.time), "number"],
      ["Matters", (row) => share(row.matters), "number"], ["p", (row) => chance(row.time.p_adjusted), "number"],
      ["Spread", (row) => row.base_spread === null ? NOT_AVAILABLE
        : `${share(row.base_spread)} \u2192 ${share(row.new_spread)}`, "number"],
      ["Answer", answer_mark], ["Why", (row) => row.because, "sentence"],
    ], c.bands));
  const reasons = [...new Map(c.bands.map((row) => [row.band, row.threshold_because]))];
  section.append(element("details", {}, element("summary", {}, "Why these limits"),
    definitions(reasons, "definitions")));
}

// ---- Sizes

function look_of(ratio) {
  const percent = 100 * (ratio - 1);
  if (percent > 30) return "far-slower";
  if (percent > 10) return "much-slower";
  if (percent > 3) return "some-slower";
  if (percent > -3) return "same";
  return percent > -10 ? "some-faster" : "much-faster";
}

function row_name(row) {
  const c = row.case;
  return [[c.collective, c.pattern, c.pair].filter(Boolean).join(" "), row.quantity, c.type, c.op,
    c.in_place ? "in place" : null, c.group === "world" ? null : c.group, c.cuda_graph ? "graph" : null,
    c.register === "none" ? null : `registered ${c.register}`].filter(Boolean).join(", ");
}

function shift_of(row) {
  return row.base_selection !== null && row.new_selection !== null && row.base_selection !== row.new_selection
    ? `${row.base_selection} \u2192 ${row.new_selection}` : "";
}

function map_cell(row) {
  if (!row) return element("td", {class: "absent"}, "\u00b7");
  const told = `${time(row.base_us)} \u2192 ${time(row.new_us)}, ${interval(row.time)}, p ${chance(row.time.p_adjusted)}` +
    (shift_of(row) ? `, ${shift_of(row)}` : "");
  return element("td", {class: `${look_of(row.time.ratio)}${row.marked ? " marked" : ""}`, title: told},
    change(row.time.ratio) + (shift_of(row) ? " *" : ""));
}

function size_map(rows) {
  const sizes = [...new Set(rows.map((row) => row.case.bytes))].sort((a, b) => a - b);
  const lines = new Map();
  for (const row of rows) {
    const name = row_name(row);
    if (!lines.has(name)) lines.set(name, new Map());
    lines.get(name).set(row.case.bytes, row);
  }
  const head = element("tr", {}, element("th", {scope: "col"}, "NEW against BASE"),
    ...sizes.map((bytes) => element("th", {scope: "col"}, size(bytes))));
  const body = [...lines].map(([name, cells]) => element("tr", {}, element("th", {scope: "row"}, name),
    ...sizes.map((bytes) => map_cell(cells.get(bytes)))));
  return element("div", {class: "scroll sizes-map", tabindex: "0", role: "region", "aria-label": "Map of sizes"},
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
}

function draw_map(c, section) {
  if (c.sizes.length === 0) {
    section.append(element("p", {}, "Nothing was measured on both sides."));
    return;
  }
  const marked = c.sizes.filter((row) => row.marked).sort((a, b) => b.time.ratio - a.time.ratio);
  section.append(element("p", {}, "Says where; the bands decide. Framed: differs for certain, and it matters. *: NCCL chose " +
    "another algorithm, protocol or number of channels."), size_map(c.sizes));
  if (marked.length === 0) return;
  section.append(element("h3", {}, `${plural(marked.length, "size")} for certain, the worst first`),
    simple_table("Sizes that differ", [
      ["Case", (row) => case_text(row.case)], ["Quantity", (row) => row.quantity],
      ["BASE", (row) => time(row.base_us), "number"], ["NEW", (row) => time(row.new_us), "number"],
      ["Change", (row) => change(row.time.ratio), "number"], ["95 % interval", (row) => interval(row.time), "number"],
      ["p", (row) => chance(row.time.p_adjusted), "number"], ["Choice of NCCL", shift_of],
    ], marked));
}

// ---- The rest

function draw_differences(c, section) {
  if (c.differences.length === 0) {
    section.append(element("p", {}, "Nothing else that the reports tell of differs."));
    return;
  }
  const value = (text) => text === null ? element("span", {class: "quiet"}, "not set") : element("code", {}, text);
  section.append(simple_table("What else differs", [
    ["What", (d) => d.name], ["Kind", (d) => d.kind], ["BASE", (d) => value(d.base)], ["NEW", (d) => value(d.new)],
  ], c.differences));
}

function draw_history(c, section) {
  section.hidden = c.trend === null;
  if (c.trend === null) return;
  const value = (index) => (point) => point.ratios[index] === null ? NOT_AVAILABLE : change(point.ratios[index]);
  section.append(element("p", {}, "Each run against the median of all; the last one is NEW, the others are BASE."),
    simple_table("History", [
      ["Started", (point) => point.started ?? "not known"], ["Software", (point) => point.software],
      ...c.trend.rows.map((row, index) => [row, value(index), "number"]), ["Run", (point) => point.source],
    ], c.trend.points));
}

function list_of(texts) { return element("ul", {}, ...texts.map((text) => element("li", {}, text))); }

function draw_sides(c, section) {
  section.append(definitions([
    [c.base.name, list_of(c.base.sources)], [c.new.name, list_of(c.new.sources)],
    ["Figures", c.provenance], ["Remarks", c.remarks.length ? list_of(c.remarks) : ""],
  ], "definitions"));
  for (const [side, cases] of [[c.base.name, c.only_in_base], [c.new.name, c.only_in_new]]) {
    if (cases.length === 0) continue;
    section.append(element("details", {}, element("summary", {}, `Only in ${side}: ${plural(cases.length, "case")}`),
      list_of(cases)));
  }
}

function complain(what) {
  document.getElementById("alerts").append(element("p", {class: "alert", role: "alert"},
    `Part of this page could not be drawn: ${what}. The figures are in comparison.json (--format json).`));
}

function start() {
  const comparison = JSON.parse(document.getElementById("comparison-data").textContent);
  const drawers = {verdict: draw_verdict, bands: draw_bands, map: draw_map, history: draw_history,
    differences: draw_differences, sides: draw_sides};
  for (const [id, draw] of Object.entries(drawers)) {
    try {
      draw(comparison, document.getElementById(id));
    } catch (error) {
      complain(`${id}: ${error.message}`);
    }
  }
  for (const link of document.querySelectorAll("nav a")) link.hidden = document.querySelector(link.hash).hidden;
}

window.addEventListener("error", (event) => complain(event.message));
document.addEventListener("DOMContentLoaded", start);
