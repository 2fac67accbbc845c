// Draws the page from the report embedded in it: the verdict, what is wrong, limits, machine. What comes from the
// report reaches the document as text and numbers only, so that hostile names do nothing.

const GRADES = {
  ok: {word: "OK", sign: "\u2713"},
  slow: {word: "SLOW", sign: "\u25bc"},
  faulty: {word: "FAULTY", sign: "!"},
  wrong: {word: "WRONG DATA", sign: "\u2715"},
  failed: {word: "FAILED", sign: "!"},
  unknown: {word: "NOT JUDGED", sign: "?"},
};
const WORST_FIRST = ["wrong", "failed", "slow", "ok"];

const PAIRS = {same_node: "same node", other_node: "different nodes"};

function case_name(c) {
  const operation = [c.collective, c.pattern].filter(Boolean).join(" ");
  const nic = c.nic === undefined ? "" : `, NIC ${c.nic} alone`;
  return c.pair ? `${operation}, ${PAIRS[c.pair]}${nic}` : operation;
}

function case_sentence(c) {
  const parts = [case_name(c), size(c.bytes), c.type, c.op, c.in_place ? "in place" : null,
    `${plural(c.ranks, "rank")} on ${plural(c.nodes, "node")}`];
  return parts.filter(Boolean).join(", ");
}

function grade_mark(grade) {
  const known = GRADES[grade] ?? GRADES.unknown;
  return element("span", {class: `grade ${grade}`},
    element("span", {"aria-hidden": "true"}, `${known.sign} `), known.word);
}

// ---- The verdict

function worst_judged(report) {
  const judged = report.measurements.filter((m) => WORST_FIRST.includes(m.verdict.grade));
  const key = (m) => WORST_FIRST.indexOf(m.verdict.grade);
  return judged.sort((a, b) => key(a) - key(b) ||
    (a.verdict.fraction_of_limit ?? Infinity) - (b.verdict.fraction_of_limit ?? Infinity))[0] ?? null;
}

// As topo/finding.hpp says.
function condemns(finding) { return finding.severity === "error" && ["hardware", "fabric"].includes(finding.about); }

// Why a measurement was judged as it was, or why there is nothing to judge.
function why(m) { return m.outcome === "measured" ? m.verdict.because : m.because || m.verdict.because; }

// The sentence below the verdict, and the measurement that it is about, if any.
function reason(report) {
  if (report.grade === "faulty") {
    const found = report.findings.find((finding) => condemns(finding));
    return {text: found ? `${found.evidence}.` : "An error was found in hardware or fabric.", about: null};
  }
  const [suspect] = report.suspects;
  if (report.grade === "slow" && suspect) {
    const sentence = (text) => text.endsWith(".") ? text : `${text}.`;
    const others = report.suspects.slice(1).map((other) => `${other.kind} ${title_of(other)}`);
    const listed = others.length > 3 ? [...others.slice(0, 3), `${others.length - 3} more`] : others;
    return {text: `${suspect.kind} ${title_of(suspect)}: ${sentence(suspect.evidence)} To do: ${sentence(suspect.action)}` +
      (listed.length > 0 ? ` Suspected too: ${listed.join(", ")}.` : ""), about: worst_judged(report)};
  }
  const worst = worst_judged(report);
  if (worst && worst.verdict.grade === report.grade) return {text: why(worst), about: worst};
  if (report.run.ended_by) return {text: `The run did not finish its plan: ${report.run.ended_by}.`, about: null};
  if (report.measurements.length === 0) return {text: "Nothing was measured.", about: null};
  return {text: report.measurements.map(why).find(Boolean) ?? "No measurement could be judged.", about: null};
}

function banner(kind, word, text) {
  return element("p", {class: `banner ${kind}`, role: "note"}, element("strong", {}, word), text);
}

function banners(report) {
  const list = [];
  if (report.provenance === "simulated") {
    list.push(banner("simulated", "SIMULATED", "These figures come from a model. No hardware was measured."));
  }
  if (report.provenance === "imported") {
    list.push(banner("pretended", "IMPORTED", "These figures were read from another program's output."));
  }
  if (report.status === "partial") {
    const ended = report.run.ended_by ? `Ended by: ${report.run.ended_by}.` : "It had not ended when this was written.";
    list.push(banner("partial", "PARTIAL", `The run did not finish its plan. ${ended}`));
  }
  if (report.topology.hosts.some((host) => host.pretended)) {
    list.push(banner("pretended", "PRETENDED NODES",
      "NCCL_HOSTID names the nodes: ranks that count as different nodes may share one machine."));
  }
  return list;
}

