// Draws the page of a comparison from the JSON embedded in it: the answer, what got slower with its sizes, the history,
// what else differs; and folded each band and the map of all sizes.

const ANSWERS = {
  "regression": {word: "REGRESSION", sign: "\u25bc", look: "slow"},
  "no regression": {word: "NO REGRESSION", sign: "\u2713", look: "ok"},
  "inconclusive": {word: "INCONCLUSIVE", sign: "?", look: "unknown"},
};

function change(ratio) {
  const percent = 100 * (ratio - 1);
  return `${percent < 0 ? "\u2212" : "+"}${Math.abs(percent).toFixed(1)} %`;
}

// Bands by what they mean.
const BANDS = {
  latency: ["small messages", "up to 64 KiB"], steps: ["steps of communicators", ""], mid: ["middle", ""],
  bandwidth: ["large messages", "from 64 MiB"],
};

function band_name(band) { return BANDS[band] ? BANDS[band][0] : band; }

function band_text(band) { return BANDS[band] && BANDS[band][1] ? `${BANDS[band][0]} (${BANDS[band][1]})` : band_name(band); }

// "all_reduce, throughput, bandwidth": a row of a history.
function trend_row(row) {
  const parts = row.split(", "), band = parts.pop();
  return [...parts, band_name(band)].join(", ");
}

function interval(effect) { return `${change(effect.ci95[0])} to ${change(effect.ci95[1])}`; }

function chance(p) { return p < 0.001 ? "< 0.001" : p.toFixed(3); }

function answer_mark(row) {
  const {word, sign, look} = ANSWERS[row.answer];
  const more = row.mean_rose ? " (mean)" : row.spread_rose ? " (spread)" : "";
  return element("span", {class: `grade ${look}`}, element("span", {"aria-hidden": "true"}, `${sign} `), word + more);
}

// ---- The answer

// Also where all figures were imported from tables of simulated ones, as a remark says of each import.
function all_simulated(c) {
  if (c.provenance === "simulated") return true;
  const imports = c.remarks.filter((remark) => remark.includes(": SIMULATED: ")).length;
  return c.provenance === "imported" && imports === c.base.sources.length + c.new.sources.length;
}

function draw_verdict(c, header) {
  const shown = {11: {word: "WRONG DATA", sign: "\u2715", look: "wrong"}, 12: {word: "FAILED", sign: "\u2715", look: "wrong"}}[c.exit_code] ??
    ANSWERS[c.answer];
  const simulated = all_simulated(c);
  document.title = `${shown.word}: p5bench comparison${simulated ? " (simulated)" : ""}`;
  const banner = (look, title, text) => element("p", {class: `banner ${look}`}, element("strong", {}, title), text);
  const lines = [element("p", {class: "product"}, `p5bench ${c.version} comparison${c.made ? `, ${c.made}` : ""}`)];
  if (simulated) lines.push(banner("simulated", "SIMULATED", "All figures come from a model."));
  if (c.provenance === "mixed") {
    lines.push(banner("simulated", "MIXED", "Not all figures were measured by p5bench: see the sides."));
  }
  if (c.provenance === "imported" && !simulated) lines.push(banner("simulated", "IMPORTED", "The figures were measured by another program."));
  lines.push(element("h1", {class: shown.look},
    element("span", {class: "sign", "aria-hidden": "true"}, element("span", {}, shown.sign)), shown.word),
    element("p", {class: "because"}, c.headline));
  const cards = trouble_cards(c);
  if (cards.length > 0) lines.push(element("ul", {class: "cards"}, ...cards));
  const others = explaining(c);
  if (others.length > 0 && c.trend === null) {
    lines.push(element("p", {class: "small"}, element("strong", {}, "Other differences: "), differences_text(others.slice(0, 4)),
      others.length > 4 ? `; ${others.length - 4} more below` : ""));
  }
  header.append(...lines);
}

