// The table of all measurements, sorted by a click on a column's head, filtered by words.

const COLUMNS = [
  {title: "Operation", key: (m) => case_name(m.case), cell: (m) => case_name(m.case)},
  {title: "Size", key: (m) => m.case.bytes, cell: (m) => size(m.case.bytes), number: true},
  {title: "Verdict", key: (m) => WORST_FIRST.indexOf(m.verdict.grade) >>> 0, cell: (m) => grade_mark(m.verdict.grade)},
  {title: "Type", key: (m) => m.case.type, cell: (m) => m.case.type},
  {title: "Op", key: (m) => m.case.op ?? "", cell: (m) => m.case.op ?? NOT_AVAILABLE},
  {title: "Ranks", key: (m) => m.case.ranks, cell: (m) => String(m.case.ranks), number: true},
  {title: "Nodes", key: (m) => m.case.nodes, cell: (m) => String(m.case.nodes), number: true},
  {title: "Variant", key: variant_text, cell: variant_text},
  {title: "Latency \u00b5s", key: (m) => m.latency?.median_us, cell: (m) => digits(m.latency?.median_us), number: true},
  {title: "95 % interval", key: (m) => m.latency?.ci95_us?.[0], cell: (m) => interval_text(m.latency), number: true, as_shown: true},
  {title: "Throughput \u00b5s", key: (m) => m.throughput?.median_us,
    cell: (m) => digits(m.throughput?.median_us), number: true},
  {title: "Host \u00b5s", key: (m) => m.host_us, cell: (m) => digits(m.host_us), number: true},
  {title: "p95 \u00b5s", key: (m) => m.throughput?.p95_us, cell: (m) => digits(m.throughput?.p95_us), number: true},
  {title: "algbw GB/s", key: (m) => m.throughput?.algbw_gb_per_s,
    cell: (m) => digits(m.throughput?.algbw_gb_per_s), number: true},
  {title: "busbw GB/s", key: (m) => m.throughput?.busbw_gb_per_s,
    cell: (m) => digits(m.throughput?.busbw_gb_per_s), number: true},
  {title: "Limit GB/s", key: (m) => m.verdict.limit_gb_per_s,
    cell: (m) => digits(m.verdict.limit_gb_per_s), number: true},
  {title: "Of limit", key: (m) => m.verdict.fraction_of_limit,
    cell: (m) => share(m.verdict.fraction_of_limit), number: true},
  {title: "Wrong", key: (m) => m.wrong_elements, cell: (m) => String(m.wrong_elements), number: true},
  {title: "Why", key: why_text, cell: (m) => element("span", {class: "small quiet"}, why_text(m))},
];

function variant_text(m) {
  const c = m.case;
  const parts = [
    c.in_place ? "in place" : "", c.group === "world" ? "" : `group ${c.group}`, ...call_words(c), c.root === null ? "" : `root ${c.root}`,
    c.every_root ? `all roots, ${m.slowest_root} the slowest` : "",
    c.arm === "default" ? "" : `arm ${c.arm}`,
  ];
  return parts.filter(Boolean).join(", ");
}

function interval_text(series) {
  return series?.ci95_us ? `${digits(series.ci95_us[0])} to ${digits(series.ci95_us[1])}` : NOT_AVAILABLE;
}

// What is wrong, where something is. Why sizes are not judged stands once below the table.
function why_text(m) {
  const sentences = [];
  if (m.verdict.grade === "wrong") sentences.push(why(m));
  else if (m.outcome === "failed") sentences.push(`failed: ${why(m)}`);
  else if (m.outcome !== "measured") sentences.push(`not judged: ${why(m)}`);
  else if (["slow", "failed"].includes(m.verdict.grade)) sentences.push(why(m));
  if (m.first_wrong) sentences.push(first_wrong_sentence(m.first_wrong));
  if (m.during?.notes.length) sentences.push(`Meanwhile: ${m.during.notes.join("; ")}.`);
  return sentences.join(" ");
}

