// What stands beside this run's curves: the baseline that it was compared with, figures that others have published of the
// same machine, and the settings that tuning found, with the default as it was measured beside them.

function beside(value, own) { return own > 0 ? `; this run has ${share(own / value)} of it` : ""; }

// The baseline of each curve, under the curve's name where there are several.
function baseline_series(curves, point) {
  return curves.map(({label, list}) => ({label: curves.length > 1 ? `baseline, ${label}` : "baseline", reference: true,
    points: list.map(point).filter(Boolean)})).filter((series) => series.points.length > 0);
}

function latency_references(curves) {
  return baseline_series(curves, (m) => {
    const us = m.baseline?.latency_us;
    return us > 0 && m.case.bytes <= LATENCY_TO_BYTES ? {x: m.case.bytes, y: us, text: time(us)} : null;
  });
}

// Others publish, and tuning measures, all ranks together.
const of_all_ranks = (list) => list.filter((m) => m.case.group === "world");

function published_series(report, list) {
  const together = of_all_ranks(list).filter((m) => !m.concurrency);  // nobody publishes figures beside other work
  const rows = report.published.filter((row) => row.collective === together[0]?.case.collective && row.bytes !== null);
  const own = (row) => together.find((m) => m.case.bytes === row.bytes && m.case.nodes === row.nodes)?.throughput?.busbw_gb_per_s;
  return [...group_by(rows, (row) => (row.healthy ? "published" : "published, not healthy"))].map(([label, of_label]) => ({
    label, reference: true, scattered: true,
    points: of_label.map((row) => ({x: row.bytes, y: row.busbw_gb_per_s,
      text: `${rate(row.busbw_gb_per_s)} (${[row.algorithm, row.software, row.date].filter(Boolean).join(", ")})` +
        beside(row.busbw_gb_per_s, own(row))}))}));
}

// Both sides of the proof in fresh processes, as bus bandwidth: the measured case has the factor between the two.
function tuned_series(report, list) {
  const tuning = report.tuning, known = of_all_ranks(list).find((m) => m.throughput?.busbw_gb_per_s > 0);
  if (!tuning || tuning.beside || !known) return [];
  const {collective} = known.case;
  const factor = known.throughput.busbw_gb_per_s * known.throughput.median_us / known.case.bytes;
  const rows = tuning.confirmations.filter((row) => row.collective === collective && row.gain).flatMap((row) => {
    const cell = tuning.cells.find((c) => c.collective === collective && c.tuner_bytes === row.tuner_bytes);
    return cell ? [{bytes: cell.bytes, setting: row.setting ?? "default", ...row.gain}] : [];
  }).sort((a, b) => a.bytes - b.bytes);
  const point = (bytes, us, words) => ({x: bytes, y: factor * bytes / us, text: `${rate(factor * bytes / us)}, ${time(us)}, ${words}`});
  return rows.length === 0 ? [] : [
    {label: "tuned", reference: true, points: rows.map((r) =>
      point(r.bytes, r.tuned_us, `${r.setting}, ${share(r.share)} of the default's time saved`))},
    {label: "default, measured beside it", reference: true, points: rows.map((r) =>
      point(r.bytes, r.default_us, "in the same launches"))}];
}

function bandwidth_references(report, list, curves) {
  const baseline = baseline_series(curves, (m) => {
    const us = m.baseline?.throughput_us, t = m.throughput;
    if (!(us > 0) || !(t?.busbw_gb_per_s > 0)) return null;
    const value = t.busbw_gb_per_s * t.median_us / us;
    return {x: m.case.bytes, y: value, limit: m.verdict.limit_gb_per_s,
      text: `${rate(value)}, ${time(us)}${beside(value, t.busbw_gb_per_s)}`};
  });
  return [...baseline, ...with_limits([...published_series(report, list), ...tuned_series(report, list)], list)];
}