// What no figure shows: parts that NEW suspects, runs of NEW that ended badly, wrong data and failures.
function trouble_cards(c) {
  const made = (tag, title, ...texts) => element("li", {class: "card error"},
    element("h3", {}, element("span", {class: "tag"}, tag), title), ...texts.filter(Boolean).map((text) => element("p", {}, text)));
  return [...c.new_suspects.map((suspect) => made(`NEW suspects ${suspect.kind}`, suspect.name, suspect.evidence,
    suspect.action ? `Do: ${suspect.action}` : "")),
  ...c.bad_ends.map((end) => made({10: "broken", 11: "wrong data"}[end.exit_code] ?? "not finished", end.source, end.because)),
  ...c.troubles.map((trouble) => made(trouble.wrong_data ? "wrong data" : "failed", case_text(trouble.case), trouble.what,
    trouble.in_base ? `BASE ${trouble.wrong_data ? "had wrong data" : "failed"} there too.` : ""))];
}

function case_text(c) {
  const message = c.job ? [] : [size(c.bytes), c.type, c.op, c.group === "world" ? "" : `group ${c.group}`];
  return [operation_of(c), ...message, beside_text(c)].filter(Boolean).join(" ");
}

// ---- What got slower

const SHOWN_BANDS = 6;  // with their sizes; a band more is one line

// An operation in the words of the program's texts.
function operation_of(c) {
  return [c.collective, c.pattern, c.pair, c.traffic, c.job?.name, c.job?.gaps ? `with ${c.job.gaps} in its gaps` : "",
    c.nic === undefined ? "" : `nic ${c.nic}`].filter(Boolean).join(" ");
}

// As the bands call operations.
function label_of(c) {
  return [operation_of(c), beside_text(c), c.group === "world" ? "" : c.group, c.in_place ? "in place" : "", ...call_words(c)]
    .filter(Boolean).join(" ");
}

// Sizes that other launches measured than most of a band have a row of their own.
function shown_name(band) {
  if (!band.only_sizes) return band.collective;
  const names = band.only_sizes.map(size);
  return `${band.collective} (${names.length <= 3 ? names.join(", ") : `${names.length} sizes from ${names[0]} to ${names[names.length - 1]}`})`;
}

function sizes_of(c, band) {
  const alike = c.bands.filter((row) => row.quantity === band.quantity && row.band === band.band && row.collective === band.collective);
  const apart = new Set(alike.flatMap((row) => row.only_sizes || []));
  const its = (bytes) => band.only_sizes ? band.only_sizes.includes(bytes) : !apart.has(bytes);
  // A band of one of several jobs says how many ranks and nodes it is of.
  const is_of = (one) => [label_of(one), `${label_of(one)}, ${plural(one.ranks, "rank")} on ${plural(one.nodes, "node")}`].includes(band.collective);
  return c.sizes.filter((row) => row.quantity === band.quantity && row.band === band.band && is_of(row.case) && its(row.case.bytes))
    .sort((a, b) => a.case.bytes - b.case.bytes);
}

// "8 ranks of 1 node"
function place_text(c) { return `${plural(c.ranks, "rank")} of ${plural(c.nodes, "node")}`; }

function size_table(rows) {
  const several = new Set(rows.map((row) => place_text(row.case))).size > 1;
  return simple_table("Sizes", [
    ["Size", (row) => size(row.case.bytes) + (several ? `, ${place_text(row.case)}` : "")], ["BASE \u00b5s", (row) => digits(row.base_us), "number"],
    ["NEW \u00b5s", (row) => digits(row.new_us), "number"],
    ["Change", (row) => element("span", {class: `shift ${look_of(row.time.ratio)}`}, change(row.time.ratio)), "number"],
  ], rows);
}

function band_figure(c, band) {
  const figure = element("figure", {}, element("figcaption", {}, `${shown_name(band)}, ${band.quantity}, ${band_text(band.band)}`),
    element("p", {}, answer_mark(band), ` ${change(band.time.ratio)} (${interval(band.time)})`),
    element("p", {class: "quiet small"}, band.because));
  const rows = sizes_of(c, band);
  if (rows.length > 0) figure.append(size_table(rows));
  return figure;
}

// The worst first: regressions, else what could not be told.
function draw_slower(c, section) {
  const of = (answer) => c.bands.filter((row) => row.answer === answer).sort((a, b) => b.time.ratio - a.time.ratio);
  const regressions = of("regression"), shown = regressions.length > 0 ? regressions : of("inconclusive");
  section.hidden = shown.length === 0;
  if (regressions.length === 0) section.querySelector("h2").textContent = "Inconclusive bands";
  const figures = (list) => element("div", {class: "charts"}, ...list.map((band) => band_figure(c, band)));
  section.append(figures(shown.slice(0, SHOWN_BANDS)));
  const rest = shown.slice(SHOWN_BANDS);
  if (rest.length === 0) return;
  const details = element("details", {}, element("summary", {}, `${plural(rest.length, "band")} more`));
  draw_when_open(details, () => details.append(figures(rest)));
  section.append(details);
}

