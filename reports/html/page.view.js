// What a reader has chosen (zoom, hidden curves, an open pair of nodes, a filter) stands in the page's address, so that a
// link opens the same view: report.html#charts?CONTROL=VALUE&...

const controls = new Map();  // name -> function that takes the value as text, "" for the default

function chosen() { return new URLSearchParams(location.hash.split("?")[1] ?? ""); }

function section_of_address() { return location.hash.slice(1).split("?")[0]; }

// `apply` is called with what the address says, now where it says something, and whenever the address changes.
function add_control(name, apply) {
  controls.set(name, apply);
  const value = chosen().get(name);
  if (value !== null) apply(value);
}

// Text that names a control, of texts that come from the report.
function control_name(...parts) {
  return parts.filter(Boolean).join(".").toLowerCase().replace(/[^a-z0-9.]+/g, "-");
}

// Without a new entry in the browser's history.
function remember(name, value) {
  const all = chosen();
  if (value === "") all.delete(name);
  else all.set(name, value);
  const text = all.toString();
  history.replaceState(null, "", `#${section_of_address()}${text ? `?${text}` : ""}`);
}

// ---- What is drawn when a reader opens it

const folds = [];  // {details, prefixes}: what is folded, and how the names of its controls begin

// `draw` gets the element at its first opening.
function fold(details, draw, prefixes = []) {
  draw_when_open(details, () => {
    draw(details);
    add_csv_buttons(details);
  });
  folds.push({details, prefixes});
  return details;
}

function folded(title, draw, prefixes = []) {
  return fold(element("details", {}, element("summary", {}, title)), draw, prefixes);
}

// An address that chooses something in a folded part opens the part.
function open_what_the_address_names() {
  const names = [...chosen().keys()];
  for (const {details, prefixes} of [...folds]) {
    if (names.some((name) => prefixes.some((prefix) => name === prefix || name.startsWith(`${prefix}.`)))) open_fold(details);
  }
}

// A host has its place only once the topology is drawn.
function reveal(id) {
  if (/^host-\d+$/.test(id)) open_fold(document.getElementById("topology"));
  const place = document.getElementById(id);
  for (let at = place; at; at = at.parentElement) if (at instanceof HTMLDetailsElement) open_fold(at);
  place?.scrollIntoView();
}

function follow_address() {
  open_what_the_address_names();
  const all = chosen();
  for (const [name, apply] of controls) apply(all.get(name) ?? "");
  reveal(section_of_address());
}

// Links to sections keep what was chosen.
function keep_choices(link) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    const text = chosen().toString();
    history.pushState(null, "", `${link.hash}${text ? `?${text}` : ""}`);
    reveal(link.hash.slice(1));
  });
}
