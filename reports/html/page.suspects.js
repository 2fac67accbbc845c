// Suspects with their evidence drawn: the rates that the part took part in beside all the others. What a suspect's name
// means: n3 a node, n3g2 its third GPU, n3r5 its sixth NIC, n3-n5 the way between two nodes, 5 a rail.

// Ranks that a part belongs to: one list, and of a link one for each of its ends.
function ends_of(report, suspect) {
  const {nics_of_rank, gpu_of_rank, host_of_rank} = report.topology, place = placement(report);
  const on = (host) => place.of_host[host] ?? [], all = host_of_rank.map((_, rank) => rank);
  const link = /^n(\d+)-n(\d+)$/.exec(suspect.name), part = /^n(\d+)(?:([gr])(\d+))?/.exec(suspect.name);
  if (suspect.kind === "rail") return [place.of_host.map((ranks) => ranks[Number(suspect.name)]).filter((r) => r !== undefined)];
  if (link) return [on(Number(link[1])), on(Number(link[2]))];
  if (!part) return [[]];
  const ranks = on(Number(part[1]));
  if (suspect.kind === "nic") return [ranks.filter((rank) => nics_of_rank?.[rank]?.includes(suspect.device))];
  if (suspect.kind === "gpu") {
    const own = all.filter((rank) => suspect.device && gpu_of_rank?.[rank] === suspect.device);
    return [own.length > 0 ? own : ranks.slice(Number(part[3]), Number(part[3]) + 1)];
  }
  return [ranks];
}

// A single NIC is outlined where it was measured alone; all else where all NICs were.
function suspects_in_matrix(report, c) {
  const alone = (rank) => report.topology.nics_of_rank?.[rank]?.[c.nic];
  return report.suspects.filter((suspect) => c.nic === undefined || suspect.kind !== "nic" ||
    ends_of(report, suspect)[0].some((rank) => alone(rank) === suspect.device))
    .map((suspect) => ({suspect, ends: ends_of(report, suspect)})).filter(({ends}) => ends.some((ranks) => ranks.length > 0));
}

// ---- The figures that speak of a suspect

// Which of the pairs of a measurement a part took part in.
function takes_part(ends) {
  const [one, other] = ends.map((ranks) => new Set(ranks));
  if (other) return ({source, destination}) =>
    (one.has(source) && other.has(destination)) || (other.has(source) && one.has(destination));
  return ({source, destination}) => one.has(source) || one.has(destination);
}

// Shares of the median, of the pairs that the part took part in and of all others, where they are furthest apart.
function pairs_against(report, suspect, ends) {
  const alone = (m) => m.case.nic !== undefined;
  const concerns = (m) => m.pairs?.length > 2 && alone(m) === (suspect.kind === "nic") &&
    (!alone(m) || suspects_in_matrix(report, m.case).some((shown) => shown.suspect === suspect));
  const all = report.measurements.filter(concerns), between = all.filter((m) => m.case.nodes > 1);
  let best = null;
  for (const m of between.length > 0 && suspect.kind !== "gpu" ? between : all) {
    const {list} = measured_pairs([m], placement(report, m.pairs)), own = takes_part(ends);
    const shares = {with: list.filter(own).map((p) => p.of_median), without: list.filter((p) => !own(p)).map((p) => p.of_median)};
    if (shares.with.length === 0 || shares.without.length === 0) continue;
    const apart = median(shares.with) / median(shares.without);
    if (!best || apart < best.apart) best = {...shares, apart, about: case_sentence(m.case)};
  }
  return best;
}

// The same of rails against each other; one line of the report has the first rank of each rail and its time.
function rails_against(report, ends) {
  const m = report.measurements.find((each) => each.case.group === "rail" && each.groups?.length > 1);
  if (!m) return null;
  const usual = median(m.groups.map(([, us]) => us)), own = ([first]) => ends[0].includes(first);
  const shares = (list) => list.map(([, us]) => usual / us);
  return {with: shares(m.groups.filter(own)), without: shares(m.groups.filter((group) => !own(group))),
    about: case_sentence(m.case)};
}

// ---- Drawing

const MOST_DOTS = 400;

// Evenly out of the sorted ones.
function thinned(values) {
  const sorted = [...values].sort((a, b) => a - b), step = Math.max(sorted.length / MOST_DOTS, 1);
  return Array.from({length: Math.min(sorted.length, MOST_DOTS)}, (_, i) => sorted[Math.floor(i * step)]);
}

function draw_evidence(svg, suspect, shares, width) {
  const left = 118, right = 16, row = 30, top = 6, height = top + 2 * row + 24;
  const most = Math.max(1.1, ...thinned(shares.with), ...thinned(shares.without));
  const x = linear_scale(0, most, left, width - right);
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  for (const value of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(shape("line", {class: "grid", x1: x(value), x2: x(value), y1: top, y2: top + 2 * row}),
      shape("text", {x: x(value), y: height - 6, "text-anchor": "middle"}, `${100 * value} %`));
  }
  [["with", shares.with], ["without", shares.without]].forEach(([which, values], index) => {
    const y = top + (index + 0.5) * row;
    svg.append(shape("text", {x: 0, y: y + 4}, which === "with" ? `with ${suspect.name.slice(0, 12)}` : "all others"));
    thinned(values).forEach((value, at) => svg.append(shape("circle",
      {class: `dot ${which}`, cx: x(value), cy: y + ((at * 7) % 15) - 7, r: 2.4})));
  });
}

function section_link(section, text) {
  const link = element("a", {href: `#${section}`}, text);
  keep_choices(link);
  return link;
}

// Folded, and looked for only when it is opened: of thousands of pairs it takes a while.
function evidence_of(report, suspect) {
  const ends = ends_of(report, suspect);
  if (ends.every((ranks) => ranks.length === 0)) return "";
  return folded("Bandwidth with and without it", (box) => box.append(evidence_figure(report, suspect, ends)));
}

function evidence_figure(report, suspect, ends) {
  const shares = suspect.kind === "rail" ? rails_against(report, ends) : pairs_against(report, suspect, ends);
  if (!shares || shares.with.length === 0 || shares.without.length === 0) {
    return element("p", {class: "small"}, "The report has no figures that show it.");
  }
  const host = report.topology.hosts.findIndex((each) => each.name === suspect.host);
  const svg = shape("svg", {class: "evidence", role: "img", "aria-label":
    `Rates with ${suspect.name}: median ${share(median(shares.with))} of what is usual; without: ${share(median(shares.without))}`});
  const figure = element("figure", {class: "evidence-box"},
    element("figcaption", {class: "small"}, `Bandwidth as a share of the median of its kind: ${shares.about}`),
    element("div", {}, svg),
    host < 0 ? "" : element("p", {class: "small"}, section_link(`host-${host}`, "In the machine")));
  redraw_on_resize(figure, svg, (width) => draw_evidence(svg, suspect, shares, width));
  return figure;
}
