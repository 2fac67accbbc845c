// The pair matrix: who sends to whom, coloured by bandwidth relative to the median of pairs of the same kind, so that
// one slow pair stands out although links inside a node are several times faster than those between nodes. Many ranks
// are shown by node, and two nodes of them open into ranks. Rows and columns of suspects are outlined.

const MOST_RANKS = 64;          // that have rows of their own
const MOST_DRAWN_CELLS = 5000;  // above, cells are pixels of one picture
const LEAST_CELL = 2.5;         // pixels, so that one slow pair among thousands is seen
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

// Measured pairs with their bandwidth and share of the median of their kind. Both ways and ping-pong use both
// directions at once: one value stands in both cells.
function measured_pairs(m, place) {
  const mirrored = m.case.pattern !== "one_way", found = new Map();
  const add = (source, destination, us) => found.set(source * place.count + destination, {
    source, destination, us, rate: m.case.bytes / us / 1e3, same_node: place.host(source) === place.host(destination)});
  for (const [source, destination, us] of m.pairs) if (mirrored && us > 0) add(destination, source, us);
  for (const [source, destination, us] of m.pairs) if (us > 0) add(source, destination, us);
  const list = [...found.values()];
  const medians = new Map([...group_by(list, (pair) => pair.same_node)].map(([same, of_kind]) =>
    [same, median(of_kind.map((pair) => pair.rate))]));
  for (const pair of list) pair.share = pair.rate / medians.get(pair.same_node);
  return {list, medians};
}

const kind_text = (same_node) => (same_node ? "same node" : "different nodes");

function pair_sentence(pair, place) {
  const name = (rank) => `rank ${rank} (${place.host_name(rank)})`;
  return `${name(pair.source)} to ${name(pair.destination)}: ${rate(pair.rate)}, ${time(pair.us)}, ` +
    `${share(pair.share)} of the median of pairs on ${pair.same_node ? "the same node" : "different nodes"}`;
}

// ---- Rows and columns: ranks, node by node, or nodes

// `row_of(rank)` is undefined for ranks that are not shown.
function rank_rows(place, hosts) {
  const items = hosts.flatMap((host) => place.of_host[host] ?? []), row = new Map(items.map((rank, index) => [rank, index]));
  const blocks = hosts.filter((host) => place.of_host[host]).map((host) => ({host, count: place.of_host[host].length}));
  const short_names = items.length > MOST_RANKS;
  return {by: "rank", count: items.length, row_of: (rank) => row.get(rank), name: (index) => `rank ${items[index]}`,
    label: (index) => String(items[index]), blocks, labels_by_block: short_names,
    sentence: (pair) => pair_sentence(pair, place)};
}

