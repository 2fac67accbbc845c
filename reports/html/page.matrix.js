// The pair matrix: who sends to whom, coloured by bandwidth relative to what is expected of the pair: the median of pairs
// of the same kind, so that one slow pair stands out although links inside a node are several times faster than those
// between nodes, and not less than what healthy hardware reaches, so that pairs that are all slow do not look well. Many
// ranks are shown by node, and two nodes of them open into ranks. Rows and columns of suspects are outlined.

const MOST_RANKS = 64;          // that have rows of their own
const MOST_DRAWN_CELLS = 1500;  // above, cells are drawn on a canvas
const LEAST_CELL = 2.5, LEAST_SLOW_CELL = 6;  // pixels, so that one slow pair among thousands is seen
const MOST_SIDE = 330;          // pixels, unless a reader wants it larger
// The share of its limit that every healthy pair reaches (bars.json has the figures), for messages that take long enough
// at the limit that their start does not matter.
const HEALTHY_SHARE = 0.75, LEAST_US_AT_LIMIT = 150;
const HEAT = [
  {from: 1.05, name: "faster", text: "over 105 %"}, {from: 0.95, name: "normal", text: "95 to 105 %"},
  {from: 0.9, name: "below", text: "90 to 95 %"}, {from: 0.8, name: "slower", text: "80 to 90 %"},
  {from: 0.6, name: "slow-pair", text: "60 to 80 %"}, {from: 0, name: "very-slow", text: "under 60 %"},
];