function not_judged_notes(list) {
  const unjudged = list.filter((m) => m.outcome === "measured" && m.verdict.grade === "unknown" && m.verdict.because);
  return [...group_by(unjudged, (m) => m.verdict.because)].map(([because, of_reason]) =>
    element("p", {class: "quiet small"}, `Not judged (${of_reason.length}): ${because}`));
}

// What is absent comes last in both directions.
function compare_keys(a, b, direction) {
  const absent = (value) => value === null || value === undefined || value === "";
  if (absent(a) || absent(b)) return absent(a) - absent(b);
  return direction * (typeof a === "string" ? a.localeCompare(b) : a - b);
}

// With the figures in full, for CSV.
function table_row(m, columns) {
  return element("tr", {}, ...columns.map((column, index) => {
    const exact = column.number && !column.as_shown && typeof column.key(m) === "number" ? column.key(m) : null;
    const attributes = {class: column.number ? "number" : null, "data-value": exact};
    return index === 0 ? element("th", {scope: "row", ...attributes}, column.cell(m)) : element("td", attributes, column.cell(m));
  }));
}

function make_sortable(head, columns, rows, body) {
  [...head.children].forEach((cell, index) => cell.firstChild.addEventListener("click", () => {
    const direction = cell.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of head.children) other.removeAttribute("aria-sort");
    cell.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    rows.sort((a, b) => compare_keys(columns[index].key(a.m), columns[index].key(b.m), direction));
    body.append(...rows.map((row) => row.tr));
  }));
}

// Rows that have all the words somewhere.
function add_filter(rows, said) {
  const input = element("input", {type: "search", id: "measurements-filter", placeholder: "all_reduce slow 1 GiB"});
  const texts = rows.map(({tr}) => [...tr.cells].map((cell) => cell.textContent).join(" ").toLowerCase());
  const apply = (text) => {
    input.value = text;
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    rows.forEach(({tr}, index) => { tr.hidden = !words.every((word) => texts[index].includes(word)); });
    const shown = rows.filter(({tr}) => !tr.hidden).length;
    said.textContent = shown === rows.length ? "" : `${shown} of ${plural(rows.length, "measurement")} shown`;
  };
  input.addEventListener("input", () => {
    apply(input.value);
    remember("filter", input.value.trim());
  });
  add_control("filter", apply);
  return element("p", {class: "filter"}, element("label", {for: input.id}, "Only rows with"), input, said);
}

const WORDS = {ok: "ok", slow: "slow", wrong: "with wrong data", failed: "failed", unknown: "not judged"};

function draw_measurements(report, details) {
  const counts = [...group_by(report.measurements, (m) => m.verdict.grade)].map(([grade, list]) => `${list.length} ${WORDS[grade] ?? grade}`);
  add_note(details, counts.join(", "));
  fold(details, () => add_measurements(report, details), ["filter"]);
}

function add_measurements(report, section) {
  const list = report.measurements;
  if (list.length === 0) {
    section.append(element("p", {}, "Nothing was measured."));
    return;
  }
  const optional = {Variant: variant_text, Why: why_text};
  const differ = (key) => new Set(list.map(key)).size > 1;
  const columns = COLUMNS.filter((c) => (["Ranks", "Nodes"].includes(c.title) ? differ(c.key)
    : !optional[c.title] || list.some((m) => optional[c.title](m) !== "")));
  const rows = list.map((m) => ({m, tr: table_row(m, columns)}));
  const head = element("tr", {}, ...columns.map((c) =>
    element("th", {scope: "col", class: c.number ? "number" : null}, element("button", {type: "button"}, c.title))));
  const body = element("tbody", {}, ...rows.map((row) => row.tr));
  const said = element("span", {class: "quiet", "aria-live": "polite"}), filter = add_filter([...rows], said);
  make_sortable(head, columns, rows, body);
  section.append(
    // The remarks of an import say what its times are.
    element("p", {class: "quiet"}, `${report.provenance === "imported" ? "" : "Times are the slowest rank's. "}A column's head sorts.`),
    filter,
    element("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "All measurements"},
      element("table", {class: "measurements"}, element("thead", {}, head), body)),
    ...not_judged_notes(list));
}