// ---- Bands

const FOREST = {side: 6, top: 30, names_from: 760};

// One line a band: its name, beside it or above it its interval, and a field that reaches to what matters.
function forest(svg, rows, width) {
  const names = rows.map((row) => [shown_name(row), `${row.quantity}, ${band_name(row.band)}`]);
  const widest = Math.max(...names.map((parts) => parts.join(", ").length)) * 7.2 + 20;
  const beside = width >= FOREST.names_from && widest < width / 2, left = beside ? widest : FOREST.side, each = beside ? 28 : 60;
  const height = FOREST.top + each * rows.length + 6;
  const ends = rows.flatMap((row) => [Math.log(row.time.ci95[0]), Math.log(row.time.ci95[1]), Math.log1p(row.matters)]);
  const most = Math.max(0.02, ...ends.map(Math.abs).filter(Number.isFinite)) * 1.05;
  const x = (ratio) => left + (width - left - FOREST.side) *
    (Math.max(-most, Math.min(most, Math.log(ratio))) + most) / (2 * most);
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.append(shape("text", {x: x(1), y: 14, "text-anchor": "middle"}, "same"),
    shape("text", {x: width - FOREST.side, y: 14, "text-anchor": "end"}, `slower ${change(Math.exp(most))}`),
    shape("text", {x: left, y: 14}, `faster ${change(Math.exp(-most))}`));
  svg.append(shape("line", {class: "zero", x1: x(1), x2: x(1), y1: FOREST.top - 8, y2: height - 6}));
  rows.forEach((row, index) => {
    const top = FOREST.top + each * index, y = top + (beside ? 14 : 44), [low, high] = row.time.ci95;
    const line = shape("g", {class: ANSWERS[row.answer].look});
    const text = (at, what) => shape("text", {class: "name", x: beside ? left - 14 : left, y: at, "text-anchor": beside ? "end" : "start"}, what);
    line.append(
      shape("rect", {class: "matters", x: x(1 / (1 + row.matters)), width: x(1 + row.matters) - x(1 / (1 + row.matters)),
        y: y - 9, height: 18}),
      ...(beside ? [text(y + 4, names[index].join(", "))] : [text(top + 12, names[index][0]), text(top + 28, names[index][1])]),
      shape("line", {class: "interval", x1: x(low), x2: x(high), y1: y, y2: y}),
      shape("circle", {class: "dot", cx: x(row.time.ratio), cy: y, r: 4.5}));
    svg.append(line);
  });
}

// Draws at the width that there is, and again when it changes: text keeps its size on a phone.
function draw_to_width(svg, most, draw) {
  let last = 0;
  const redraw = () => {
    const width = svg.parentElement ? svg.parentElement.clientWidth : 0;
    if (width === 0 || width === last) return;
    last = width;
    draw(Math.round(Math.min(Math.max(width, 260), most)));
  };
  redraw();
  new ResizeObserver(() => requestAnimationFrame(redraw)).observe(svg.parentElement);
}

// Says beside the title of a folded part what it holds, and draws the part when it is opened.
function draw_folded(details, note, draw) {
  details.querySelector("summary").append(element("span", {class: "quiet small"}, note));
  draw_when_open(details, draw);
}

function draw_bands(c, section) {
  const counts = [...new Set(c.bands.map((row) => row.answer))].map((answer) =>
    `${c.bands.filter((row) => row.answer === answer).length} ${answer}`);
  draw_folded(section, counts.join(", "), () => add_bands(c, section));
}