// A verdict over nodes alone says nothing of what joins them.
function how_much_was_judged(report) {
  const judged = report.measurements.filter((m) => m.verdict.grade !== "unknown");
  const between = report.run.nodes < 2 || judged.length === 0 || judged.some((m) => m.case.nodes > 1);
  return `${judged.length} of ${plural(report.measurements.length, "measurement")} judged` +
    (between ? "." : ", none of them between nodes: this says nothing of the network between them.");
}

function draw_verdict(report, header) {
  const grade = GRADES[report.grade] ?? GRADES.unknown;
  const {text, about} = reason(report);
  const run = report.run;
  document.title = `${grade.word}: ${run.cluster || "p5bench"}` +
    (report.provenance === "simulated" ? " (simulated)" : "") + (report.status === "partial" ? " (partial)" : "");
  header.append(
    element("p", {class: "product"}, `p5bench report${run.cluster ? ` on ${run.cluster}` : ""}`),
    element("h1", {class: report.grade},
      element("span", {class: "sign", "aria-hidden": "true"}, element("span", {}, grade.sign)), grade.word),
    element("p", {class: "because"}, text),
    about ? element("p", {class: "quiet"}, `Worst judged measurement: ${case_sentence(about.case)}.`) : "",
    element("p", {class: "quiet"}, how_much_was_judged(report)),
    ...banners(report),
    definitions([
      ["Cluster", run.cluster], ["Size", `${plural(run.nodes, "node")}, ${plural(run.ranks, "rank")}`],
      ["Started", run.started.replace("T", " ").replace("Z", " UTC")], ["Took", duration(run.wall_s)],
      ["Backend", run.backend], ["Platform", report.topology.platform], ["p5bench", run.version],
      ["Exit code", String(report.exit_code)],
    ], "facts"));
}

// ---- Suspects and findings

function card(severity, tag, title, lines) {
  return element("li", {class: `card ${severity}`},
    element("h3", {}, element("span", {class: "tag"}, tag), title),
    ...lines.filter(([, text]) => text).map(([label, text]) =>
      element("p", {}, label ? element("strong", {}, `${label} `) : "", text)));
}

function title_of(suspect) {
  const where = [suspect.host, suspect.instance].filter((part) => part && part !== suspect.name).join(", ");
  return suspect.name + (where ? ` (${where})` : "");
}

function suspect_card(report, suspect) {
  const shown = card("error", `suspect ${suspect.kind}`, title_of(suspect), [
    ["", suspect.evidence], ["Do:", suspect.action],
    ["", `Confidence ${suspect.confidence > 0.999 ? "above 99.9 %" : share(suspect.confidence)}, ` +
      `measured against ${plural(suspect.partners_tested, "partner")}.`]]);
  shown.append(evidence_of(report, suspect));
  return shown;
}

function finding_card(finding) {
  const {host, instance, gpu, nic} = finding.subject;
  const where = [host, instance, gpu === null ? "" : `GPU ${gpu}`, nic ?? ""].filter(Boolean).join(", ");
  const tag = finding.about ? `${finding.severity}: ${finding.about}` : finding.severity;
  return card(finding.severity, tag, where ? `${finding.id}: ${where}` : finding.id,
    [["", finding.evidence], ["Do:", finding.action]]);
}

function first_wrong_sentence(first) {
  if (!first) return "";
  const unit = first.guard ? "guard byte" : "element";
  return `First: rank ${first.rank}, ${unit} ${first.offset}: wanted ${first.wanted}, got ${first.got}.`;
}

function lines_box(title, lines) {
  return element("details", {}, element("summary", {}, title), element("pre", {}, lines.join("\n")));
}

function broken_card(m) {
  const wrong = m.wrong_elements > 0;
  const shown = card("error", wrong ? "wrong data" : "failed", case_sentence(m.case), [
    ["", why(m) || plural(m.wrong_elements, "wrong element")], ["", first_wrong_sentence(m.first_wrong)]]);
  const whose = m.failed_rank === null ? "one rank" : `rank ${m.failed_rank}`;
  if (m.worker_log) shown.append(lines_box(`Last ${plural(m.worker_log.length, "line")} of ${whose}`, m.worker_log));
  if (m.library_status) shown.append(lines_box("What the library knew of all ranks", m.library_status));
  return shown;
}

