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

const PAIRS = {same_node: "same node", same_domain: "different nodes of the same NVLink domain",
  other_node: "different nodes", other_domain: "different NVLink domains"};

function case_name(c) {
  const operation = [c.collective, c.pattern, c.traffic].filter(Boolean).join(" ");
  const nic = c.nic === undefined ? "" : `, NIC ${c.nic} alone`;
  return [c.pair ? `${operation}, ${PAIRS[c.pair]}${nic}` : operation, beside_text(c)].filter(Boolean).join(" ");
}

function ranks_text(c) { return `${plural(c.ranks, "rank")} on ${plural(c.nodes, "node")}`; }

function case_sentence(c) {
  const parts = [case_name(c), size(c.bytes), c.type, c.op, c.in_place ? "in place" : null, ...call_words(c),
    ranks_text(c)];
  return parts.filter(Boolean).join(", ");
}

function grade_mark(grade) {
  const known = GRADES[grade] ?? GRADES.unknown;
  return element("span", {class: `grade ${grade}`},
    element("span", {"aria-hidden": "true"}, `${known.sign} `), known.word);
}

// ---- The verdict

// Why a measurement was judged as it was, or why there is nothing to judge.
function why(m) {
  const judged = m.outcome === "measured" || m.verdict.grade === "wrong";
  return judged ? m.verdict.because : m.because || m.verdict.because;
}

const DECISIONS = {
  "ACCEPT": {look: "ok", sign: "\u2713"}, "REJECT": {look: "wrong", sign: "\u2715"}, "CANNOT TELL": {look: "unknown", sign: "?"},
};

// As the report says it: its sentence begins with the word and the parts.
function decision_of({decision}) {
  const colon = decision.sentence.startsWith(decision.word) ? decision.sentence.indexOf(": ") : -1;
  const [head, rest] = colon < 0 ? [decision.word, decision.sentence]
    : [decision.sentence.slice(0, colon), decision.sentence.slice(colon + 2)];
  return {...decision, head, rest, ...(DECISIONS[decision.word] ?? DECISIONS["CANNOT TELL"])};
}

// A page that was opened from a file may have no access to the clipboard: then the text is selected, to be copied.
async function copy(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    getSelection().selectAllChildren(shown);
    document.execCommand("copy");
  }
}

function command_box(command) {
  const code = element("code", {}, command);
  const press = button("Copy", "Copy the command", async () => {
    await copy(command, code);
    press.textContent = "Copied";
  });
  return element("p", {class: "command"}, code, press);
}

function banner(kind, word, text) {
  return element("p", {class: `banner ${kind}`, role: "note"}, element("strong", {}, word), text);
}

// Also where the figures were imported from a table of simulated ones.
function is_simulated({decision}) { return /, SIMULATED(, PARTIAL)?$/.test(decision.sentence); }

