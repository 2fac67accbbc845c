// What tuning found: the settings, what they bring with the files alone, and what was tried.

function gain_text(gain) {
  if (!gain) return NOT_AVAILABLE;
  const interval = gain.ci95_share ? ` (${share(gain.ci95_share[0])} to ${share(gain.ci95_share[1])})` : "";
  return `${share(gain.share)}${interval}`;
}

function confirmation_table(tuning) {
  return simple_table("Confirmed in fresh processes", [
    ["Operation", (c) => c.collective], ["Size", (c) => size(c.tuner_bytes), "number"],
    ["Setting", (c) => c.setting ?? "default"],
    ["Default \u00b5s", (c) => digits(c.gain?.default_us), "number"],
    ["With the files \u00b5s", (c) => digits(c.gain?.tuned_us), "number"],
    ["Time saved (95 %)", (c) => gain_text(c.gain), "number"],
    tuning.beside ? ["Saved alone", (c) => gain_text(c.alone_gain), "number"]
      : ["With its launch", (c) => c.launched_gain ? share(c.launched_gain.share) : NOT_AVAILABLE, "number"],
    ["Verdict", (c) => c.verdict, "sentence"],
  ], tuning.confirmations);
}

function search_table(tuning) {
  return simple_table("The search", [
    ["Operation", (c) => c.collective], ["Size", (c) => size(c.bytes), "number"],
    ["Settings tried", (c) => String(c.candidates), "number"], ["Samples", (c) => String(c.samples), "number"],
    ["Fastest", (c) => c.winner ?? "default"], ["Time saved", (c) => gain_text(c.gain), "number"],
    ["Why", (c) => c.because, "sentence"],
  ], tuning.cells);
}

// What NCCL expected of each setting and took itself, beside what was measured.
function settings_table(tuning) {
  const rows = tuning.cells.flatMap((cell) => cell.settings.map((setting) => ({cell, ...setting})));
  return simple_table("What NCCL offered, and what was measured", [
    ["Operation", (r) => r.cell.collective], ["Size", (r) => size(r.cell.bytes), "number"], ["Setting", (r) => r.setting],
    ["NCCL predicts \u00b5s", (r) => digits(r.predicted_us), "number"], ["NCCL takes it", (r) => r.chosen ? "yes" : ""],
    ["Measured \u00b5s", (r) => digits(r.median_us), "number"],
    tuning.beside ? ["Alone \u00b5s", (r) => digits(r.alone_us), "number"]
      : ["With its launch \u00b5s", (r) => digits(r.launched_us), "number"],
    ["Samples", (r) => String(r.samples), "number"],
  ], rows);
}

function arms_table(tuning) {
  return simple_table("Variables, in fresh processes", [
    ["Variables", (a) => a.name], ["Times as fast", (a) => a.speedup === null ? "failed" : digits(a.speedup), "number"],
    ["95 % interval", (a) => a.ci95_speedup ? a.ci95_speedup.map((speedup) => digits(speedup)).join(" to ") : NOT_AVAILABLE, "number"],
    ...(tuning.beside ? [["Alone", (a) => digits(a.alone_speedup), "number"]] : []),
    ["Adopted", (a) => a.adopted ? "yes" : "no"],
  ], tuning.arms);
}

function ways_table(tuning) {
  const sizes = tuning.ways.flatMap((way) => way.sizes.map((size_of) => ({...size_of, way: way.name})));
  const share = (part) => `${(100 * part).toFixed(1)} %`;
  return simple_table("Other ways to call NCCL, compared with plain calls", [
    ["Way", (s) => s.way], ["Operation", (s) => s.collective], ["Bytes", (s) => size(s.bytes), "number"],
    ["Plain us", (s) => s.gain ? digits(s.gain.default_us) : "N/A", "number"],
    ["This way us", (s) => s.gain ? digits(s.gain.tuned_us) : "N/A", "number"],
    ["Less time", (s) => s.gain ? share(s.gain.share) : s.because, "number"],
    ["95 % interval", (s) => s.gain && s.gain.ci95_share ? s.gain.ci95_share.map(share).join(" to ") : "N/A", "number"],
    ...(tuning.beside ? [["Less time alone", (s) => s.alone_gain ? share(s.alone_gain.share) : "N/A", "number"]] : []),
  ], sizes);
}

function failure_card(failure) {
  return card("warning", failure.wrong_data ? "wrong data" : "failed",
    `${failure.collective} ${size(failure.bytes)} with ${failure.setting}`, [["", failure.because]]);
}

function time_text(tuning) {
  const stages = tuning.stages.map((s) => `${s.name} ${s.seconds.toFixed(1)} s`).join(", ");
  const launches = tuning.processes > 1 ? `; files and default in ${tuning.processes} launches each` : "";
  return `Took ${duration(tuning.wall_s)}: ${stages}${launches}.`;
}

function tuned_beside_text(tuning) {
  return `For operations beside ${tuning.beside.works.join(" and ")}. Times are until the operations and that work are done, `
    + `divided by the number of operations. Alone no operation may be slower by more than ${share(tuning.beside.alone_loss)}.`;
}

function step_text(gain, outcome) {
  const ms = (us) => `${digits(us / 1e3)} ms`;
  const settings = outcome === "settings" ? "everything that is set" : "the settings that were found and are not set";
  return `A step of the job takes ${ms(gain.tuned_us)} with ${settings}, and ${ms(gain.default_us)} by default: `
    + `time saved ${gain_text(gain)}.`;
}

function draw_tuning(report, section) {
  const tuning = report.tuning;
  section.hidden = !tuning;
  if (!tuning) return;
  section.append(element("p", {}, tuning.because), element("p", {class: "quiet"}, time_text(tuning)));
  if (tuning.beside) section.append(element("p", {}, tuned_beside_text(tuning)));
  if (tuning.step) section.append(element("p", {}, step_text(tuning.step, tuning.outcome)));
  if (tuning.rows.length > 0) {
    section.append(simple_table("Settings", [
      ["Operation", (r) => r.collective], ["From", (r) => size(r.from), "number"], ["To", (r) => size(r.to), "number"],
      ["Setting", (r) => r.setting],
    ], tuning.rows));
  }
  if (tuning.confirmations.length > 0) {
    section.append(element("h3", {}, "With the files alone, in fresh processes"), confirmation_table(tuning));
  }
  for (const refusal of tuning.refusals) section.append(element("p", {class: "quiet"}, refusal));
  if (tuning.failures.length > 0) {
    section.append(element("ul", {class: "cards"}, ...tuning.failures.map(failure_card)));
  }
  if (tuning.cells.length > 0) {
    section.append(element("details", {}, element("summary", {}, `The search, ${plural(tuning.cells.length, "size")}`),
      search_table(tuning)));
    section.append(element("details", {}, element("summary", {}, "What NCCL offered, and what was measured"), settings_table(tuning)));
  }
  if (tuning.arms.length > 0) section.append(arms_table(tuning));
  if (tuning.ways.length > 0) {
    section.append(element("details", {}, element("summary", {}, "Gain of other ways to call NCCL"), ways_table(tuning)),
      ...tuning.ways.map((way) => element("p", {class: "quiet"}, `${way.name}: ${way.how}.`)));
  }
  for (const [launcher, line] of tuning.loading) {
    section.append(element("p", {}, `With ${launcher}: `, element("code", {}, line)));
  }
}