function draw_problems(report, section) {
  const broken = report.measurements.filter((m) => m.outcome === "failed" || m.wrong_elements > 0);
  const of = (severity) => report.findings.filter((finding) => finding.severity === severity);
  const shown = 10;
  const cards = [...report.suspects.map((suspect) => suspect_card(report, suspect)), ...broken.slice(0, shown).map(broken_card),
    ...of("error").map(finding_card), ...of("warning").map(finding_card)];
  if (cards.length > 0) section.append(element("ul", {class: "cards"}, ...cards));
  else section.append(element("p", {}, "No suspects, no errors and no warnings."));
  if (broken.length > shown) {
    section.append(element("p", {}, `${broken.length - shown} more cases failed: see all measurements below.`));
  }
  const infos = of("info");
  if (infos.length === 0) return;
  section.append(element("details", {}, element("summary", {}, plural(infos.length, "remark")),
    element("ul", {class: "cards"}, ...infos.map(finding_card))));
}

// ---- Limits, machine and software

// The same operation of this run: as large, and on as many nodes.
function measured_like(report, row) {
  return report.measurements.find((m) => m.case.collective === row.collective && m.case.bytes === row.bytes &&
    m.case.nodes === row.nodes && m.case.group === "world" && m.case.arm === "default" && m.throughput);
}

function draw_published(report, section) {
  if (report.published.length === 0) return;
  const in_order = [...report.published].sort((a, b) => a.collective.localeCompare(b.collective) || a.bytes - b.bytes);
  const rows = in_order.map((row) => ({...row, own: measured_like(report, row)?.throughput.busbw_gb_per_s ?? null}));
  section.append(element("h3", {}, "What others have published"),
    element("p", {}, `Bus bandwidth of ${report.topology.platform} on ${plural(report.run.nodes, "node")}, and this run beside it.`),
    simple_table("Published figures", [
      ["Operation", (r) => r.algorithm ? `${r.collective} (${r.algorithm})` : r.collective],
      ["Message", (r) => r.bytes === null ? "not said" : size(r.bytes), "number"],
      ["Published (GB/s)", (r) => digits(r.busbw_gb_per_s), "number"], ["This run", (r) => digits(r.own), "number"],
      ["Of published", (r) => r.own === null ? NOT_AVAILABLE : share(r.own / r.busbw_gb_per_s), "number"],
      ["Software", (r) => [r.software, r.date].filter(Boolean).join(", ") || "not said"],
      ["About it", (r) => [r.healthy ? "" : "not healthy", r.note, r.source].filter(Boolean).join("; "), "sentence"],
    ], rows));
}

function draw_limits(report, section) {
  draw_limit_table(report, section);
  draw_published(report, section);
}

function draw_limit_table(report, section) {
  if (report.limits.length === 0) {
    section.append(element("p", {}, "No limits are known for this machine, so nothing could be judged against them."));
    return;
  }
  section.append(simple_table("Limits", [
    ["Limit", (l) => l.name], ["Level", (l) => l.level], ["GB/s", (l) => digits(l.gb_per_s), "number"],
    ["Set by", (l) => l.binding], ["How it is derived", (l) => l.because, "sentence"],
  ], report.limits));
}

function host_table(hosts) {
  return simple_table("Hosts", [
    ["Host", (h) => h.pretended ? `${h.name} (pretended, on ${h.host_name})` : h.name],
    ["Instance", (h) => [h.instance_type, h.instance].filter(Boolean).join(" ") || NOT_AVAILABLE],
    ["GPUs", (h) => String(h.gpus), "number"], ["CPU", (h) => h.cpu_model || NOT_AVAILABLE],
    ["Sockets", (h) => String(h.packages), "number"], ["NUMA nodes", (h) => String(h.numa_nodes), "number"],
    ["Cores", (h) => String(h.cores), "number"],
    ["Threads (allowed)", (h) => `${h.threads} (${h.allowed_threads})`, "number"],
    ["Memory (available)", (h) => `${size(h.memory_bytes)} (${size(h.memory_available_bytes)})`, "number"],
    ["NICs", (h) => String(h.nics.length), "number"], ["Kernel", (h) => h.kernel || NOT_AVAILABLE],
  ], hosts);
}