function add_bands(c, section) {
  const svg = shape("svg", {class: "forest", role: "img",
    "aria-label": "Change of each band with its interval; the table has the figures"});
  const answers = simple_table("Bands", [
    ["Answer", answer_mark], ["Collective", shown_name], ["Quantity", (row) => row.quantity],
    ["Band", (row) => band_text(row.band), "one-line"],
    ["Time", (row) => change(row.time.ratio), "number"], ["95 % interval", (row) => interval(row.time), "number"],
    ["Matters", (row) => share(row.matters), "number"], ["p", (row) => chance(row.time.p_adjusted), "number"],
    ["Sizes", (row) => String(row.sizes), "number"],
    ["Launches", (row) => `${row.base_launches}, ${row.new_launches}`, "number"],
    ["Spread", (row) => row.base_spread === null ? NOT_AVAILABLE
      : `${share(row.base_spread)} \u2192 ${share(row.new_spread)}`, "number"],
    ["Why", (row) => row.because, "sentence"],
  ], c.bands);
  answers.classList.add("answers");
  section.append(answers,
    element("p", {}, "Each line is one band of sizes. The grey field extends to the smallest change that matters: an interval that " +
      "ends inside it is no regression; one that lies to the right of its inner third is a regression."),
    element("figure", {}, svg));
  draw_to_width(svg, 1100, (width) => forest(svg, c.bands, width));
  const reasons = [...new Map(c.bands.map((row) => [band_text(row.band), row.threshold_because]))];
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
  const c = row.case, root = c.every_root ? "all" : c.root;
  return [label_of(c), row.quantity, c.type, c.op, root === null || root === undefined ? "" : `root ${root}`]
    .filter(Boolean).join(", ");
}

// Imports, and comparisons across hardware, may have a row on several numbers of ranks and in several backends.
function rows_of_map(rows) {
  const lines = new Map();
  for (const row of rows) {
    const {ranks, nodes, backend, job} = row.case, name = row_name(row);
    const key = JSON.stringify([name, ranks, nodes, backend, job?.digest]);
    if (!lines.has(key)) lines.set(key, {name, where: `${backend} on ${place_text(row.case)}`, cells: new Map()});
    lines.get(key).cells.set(row.case.bytes, row);
  }
  const all = [...lines.values()], count = (name) => all.filter((line) => line.name === name).length;
  return all.map(({name, where, cells}) => [count(name) > 1 ? `${name}, ${where}` : name, cells]);
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
  const head = element("tr", {}, element("th", {scope: "col"}, "NEW against BASE"),
    ...sizes.map((bytes) => element("th", {scope: "col"}, size(bytes))));
  const body = rows_of_map(rows).map(([name, cells]) => element("tr", {}, element("th", {scope: "row"}, name),
    ...sizes.map((bytes) => map_cell(cells.get(bytes)))));
  return element("div", {class: "scroll sizes-map", tabindex: "0", role: "region", "aria-label": "Map of sizes"},
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
}

function draw_map(c, section) {
  draw_folded(section, c.sizes.length > 0 ? plural(c.sizes.length, "size") : "nothing was measured on both sides",
    () => { if (c.sizes.length > 0) add_map(c, section); });
}

function add_map(c, section) {
  const marked = c.sizes.filter((row) => row.marked).sort((a, b) => b.time.ratio - a.time.ratio);
  section.append(element("p", {}, "Shows where times changed; the bands decide. Framed: the change is significant, and large enough to matter. *: NCCL chose " +
    "another algorithm, protocol or number of channels."), size_map(c.sizes));
  if (marked.length === 0) return;
  section.append(element("h3", {}, `${plural(marked.length, "size")} with a significant change, the worst first`),
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
    section.append(element("p", {}, "The reports differ in nothing else."));
    return;
  }
  const value = (text) => text === null ? element("span", {class: "quiet"}, "not set") : element("code", {}, text);
  section.append(simple_table("What else differs", [
    ["What", (d) => d.name], ["Kind", (d) => d.kind], ["BASE", (d) => value(d.base)], ["NEW", (d) => value(d.new)],
  ], c.differences));
}

// ---- History

const TREND = {left: 58, right: 14, top: 22, bottom: 44, height: 230};
const UNKNOWN_TIME = "not known";

// What differs, in a line: hosts by their kind alone, because lists of names would fill the page.
function differences_text(differences) {
  const value = (text) => text === null ? "not set" : text;
  return differences.map((d) => d.kind === "topology" ? `other ${d.name}`
    : `${d.name}: ${value(d.base)} \u2192 ${value(d.new)}`).join("; ");
}

// What may explain a step: versions, settings and hardware, not which host came first.
function explaining(point) { return point.differences.filter((d) => d.kind !== "topology"); }

// By date where all runs have different ones, else one after the other.
function time_scale(points, from, to) {
  const times = points.map((point) => Date.parse(point.started ?? ""));
  const dated = times.every(Number.isFinite) && new Set(times).size === times.length;
  const values = dated ? times : points.map((_, index) => index);
  const low = Math.min(...values), high = Math.max(...values);
  const at = (index) => high > low ? from + (to - from) * (values[index] - low) / (high - low) : (from + to) / 2;
  return {dated, low, high, at, of: (value) => from + (to - from) * (value - low) / (high - low)};
}

// Whole days, or hours where all is within two days; months and years as their length asks for.
function date_ticks(scale, most) {
  const hour = 3600e3, day = 24 * hour;
  const step = [hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day, 7 * day, 14 * day, 30 * day, 91 * day, 182 * day, 365 * day]
    .find((each) => (scale.high - scale.low) / each <= most) ?? 730 * day;
  const ticks = [];
  for (let tick = Math.ceil(scale.low / step) * step; tick <= scale.high; tick += step) ticks.push(tick);
  const text = (tick) => new Date(tick).toISOString();
  return ticks.map((tick) => [tick, step < day ? text(tick).slice(5, 16).replace("T", " ") : text(tick).slice(0, 10)]);
}

// Steps of 1, 2 or 5 times a power of ten, in percent.
function percent_ticks(low, high) {
  const rough = Math.max((high - low) / 4, 1e-6);
  const decade = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * decade).find((each) => each >= rough);
  const ticks = [];
  for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + 1e-9 * step; tick += step) ticks.push(tick);
  const text = (tick) => String(Number(Math.abs(tick).toPrecision(6)));
  return ticks.map((tick) => Math.abs(tick) < 1e-9 * step ? [0, "0 %"] : [tick, `${tick < 0 ? "\u2212" : "+"}${text(tick)} %`]);
}