function node_rows(place) {
  const count = place.of_host.length;
  return {by: "node", count, row_of: place.host, name: place.name, label: place.name,
    blocks: place.of_host.map((_, host) => ({host, count: 1})), labels_by_block: false,
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
function draw_cells(svg, cells, {left, top, step}) {
  const side = Math.max(step, LEAST_CELL), bare = step < 6 ? " bare" : "";
  for (const cell of [...cells].sort((a, b) => b.pair.share - a.pair.share)) {
    svg.append(shape("rect", {class: `cell ${cell.heat}${bare}`, x: left + cell.column * step, y: top + cell.row * step,
      width: side, height: side}));
  }
}

// One pixel per cell, enlarged by the picture that shows it.
function draw_picture(svg, cells, count, frame) {
  const canvas = element("canvas", {width: count, height: count});
  const context = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const colour = Object.fromEntries(HEAT.map(({name}) => [name, style.getPropertyValue(`--${name}`).trim()]));
  for (const cell of cells.values()) {
    context.fillStyle = colour[cell.heat];
    context.fillRect(cell.column, cell.row, 1, 1);
  }
  svg.append(shape("image", {x: frame.left, y: frame.top, width: frame.side, height: frame.side,
    preserveAspectRatio: "none", href: canvas.toDataURL()}));
}

// Labels that would overlap are left out.
function draw_labels(svg, rows, place, frame) {
  const {left, top, step, side} = frame;
  const short = (name) => (name.length > 9 ? `${name.slice(0, 8)}\u2026` : name);
  let first = 0;
  const labels = rows.labels_by_block
    ? rows.blocks.map(({host, count}) => [short(place.name(host)), (first += count) - count / 2])
    : Array.from({length: rows.count}, (_, index) => [short(rows.label(index)), index + 0.5]);
  const distance = labels.length > 1 ? (labels[1][1] - labels[0][1]) * step : side;
  const every = (least) => Math.max(1, Math.ceil(least / distance));
  const widest = labels.reduce((most, [text]) => Math.max(most, text.length), 0) * 7 + 6;
  labels.forEach(([text, at], index) => {
    if (index % every(13) === 0) {
      svg.append(shape("text", {x: left - 6, y: top + at * step + 4, "text-anchor": "end"}, text));
    }
    if (index % every(widest) === 0) {
      svg.append(shape("text", {x: left + at * step, y: top - 6, "text-anchor": "middle"}, text));
    }
  });
  svg.append(shape("text", {x: left, y: 11}, "to \u2192"), shape("text", {x: 0, y: top - 6}, "from \u2193"));
}

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
  const least = Math.max(step, 3);
  const area = (row, rows_high, column, columns_wide) => svg.append(shape("rect", {class: "suspect", x: left + column * step,
    y: top + row * step, width: Math.max(columns_wide * step, least), height: Math.max(rows_high * step, least)}));
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

function draw_matrix(svg, state, width, id) {
  const {rows, cells, place, suspects} = state;
  const left = rows.by === "node" || rows.labels_by_block ? 74 : 46, top = 34;
  const side = Math.min(width - left - 2, Math.max(rows.count * 34, 150)), step = side / rows.count;
  const frame = {left, top, step, side};
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${top + side + 4}`);
  svg.append(shape("defs", {}, shape("pattern", {id, width: 6, height: 6, patternUnits: "userSpaceOnUse"},
    shape("path", {class: "hatch", d: "M0,6L6,0"}))),
    shape("rect", {class: "blank-area", x: left, y: top, width: side, height: side, fill: `url(#${id})`}));
  const all = [...cells.values()], pictured = all.length > MOST_DRAWN_CELLS;
  if (pictured) draw_picture(svg, cells, rows.count, frame);
  draw_cells(svg, pictured ? all.filter((cell) => cell.pair.share < 0.9).slice(0, MOST_DRAWN_CELLS) : all, frame);
  draw_node_lines(svg, rows, frame);
  draw_suspects(svg, rows, suspects, frame);
  draw_labels(svg, rows, place, frame);
  const mark = shape("rect", {class: "selected", width: step, height: step, visibility: "hidden"});
  svg.append(mark);
  return {frame, mark, width};
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

function summary_of(medians) {
  return [...medians].map(([same, value]) => `${kind_text(same)} ${rate(value)}`).join(", ");
}

function slowest_table(list, place) {
  const slowest = [...list].sort((a, b) => a.share - b.share).slice(0, 5);
  return simple_table("Slowest pairs relative to their kind", [
    ["From rank", (c) => `${c.source} (${place.host_name(c.source)})`],
    ["To rank", (c) => `${c.destination} (${place.host_name(c.destination)})`],
    ["GB/s", (c) => digits(c.rate), "number"], ["\u00b5s", (c) => digits(c.us), "number"],
    ["Of median", (c) => share(c.share), "number"]], slowest);
}

// ---- One figure per pattern

function choice_of_size(list, label) {
  const best = list.reduce((a, b) => (b.pairs.length > a.pairs.length ||
    (b.pairs.length === a.pairs.length && b.case.bytes > a.case.bytes) ? b : a));
  const select = element("select", {"aria-label": label}, ...list.map((m, index) =>
    element("option", {value: index}, `${size(m.case.bytes)} (${plural(m.pairs.length, "pair")})`)));
  return {select, best: String(list.indexOf(best))};
}

function add_matrix(parent, report, pattern, list, number) {
  list.sort((a, b) => a.case.bytes - b.case.bytes);
  const {select, best} = choice_of_size(list, `Message size of ${pattern}`);
  const svg = shape("svg", {tabindex: "0", role: "img", class: "matrix"});
  const readout = element("p", {class: "readout", "aria-live": "polite"});
  const note = element("span", {class: "quiet small"}), table = element("div");
  const state = {suspects: suspects_in_matrix(report, list[0].case), opened: null};
  const name = control_name("pairs", pattern);
  const all_nodes = button("All nodes", `${pattern}: all nodes again`, () => open(null));
  const save_svg = button("SVG", `Save ${pattern} as SVG`, () =>
    save(file_name(pattern, "svg"), "image/svg+xml", svg_text(svg, `${pattern}, ${size(list[Number(select.value)].case.bytes)}`)));
  const caption = element("figcaption", {}, `${pattern} at `, select, note);
  const save_csv = button("CSV", `Save the pairs of ${pattern} as CSV`, () => save(file_name(pattern, "csv"), "text/csv", csv_text([
    ["from_rank", "from_host", "to_rank", "to_host", "gb_per_s", "us", "share_of_median"],
    ...state.data.list.map((p) => [p.source, state.place.host_name(p.source), p.destination, state.place.host_name(p.destination),
      p.rate, p.us, p.share])])));
  const figure = element("figure", {}, caption, element("p", {class: "tools"}, all_nodes, save_svg, save_csv), element("div", {}, svg),
    heat_legend(state.suspects), readout, table);
  const draw = (width) => { state.geometry = draw_matrix(svg, state, width, `hatch-${number}`); };
  const choose = () => {
    const m = list[Number(select.value)];
    state.place = placement(report, m.pairs);
    state.data = measured_pairs(m, state.place);
    const hosts = state.place.of_host.map((_, host) => host), nodes = state.place.count > MOST_RANKS && !state.opened;
    state.rows = nodes ? node_rows(state.place) : rank_rows(state.place, state.opened ?? hosts);
    state.cells = cells_of(state.data.list, state.rows);
    all_nodes.hidden = !state.opened;
    svg.setAttribute("aria-label", `Bandwidth of ${pattern} between ${state.rows.by}s, senders in rows. ` +
      `Arrow keys read the values${nodes ? ", Enter opens two nodes" : ""}.`);
    const both = m.case.pattern === "one_way" ? "" : " One value for both directions.";
    const of_node = nodes ? " A cell is the slowest pair of ranks of two nodes; a click shows them all." : "";
    note.textContent = `Colour: share of the median of the same kind of pair (${summary_of(state.data.medians)}).${both}${of_node}`;
    readout.replaceChildren(
      element("span", {class: "quiet hint"}, "Point at a cell, or use the arrow keys, to read it."));
    table.replaceChildren(slowest_table(state.data.list, state.place));
    if (state.geometry) draw(state.geometry.width);
  };
  // Two nodes as ranks; null: all nodes.
  const set_opened = (hosts) => {
    state.opened = hosts;
    choose();
  };
  const open = (row, column) => {
    if (row !== null && state.rows.by !== "node") return;
    set_opened(row === null || state.place.count <= MOST_RANKS ? null : row === column ? [row] : [row, column]);
    remember(`${name}.open`, state.opened ? state.opened.join("-") : "");
  };
  parent.append(figure);
  select.value = best;
  choose();
  select.addEventListener("change", () => {
    choose();
    remember(`${name}.size`, select.value === best ? "" : String(list[Number(select.value)].case.bytes));
  });
  read_cells(svg, readout, state, open);
  redraw_on_resize(figure, svg, draw);
  add_control(`${name}.size`, (text) => {
    const index = list.findIndex((m) => String(m.case.bytes) === text);
    select.value = index < 0 ? best : String(index);
    choose();
  });
  add_control(`${name}.open`, (text) => {
    const hosts = text.split("-").map(Number).filter((host) => text !== "" && state.place.of_host[host]);
    set_opened(hosts.length > 0 && state.place.count > MOST_RANKS ? hosts : null);
  });
}

// Pairs of a node and pairs of different nodes are measured apart, and make one matrix.
function both_kinds(list) {
  return [...group_by(list, (m) => m.case.bytes).values()].map((of_size) => ({
    case: of_size[0].case, pairs: of_size.flatMap((m) => m.pairs)}));
}

function draw_pairs(report, section) {
  const list = report.measurements.filter((m) => m.pairs && m.pairs.length > 0);
  section.hidden = list.length === 0;
  if (section.hidden) return;
  const row = element("div", {class: "pairs"});
  section.append(row);
  const first = list[0].case;
  let number = 0;
  const title = (c) => [c.pattern ?? c.collective, c.type === first.type ? "" : c.type, variant_text(c),
    c.nic === undefined ? "" : `NIC ${c.nic} alone`].filter(Boolean).join(", ");
  for (const [name, of_title] of group_by(list, (m) => title(m.case))) {
    add_matrix(row, report, name, both_kinds(of_title), number++);
  }
}
