// The traffic matrices of a run: how much each rank sends to each, as a heatmap, with the rows (senders) or columns
// (receivers) of the part that decides the limit outlined; the busiest parts; imbalance and incast. Tokens of dispatch
// and combine: latency of decode, bandwidth of prefill.

const TRAFFIC_SIDE = 360, TRAFFIC_MARGIN = 44;  // pixels

const direction_text = (part) => (part.receives ? "receiving" : "sending");

function traffic_map(traffic) {
  const {matrix, ranks} = traffic, step = TRAFFIC_SIDE / ranks, decides = traffic.parts[0];
  const most = Math.max(...matrix.flat());
  const place = (index) => TRAFFIC_MARGIN + index * step;
  const svg = shape("svg", {class: "traffic", role: "img", viewBox: `0 0 ${place(ranks) + 4} ${place(ranks) + 4}`,
    "aria-label": `Traffic ${traffic_name(traffic)}, senders in rows, receivers in columns` +
      (decides ? `; ${decides.name}, ${direction_text(decides)}, decides` : "")});
  matrix.forEach((row, from) => row.forEach((value, to) => {
    if (value === 0) return;
    svg.append(shape("rect", {class: "traffic-cell", x: place(to), y: place(from), width: step, height: step,
      "fill-opacity": digits(0.08 + 0.92 * value / most, 3)},
    shape("title", {}, `rank ${from} to rank ${to}: ${share(value)} of the message`)));
  }));
  svg.append(shape("rect", {class: "traffic-frame", x: TRAFFIC_MARGIN, y: TRAFFIC_MARGIN, width: TRAFFIC_SIDE, height: TRAFFIC_SIDE}));
  for (const index of decides?.members ?? []) {
    svg.append(shape("rect", {class: "traffic-decides", ...(decides.receives
      ? {x: place(index), y: TRAFFIC_MARGIN, width: step, height: TRAFFIC_SIDE}
      : {x: TRAFFIC_MARGIN, y: place(index), width: TRAFFIC_SIDE, height: step})}));
  }
  const every = Math.ceil(ranks / 16);
  for (let index = 0; index < ranks; index += every) {
    svg.append(shape("text", {class: "tick", x: TRAFFIC_MARGIN - 6, y: place(index + 0.5) + 4, "text-anchor": "end"}, String(index)),
      shape("text", {class: "tick", x: place(index + 0.5), y: TRAFFIC_MARGIN - 8, "text-anchor": "middle"}, String(index)));
  }
  return svg;
}

// "expert:128,256,8 of dispatch": what names a matrix among those of a run.
const traffic_name = (traffic) => `${traffic.name} of ${traffic.collectives.join(" and ")}`;

function draw_traffic_matrix(traffic, section) {
  const decides = traffic.parts[0];
  section.append(element("p", {}, decides
    ? `${traffic_name(traffic)}: ${decides.name}, ${direction_text(decides)}, decide what the machine can reach. The busiest rank sends ` +
      `${digits(traffic.sent_imbalance, 3)} times and receives ${digits(traffic.received_imbalance, 3)} times the mean. Incast, ` +
      `receivers busier than any sender, costs ${share(traffic.incast_loss)} of the limit.`
    : `${traffic_name(traffic)}: the rate of a part that it uses is not known, so it has no limit.`));
  if (traffic.matrix.length > 0) {
    section.append(element("figure", {}, element("figcaption", {}, `Who sends how much to whom: ${traffic_name(traffic)}`),
      traffic_map(traffic), element("p", {class: "quiet small"},
        "Senders in rows, receivers in columns; the darker, the more. Outlined: the ranks of the part that decides.")));
  }
  if (!decides) return;
  section.append(simple_table(`The busiest parts of ${traffic_name(traffic)}`, [
    ["Part", (p) => p.name], ["Direction", direction_text], ["Load", (p) => digits(p.load, 3), "number"],
    ["GB/s", (p) => digits(p.gb_per_s), "number"], ["Time of 1 GB", (p) => time(p.load / p.gb_per_s * 1e6), "number"],
    ["Where the rate comes from", (p) => p.because, "sentence"],
  ], traffic.parts));
}

// Tokens of each rank while a model generates text, and while it reads some (bench/model/tokens.hpp).
const OPERATING_POINTS = new Map([[128, "decode"], [4096, "prefill"]]);

// What others have published of the same operation on such machines.
const published_like = (report, of) =>
  report.published_tokens.filter((row) => row.collective === of.collective && row.tokens === of.tokens && of.hidden === 7168);

function draw_tokens(report, section) {
  const rows = report.measurements.filter((m) => m.case.tokens && m.throughput && m.case.arm === "default");
  if (rows.length === 0) return;
  section.append(element("h3", {}, "Tokens"), element("p", {},
    "What counts is the latency of decode and the bandwidth of prefill. Others' figures are times of kernels of their own."));
  section.append(simple_table("Tokens of each rank", [
    ["Operation", (m) => m.case.collective],
    ["Tokens", (m) => [m.case.tokens, OPERATING_POINTS.get(m.case.tokens)].filter(Boolean).join(", ")],
    ["Type", (m) => m.case.type], ["Elements", (m) => digits(m.case.hidden), "number"],
    ["Latency", (m) => m.latency ? time(m.latency.median_us) : NOT_AVAILABLE, "number"],
    ["Time in a burst", (m) => time(m.throughput.median_us), "number"],
    ["Bus bandwidth (GB/s)", (m) => digits(m.throughput.busbw_gb_per_s), "number"],
    ["Published", (m) => published_like(report, m.case).map((row) => time(row.latency_us)).join(", ") || NOT_AVAILABLE, "number"],
    ["About it", (m) => published_like(report, m.case).map((row) => [row.software, row.date, row.note, row.source].filter(Boolean).join("; "))
      .join("; "), "sentence"],
  ], rows));
}

function draw_traffic(report, section) {
  const matrices = report.traffic ?? [];
  section.hidden = matrices.length === 0;
  if (section.hidden) return;
  draw_tokens(report, section);
  for (const matrix of matrices) draw_traffic_matrix(matrix, section);
}
