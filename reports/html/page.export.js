// A chart as SVG or PNG, a table as CSV: made here, from what is shown, and handed to the reader as a file.

function button(text, label, press) {
  const made = element("button", {type: "button", class: "tool", "aria-label": label, title: label}, text);
  made.addEventListener("click", press);
  return made;
}

function save(name, type, content) {
  const address = URL.createObjectURL(new Blob([content], {type}));
  const link = element("a", {href: address, download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function file_name(title, ending) {
  const text = `${document.title}-${title}`.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  return `p5bench-${text.slice(0, 80)}.${ending}`;
}

// What style sheets say stands in the elements themselves, since the file has none.
const DRAWN = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linejoin",
  "opacity", "font-size", "font-family", "font-weight", "paint-order", "visibility", "image-rendering"];

function with_styles(svg) {
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")], copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((original, index) => {
    const style = getComputedStyle(original);
    for (const name of DRAWN) copies[index].style.setProperty(name, style.getPropertyValue(name));
  });
  return copy;
}

// A file of its own: the title above the drawing, the page's background behind it.
function svg_text(svg, title) {
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const above = 30, margin = 10, style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const all = shape("svg", {viewBox: `0 0 ${width + 2 * margin} ${height + above + margin}`,
    width: width + 2 * margin, height: height + above + margin});
  const copy = with_styles(svg);
  for (const [name, value] of Object.entries({x: margin, y: above, width, height})) copy.setAttribute(name, value);
  all.append(shape("rect", {width: "100%", height: "100%", fill: colour("--card")}),
    shape("text", {x: margin, y: 19, fill: colour("--text"), "font-family": "sans-serif", "font-size": 14}, title), copy);
  return new XMLSerializer().serializeToString(all);
}

function save_png(text, name) {
  const picture = new Image();
  picture.addEventListener("load", () => {
    const canvas = element("canvas", {width: 2 * picture.width, height: 2 * picture.height});
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(name, "image/png", blob), "image/png");
  });
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}

// Spreadsheets take what begins with = + - @ for a formula; names in reports are others' texts.
function csv_field(text) {
  const plain = /^[=+\-@\t]/.test(text) && !/^-?[\d.]+$/.test(text) ? `'${text}` : text;
  return /[",\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}

function csv_text(rows) {
  return rows.map((row) => row.map((value) => csv_field(value === null || value === undefined ? "" : String(value)))
    .join(",")).join("\r\n") + "\r\n";
}

// The rows that are shown, with numbers in full where cells have them.
function csv_of_table(table) {
  const rows = [...table.rows].filter((row) => !row.hidden);
  return csv_text(rows.map((row) => [...row.cells].map((cell) => cell.dataset.value ?? cell.textContent.trim())));
}

// Above each table within `root` that has none yet; a figure has its own.
function add_csv_buttons(root) {
  for (const region of root.querySelectorAll(".scroll")) {
    if (region.closest("figure") || region.previousElementSibling?.matches(".tools")) continue;
    const title = region.getAttribute("aria-label");
    const save_it = () => {
      region.show_all?.();
      save(file_name(title, "csv"), "text/csv", csv_of_table(region.querySelector("table")));
    };
    region.before(element("p", {class: "tools"}, button("CSV", `Save the table "${title}" as CSV`, save_it)));
  }
}
