// The machine as boxes in boxes: host, NUMA node, PCIe switch, and in it GPUs and NICs; what is wrong stands out.

// Names of a host's NICs in the order of their numbers in suspects' names: those of a fabric, then others that ranks use.
function numbered_nics(topology, host, index) {
  const own = topology.host_of_rank.flatMap((on, rank) => (on === index ? topology.nics_of_rank?.[rank] ?? [] : []));
  const fabric = host.nics.filter((nic) => nic.kind === "efa" || nic.kind === "infiniband").map((nic) => nic.name);
  return [...new Set([...fabric, ...own.filter(Boolean)])];
}

// Findings and suspects of one host by "gpu 3" and "nic rdmap79s0", the gravest first.
function troubles_of(report, host, index) {
  const nics_by_number = numbered_nics(report.topology, host, index);
  const found = new Map();
  const add = (key, severity, text) => {
    const here = found.get(key);
    const rank = ["error", "warning", "info"];
    if (!here) found.set(key, {severity, texts: [text]});
    else {
      here.texts.push(text);
      if (rank.indexOf(severity) < rank.indexOf(here.severity)) here.severity = severity;
    }
  };
  for (const finding of report.findings) {
    const {subject} = finding;
    if (subject.host !== host.name || finding.severity === "info") continue;
    if (subject.gpu !== null) add(`gpu ${subject.gpu}`, finding.severity, finding.evidence);
    if (subject.nic !== null) add(`nic ${subject.nic}`, finding.severity, finding.evidence);
  }
  for (const suspect of report.suspects) {
    const gpu = new RegExp(`^n${index}g(\\d+)$`).exec(suspect.name);
    const its = host.gpu_devices.findIndex((each) => suspect.device && each.uuid === suspect.device);
    const nics = new RegExp(`^n${index}r(\\d+)(?:-(\\d+))?$`).exec(suspect.name);
    if (gpu) add(`gpu ${its < 0 ? gpu[1] : its}`, "error", suspect.evidence);
    for (let i = Number(nics?.[1]); nics && i <= Number(nics[2] ?? nics[1]); ++i) {
      add(`nic ${nics_by_number[i]}`, "error", suspect.evidence);
    }
  }
  return found;
}

function pcie_text(link) {
  if (!link?.generation || !link.width) return "";
  const less = link.generation < (link.generation_max ?? 0) || link.width < (link.width_max ?? 0);
  const most = less ? ` (of Gen${link.generation_max ?? link.generation} x${link.width_max ?? link.width})` : "";
  return `PCIe Gen${link.generation} x${link.width}${most}`;
}

function chip(kind, title, lines, trouble) {
  const sign = trouble ? element("span", {class: "sign", "aria-label": trouble.severity}, "!") : null;
  return element("li", {class: ["device", kind, trouble?.severity].filter(Boolean).join(" "), title: lines.filter(Boolean).join("\n")},
    element("strong", {}, sign, title), ...lines.filter(Boolean).map((line) => element("span", {}, line)),
    ...(trouble?.texts ?? []).map((text) => element("span", {class: "trouble"}, text)));
}

function gpu_chip(gpu, index, trouble) {
  const links = gpu.links === null || gpu.links === undefined ? ""
    : `${gpu.links}${gpu.links_possible ? ` of ${gpu.links_possible}` : ""} NVLinks`;
  return chip("gpu", `GPU ${index}`, [gpu.name, links, pcie_text(gpu.pcie), gpu.pci?.address, gpu.problem], trouble);
}

function nic_chip(nic, trouble) {
  const rate = (nic.rate_gb_per_s ?? null) === null ? "" : `${digits(nic.rate_gb_per_s)} GB/s`;
  return chip("nic", nic.name, [[nic.kind, rate].filter(Boolean).join(" "), nic.state === "up" ? "" : nic.state,
    pcie_text(nic.pcie)], trouble);
}

// Devices by NUMA node and, in it, by the bridge that is directly above them.
function places_of(host, troubles) {
  const nodes = new Map((host.numa ?? []).map((node) => [node.index, new Map()]));
  const put = (numa, path, device) => {
    if (!nodes.has(numa)) nodes.set(numa, new Map());
    const key = (path ?? []).join(" \u203a ");
    if (!nodes.get(numa).has(key)) nodes.get(numa).set(key, []);
    nodes.get(numa).get(key).push(device);
  };
  host.gpu_devices.forEach((gpu, index) => put(gpu.numa_node ?? -1, gpu.pci?.path,
    gpu_chip(gpu, index, troubles.get(`gpu ${index}`))));
  for (const nic of host.nics) {
    if (nic.kind !== "virtual") put(nic.numa_node, nic.pci?.path, nic_chip(nic, troubles.get(`nic ${nic.name}`)));
  }
  return [...nodes].sort(([a], [b]) => a - b);
}

function numa_box(host, index, switches) {
  const node = (host.numa ?? []).find((each) => each.index === index);
  const title = index < 0 ? "NUMA node not known" : `NUMA node ${index}${node?.cpus ? `, threads ${node.cpus}` : ""}`;
  return element("div", {class: "numa"}, element("h4", {}, title), ...[...switches].map(([path, devices]) =>
    element("div", {class: path ? "switch" : "switch bare"}, path ? element("p", {class: "quiet small"}, path) : null,
      element("ul", {class: "devices"}, ...devices))));
}

function host_box(report, host, index) {
  const troubles = troubles_of(report, host, index);
  const bad = [...troubles.values()].some((trouble) => trouble.severity === "error");
  const what = [host.instance_type, host.instance, plural(host.gpus, "GPU"),
    plural(host.nics.filter((nic) => nic.kind !== "virtual").length, "NIC")].filter(Boolean).join(", ");
  const summary = element("summary", {}, element("strong", {class: bad ? "wrong" : null}, host.name), ` ${what}`,
    troubles.size ? element("span", {class: bad ? "wrong" : "slow"}, ` ${plural(troubles.size, "device")} in trouble`) : null);
  const details = element("details", {class: "host-box", id: `host-${index}`}, summary);
  fold(details, () => details.append(element("div", {class: "numa-row"},
    ...places_of(host, troubles).map(([numa, switches]) => numa_box(host, numa, switches)))));
  if (index === 0 || troubles.size > 0) open_fold(details);
  return details;
}

function draw_topology(report, details) {
  const hosts = report.topology.hosts;
  details.hidden = !hosts.some((host) => host.gpu_devices.length > 0 || host.nics.some((nic) => nic.kind !== "virtual"));
  if (details.hidden) return;
  fold(details, () => {
    if (report.topology.provenance !== "discovered") {
      details.append(element("p", {class: "quiet"}, `This topology is ${report.topology.provenance}.`));
    }
    details.append(...hosts.map((host, index) => host_box(report, host, index)));
  });
}
