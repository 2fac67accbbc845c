// What the pages of a report and of a comparison share: elements, tables, and figures as text. What comes from the data
// reaches the document as text and numbers only, so that hostile names do nothing.

const NOT_AVAILABLE = "N/A";

// "beside gemm:8192,8192,bf16 and d2h", "" for a case alone.
function beside_text(c) { return c.beside ? `beside ${c.beside.join(" and ")}` : ""; }

// ---- Elements

function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function shape(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function definitions(pairs, name) {
  const rows = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return element("dl", {class: name}, ...rows.map(([term, value]) =>
    element("div", {}, element("dt", {}, term), element("dd", {}, value))));
}

// Draws what a details element holds when it is opened for the first time: most readers need none of it, and a large job
// has much of it.
function draw_when_open(details, draw) {
  let drawn = false;
  details.draw = () => {
    if (drawn) return;
    drawn = true;
    draw();
  };
  details.addEventListener("toggle", () => { if (details.open) details.draw(); });
  if (details.open) details.draw();
}

function open_fold(details) {
  details.open = true;
  details.draw?.();
}

const FIRST_ROWS = 200;  // of a table of thousands: a reader asks for the others

// columns: [title, value of a row, "" | "number" | "sentence"]; the first column heads its row.
function simple_table(caption, columns, rows) {
  const cell = (row, [, value, kind], index) =>
    element(index === 0 ? "th" : "td", {scope: index === 0 ? "row" : null, class: kind || null}, value(row));
  const line = (row) => element("tr", {}, ...columns.map((column, index) => cell(row, column, index)));
  const body = element("tbody", {}, ...rows.slice(0, FIRST_ROWS).map(line));
  const region = element("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption},
    element("table", {},
      element("thead", {}, element("tr", {}, ...columns.map(([title, , kind]) =>
        element("th", {scope: "col", class: kind || null}, title)))), body));
  if (rows.length <= FIRST_ROWS) return region;
  const more = element("button", {type: "button", class: "tool"}, `All ${rows.length} rows`);
  region.show_all = () => {
    if (!more.isConnected) return;
    more.remove();
    body.append(...rows.slice(FIRST_ROWS).map(line));
  };
  more.addEventListener("click", region.show_all);
  region.append(more);
  return region;
}

// ---- Figures as text

// Four significant digits, never an exponent, whole numbers whole.
function digits(value, count = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOT_AVAILABLE;
  if (value === 0) return "0";
  const before = Math.floor(Math.log10(Math.abs(value))) + 1;
  const text = value.toFixed(Math.min(Math.max(count - before, 0), 9));
  return before > 5 ? text.replace(/\B(?=(\d{3})+$)/g, "\u202f") : text;
}

function rate(value) { return value === null || value === undefined ? NOT_AVAILABLE : `${digits(value)} GB/s`; }

function time(value) { return value === null || value === undefined ? NOT_AVAILABLE : `${digits(value)} \u00b5s`; }

function share(value) {
  return value === null || value === undefined ? NOT_AVAILABLE : `${(100 * value).toFixed(1)} %`;
}

function size(bytes) {
  if (bytes === null || bytes === undefined) return NOT_AVAILABLE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const unit = bytes > 0 ? Math.min(Math.floor(Math.log2(bytes) / 10), units.length - 1) : 0;
  const value = bytes / 1024 ** unit;
  return `${Number.isInteger(value) ? value : digits(value)} ${units[unit]}`;
}

function duration(seconds) {
  if (seconds < 60) return `${digits(seconds, 3)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// How the operations of a case were called, where it is not the usual way; in the words of the program's texts.
function call_words(c) {
  return [c.cuda_graph ? "graph" : "", c.register === "none" ? "" : `registered ${c.register}`,
    c.aggregate === undefined ? "" : `${c.aggregate} in a group`,
    c.cta_policy === undefined ? "" : `CTA policy ${c.cta_policy}`,
    c.unalign === undefined ? "" : `unaligned by ${c.unalign}`].filter(Boolean);
}

function plural(count, word) { return `${count} ${word}${count === 1 ? "" : "s"}`; }