function nic_table(hosts) {
  return simple_table("NICs", [
    ["Host", (n) => n.host], ["NIC", (n) => n.name], ["Kind", (n) => n.kind],
    ["Driver", (n) => n.driver || NOT_AVAILABLE], ["State", (n) => n.state],
    ["GB/s", (n) => digits(n.rate_gb_per_s), "number"],
    ["NUMA node", (n) => n.numa_node < 0 ? NOT_AVAILABLE : String(n.numa_node), "number"],
  ], hosts.flatMap((host) => host.nics.map((nic) => ({...nic, host: host.name}))));
}

function alone_table(report) {
  const {hosts, host_of_rank, gpu_of_rank} = report.topology;
  const number = (name) => (row) => digits(row[name]);
  return simple_table("Each GPU alone", [
    ["Rank", (row) => String(row.rank), "number"], ["Host", (row) => hosts[host_of_rank[row.rank]]?.name ?? ""],
    ["GPU", (row) => gpu_of_rank?.[row.rank] ?? NOT_AVAILABLE],
    ["Device copy (GB/s)", number("device_copy_gb_per_s"), "number"],
    ["Host to device (GB/s)", number("host_to_device_gb_per_s"), "number"],
    ["Device to host (GB/s)", number("device_to_host_gb_per_s"), "number"],
    ["Launch (us)", number("launch_us"), "number"],
  ], report.local_checks.map((figures, rank) => ({...figures, rank})));
}

function draw_machine(report, section) {
  const hosts = report.topology.hosts, run = report.run;
  section.append(hosts.length ? host_table(hosts) : element("p", {}, "No hosts were recorded."));
  const nics = hosts.reduce((sum, host) => sum + host.nics.length, 0);
  if (nics > 0) section.append(element("details", {}, element("summary", {}, plural(nics, "NIC")), nic_table(hosts)));
  if (report.local_checks) {
    section.append(element("h3", {}, "Each GPU alone"), element("p", {},
      "Copies and launches without partners, on all GPUs at the same time: of a device copy the bytes read and written, and the launch of an empty kernel."),
      alone_table(report));
  }
  section.append(element("h3", {}, "The run"), definitions([
    ["Command", element("code", {}, run.command.join(" "))],
    ["Started", run.started], ["Ended", run.ended || "not ended"], ["Budget", duration(run.budget_s)],
    ["Seed", run.seed_text], ["Topology", report.topology.provenance],
    ["Remarks", run.remarks.length ? element("span", {}, ...run.remarks.map((r) => element("div", {}, r))) : ""],
  ], "definitions"));
  const context = Object.entries(report.context);
  if (context.length === 0) return;
  section.append(element("h3", {}, "Software and environment"),
    definitions(context.map(([key, value]) => [key, element("code", {}, value)]), "definitions"));
}

// ---- Start

function complain(what) {
  document.getElementById("alerts").append(element("p", {class: "alert", role: "alert"},
    `Part of this page could not be drawn: ${what}. The figures are in report.json.`));
}

// A number of 64 bits would lose digits in JSON.parse. The pattern matches nothing inside a string, where quotes are
// escaped.
function seed_text(text) { return /"seed":\s*(\d+)/.exec(text)?.[1] ?? ""; }

function start() {
  const text = document.getElementById("report-data").textContent;
  const report = JSON.parse(text);
  report.run.seed_text = seed_text(text);
  for (const host of report.topology.hosts) {  // which the page has without what is empty
    host.nics ??= [];
    host.gpu_devices ??= [];
  }
  report.published = JSON.parse(document.getElementById("published-data").textContent);
  for (const [index, series] of Object.entries(JSON.parse(document.getElementById("samples-data").textContent))) {
    report.measurements[index].samples = series;
  }
  const drawers = {verdict: draw_verdict, problems: draw_problems, charts: draw_charts, pairs: draw_pairs,
    measurements: draw_measurements, tuning: draw_tuning, limits: draw_limits, topology: draw_topology, machine: draw_machine};
  for (const [id, draw] of Object.entries(drawers)) {
    try {
      draw(report, document.getElementById(id));
    } catch (error) {
      complain(`${id}: ${error.message}`);
    }
  }
  for (const link of document.querySelectorAll("nav a")) {
    link.hidden = document.querySelector(link.hash).hidden;
    keep_choices(link);
  }
  add_csv_buttons();
  reveal(section_of_address());
  window.addEventListener("hashchange", follow_address);
}

window.addEventListener("error", (event) => complain(event.message));
window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
document.addEventListener("DOMContentLoaded", start);
