// The traffic matrix of --traffic: how much each rank sends to each, as a heatmap, with the rows (senders) or columns
// (receivers) of the part that decides the limit outlined; the busiest parts; imbalance and incast.

const TRAFFIC_SIDE = 360, TRAFFIC_MARGIN = 44;  // pixels

const direction_text = (part) => (part.receives ? "receiving" : "sending");

function traffic_map(traffic) {
  const {matrix, ranks} = traffic, step = TRAFFIC_SIDE / ranks, decides = traffic.parts[0];
  const most = Math.max(...matrix.flat());
  const place = (index) => TRAFFIC_MARGIN + index * step;
  const svg = shape("svg", {class: "traffic", role: "img", viewBox: `0 0 ${place(ranks) + 4} ${place(ranks) + 4}`,
    "aria-label": `Traffic ${traffic.name}, senders in rows, receivers in columns` +
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
    svg.append(shape("text", {class: "axis", x: TRAFFIC_MARGIN - 6, y: place(index + 0.5) + 4, "text-anchor": "end"}, String(index)),
      shape("text", {class: "axis", x: place(index + 0.5), y: TRAFFIC_MARGIN - 8, "text-anchor": "middle"}, String(index)));
  }
  return svg;
}

function draw_traffic(report, section) {
  const {traffic} = report;
  section.hidden = !traffic;
  if (section.hidden) return;
  const decides = traffic.parts[0];
  section.append(element("p", {}, decides
    ? `${traffic.name}: ${decides.name}, ${direction_text(decides)}, decide what the machine can reach. The busiest rank sends ` +
      `${digits(traffic.sent_imbalance, 3)} times and receives ${digits(traffic.received_imbalance, 3)} times the mean. Incast, ` +
      `receivers busier than any sender, costs ${share(traffic.incast_loss)} of the limit.`
    : `${traffic.name}: the rate of a part that it uses is not known, so it has no limit.`));
  if (traffic.matrix.length > 0) {
    section.append(element("figure", {}, element("figcaption", {}, `Who sends how much to whom: ${traffic.name}`),
      traffic_map(traffic), element("p", {class: "quiet small"},
        "Senders in rows, receivers in columns; the darker, the more. Outlined: the ranks of the part that decides.")));
  }
  if (!decides) return;
  section.append(simple_table("The busiest parts", [
    ["Part", (p) => p.name], ["Direction", direction_text], ["Load", (p) => digits(p.load, 3), "number"],
    ["GB/s", (p) => digits(p.gb_per_s), "number"], ["Time of 1 GB", (p) => time(p.load / p.gb_per_s * 1e6), "number"],
    ["Where the rate comes from", (p) => p.because, "sentence"],
  ], traffic.parts));
}