function draw_trend(svg, trend, row, width) {
  const {left, right, top, bottom, height} = TREND;
  const x = time_scale(trend.points, left + 6, width - right - 6);
  const percents = trend.points.map((point) => point.ratios[row] === null ? null : 100 * (point.ratios[row] - 1));
  const known = percents.filter((value) => value !== null);
  const margin = Math.max(1, (Math.max(...known) - Math.min(...known)) * 0.1);
  const low = Math.min(...known) - margin, high = Math.max(...known) + margin;
  const y = (percent) => height - bottom - (height - bottom - top) * (percent - low) / (high - low);
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  for (const [tick, text] of percent_ticks(low, high)) {
    svg.append(shape("line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)}),
      shape("text", {x: left - 7, y: y(tick) + 4, "text-anchor": "end"}, text));
  }
  if (x.dated && x.high > x.low) {
    for (const [tick, text] of date_ticks(x, Math.max(1, (width - left) / 90))) {
      svg.append(shape("line", {class: "grid", x1: x.of(tick), x2: x.of(tick), y1: top, y2: height - bottom}),
        shape("text", {x: Math.min(Math.max(x.of(tick), left + 24), width - right - 34), y: height - bottom + 30,
          "text-anchor": "middle"}, text));
    }
  } else {
    const day = (point) => (point.started ?? UNKNOWN_TIME).slice(0, 10), last = trend.points.length - 1;
    svg.append(shape("text", {x: left, y: height - bottom + 30}, `${day(trend.points[0])}, runs in their order`),
      shape("text", {x: width - right, y: height - bottom + 30, "text-anchor": "end"}, day(trend.points[last])));
  }
  svg.append(shape("text", {x: 0, y: 11}, "time against the median of all; + is slower"));
  trend.points.forEach((point, index) => {
    if (explaining(point).length === 0) return;
    const at = x.at(index), foot = height - bottom;
    const mark = shape("path", {class: "changed", d: `M${at},${foot}l5,9h-10z`});
    mark.append(shape("title", {}, `${point.started ?? UNKNOWN_TIME}: ${differences_text(explaining(point))}`));
    svg.append(shape("line", {class: "changed-line", x1: at, x2: at, y1: top, y2: foot}), mark);
  });
  percents.forEach((percent, index) => {
    if (percent !== null) svg.append(shape("circle", {class: "run", cx: x.at(index), cy: y(percent), r: 3}));
  });
  draw_newest(svg, percents, x, y, width);
  for (const level of trend.levels.filter((each) => each.row === row)) {
    const at = y(100 * (level.ratio - 1));
    svg.append(shape("line", {class: "level", x1: x.at(level.first) - 4, x2: x.at(level.last) + 4, y1: at, y2: at}));
  }
  for (const step of trend.changes.filter((each) => each.row === row)) {
    const at = (x.at(step.before) + x.at(step.first)) / 2, right_half = at > width / 2;
    svg.append(shape("line", {class: `step ${step.ratio > 1 ? "slow" : "ok"}`, x1: at, x2: at, y1: top, y2: height - bottom}),
      shape("text", {class: "step-label", x: at + (right_half ? -5 : 5), y: top + 12,
        "text-anchor": right_half ? "end" : "start"}, change(step.ratio)));
  }
  const cursor = shape("line", {class: "cursor", y1: top, y2: height - bottom, visibility: "hidden"});
  svg.append(cursor);
  return {x, cursor, width};
}

// The run that is compared with those before: what the page is about.
function draw_newest(svg, percents, x, y, width) {
  const last = percents.length - 1;
  if (percents[last] === null) return;
  const at = x.at(last), high = y(percents[last]);
  svg.append(shape("circle", {class: "newest", cx: at, cy: high, r: 5.5}),
    shape("text", {class: "step-label", x: Math.min(at, width - TREND.right) - 10, y: high > TREND.height - TREND.bottom - 30 ? high - 10 : high + 20,
      "text-anchor": "end"}, `newest ${change(1 + percents[last] / 100)}`));
}

// Which versions, settings or hardware are others since which run, the newest first.
function changes_beside(trend) {
  const changed = trend.points.filter((point) => explaining(point).length > 0).reverse();
  if (changed.length === 0) return "";
  const lines = changed.slice(0, 5).map((point) => element("li", {},
    element("strong", {}, `\u25b2 ${(point.started ?? UNKNOWN_TIME).slice(0, 10)} `), differences_text(explaining(point))));
  if (changed.length > 5) lines.push(element("li", {class: "quiet"}, `${changed.length - 5} earlier ones`));
  return element("ul", {class: "changes small"}, ...lines);
}

// Pointer, touch and arrow keys move through the runs; the lines below the chart say what is there.
function read_runs(svg, trend, row, readout, geometry) {
  const runs = trend.points.map((_, index) => index).filter((index) => trend.points[index].ratios[row] !== null);
  let at = -1;
  const show = (place) => {
    at = Math.min(Math.max(place, 0), runs.length - 1);
    const point = trend.points[runs[at]], {x, cursor} = geometry();
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, x.at(runs[at]));
    cursor.setAttribute("visibility", "visible");
    const changed = differences_text(point.differences);
    readout.replaceChildren(
      element("li", {}, element("strong", {}, point.started ?? UNKNOWN_TIME), ` ${change(point.ratios[row])}, ${point.software}`),
      element("li", {class: "quiet"}, point.source),
      element("li", {}, changed ? `Since the run before: ${changed}` : ""));
  };
  const point_at = (event) => {
    const box = svg.getBoundingClientRect(), {x, width} = geometry();
    const wanted = (event.clientX - box.left) / box.width * width;
    const distance = (index) => Math.abs(x.at(runs[index]) - wanted);
    show(runs.reduce((best, _, index) => (distance(index) < distance(best) ? index : best), 0));
  };
  const steps = {ArrowLeft: () => at - 1, ArrowRight: () => at + 1, Home: () => 0, End: () => runs.length - 1};
  svg.addEventListener("pointermove", point_at);
  svg.addEventListener("pointerdown", point_at);
  svg.addEventListener("focus", () => show(at < 0 ? runs.length - 1 : at));
  svg.addEventListener("keydown", (event) => {
    if (!steps[event.key]) return;
    event.preventDefault();
    show(steps[event.key]());
  });
}

