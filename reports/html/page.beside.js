// Cases with work beside them: what each operation takes alone and beside the others, and how much is at the same time.

function beside_rows(m) {
  return m.concurrency.operations.map((each, index) => ({...each, m, own: index === 0, together: m.concurrency}));
}

function slower_text(slowdown) { return `${slowdown < 1 ? "" : "+"}${(100 * (slowdown - 1)).toFixed(1)} %`; }

function beside_note(row) {
  const each = (row.beside_each ?? []).map((one) => `${slower_text(one.slowdown)} beside ${one.name}`);
  return [...each, row.covered ? "" : "at least: it waits until the others have ended"].filter(Boolean).join("; ");
}

function draw_beside(report, section) {
  const rows = report.measurements.filter((m) => m.concurrency).flatMap(beside_rows);
  section.hidden = rows.length === 0;
  if (section.hidden) return;
  section.append(element("p", {class: "quiet"},
    "Alone and beside: time of one operation; beside: while the others run throughout. Together and one after the other: time of as many operations of each as stand under Count. Overlap: 100 % if all are done when the longest would be alone, 0 % if they take as long as one after the other."),
  simple_table("At the same time", [
    ["Operation", (r) => r.own ? [r.m.case.collective, variant_text(r.m)].filter(Boolean).join(", ") : `beside it: ${r.name}`],
    ["Size", (r) => r.own ? size(r.m.case.bytes) : "", "number"],
    ["Alone \u00b5s", (r) => digits(r.alone.median_us), "number"],
    ["Beside \u00b5s", (r) => digits(r.beside.median_us), "number"],
    ["Slower", (r) => slower_text(r.slowdown), "number"],
    ["Count", (r) => String(r.operations), "number"],
    ["Together \u00b5s", (r) => r.own ? digits(r.together.together.median_us) : "", "number"],
    ["One after the other \u00b5s", (r) => r.own ? digits(r.together.sum_us) : "", "number"],
    ["Overlap", (r) => r.own ? `${(100 * r.together.overlap).toFixed(0)} %` : "", "number"],
    ["", beside_note, "sentence"],
  ], rows));
}
