// The samples behind a point of a curve: in the order in which they were taken, where drift and modes show, and beside
// that how often each time came.

const STRIP = {left: 58, right: 8, top: 12, bottom: 26, height: 190, bins: 32};

function linear_scale(low, high, from, to) {
  const span = high > low ? high - low : 1;
  return (value) => from + (to - from) * (value - low) / span;
}

function draw_strip(svg, list, width) {
  const {left, top, bottom, height, bins} = STRIP, middle = Math.round(width * 0.72), floor = height - bottom;
  const all = list.flatMap((each) => each.samples.us), low = Math.min(...all), high = Math.max(...all);
  const y = linear_scale(low, high, floor, top), most = Math.max(...list.map((each) => each.samples.us.length));
  const x = linear_scale(0, Math.max(most - 1, 1), left + 4, middle - 12);
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  for (const value of [low, (low + high) / 2, high]) {
    svg.append(shape("line", {class: "grid", x1: left, x2: width - STRIP.right, y1: y(value), y2: y(value)}),
      shape("text", {x: left - 7, y: y(value) + 4, "text-anchor": "end"}, digits(value)));
  }
  svg.append(shape("text", {x: left, y: height - 6}, "in the order taken \u2192"),
    shape("text", {x: middle, y: height - 6}, "how many \u2192"));
  for (const {index, samples} of list) {
    const group = shape("g", {class: `series-${index % 6}`}), counts = Array(bins).fill(0);
    const bin = linear_scale(low, high, 0, bins - 1e-6);
    samples.us.forEach((us, at) => {
      group.append(shape("circle", {class: "sample", cx: x(at), cy: y(us), r: 2.2}));
      counts[Math.floor(bin(us))]++;
    });
    const wide = linear_scale(0, Math.max(...counts), 0, width - STRIP.right - middle), step = (floor - top) / bins;
    counts.forEach((count, at) => group.append(shape("rect", {class: "bin", x: middle, y: floor - (at + 1) * step,
      width: wide(count), height: step})));
    svg.append(group);
  }
}

function samples_sentence(series, point) {
  const {us, of} = point.samples, sorted = [...us].sort((a, b) => a - b);
  const at = (part) => digits(sorted[Math.min(Math.floor(part * sorted.length), sorted.length - 1)]);
  const taken = of > us.length ? `${us.length} of ${of} samples, evenly taken` : plural(of, "sample");
  return `${series.label}: ${taken}; least ${at(0)}, median ${at(0.5)}, 95th percentile ${at(0.95)}, most ${at(1)} \u00b5s.`;
}

function largest_with_samples(plot) {
  return Math.max(...plot.series.flatMap((series) => series.points.filter((p) => p.samples).map((p) => p.x)));
}

// Null where no journal had any.
function samples_of(chart) {
  if (!chart.plot.series.some((series) => series.points.some((p) => p.samples))) return null;
  const svg = shape("svg", {class: "samples", role: "img", "aria-label": `${chart.plot.title}: samples of one size`});
  const words = element("div", {class: "small quiet"}), box = element("div", {class: "samples-box", hidden: ""}, svg, words);
  const panel = {drawn: false,
    draw(plot, bytes, width) {
      const rows = plot.series.flatMap((series) => series.points.filter((p) => p.x === bytes && p.samples)
        .map((point) => ({series, point})));
      panel.drawn = true;
      svg.toggleAttribute("hidden", rows.length === 0);
      if (rows.length > 0) draw_strip(svg, rows.map(({series, point}) => ({index: series.index, samples: point.samples})), width);
      words.replaceChildren(...(rows.length > 0
        ? [element("p", {}, `${size(bytes)}, times in \u00b5s.`), ...rows.map(({series, point}) => element("p", {}, samples_sentence(series, point)))]
        : [element("p", {}, "No samples are kept of this size.")]));
    }};
  const show = (open) => {
    box.hidden = !open;
    press.setAttribute("aria-pressed", String(open));
    chart.samples = open ? panel : null;
    panel.drawn = false;
    if (open) chart.read(chart.shown.sizes.indexOf(chart.at ?? largest_with_samples(chart.shown)));
  };
  const name = `${chart.name}.samples`;
  const press = button("Samples", `${chart.plot.title}: every sample of one size`, () => {
    show(box.hidden);
    remember(name, box.hidden ? "" : String(chart.at));
  });
  press.setAttribute("aria-pressed", "false");
  return {press, box, follow_address: () => add_control(name, (text) => {
    if (chart.shown.sizes.includes(Number(text))) chart.at = Number(text);
    show(text !== "");
  })};
}