function add_trend(parent, trend, row) {
  const name = trend_row(trend.rows[row]);
  const svg = shape("svg", {tabindex: "0", role: "img", class: "trend",
    "aria-label": `${name}: time of each run. Arrow keys read the values.`});
  const readout = element("ul", {class: "readout", "aria-live": "polite"},
    element("li", {class: "quiet hint"}, "Point at the chart, or use the arrow keys, to read runs."));
  parent.append(element("figure", {}, element("figcaption", {}, name), element("div", {}, svg), changes_beside(trend), readout));
  let geometry = null;
  read_runs(svg, trend, row, readout, () => geometry);
  draw_to_width(svg, 900, (width) => { geometry = draw_trend(svg, trend, row, width); });
}

function changes_told(trend) {
  if (trend.short_rows === trend.rows.length) {
    return [element("p", {}, `${plural(trend.points.length, "run")} are too few to tell changes of level.`)];
  }
  if (trend.changes.length === 0) {
    return [element("p", {}, `No change of level in ${plural(trend.rows.length, "row")} of ${plural(trend.points.length, "run")}.`)];
  }
  const look = (step) => element("span", {class: `grade ${step.ratio > 1 ? "slow" : "ok"}`},
    `${step.ratio > 1 ? "\u25bc slower" : "\u25b2 faster"} ${change(step.ratio)}`);
  const table = simple_table("Changes of level", [
    ["Change", look], ["From", (step) => trend.points[step.first].started ?? UNKNOWN_TIME, "one-line"],
    ["Row", (step) => trend_row(trend.rows[step.row]), "one-line"],
    ["Runs before, after", (step) => `${step.runs_before}, ${step.runs_after}`, "number"],
    ["p", (step) => chance(step.p_adjusted), "number"],
    ["What changed then", (step) => differences_text(step.differences) || "nothing that the reports record", "sentence"],
    ["First run", (step) => trend.points[step.first].source],
  ], trend.changes);
  table.classList.add("answers");
  return [table];
}

