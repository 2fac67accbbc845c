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

function reveal(id) {
  const place = document.getElementById(id);
  if (place instanceof HTMLDetailsElement) place.open = true;
  place?.scrollIntoView();
}

function follow_address() {
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