function median(values) {
  const sorted = [...values].sort((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// ---- Pairs

// Where ranks are.
function placement(report, pairs = []) {
  const highest = pairs.reduce((most, [source, destination]) => Math.max(most, source, destination), 0);
  const {host_of_rank, hosts} = report.topology, count = Math.max(report.run.ranks, highest + 1);
  const host = (rank) => host_of_rank[rank] ?? 0, name = (index) => hosts[index]?.name ?? `node ${index}`;
  const of_host = [];
  for (let rank = 0; rank < count; rank++) (of_host[host(rank)] ??= []).push(rank);
  return {count, host, name, of_host, host_name: (rank) => name(host(rank))};
}

// GB/s that a pair of this measurement should reach, of what is known beside the pairs themselves; 0: nothing is.
function known_rate(m) {
  const {limit_gb_per_s: limit} = m.verdict ?? {}, before = m.baseline?.throughput_us;
  const by_limit = limit > 0 && m.case.bytes / limit / 1e3 >= LEAST_US_AT_LIMIT ? HEALTHY_SHARE * limit : 0;
  return Math.max(by_limit, before > 0 ? m.case.bytes / before / 1e3 : 0);  // the baseline has the slowest pair's time
}

// The kind of a pair. Reports before 2026-11-23 have pairs of the same node and of different nodes in one measurement.
function pair_kind(m, source, destination, place) {
  if (place.host(source) === place.host(destination)) return "same_node";
  return m.case.pair && m.case.pair !== "same_node" ? m.case.pair : "other_node";
}

// The pairs of these measurements with their bandwidth, and its share of the median of their kind and of what is expected
// of them. Both ways and ping-pong use both directions at once: one value stands in both cells.
function measured_pairs(parts, place) {
  const found = new Map(), kinds = new Map();  // by the names of PAIRS: {median, known, limit}
  for (const m of parts) {
    const mirrored = m.case.pattern !== "one_way";
    const add = (source, destination, us) => {
      const kind = pair_kind(m, source, destination, place);
      if (!kinds.has(kind)) kinds.set(kind, {known: known_rate(m), limit: m.verdict?.limit_gb_per_s, bytes: m.case.bytes});
      found.set(source * place.count + destination, {source, destination, us, rate: m.case.bytes / us / 1e3, kind});
    };
    for (const [source, destination, us] of m.pairs) if (mirrored && us > 0) add(destination, source, us);
    for (const [source, destination, us] of m.pairs) if (us > 0) add(source, destination, us);
  }
  const list = [...found.values()];
  for (const [name, of_kind] of group_by(list, (pair) => pair.kind)) {
    const kind = kinds.get(name);
    kind.median = median(of_kind.map((pair) => pair.rate));
    kind.expected = Math.max(kind.median, kind.known);
    for (const pair of of_kind) {
      pair.of_median = pair.rate / kind.median;
      pair.share = pair.rate / kind.expected;
      pair.limit = kind.limit;
    }
  }
  return {list, kinds};
}


function pair_sentence(pair, place) {
  const name = (rank) => `rank ${rank} (${place.host_name(rank)})`;
  return `${name(pair.source)} to ${name(pair.destination)}: ${rate(pair.rate)}, ${time(pair.us)}, ` +
    `${share(pair.of_median)} of the median of pairs on ${PAIRS[pair.kind].replace(/^same node/, "the same node")}` +
    (pair.limit > 0 ? `, ${share(pair.rate / pair.limit)} of the limit` : "");
}

// ---- Rows and columns: ranks, node by node, or nodes

// Names without their common beginning and end: "ip-10-1-2-3.ec2.internal" becomes "2-3".
function short_names(names) {
  const heads = names.map((name) => name.split(".")[0]);
  const short = new Set(heads).size === new Set(names).size ? heads : names;
  let same = 0;
  while (short.length > 1 && short.every((name) => name[same] !== undefined && name[same] === short[0][same])) same++;
  const cut = short[0]?.slice(0, same).search(/[-_.][^-_.]*$/) ?? -1;
  const left = Math.max(...short.map((name) => name.length)) > 8 && cut > 0 ? short.map((name) => name.slice(cut + 1)) : short;
  return left.map((name) => (name.length > 12 ? `\u2026${name.slice(-11)}` : name));
}

// `row_of(rank)` is undefined for ranks that are not shown; `labels` are [text, rows from the first].
function rank_rows(place, hosts) {
  const items = hosts.flatMap((host) => place.of_host[host] ?? []), row = new Map(items.map((rank, index) => [rank, index]));
  const blocks = hosts.filter((host) => place.of_host[host]).map((host) => ({host, count: place.of_host[host].length}));
  const names = short_names(place.of_host.map((_, host) => place.name(host)));
  let first = 0;
  const labels = blocks.length === 1 ? items.map((rank, index) => [String(rank), index + 0.5])
    : blocks.map(({host, count}) => [names[host], (first += count) - count / 2]);
  return {by: "rank", count: items.length, row_of: (rank) => row.get(rank), name: (index) => `rank ${items[index]}`,
    labels, blocks, sentence: (pair) => pair_sentence(pair, place)};
}

function node_rows(place) {
  const count = place.of_host.length, names = short_names(place.of_host.map((_, host) => place.name(host)));
  return {by: "node", count, row_of: place.host, name: place.name, labels: names.map((name, index) => [name, index + 0.5]),
    blocks: place.of_host.map((_, host) => ({host, count: 1})),
    sentence: (pair, pairs) => `${place.host_name(pair.source)} to ${place.host_name(pair.destination)}, ` +
      `the slowest of ${plural(pairs, "pair")}: ${pair_sentence(pair, place)}`};
}

// A cell has the slowest of its pairs.
function cells_of(pairs, rows) {
  const cells = new Map();
  for (const pair of pairs) {
    const row = rows.row_of(pair.source), column = rows.row_of(pair.destination);
    if (row === undefined || column === undefined) continue;
    const key = row * rows.count + column, cell = cells.get(key);
    if (!cell) cells.set(key, {row, column, pair, pairs: 1});
    else {
      cell.pairs++;
      if (pair.share < cell.pair.share) cell.pair = pair;
    }
  }
  for (const cell of cells.values()) cell.heat = HEAT.find((step) => cell.pair.share >= step.from).name;
  return cells;
}

// ---- Drawing

// The slowest last, on top of what they cover where rows are thinner than they.
function slowest_last(cells) { return [...cells].sort((a, b) => b.pair.share - a.pair.share); }

function draw_cells(svg, cells, {left, top, step}) {
  for (const cell of slowest_last(cells)) {
    svg.append(shape("rect", {class: `cell ${cell.heat}${step < 6 ? " bare" : ""}`, x: left + cell.column * step,
      y: top + cell.row * step, width: step, height: step}));
  }
}

// As sharp as the screen is.
function draw_picture(svg, cells, {left, top, step, side}) {
  const dense = Math.max(window.devicePixelRatio, 1);
  const canvas = element("canvas", {width: Math.round(side * dense), height: Math.round(side * dense)});
  const context = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const colour = Object.fromEntries(HEAT.map(({name}) => [name, style.getPropertyValue(`--${name}`).trim()]));
  for (const cell of slowest_last(cells)) {
    const each = Math.ceil(Math.max(step, cell.pair.share < 0.9 ? LEAST_SLOW_CELL : LEAST_CELL) * dense);
    const at = (index) => Math.round((index + 0.5) * step * dense - each / 2);
    context.fillStyle = colour[cell.heat];
    context.fillRect(at(cell.column), at(cell.row), each, each);
  }
  svg.append(shape("image", {x: left, y: top, width: side, height: side, preserveAspectRatio: "none", href: canvas.toDataURL()}));
}

// Labels that would overlap are left out.
function draw_labels(svg, {labels}, frame) {
  const {left, top, step, side} = frame;
  const distance = labels.length > 1 ? (labels[1][1] - labels[0][1]) * step : side;
  const every = (least) => Math.max(1, Math.ceil(least / distance));
  const widest = widest_label(labels) + 6;
  labels.forEach(([text, at], index) => {
    if (index % every(13) === 0) {
      svg.append(shape("text", {x: left - 6, y: top + at * step + 4, "text-anchor": "end"}, text));
    }
    if (index % every(widest) === 0) {
      svg.append(shape("text", {x: left + at * step, y: top - 6, "text-anchor": "middle"}, text));
    }
  });
  svg.append(shape("text", {x: left, y: 11}, "to \u2192"), shape("text", {x: 0, y: 11}, "from \u2193"));
}

function widest_label(labels) { return labels.reduce((most, [text]) => Math.max(most, text.length), 0) * 7; }

function draw_node_lines(svg, rows, frame) {
  const {left, top, step, side} = frame;
  svg.append(shape("rect", {class: "selected", x: left, y: top, width: side, height: side, "stroke-opacity": 0.35}));
  if (rows.by === "node" && rows.count > 16) return;
  let first = 0;
  for (const {count} of rows.blocks.slice(0, -1)) {
    const at = (first += count) * step;
    svg.append(shape("line", {class: "node-line", x1: left, x2: left + side, y1: top + at, y2: top + at}),
      shape("line", {class: "node-line", x1: left + at, x2: left + at, y1: top, y2: top + side}));
  }
}

// Rows that belong together as [first, count].
function runs_of(indices) {
  const runs = [];
  for (const index of [...new Set(indices)].sort((a, b) => a - b)) {
    const last = runs[runs.length - 1];
    if (last && last[0] + last[1] === index) last[1]++;
    else runs.push([index, 1]);
  }
  return runs;
}

// The row and the column of a part; of a link the two places where its nodes meet.
function draw_suspects(svg, rows, suspects, {left, top, step, side}) {
  // Around thin rows with room for what they show.
  const room = step < LEAST_SLOW_CELL ? LEAST_SLOW_CELL - step / 2 : 0;
  const area = (row, rows_high, column, columns_wide) => svg.append(shape("rect", {class: "suspect",
    x: left + column * step - room, y: top + row * step - room,
    width: columns_wide * step + 2 * room, height: rows_high * step + 2 * room}));
  const shown = (ranks) => runs_of(ranks.map(rows.row_of).filter((row) => row !== undefined));
  for (const {ends} of suspects) {
    if (ends.length === 2) {
      for (const [one, high] of shown(ends[0])) {
        for (const [other, wide] of shown(ends[1])) {
          area(one, high, other, wide);
          area(other, wide, one, high);
        }
      }
      continue;
    }
    for (const [first, count] of shown(ends[0])) {
      area(first, count, 0, side / step);
      area(0, side / step, first, count);
    }
  }
}

function draw_matrix(svg, state, width) {
  const {rows, cells, suspects} = state;
  const left = Math.max(widest_label(rows.labels) + 10, 46), top = 34;
  const side = Math.min(width - left - 2, Math.max(rows.count * 34, 150), state.large ? Infinity : MOST_SIDE), step = side / rows.count;
  const frame = {left, top, step, side};
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${left + side + 2} ${top + side + 4}`);
  svg.parentElement.style.flexBasis = `${left + side + 2}px`;
  svg.append(shape("defs", {}, shape("pattern", {id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse"},
    shape("path", {class: "hatch", d: "M0,6L6,0"}))),
    shape("rect", {class: "blank-area", x: left, y: top, width: side, height: side, fill: "url(#hatch)"}));
  if (cells.size > MOST_DRAWN_CELLS) draw_picture(svg, cells.values(), frame);
  else draw_cells(svg, cells.values(), frame);
  draw_node_lines(svg, rows, frame);
  draw_suspects(svg, rows, suspects, frame);
  draw_labels(svg, rows, frame);
  const mark = shape("rect", {class: "selected", width: step, height: step, visibility: "hidden"});
  svg.append(mark);
  return {frame, mark, width: left + side + 2};
}

// ---- Reading values

function read_cells(svg, readout, state, open) {
  let row = 0, column = 1;
  const show = (new_row, new_column) => {
    const {rows, cells, geometry: {frame, mark}} = state;
    [row, column] = [new_row, new_column].map((value) => Math.min(Math.max(value, 0), rows.count - 1));
    mark.setAttribute("x", frame.left + column * frame.step);
    mark.setAttribute("y", frame.top + row * frame.step);
    mark.setAttribute("visibility", "visible");
    const cell = cells.get(row * rows.count + column);
    readout.textContent = cell ? rows.sentence(cell.pair, cell.pairs)
      : `${rows.name(row)} to ${rows.name(column)}: not measured`;
  };
  const inside = (event) => {
    const box = svg.getBoundingClientRect(), {frame, width} = state.geometry;
    const at = (offset) => offset / box.width * width;
    const x = at(event.clientX - box.left) - frame.left, y = at(event.clientY - box.top) - frame.top;
    if (x >= 0 && y >= 0 && x < frame.side && y < frame.side) {
      show(Math.floor(y / frame.step), Math.floor(x / frame.step));
      return true;
    }
    return false;
  };
  const moves = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
  svg.addEventListener("pointermove", inside);
  svg.addEventListener("pointerdown", inside);
  svg.addEventListener("click", (event) => { if (inside(event)) open(row, column); });
  svg.addEventListener("focus", () => show(row, column));
  svg.addEventListener("keydown", (event) => {
    const move = moves[event.key];
    if (event.key === "Enter") open(row, column);
    else if (event.key === "Escape") open(null);
    else if (move) show(row + move[0], column + move[1]);
    else return;
    event.preventDefault();
  });
}

function heat_legend(suspects) {
  const entries = [...HEAT, {name: "blank", text: "not measured"}];
  if (suspects.length > 0) entries.push({name: "suspect", text: "suspect"});
  return element("ul", {class: "legend"}, ...entries.map(({name, text}) =>
    element("li", {}, element("span", {class: `swatch ${name}`}), text)));
}

// What the colours stand for, by kind of pair.
function colour_text(kinds) {
  return [...kinds].map(([kind, {median: middle, expected, limit, bytes}]) => {
    const reached = `${rate(middle)} at ${size(bytes)}${limit > 0 ? `, ${share(middle / limit)} of the limit` : ""}`;
    return expected > middle ? `${PAIRS[kind]} ${rate(expected)}, as healthy pairs reach it (the median is ${reached})`
      : `${PAIRS[kind]} the median, ${reached}`;
  }).join("; ");
}

function slowest_table(list, place) {
  const slowest = [...list].sort((a, b) => a.share - b.share).slice(0, 5);
  return simple_table("Slowest pairs", [
    ["From rank", (c) => `${c.source} (${place.host_name(c.source)})`],
    ["To rank", (c) => `${c.destination} (${place.host_name(c.destination)})`],
    ["GB/s", (c) => digits(c.rate), "number"], ["\u00b5s", (c) => digits(c.us), "number"],
    ["Of median", (c) => share(c.of_median), "number"], ["Of expected", (c) => share(c.share), "number"]], slowest);
}

// ---- The figure

// Pairs of a node and pairs of different nodes are measured apart, and make one matrix. Where one kind has all its pairs
// and the other only some, that has all of them at the nearest size, up to twice as large or half.
function both_kinds(list) {
  const kinds = [...group_by(list, (m) => m.case.pair).values()], most = (of_kind) => Math.max(...of_kind.map((m) => m.pairs.length));
  const whole = kinds.map((of_kind) => of_kind.filter((m) => m.pairs.length === most(of_kind)));
  const sizes = [...new Set(list.map((m) => m.case.bytes))].sort((a, b) => a - b);
  return sizes.map((bytes) => {
    const far = (m) => Math.abs(Math.log2(m.case.bytes / bytes)), exact = (some) => some.find((m) => m.case.bytes === bytes);
    const nearest = (some) => some.filter((m) => far(m) <= 1).sort((a, b) => far(a) - far(b))[0];
    const any_whole = whole.some(exact);
    const parts = kinds.map((of_kind, index) => (any_whole ? nearest(whole[index]) : null) ?? exact(of_kind)).filter(Boolean);
    return {case: {...parts[0].case, bytes}, parts, pairs: parts.reduce((sum, m) => sum + m.pairs.length, 0)};
  });
}

// The size with most pairs, of those the largest.
function best_size(list) {
  return list.reduce((best, m, index) => (m.pairs >= list[best].pairs ? index : best), 0);
}

// Where a suspect NIC was measured alone, else one way: there directions are told apart.
function best_pattern(report, patterns) {
  const nic = report.suspects.some((suspect) => suspect.kind === "nic");
  const alone = patterns.findIndex(({list}) => nic && list[0].case.nic !== undefined &&
    suspects_in_matrix(report, list[0].case).some(({suspect}) => suspect.kind === "nic"));
  return alone >= 0 ? alone : Math.max(patterns.findIndex(({list}) => list[0].case.pattern === "one_way"), 0);
}

function patterns_of(report) {
  const measured = report.measurements.filter((m) => m.pairs && m.pairs.length > 0);
  const first = measured[0]?.case;
  const title = (c) => [c.pattern ?? c.collective, c.type === first.type ? "" : c.type, variant_text({case: c}),
    c.nic === undefined ? "" : `NIC ${c.nic} alone`].filter(Boolean).join(", ");
  return [...group_by(measured, (m) => title(m.case))].map(([name, list]) => ({name, list: both_kinds(list)}));
}

function choice(label, texts, value, choose) {
  const select = element("select", {"aria-label": label}, ...texts.map((text, index) => element("option", {value: index}, text)));
  select.value = String(value);
  select.addEventListener("change", () => choose(Number(select.value)));
  return select;
}

// What is drawn of the pairs, and what of it stands in the page's address.
class Matrix {
  constructor(report, patterns) {
    Object.assign(this, {report, patterns, opened: null, large: false});
    this.best = best_pattern(report, patterns);
    this.svg = shape("svg", {tabindex: "0", role: "img", class: "matrix"});
    this.readout = element("p", {class: "readout", "aria-live": "polite"});
    this.note = element("p", {class: "quiet small"});
    this.legend = element("div", {});
    this.slowest = element("div", {});
    this.sizes = element("span", {});
    this.pattern_choice = choice("Pattern", patterns.map(({name}) => name), this.best, (index) => {
      this.choose(index);
      this.remember_choices();
    });
    this.figure = this.make_figure();
  }
  get list() { return this.patterns[this.pattern].list; }
  get title() { return `${this.patterns[this.pattern].name}, ${size(this.list[this.size].case.bytes)}`; }
  make_figure() {
    this.all_nodes = button("All nodes", "All nodes again", () => this.open(null));
    this.enlarge = button("Larger", "The whole width for the matrix", () => {
      this.set_large(!this.large);
      remember("pairs.large", this.large ? "1" : "");
    });
    const tools = element("p", {class: "tools"}, this.all_nodes, this.enlarge,
      button("SVG", "Save the matrix as SVG", () => save(file_name(this.title, "svg"), "image/svg+xml", svg_text(this.svg, this.title))),
      button("CSV", "Save the pairs as CSV", () => save(file_name(this.title, "csv"), "text/csv", this.csv())));
    return element("figure", {}, element("figcaption", {}, "Pairs: ", this.pattern_choice, " at ", this.sizes),
      element("div", {class: "map"}, element("div", {}, this.svg), this.legend), this.readout, tools, this.note,
      folded("The slowest pairs", (box) => {
        box.append(this.slowest);
        this.list_slowest();
      }));
  }
  csv() {
    const host = this.place.host_name;
    return csv_text([["from_rank", "from_host", "to_rank", "to_host", "gb_per_s", "us", "share_of_median", "share_of_expected"],
      ...this.data.list.map((p) => [p.source, host(p.source), p.destination, host(p.destination), p.rate, p.us, p.of_median, p.share])]);
  }
  choose(pattern, bytes = null) {
    this.pattern = pattern;
    this.pattern_choice.value = String(pattern);
    const wanted = this.list.findIndex((m) => String(m.case.bytes) === bytes);
    const of_size = (index) => {
      this.size = index;
      this.show();
    };
    this.size = wanted < 0 ? best_size(this.list) : wanted;
    this.sizes.replaceChildren(choice("Message size", this.list.map((m) => `${size(m.case.bytes)} (${plural(m.pairs, "pair")})`),
      this.size, (index) => {
        of_size(index);
        this.remember_choices();
      }));
    this.show();
  }
  remember_choices() {
    const {list, size: index} = this;
    remember("pairs.pattern", this.pattern === this.best ? "" : control_name(this.patterns[this.pattern].name));
    remember("pairs.size", index === best_size(list) ? "" : String(list[index].case.bytes));
  }
  show() {
    const m = this.list[this.size];
    this.place = placement(this.report, m.parts.flatMap((part) => part.pairs));
    this.data = measured_pairs(m.parts, this.place);
    const hosts = this.place.of_host.map((_, host) => host), by_node = this.place.count > MOST_RANKS && !this.opened;
    this.rows = by_node ? node_rows(this.place) : rank_rows(this.place, this.opened ?? hosts);
    this.cells = cells_of(this.data.list, this.rows);
    this.suspects = suspects_in_matrix(this.report, m.case);
    this.all_nodes.hidden = !this.opened;
    this.svg.setAttribute("aria-label", `Bandwidth of ${this.title} between ${this.rows.by}s, senders in rows. ` +
      `Arrow keys read the values${by_node ? ", Enter opens two nodes" : ""}.`);
    const both = m.case.pattern === "one_way" ? "" : " One value for both directions.";
    const of_node = by_node ? " A cell is the slowest pair of ranks of two nodes; a click shows them all." : "";
    this.note.textContent = `Colour: bandwidth over the expected bandwidth, for ${colour_text(this.data.kinds)}.${both}${of_node}`;
    this.readout.replaceChildren(element("span", {class: "quiet hint"}, "Point at a cell, or use the arrow keys, to read it."));
    if (this.slowest.isConnected) this.list_slowest();
    this.legend.replaceChildren(heat_legend(this.suspects));
    this.draw();
  }
  list_slowest() { this.slowest.replaceChildren(slowest_table(this.data.list, this.place)); }
  draw(width = this.width) {
    if (!width) return;
    this.width = width;
    this.geometry = draw_matrix(this.svg, this, width);
  }
  set_opened(hosts) {
    this.opened = hosts;
    this.show();
  }
  // Two nodes as ranks; null: all nodes.
  open(row, column) {
    if (row !== null && this.rows.by !== "node") return;
    this.set_opened(row === null ? null : row === column ? [row] : [row, column]);
    remember("pairs.open", this.opened ? this.opened.join("-") : "");
  }
  set_large(large) {
    this.large = large;
    this.figure.parentElement.classList.toggle("large", large);
    this.enlarge.setAttribute("aria-pressed", String(large));
    this.draw(Math.min(this.svg.parentElement.parentElement.clientWidth, 900));
  }
  follow_address() {
    const choose = () => {
      const all = chosen(), named = this.patterns.findIndex(({name}) => control_name(name) === all.get("pairs.pattern"));
      this.choose(named < 0 ? this.best : named, all.get("pairs.size"));
    };
    add_control("pairs.pattern", choose);
    add_control("pairs.size", choose);
    add_control("pairs.large", (text) => this.set_large(text !== ""));
    add_control("pairs.open", (text) => {
      const hosts = text.split("-").map(Number).filter((host) => text !== "" && this.place.of_host[host]);
      this.set_opened(hosts.length > 0 && this.place.count > MOST_RANKS ? hosts : null);
    });
  }
}

function draw_pairs(report, section) {
  const patterns = patterns_of(report);
  section.hidden = patterns.length === 0;
  if (section.hidden) return;
  const matrix = new Matrix(report, patterns);
  section.append(matrix.figure);
  matrix.choose(matrix.best);
  read_cells(matrix.svg, matrix.readout, matrix, (row, column) => matrix.open(row, column));
  redraw_on_resize(matrix.figure, matrix.svg.parentElement, (width) => matrix.draw(width));
  // A canvas does not follow the style sheet.
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => matrix.draw());
  matrix.follow_address();
}