function draw_history(c, section) {
  section.hidden = c.trend === null;
  if (c.trend === null) return;
  const trend = c.trend, changed = new Set(trend.changes.map((each) => each.row));
  const rows = trend.rows.map((_, index) => index);
  if (changed.size > 0) document.getElementById("slower").before(section);
  section.append(...changes_told(trend));
  section.append(element("p", {}, "Dots are runs, lines the medians between changes; a triangle is the first run with other " +
    "versions, settings or hardware. The newest run, with a ring, is NEW; the others are BASE."));
  const add = (parent, some) => {
    const charts = element("div", {class: "charts"});
    parent.append(charts);
    for (const row of some) add_trend(charts, trend, row);
  };
  add(section, rows.filter((row) => changed.has(row)));
  const steady = rows.filter((row) => !changed.has(row));
  if (steady.length > 0) {
    const rest = element("details", {}, element("summary", {}, `${plural(steady.length, "row")} without a change of level`));
    rest.open = changed.size === 0;
    section.append(rest);
    draw_when_open(rest, () => add(rest, steady));
  }
  const value = (index) => (point) => point.ratios[index] === null ? NOT_AVAILABLE : change(point.ratios[index]);
  const all = element("details", {}, element("summary", {}, `All ${plural(trend.points.length, "run")} as a table`));
  section.append(all);
  draw_when_open(all, () => all.append(simple_table("History", [
    ["Started", (point) => point.started ?? UNKNOWN_TIME], ["Software", (point) => point.software],
    ...trend.rows.map((row, index) => [trend_row(row), value(index), "number"]), ["Run", (point) => point.source],
    ["Since the run before", (point) => differences_text(point.differences), "sentence"],
  ], trend.points)));
}

function list_of(texts) { return element("ul", {}, ...texts.map((text) => element("li", {}, text))); }

function draw_sides(c, section) {
  draw_folded(section, `${plural(c.base.sources.length, "report")}, ${plural(c.new.sources.length, "report")}`, () => add_sides(c, section));
}

function add_sides(c, section) {
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
  const drawers = {verdict: draw_verdict, slower: draw_slower, history: draw_history, differences: draw_differences,
    bands: draw_bands, map: draw_map, sides: draw_sides};
  for (const [id, draw] of Object.entries(drawers)) {
    try {
      draw(comparison, document.getElementById(id));
    } catch (error) {
      complain(`${id}: ${error.message}`);
    }
  }
}

window.addEventListener("error", (event) => complain(event.message));
window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(open_fold));
document.addEventListener("DOMContentLoaded", start);
