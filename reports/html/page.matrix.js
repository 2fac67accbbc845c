// The pair matrix: who sends to whom, coloured by bandwidth relative to the median of pairs of the same kind, so that
// one slow pair stands out although links inside a node are several times faster than those between nodes.

const MOST_DRAWN_CELLS = 64;  // ranks; above, cells are pixels of one picture
const HEAT = [
  {from: 1.05, name: "faster", text: "over 105 %"}, {from: 0.95, name: "normal", text: "95 to 105 %"},
  {from: 0.9, name: "below", text: "90 to 95 %"}, {from: 0.8, name: "slower", text: "80 to 90 %"},
  {from: 0.6, name: "slow-pair", text: "60 to 80 %"}, {from: 0, name: "very-slow", text: "under 60 %"},
];

function median(values) {
  const sorted = [...values].sort((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// ---- Cells

// Ranks ordered by host, so that nodes are blocks whatever the launcher's mapping; position of each rank in that order.
function rank_order(report, pairs) {
  const highest = pairs.reduce((most, [source, destination]) => Math.max(most, source, destination), 0);
  const host_of = report.topology.host_of_rank;
  const count = Math.max(report.run.ranks, highest + 1);
  const host = (rank) => host_of[rank] ?? 0;
  const order = Array.from({length: count}, (_, rank) => rank).sort((a, b) => host(a) - host(b) || a - b);
  const position = [];
  order.forEach((rank, index) => { position[rank] = index; });
  return {order, position, host, host_name: (rank) => report.topology.hosts[host(rank)]?.name ?? `node ${host(rank)}`};
}

// Measured cells with their bandwidth and share of the median of their kind. Both ways and ping-pong use both
// directions at once: one value stands in both cells.
function cells_of(m, ranks) {
  const mirrored = m.case.pattern !== "one_way";
  const cells = new Map();
  const add = (source, destination, us) => cells.set(`${source},${destination}`, {
    source, destination, us, rate: m.case.bytes / us / 1e3, same_node: ranks.host(source) === ranks.host(destination)});
  for (const [source, destination, us] of m.pairs) if (mirrored && us > 0) add(destination, source, us);
  for (const [source, destination, us] of m.pairs) if (us > 0) add(source, destination, us);
  const list = [...cells.values()];
  const medians = new Map([...group_by(list, (cell) => cell.same_node)].map(([same, of_kind]) =>
    [same, median(of_kind.map((cell) => cell.rate))]));
  for (const cell of list) {
    cell.share = cell.rate / medians.get(cell.same_node);
    cell.heat = HEAT.find((step) => cell.share >= step.from).name;
  }
  return {cells, list, medians};
}

const kind_text = (same_node) => (same_node ? "same node" : "different nodes");

function cell_sentence(cell, ranks) {
  const name = (rank) => `rank ${rank} (${ranks.host_name(rank)})`;
  return `${name(cell.source)} to ${name(cell.destination)}: ${rate(cell.rate)}, ${time(cell.us)}, ` +
    `${share(cell.share)} of the median of pairs on ${cell.same_node ? "the same node" : "different nodes"}`;
}

// ---- Drawing

function draw_cells(svg, data, ranks, frame) {
  const {left, top, step} = frame;
  for (const cell of data.list) {
    svg.append(shape("rect", {class: `cell ${cell.heat}`, x: left + ranks.position[cell.destination] * step,
      y: top + ranks.position[cell.source] * step, width: step, height: step}));
  }
}

// One pixel per pair, enlarged by the picture that shows it.
function draw_picture(svg, data, ranks, frame) {
  const count = ranks.order.length;
  const canvas = element("canvas", {width: count, height: count});
  const context = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const colour = Object.fromEntries(HEAT.map(({name}) => [name, style.getPropertyValue(`--${name}`).trim()]));
  for (const cell of data.list) {
    context.fillStyle = colour[cell.heat];
    context.fillRect(ranks.position[cell.destination], ranks.position[cell.source], 1, 1);
  }
  svg.append(shape("image", {x: frame.left, y: frame.top, width: frame.side, height: frame.side,
    preserveAspectRatio: "none", href: canvas.toDataURL()}));
}

function blocks_of(ranks) {
  const blocks = [];
  ranks.order.forEach((rank, index) => {
    const last = blocks[blocks.length - 1];
    if (last && last.host === ranks.host(rank)) last.count++;
    else blocks.push({host: ranks.host(rank), name: ranks.host_name(rank), first: index, count: 1});
  });
  return blocks;
}

// Rank numbers, or node names where ranks are too many; labels that would overlap are left out.
function draw_labels(svg, ranks, blocks, frame) {
  const {left, top, step, side} = frame;
  const by_node = ranks.order.length > MOST_DRAWN_CELLS;
  const short = (name) => (name.length > 9 ? `${name.slice(0, 8)}\u2026` : name);
  const labels = by_node ? blocks.map((b) => [short(b.name), b.first + b.count / 2])
    : ranks.order.map((rank, index) => [String(rank), index + 0.5]);
  const distance = labels.length > 1 ? (labels[1][1] - labels[0][1]) * step : side;
  const every = (least) => Math.max(1, Math.ceil(least / distance));
  const widest = Math.max(...labels.map(([text]) => text.length)) * 7 + 6;
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

function draw_node_lines(svg, blocks, frame) {
  const {left, top, step, side} = frame;
  svg.append(shape("rect", {class: "selected", x: left, y: top, width: side, height: side, "stroke-opacity": 0.35}));
  for (const {first} of blocks.slice(1)) {
    const at = first * step;
    svg.append(shape("line", {class: "node-line", x1: left, x2: left + side, y1: top + at, y2: top + at}),
      shape("line", {class: "node-line", x1: left + at, x2: left + at, y1: top, y2: top + side}));
  }
}

function draw_matrix(svg, data, ranks, width, id) {
  const count = ranks.order.length, left = count > MOST_DRAWN_CELLS ? 74 : 46, top = 34;
  const side = Math.min(width - left - 2, Math.max(count * 34, 150)), step = side / count;
  const frame = {left, top, step, side}, blocks = blocks_of(ranks);
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${top + side + 4}`);
  svg.append(shape("defs", {}, shape("pattern", {id, width: 6, height: 6, patternUnits: "userSpaceOnUse"},
    shape("path", {class: "hatch", d: "M0,6L6,0"}))),
    shape("rect", {class: "blank-area", x: left, y: top, width: side, height: side, fill: `url(#${id})`}));
  if (count > MOST_DRAWN_CELLS) draw_picture(svg, data, ranks, frame);
  else draw_cells(svg, data, ranks, frame);
  draw_node_lines(svg, blocks, frame);
  draw_labels(svg, ranks, blocks, frame);
  const mark = shape("rect", {class: "selected", width: step, height: step, visibility: "hidden"});
  svg.append(mark);
  return {frame, mark, width};
}

// ---- Reading values

function read_cells(svg, readout, state) {
  let row = 0, column = 1;
  const show = (new_row, new_column) => {
    const {data, ranks, geometry: {frame, mark}} = state;
    const last = ranks.order.length - 1;
    [row, column] = [new_row, new_column].map((value) => Math.min(Math.max(value, 0), last));
    mark.setAttribute("x", frame.left + column * frame.step);
    mark.setAttribute("y", frame.top + row * frame.step);
    mark.setAttribute("visibility", "visible");
    const [source, destination] = [ranks.order[row], ranks.order[column]];
    const cell = data.cells.get(`${source},${destination}`);
    readout.textContent = cell ? cell_sentence(cell, ranks) : `rank ${source} to rank ${destination}: not measured`;
  };
  const point = (event) => {
    const box = svg.getBoundingClientRect(), {frame, width} = state.geometry;
    const at = (offset) => offset / box.width * width;
    const x = at(event.clientX - box.left) - frame.left, y = at(event.clientY - box.top) - frame.top;
    const inside = x >= 0 && y >= 0 && x < frame.side && y < frame.side;
    if (inside) show(Math.floor(y / frame.step), Math.floor(x / frame.step));
  };
  const moves = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
  svg.addEventListener("pointermove", point);
  svg.addEventListener("pointerdown", point);
  svg.addEventListener("focus", () => show(row, column));
  svg.addEventListener("keydown", (event) => {
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    show(row + move[0], column + move[1]);
  });
}

function heat_legend() {
  return element("ul", {class: "legend"}, ...[...HEAT, {name: "blank", text: "not measured"}].map(({name, text}) =>
    element("li", {}, element("span", {class: `swatch ${name}`}), text)));
}

function summary_of(data) {
  return [...data.medians].map(([same, value]) => `${kind_text(same)} ${rate(value)}`).join(", ");
}

function slowest_table(data, ranks) {
  const slowest = [...data.list].sort((a, b) => a.share - b.share).slice(0, 5);
  return simple_table("Slowest pairs relative to their kind", [
    ["From rank", (c) => `${c.source} (${ranks.host_name(c.source)})`],
    ["To rank", (c) => `${c.destination} (${ranks.host_name(c.destination)})`],
    ["GB/s", (c) => digits(c.rate), "number"], ["\u00b5s", (c) => digits(c.us), "number"],
    ["Of median", (c) => share(c.share), "number"]], slowest);
}

// ---- One figure per pattern

function choice_of_size(list, label) {
  const best = list.reduce((a, b) => (b.pairs.length > a.pairs.length ||
    (b.pairs.length === a.pairs.length && b.case.bytes > a.case.bytes) ? b : a));
  const select = element("select", {"aria-label": label}, ...list.map((m, index) =>
    element("option", {value: index}, `${size(m.case.bytes)} (${plural(m.pairs.length, "pair")})`)));
  select.value = String(list.indexOf(best));
  return select;
}

function add_matrix(parent, report, pattern, list, number) {
  list.sort((a, b) => a.case.bytes - b.case.bytes);
  const select = choice_of_size(list, `Message size of ${pattern}`);
  const svg = shape("svg", {tabindex: "0", role: "img", class: "matrix",
    "aria-label": `Bandwidth of ${pattern} between ranks, senders in rows. Arrow keys read the values.`});
  const readout = element("p", {class: "readout", "aria-live": "polite"});
  const note = element("span", {class: "quiet small"}), table = element("div");
  const caption = element("figcaption", {}, `${pattern} at `, select, note);
  const figure = element("figure", {}, caption, element("div", {}, svg), heat_legend(), readout, table);
  const state = {};
  const draw = (width) => { state.geometry = draw_matrix(svg, state.data, state.ranks, width, `hatch-${number}`); };
  const choose = () => {
    const m = list[Number(select.value)];
    state.ranks = rank_order(report, m.pairs);
    state.data = cells_of(m, state.ranks);
    const both = m.case.pattern === "one_way" ? "" : " One value for both directions.";
    note.textContent = `Colour: share of the median of the same kind of pair (${summary_of(state.data)}).${both}`;
    readout.replaceChildren(
      element("span", {class: "quiet hint"}, "Point at a cell, or use the arrow keys, to read it."));
    table.replaceChildren(slowest_table(state.data, state.ranks));
    if (state.geometry) draw(state.geometry.width);
  };
  parent.append(figure);
  choose();
  select.addEventListener("change", choose);
  read_cells(svg, readout, state);
  redraw_on_resize(figure, svg, draw);
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
  const title = (c) => [c.pattern ?? c.collective, c.type === first.type ? "" : c.type, variant_text(c)]
    .filter(Boolean).join(", ");
  for (const [name, of_title] of group_by(list, (m) => title(m.case))) {
    add_matrix(row, report, name, both_kinds(of_title), number++);
  }
}