function banners(report) {
  const list = [];
  if (is_simulated(report)) {
    list.push(banner("simulated", "SIMULATED", "These figures come from a model. No hardware was measured."));
  }
  if (report.provenance === "imported") {
    list.push(banner("pretended", "IMPORTED", "These figures were read from another program's output."));
  }
  if (report.status === "partial") {
    const ended = report.run.ended_by ? `Ended by: ${report.run.ended_by.replace(/^ended by /, "")}.` : "It had not ended when this was written.";
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
  const count = (...grades) => report.measurements.filter((m) => grades.includes(m.verdict.grade)).length;
  const judged = report.measurements.filter((m) => ["ok", "slow", "faulty"].includes(m.verdict.grade));
  const broken = [[count("failed"), "failed"], [count("wrong"), "with wrong data"]].filter(([number]) => number > 0)
    .map(([number, how]) => `, ${number} ${how}`).join("");
  const between = report.run.nodes < 2 || judged.length === 0 || judged.some((m) => m.case.nodes > 1);
  const bars = judged.length > 0 && judged.length < report.measurements.length
    ? ": those for which figures of healthy machines are known, mostly large messages" : "";
  return `${judged.length} of ${plural(report.measurements.length, "measurement")} judged${bars}${broken}` +
    (between ? "." : "; none of them between nodes: this says nothing of the network between them.");
}

function draw_top(report, top) {
  const run = report.run;
  const facts = [`p5bench ${run.version}`, run.cluster, report.topology.platform,
    `${plural(run.nodes, "node")}, ${plural(run.ranks, "rank")}`, `backend ${run.backend}`,
    run.launches > 1 ? `${run.launches} launches` : "", run.started.replace("T", " ").replace("Z", " UTC"),
    `took ${duration(run.wall_s)}`, `exit code ${report.exit_code}`];
  top.append(element("ul", {class: "product"}, ...facts.filter(Boolean).map((fact) => element("li", {}, fact))), ...banners(report));
}

function draw_verdict(report, header) {
  const {head, rest, look, sign, next, command} = decision_of(report);
  document.title = `${head}: ${report.run.cluster || "p5bench"}` +
    (is_simulated(report) ? " (simulated)" : "") + (report.status === "partial" ? " (partial)" : "");
  header.append(
    element("h1", {class: look}, element("span", {class: "sign", "aria-hidden": "true"}, element("span", {}, sign)), head),
    element("p", {class: "because"}, rest),
    next.length > 0 ? element("ol", {class: "next"}, ...next.map((step) => element("li", {}, step))) : "",
    command ? command_box(command) : "",
    element("p", {class: "quiet small"}, how_much_was_judged(report)));
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

const FAULTS = {slow: "", silent: ": silent", wrong: ": wrong data"};

function suspect_card(report, suspect) {
  const shown = card("error", `suspect ${suspect.kind}${FAULTS[suspect.fault] ?? ""}`, title_of(suspect), [
    ["", suspect.evidence], ["Do:", suspect.action],
    ["", `Confidence ${suspect.confidence > 0.999 ? "above 99.9 %" : share(suspect.confidence)}, ` +
      `measured against ${plural(suspect.partners_tested, "partner")}.`]]);
  shown.append(evidence_of(report, suspect));
  return shown;
}

function question_card(question) {
  return card("warning", `open question${FAULTS[question.fault] ?? ""}`, question.candidates.length > 1 ? `either ${question.candidates.join(" or ")}` : question.candidates.join(""),
    [["", question.evidence], ["Next:", question.next]]);
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
  return `First: rank ${first.rank}${first.work ? ` in ${first.work}` : ""}, ${unit} ${first.offset}: wanted ${first.wanted}, got ${first.got}.`;
}

function lines_box(title, lines) {
  return element("details", {}, element("summary", {}, title), element("pre", {}, lines.join("\n")));
}

function broken_card(m) {
  const wrong = m.wrong_elements > 0;
  const shown = card("error", wrong ? "wrong data" : "failed", case_sentence(m.case), [
    ["", why(m) || plural(m.wrong_elements, "wrong element")], ["", why(m) ? "" : first_wrong_sentence(m.first_wrong)]]);
  const whose = m.failed_rank === null ? "one rank" : `rank ${m.failed_rank}`;
  if (m.worker_log) shown.append(lines_box(`Last ${plural(m.worker_log.length, "line")} of ${whose}`, m.worker_log));
  if (m.library_status) shown.append(lines_box("NCCL's status of all ranks", m.library_status));
  return shown;
}

const FIRST_CARDS = 2, SHOWN_FAILURES = 10;

// What speaks against the cluster, the gravest first: in the first screen as much as has its place there.
function problem_cards(report) {
  const broken = report.measurements.filter((m) => m.outcome === "failed" || m.wrong_elements > 0);
  const of = (severity) => report.findings.filter((finding) => finding.severity === severity);
  const cards = [...report.suspects.map((suspect) => () => suspect_card(report, suspect)),
    ...(report.open_questions ?? []).map((question) => () => question_card(question)),
    ...of("error").map((finding) => () => finding_card(finding)),
    ...broken.slice(0, SHOWN_FAILURES).map((m) => () => broken_card(m)),
    ...of("warning").map((finding) => () => finding_card(finding))];
  return {cards, remarks: of("info"), failures_left: Math.max(broken.length - SHOWN_FAILURES, 0)};
}

function nothing_found(report) {
  if (report.grade === "ok") return "No suspects, no errors and no warnings.";
  if (!report.measurements.some((m) => m.pairs?.length > 1))
    return "No single part is suspected. Pairs of ranks, whose figures tell parts from each other, were not measured.";
  return "No single part is suspected: in the measurements none differs from the others of its kind.";
}

function draw_problems(report, section) {
  const {cards} = problem_cards(report);
  if (cards.length === 0) section.append(element("p", {class: "quiet"}, nothing_found(report)));
  else section.append(element("ul", {class: "cards"}, ...cards.slice(0, FIRST_CARDS).map((make) => make())));
  if (cards.length <= FIRST_CARDS) return;
  const link = element("a", {href: "#findings"}, `${cards.length - FIRST_CARDS} more below`);
  keep_choices(link);
  section.append(element("p", {}, link));
}

function draw_findings(report, details) {
  const {cards, remarks, failures_left} = problem_cards(report), rest = cards.slice(FIRST_CARDS);
  details.hidden = rest.length + remarks.length === 0;
  add_note(details, [rest.length > 0 ? `${rest.length} more` : "", remarks.length > 0 ? plural(remarks.length, "remark") : ""]
    .filter(Boolean).join(", "));
  fold(details, () => {
    details.append(element("ul", {class: "cards"}, ...rest.map((make) => make()), ...remarks.map(finding_card)));
    if (failures_left > 0) details.append(element("p", {}, `${failures_left} more failed or have wrong data: see all measurements.`));
  });
}

// Says beside the title of a folded part what it holds.
function add_note(details, text) {
  details.querySelector("summary").append(element("span", {class: "quiet small"}, text));
}

// ---- Limits, machine and software

// The same operation of this run: as large, on as many nodes, and with nothing beside it.
function measured_like(report, row) {
  return report.measurements.find((m) => m.case.collective === row.collective && m.case.bytes === row.bytes &&
    m.case.nodes === row.nodes && m.case.group === "world" && m.case.arm === "default" && m.throughput &&
    !m.concurrency && !m.case.for_parts);
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

function draw_limits(report, details) {
  add_note(details, report.limits.length > 0 ? plural(report.limits.length, "limit") : "no limits are known for this machine");
  fold(details, () => {
    draw_limit_table(report, details);
    draw_published(report, details);
  });
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

// Rows that say the same of several hosts become one: [{hosts, row}].
function alike(rows) {
  return [...group_by(rows, ({row}) => JSON.stringify(row)).values()].map((list) => ({...list[0], hosts: list.map(({host}) => host)}));
}

function hosts_text(hosts) {
  const names = hosts.map((host) => host.pretended ? `${host.name} (pretended, on ${host.host_name})` : host.name);
  return names.length <= 4 ? names.join(", ") : `${names[0]} to ${names.at(-1)} (${names.length} hosts)`;
}

// The id of an instance is its own; it stands beside its host in the topology.
function host_table(hosts) {
  const rows = alike(hosts.map((host) => ({host, row: {...host, name: "", host_name: "", instance: "", nics: host.nics.length,
    gpu_devices: null, numa: null, memory_available_bytes: null}})));
  const available = (row) => size(Math.min(...row.hosts.map((host) => host.memory_available_bytes)));
  return simple_table("Hosts", [
    ["Host", (r) => hosts_text(r.hosts)],
    ["Instance", (r) => [r.host.instance_type, r.hosts.length === 1 ? r.host.instance : ""].filter(Boolean).join(" ") || NOT_AVAILABLE],
    ["GPUs", (r) => String(r.host.gpus), "number"], ["CPU", (r) => r.host.cpu_model || NOT_AVAILABLE],
    ["Sockets", (r) => String(r.host.packages), "number"], ["NUMA nodes", (r) => String(r.host.numa_nodes), "number"],
    ["Cores", (r) => String(r.host.cores), "number"],
    ["Threads (allowed)", (r) => `${r.host.threads} (${r.host.allowed_threads})`, "number"],
    ["Memory (available)", (r) => `${size(r.host.memory_bytes)} (${available(r)})`, "number"],
    ["NICs", (r) => String(r.host.nics.length), "number"], ["Kernel", (r) => r.host.kernel || NOT_AVAILABLE],
  ], rows);
}

function nic_table(hosts) {
  const rows = alike(hosts.flatMap((host) => host.nics.map(({name, kind, driver, state, rate_gb_per_s, numa_node}) =>
    ({host, row: {name, kind, driver, state, rate_gb_per_s, numa_node}}))));
  return simple_table("NICs", [
    ["Host", (r) => hosts_text(r.hosts)], ["NIC", ({row}) => row.name], ["Kind", ({row}) => row.kind],
    ["Driver", ({row}) => row.driver || NOT_AVAILABLE], ["State", ({row}) => row.state],
    ["GB/s", ({row}) => digits(row.rate_gb_per_s), "number"],
    ["NUMA node", ({row}) => row.numa_node < 0 ? NOT_AVAILABLE : String(row.numa_node), "number"],
  ], rows);
}

function alone_table(report) {
  const {hosts, host_of_rank, gpu_of_rank} = report.topology;
  const number = (name) => (row) => digits(row[name]);
  const known = (title, name) => report.local_checks.some((figures) => name in figures) ? [[title, number(name), "number"]] : [];
  const active = (known_activity, name, when) => known_activity ? [
    [`${when}SM clock (least), MHz`, (row) => row[name] ? `${row[name].sm_clock_median_mhz ?? NOT_AVAILABLE} (${row[name].sm_clock_min_mhz ?? NOT_AVAILABLE})` : NOT_AVAILABLE, "number"],
    [`${when}Power (W)`, (row) => digits(row[name]?.power_max_w), "number"],
    [`${when}Hottest (C)`, (row) => row[name]?.temperature_max_c ?? NOT_AVAILABLE, "number"],
    [`${when}Held back by`, (row) => row[name]?.throttle_reasons.join(", ") ?? ""],
    [`${when}Memory errors`, (row) => String(row[name]?.uncorrected ?? NOT_AVAILABLE), "number"],
    [`${when}Corrected ones`, (row) => String(row[name]?.corrected ?? NOT_AVAILABLE), "number"],
    [`${when}Xids`, (row) => row[name]?.xids.join(", ") ?? ""],
  ] : [];
  return simple_table("Each GPU alone", [
    ["Rank", (row) => String(row.rank), "number"], ["Host", (row) => hosts[host_of_rank[row.rank]]?.name ?? ""],
    ["GPU", (row) => gpu_of_rank?.[row.rank] ?? NOT_AVAILABLE],
    ...known("bf16 (TFLOP/s)", "bf16_tflop_per_s"), ...known("fp8 (TFLOP/s)", "fp8_tflop_per_s"),
    ...known("Burn: first minute (TFLOP/s)", "burn_first_tflop_per_s"), ...known("last minute", "burn_last_tflop_per_s"),
    ...known("slowest second", "burn_least_tflop_per_s"),
    ...known("Under load: bf16 alone (TFLOP/s)", "load_products_alone_tflop_per_s"), ...known("beside messages", "load_products_tflop_per_s"),
    ...known("Links alone (GB/s)", "load_links_alone_gb_per_s"), ...known("beside products", "load_links_gb_per_s"),
    ...known("NICs alone (GB/s)", "load_nics_alone_gb_per_s"), ...known("beside products", "load_nics_gb_per_s"),
    ...known("To the host alone (GB/s)", "load_copies_alone_gb_per_s"), ...known("beside products", "load_copies_gb_per_s"),
    ["Device copy (GB/s)", number("device_copy_gb_per_s"), "number"],
    ["Host to device (GB/s)", number("host_to_device_gb_per_s"), "number"],
    ["Device to host (GB/s)", number("device_to_host_gb_per_s"), "number"],
    ...known("Both ways (GB/s)", "host_both_ways_gb_per_s"), ...known("Reading memory (GB/s)", "memory_read_gb_per_s"),
    ...known("Slowest slice (of the median)", "slowest_slice_share"),
    ["Launch (us)", number("launch_us"), "number"], ...active(report.local_activity, "activity", ""),
    ...active(report.load_activity, "load_activity", "Under load: "),
    ...report.compute_checks?.some((check) => check.not_measured) ?
      [["No matrix products, because", (row) => report.compute_checks[row.rank]?.not_measured ?? ""]] : [],
  ], report.local_checks.map((figures, rank) => ({...figures, rank, activity: report.local_activity?.[rank], load_activity: report.load_activity?.[rank]})));
}

// What communicators cost: steps of all ranks and, where it shows how they grow, of fewer.
function communicator_table(steps) {
  const cost = (title, name, unit) => steps.some((m) => m.communicator_costs?.[name]) ?
    [[title, (m) => m.communicator_costs?.[name] === undefined ? NOT_AVAILABLE : digits(m.communicator_costs[name] / unit), "number"]] : [];
  const parts = [...new Set(steps.flatMap((m) => Object.keys(m.communicator_costs ?? {})))].filter((name) => name.startsWith("init_"));
  return simple_table("Communicators", [
    ["Step", (m) => m.case.pattern], ["Ranks", (m) => String(m.case.ranks), "number"], ["Arm", (m) => m.case.arm],
    ["Operation", (m) => m.case.bytes > 0 ? size(m.case.bytes) : ""],
    ["Median (ms)", (m) => digits(m.latency.median_us / 1e3), "number"],
    ["95 % interval (ms)", (m) => m.latency.ci95_us ? m.latency.ci95_us.map((us) => digits(us / 1e3)).join(" to ") : NOT_AVAILABLE, "number"],
    ["Samples", (m) => String(m.latency.samples), "number"],
    ...cost("GPU memory (MiB)", "gpu_memory_bytes", 1 << 20), ...cost("Host memory (MiB)", "host_memory_bytes", 1 << 20),
    ...cost("File descriptors", "file_descriptors", 1), ...cost("Connections", "connections", 1),
    ...parts.flatMap((name) => cost(`${name.slice(5, -2)} (s)`, name, 1)),
  ], steps);
}

function gdr_table(report) {
  return simple_table("NICs from GPU memory", [
    ["Host", (row) => row.host], ["GPU", (row) => row.gpu], ["NIC", (row) => row.nic],
    ["Place", (row) => row.beside ? "beside" : "far"], ["GB/s", (row) => digits(row.gb_per_s), "number"],
    ["", (row) => row.slow ? "slow" : ""],
  ], report.gdr);
}

function draw_machine(report, details) {
  add_note(details, plural(report.topology.hosts.length, "host"));
  fold(details, () => add_machine(report, details));
}

function add_machine(report, section) {
  const hosts = report.topology.hosts, run = report.run;
  section.append(hosts.length ? host_table(hosts) : element("p", {}, "No hosts were recorded."));
  const nics = hosts.reduce((sum, host) => sum + host.nics.length, 0);
  if (nics > 0) section.append(folded(plural(nics, "NIC"), (box) => box.append(nic_table(hosts))));
  if (report.local_checks) {
    section.append(element("h3", {}, "Each GPU alone"), element("p", {},
      "Copies, matrix products and launches without communication, on all GPUs at the same time. A device copy counts the bytes read and written; a launch is of an empty kernel. Under load each GPU computes while its links and NICs carry messages, in turns with each of these alone. Clocks, power and temperature are those that the driver showed once a second meanwhile."),
      alone_table(report));
  }
  const steps = report.measurements.filter((m) => m.case.collective === "communicator" && m.latency);
  if (steps.length) {
    section.append(element("h3", {}, "Communicators"), element("p", {},
      "What it takes to make, use first and destroy a communicator, of the slowest rank; joining once in each launch. Nobody has published what is healthy: compare with an earlier run."),
      communicator_table(steps));
  }
  if (report.gdr) {
    section.append(element("h3", {}, "NICs from GPU memory"), element("p", {},
      "GPUDirect RDMA, each path alone: the highest rate out of a GPU's memory through one NIC. Paths are compared with each other; this was never tried on EFA."),
      gdr_table(report));
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
  const published = JSON.parse(document.getElementById("published-data").textContent);
  report.published = published.filter((row) => row.busbw_gb_per_s !== undefined);
  report.published_tokens = published.filter((row) => row.tokens !== undefined);
  for (const [index, series] of Object.entries(JSON.parse(document.getElementById("samples-data").textContent))) {
    report.measurements[index].samples = series;
  }
  const drawers = {top: draw_top, verdict: draw_verdict, problems: draw_problems, pairs: draw_pairs, curve: draw_curve,
    findings: draw_findings, charts: draw_charts, traffic: draw_traffic, beside: draw_beside, tuning: draw_tuning,
    measurements: draw_measurements, limits: draw_limits,
    topology: draw_topology, machine: draw_machine};
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
  add_csv_buttons(document);
  open_what_the_address_names();
  reveal(section_of_address());
  window.addEventListener("hashchange", follow_address);
}

window.addEventListener("error", (event) => complain(event.message));
// On paper nothing can be opened. Hosts without trouble stay as they are: they may be hundreds.
window.addEventListener("beforeprint", () => {
  const unfold = (details) => { if (!details.matches(".host-box")) open_fold(details); };
  for (const {details} of folds) unfold(details);  // which grow while they are opened
  document.querySelectorAll("details").forEach(unfold);
});
document.addEventListener("DOMContentLoaded", start);
