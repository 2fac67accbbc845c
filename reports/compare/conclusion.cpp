// Differences between two sides besides their times, and the answer with its exit code and headline.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <span>

#include <fmt/format.h>

#include "bench/base/environment.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/model/job.hpp"
#include "reports/compare/comparing.hpp"
#include "reports/markup.hpp"
#include "reports/nccl_tests.hpp"

namespace p5::reports {

namespace {

using Values = std::set<std::string>;
using Reports = std::span<const Report>;

std::string text_of(const Values& values) {
  return join(std::vector<std::string>(values.begin(), values.end()), " | ");
}

// Names and values of one kind over all reports of a side.
using Facts = std::map<std::string, Values>;

// Numbers of hosts by description: "4 x p5.48xlarge", or one entry each if they differ.
std::string describe_counts(const std::vector<topo::Host>& hosts,
                            const std::function<std::string(const topo::Host&)>& describe) {
  std::map<std::string, int> numbers;
  for (const topo::Host& host : hosts) ++numbers[describe(host)];
  std::vector<std::string> parts;
  for (const auto& [description, number] : numbers) {
    if (description.empty()) return "";
    parts.push_back(numbers.size() == 1 ? description : fmt::format("{} x {}", number, description));
  }
  return join(parts, " + ");
}

// "4 x A + 2 x B".
template <class Name>
std::string text_of(const std::map<Name, int>& numbers) {
  std::vector<std::string> parts;
  for (const auto& [name, number] : numbers) parts.push_back(fmt::format("{} x {}", number, name));
  return join(parts, " + ");
}

// GPUs by name; "" if unknown, as where NVML does not answer and only PCI shows them.
std::string gpus_of(const topo::Host& host) {
  if (std::ranges::any_of(host.gpu_devices, [](const topo::Gpu& gpu) { return gpu.name.empty(); })) return "";
  if (host.gpu_devices.empty()) return host.gpus ? fmt::format("{} GPUs", host.gpus) : "";
  std::map<std::string, int> numbers;
  for (const topo::Gpu& gpu : host.gpu_devices) ++numbers[gpu.name];
  return text_of(numbers);
}

// Names of the GPUs of all hosts; "" if unknown.
std::string models_of(const std::vector<topo::Host>& hosts) {
  Values names;
  for (const topo::Host& host : hosts)
    for (const topo::Gpu& gpu : host.gpu_devices) names.insert(gpu.name);
  return names.contains("") ? "" : text_of(names);
}

// Facts of a machine that its state does not change, or all that was found of it.
enum class HardwareFacts { of_identity, found };

// NVLinks per GPU, active ones or, as its identity, all that it reports; "" if unknown.
std::string links_of(const topo::Host& host, HardwareFacts which) {
  std::map<int, int> numbers;
  for (const topo::Gpu& gpu : host.gpu_devices) {
    const int active = gpu.links.value_or(0);
    ++numbers[which == HardwareFacts::of_identity ? gpu.links_possible.value_or(active) : active];
  }
  if (numbers.empty() || numbers.contains(0)) return "";
  return text_of(numbers);
}

// NICs that are not down with their rates or, as its identity, all of them with the largest rate of their kind: of EFA
// without a rate, since drivers before 2.13 say 100 Gbit/s of every device.
std::string nics_of(const topo::Host& host, HardwareFacts which) {
  const bool identity = which == HardwareFacts::of_identity;
  std::map<std::string, int> numbers;
  for (const topo::Nic& nic : host.nics) {
    if (nic.kind == "virtual" || (!identity && nic.state == "down")) continue;
    double rate = nic.rate ? nic.rate->count : 0;
    for (const topo::Nic& each : host.nics)
      if (identity && each.kind == nic.kind && each.rate) rate = std::max(rate, each.rate->count);
    if (identity && nic.kind == "efa") rate = 0;
    ++numbers[rate > 0 ? fmt::format("{} {:.0f} Gbit/s", nic.kind, rate * 8) : nic.kind];
  }
  return text_of(numbers);
}

void add(Facts& facts, const std::string& name, const std::string& value) {
  if (!value.empty()) facts[name].insert(value);
}

constexpr const char *gpus_fact = "GPUs", *models_fact = "GPU";

Facts hardware_of(Reports reports, HardwareFacts which) {
  Facts facts;
  for (const Report& report : reports) {
    const std::vector<topo::Host>& hosts = report.topology.hosts;
    // Parts of a faulty machine may be missing, which makes it no other one.
    const bool has_all_parts = which == HardwareFacts::found || std::ranges::none_of(report.findings, topo::condemns);
    // Imports lack provenance and hardware; an unknown fact is no difference.
    if (report.provenance != "imported") add(facts, "provenance", report.provenance);
    add(facts, "platform", report.topology.platform);
    add(facts, "instance type", describe_counts(hosts, [](const topo::Host& host) { return host.instance_type; }));
    add(facts, "processor", describe_counts(hosts, [](const topo::Host& host) { return host.cpu_model; }));
    if (has_all_parts) {
      // An import has the GPUs that the ranks used, which may be some of a machine's.
      if (report.provenance != "imported") add(facts, gpus_fact, describe_counts(hosts, gpus_of));
      add(facts, models_fact, models_of(hosts));
      add(facts, "NVLinks", describe_counts(hosts, [&](const topo::Host& host) { return links_of(host, which); }));
      add(facts, "NICs", describe_counts(hosts, [&](const topo::Host& host) { return nics_of(host, which); }));
    }
    if (report.run.nodes > 0) add(facts, "nodes", fmt::format("{}", report.run.nodes));
    if (report.run.ranks > 0) add(facts, "ranks", fmt::format("{}", report.run.ranks));
  }
  return facts;
}

constexpr std::string_view variable_prefix = "env.";  // prefix of variables in a report's context

// True for values that each job has anew, which explain no difference.
bool is_job_specific(std::string_view name) {
  constexpr std::array prefixes{"env.SLURM_JOB_ID", "env.PMIX_MCA_", "nccl-tests.started"};
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
         (name.starts_with(variable_prefix) && p5::is_job_specific(name.substr(variable_prefix.size())));
}

Facts context_of(Reports reports, bool variables) {
  Facts facts;
  for (const Report& report : reports) {
    for (const auto& [name, value] : report.context)
      if (name.starts_with(variable_prefix) == variables && !is_job_specific(name))
        add(facts, variables ? name.substr(variable_prefix.size()) : name, value);
    if (variables) continue;
    add(facts, "p5bench", report.run.version);
    add(facts, "backend", report.run.backend);
    for (const topo::Host& host : report.topology.hosts) {
      add(facts, "kernel", host.kernel);
      add(facts, "GPU driver", host.gpu_driver);
      // The loaded library counts, and not the installed one. NVML reports the driver too.
      for (const auto& [name, value] : host.versions)
        if (name != "nvidia driver" && !report.context.contains(name)) add(facts, name, value);
    }
  }
  return facts;
}

Facts topology_of(Reports reports) {
  Facts facts;
  for (const Report& report : reports) {
    std::vector<std::string> names, instances, order;
    for (const topo::Host& host : report.topology.hosts) {
      names.push_back(host.host_name.empty() ? host.name : host.host_name);
      if (!host.instance.empty()) instances.push_back(host.instance);
    }
    add(facts, "order of hosts", join(names));
    std::ranges::sort(instances);
    add(facts, "instances", join(instances));
    for (const int host : report.topology.host_of_rank) order.push_back(std::to_string(host));
    add(facts, "host of each rank", join(order, " "));
  }
  return facts;
}

// Adds differing facts. A variable that is set on one side only is a difference; an unknown fact is not.
void compare(const Facts& base, const Facts& fresh, const std::string& kind, bool absence_counts,
             std::vector<Difference>& out) {
  Facts all = base;
  all.insert(fresh.begin(), fresh.end());
  for (const auto& [name, values] : all) {
    if (!absence_counts && (!base.contains(name) || !fresh.contains(name))) continue;
    const std::string was = base.contains(name) ? text_of(base.at(name)) : "";
    const std::string is = fresh.contains(name) ? text_of(fresh.at(name)) : "";
    if (was != is) out.push_back({kind, name, was, is});
  }
}

// Adds what differs in hardware. Models of GPUs are told where their numbers are not.
void compare_hardware(Reports base, Reports fresh, HardwareFacts which, std::vector<Difference>& out) {
  std::vector<Difference> found;
  compare(hardware_of(base, which), hardware_of(fresh, which), "hardware", false, found);
  const bool told = std::ranges::find(found, gpus_fact, &Difference::name) != found.end();
  for (Difference& each : found)
    if (!told || each.name != models_fact) out.push_back(std::move(each));
}

bool all_imported(Reports reports) {
  return std::ranges::all_of(reports, [](const Report& each) { return each.provenance == "imported"; });
}

constexpr std::size_t longest_headline = 120;  // exceeded only to name at least one part

std::string rounded_change(double ratio) {
  const double percent = 100 * (ratio - 1);
  return fmt::format("{:+.{}f} %", percent, std::abs(percent) < 9.95 ? 1 : 0);
}

// The row and its change. If a history shows a change, that is the one with the largest ratio of the newest level to
// the level before it.
std::string text_of(const BandRow& row, const Comparison& c, bool dated) {
  const std::string name =
      name_of_row(shown_name(row) + (row.quantity == Quantity::latency ? " latency" : ""), row.threshold.band);
  if (row.change) {
    const Trend::Change& change = c.trend->changes[*row.change];
    const std::string& since = c.trend->points[change.first].started;
    return fmt::format("{} {}{}", name, rounded_change(*change.still),
                       since.empty() || !dated ? "" : " since " + since.substr(0, since.find('T')));
  }
  if (row.time_rose) return fmt::format("{} {}", name, rounded_change(row.time.ratio));
  if (row.mean_rose) return fmt::format("{} slow samples {}", name, rounded_change(row.mean->ratio));
  return fmt::format("{} spread x {:.1f}", name, row.spread->ratio);
}

// Lists as many parts as fit into `room` characters, at least one, and counts the others.
std::string list_of(const std::vector<std::string>& parts, const char* others, std::size_t room) {
  const auto text_of_first = [&](std::size_t count) {
    std::string text = join({parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(count)});
    if (count < parts.size()) text += fmt::format(" and {} more {}", parts.size() - count, others);
    return text;
  };
  std::size_t named = parts.size();
  while (named > 1 && text_of_first(named).size() > room) --named;
  return text_of_first(named);
}

std::string text_of_regressions(const std::vector<const BandRow*>& rows, const Comparison& c, std::size_t room) {
  for (const bool dated : {true, false}) {
    std::vector<std::string> names;
    for (const BandRow* row : rows) names.push_back(text_of(*row, c, dated));
    constexpr std::string_view word = "REGRESSION: ";
    std::string text = std::string(word) + list_of(names, "bands", room - std::min(room, word.size()));
    if (text.size() <= room) return text;
  }
  return fmt::format("REGRESSION in {}", counted(rows.size(), "band"));
}

// "step of moe 5.437 ms instead of 3.201 ms (+69.7 % to +70.1 %)" where a job's step is what was compared; else "".
std::string text_of_step(const Comparison& c) {
  if (c.sizes.size() != 1 || !c.sizes[0].measured_case.replay) return "";
  const SizeRow& row = c.sizes[0];
  return fmt::format("step of {} {:.4g} ms instead of {:.4g} ms ({} to {})", row.measured_case.replay->name,
                     row.new_s * 1e3, row.base_s * 1e3, rounded_change(row.time.interval.low),
                     rounded_change(row.time.interval.high));
}

std::string text_of_figures(const Comparison& c, std::size_t room) {
  const std::string step = text_of_step(c);
  std::vector<const BandRow*> regressions;
  std::size_t open = 0;
  int most_needed = 0, most_runs = 0;
  bool never = false;
  for (const BandRow& row : c.bands) {
    if (row.answer == Answer::regression) regressions.push_back(&row);
    if (row.answer != Answer::inconclusive) continue;
    ++open;
    never = never || !(row.launches_needed || row.runs_needed);
    most_needed = std::max(most_needed, row.launches_needed.value_or(0));
    most_runs = std::max(most_runs, row.runs_needed.value_or(0));
  }
  if (!regressions.empty()) return step.empty() ? text_of_regressions(regressions, c, room) : "REGRESSION: " + step;
  std::string text;
  if (c.bands.empty())
    text = std::string(inconclusive_headline) + ": nothing was measured on both sides" +
           (c.nothing_measured.empty() ? "" : ": " + printable(join(c.nothing_measured)));
  else if (open == 0 && !(c.skipped_rows.empty() && c.failed_rows.empty()))
    text = fmt::format("{}: {} all of {}", inconclusive_headline,
                       c.skipped_rows.empty() ? c.base_name + " failed" : c.new_name + " skipped",
                       list_of(c.skipped_rows.empty() ? c.failed_rows : c.skipped_rows, "rows",
                               room - std::min<std::size_t>(room, 40)));
  else if (open > 0)
    text = fmt::format("{} in {} of {} bands; {}", inconclusive_headline, open, c.bands.size(),
                       never           ? "more launches alone would not settle all of them"
                       : most_runs > 0 ? fmt::format("about {} runs per side would settle it", most_runs)
                                       : fmt::format("about {} launches per side would settle it", most_needed));
  else
    text = fmt::format("{}{}", c.answer == Answer::no_regression ? "NO REGRESSION" : "no slower",
                       step.empty() ? " in " + counted(c.bands.size(), "band") : ": " + step);
  const auto slower =
      std::ranges::count_if(c.sizes, [](const SizeRow& row) { return row.marked && row.time.ratio > 1; });
  if (slower > 0)
    text += fmt::format("; {} {} slower", counted(static_cast<std::size_t>(slower), "single size"),
                        slower == 1 ? "is" : "are");
  if (!c.only_in_base.empty())
    text += fmt::format("; {} of {} not in {}", counted(c.only_in_base.size(), "case"), c.base_name, c.new_name);
  return text;
}

// Clause on wrong data or failures, and how many of them BASE had too.
std::string text_of_troubles(const Comparison& c, bool wrong_data) {
  std::size_t count = 0, before = 0;
  for (const FailedCase& each : c.troubles) {
    if (each.wrong_data != wrong_data) continue;
    ++count;
    before += each.in_base;
  }
  if (count == 0) return "";
  const std::string too = before == 0       ? ""
                          : before == count ? fmt::format(", as of {}", c.base_name)
                                            : fmt::format(", {} of them as of {}", before, c.base_name);
  const std::string text =
      fmt::format("{} in {} of {}{}", wrong_data ? "WRONG DATA" : "FAILED", counted(count, "case"), c.new_name, too);
  if (wrong_data || !c.bands.empty()) return text;
  // Where no figure is left, what failed is all that there is to say.
  constexpr std::size_t longest_reason = 160;
  const std::string& why = std::ranges::find(c.troubles, false, &FailedCase::wrong_data)->what;
  return fmt::format("{}: {}", text,
                     printable(why.size() <= longest_reason ? why : why.substr(0, longest_reason) + "..."));
}

std::string text_of_failed_run(const Comparison& c, ExitCode code) {
  const auto found = std::ranges::find(c.bad_ends, code, &FailedRun::code);
  if (found == c.bad_ends.end()) return "";
  return code == ExitCode::wrong_data ? fmt::format("WRONG DATA in {}", c.new_name)
                                      : fmt::format("{} DID NOT FINISH ({})", c.new_name, printable(found->because));
}

}  // namespace

std::vector<Difference> differences_of(std::span<const Report> base, std::span<const Report> fresh) {
  std::vector<Difference> all;
  compare_hardware(base, fresh, HardwareFacts::found, all);
  compare(context_of(base, false), context_of(fresh, false), "software", false, all);
  compare(context_of(base, true), context_of(fresh, true), "environment", !all_imported(base) && !all_imported(fresh),
          all);
  compare(topology_of(base), topology_of(fresh), "topology", false, all);
  return all;
}

std::string other_hardware(std::span<const Report> base, std::span<const Report> fresh, std::string_view between) {
  std::vector<Difference> all;
  compare_hardware(base, fresh, HardwareFacts::of_identity, all);
  std::vector<std::string> texts;
  for (const Difference& each : all)
    texts.push_back(fmt::format("{}: {}{}{}", each.name, each.base, between, each.fresh));
  return join(texts, "; ");
}

std::string other_waiting(const Report& base, const Report& fresh) {
  // "yes", "no", or "" where an import does not say it. Throughput of p5bench is that of bursts.
  const auto waits = [](const Report& report) -> std::string {
    if (report.provenance != "imported") return "no";
    const auto found = report.context.find(std::string(nccl_tests::blocking_context));
    return found == report.context.end() ? "" : found->second;
  };
  const std::string was = waits(base), is = waits(fresh);
  if (was.empty() || is.empty() || was == is) return "";
  return fmt::format("its operations were {}, and here they are {}",
                     was == "yes" ? "waited for one by one (-z)" : "bursts",
                     is == "yes" ? "waited for one by one (-z)" : "bursts");
}

bool precedes(const BandRow& one, const BandRow& other) {
  if (one.answer != other.answer) return one.answer > other.answer;
  return one.answer == Answer::regression && one.time.ratio > other.time.ratio;
}

std::string shown_name(const BandRow& row) {
  if (row.only.empty()) return row.collective;
  constexpr std::size_t most_named = 3;
  std::vector<std::string> sizes;
  for (const Bytes bytes : row.only) sizes.push_back(to_text(bytes));
  return fmt::format("{} ({})", row.collective,
                     sizes.size() <= most_named
                         ? join(sizes)
                         : fmt::format("{} sizes from {} to {}", sizes.size(), sizes.front(), sizes.back()));
}

std::string text_of(const Suspect& suspect) {
  const std::string& kind = suspect.kind;
  return fmt::format("{} {}", kind == "gpu" || kind == "nic" ? upper_case(kind) : kind, suspect.name);
}

void conclude(Comparison& c) {
  const auto found_faulty_part = [](const FailedRun& end) { return end.code == ExitCode::slow; };
  const bool in_trouble = !c.troubles.empty() || !std::ranges::all_of(c.bad_ends, found_faulty_part) ||
                          c.wrong_in_base > 0 || c.failed_in_base > 0;
  const bool lacks_rows = c.bands.empty() || !c.skipped_rows.empty() || !c.failed_rows.empty();
  c.answer = lacks_rows || in_trouble ? Answer::inconclusive : Answer::no_regression;
  for (const BandRow& row : c.bands) c.answer = std::max(c.answer, row.answer);
  const auto faulty_run = std::ranges::find_if(c.bad_ends, found_faulty_part);
  if (!c.new_suspects.empty() || faulty_run != c.bad_ends.end()) c.answer = Answer::regression;
  c.exit_code = c.answer == Answer::regression     ? ExitCode::slow
                : c.answer == Answer::inconclusive ? ExitCode::inconclusive
                                                   : ExitCode::ok;
  for (const FailedCase& each : c.troubles)
    c.exit_code = worse(c.exit_code, each.wrong_data ? ExitCode::wrong_data : ExitCode::unfinished);
  for (const FailedRun& each : c.bad_ends) c.exit_code = worse(c.exit_code, each.code);
  if (c.wrong_in_base > 0) c.exit_code = worse(c.exit_code, ExitCode::wrong_data);
  if (c.failed_in_base > 0) c.exit_code = worse(c.exit_code, ExitCode::unfinished);

  std::string first;
  std::string wrong = text_of_troubles(c, true);
  if (wrong.empty()) wrong = text_of_failed_run(c, ExitCode::wrong_data);
  if (wrong.empty() && c.wrong_in_base > 0)
    wrong = fmt::format("WRONG DATA in {} of {}", counted(c.wrong_in_base, "case"), c.base_name);
  const std::string base_failed =
      c.failed_in_base > 0 ? fmt::format("FAILED in {} of {}", counted(c.failed_in_base, "case"), c.base_name) : "";
  for (const std::string& part :
       {wrong, base_failed, text_of_troubles(c, false), text_of_failed_run(c, ExitCode::unfinished)})
    if (!part.empty()) first += part + "; ";
  std::string last;
  const auto runs_with_faulty_part = static_cast<std::size_t>(std::ranges::count_if(c.bad_ends, found_faulty_part));
  const char* const word = c.repeated > 0 && c.repeated == runs_with_faulty_part + c.new_suspects.size()
                               ? "AS BAD AS BEFORE: "
                               : "REGRESSION: ";
  const bool figures_too =
      std::ranges::any_of(c.bands, [](const BandRow& row) { return row.answer == Answer::regression; });
  std::vector<std::string> accusations;
  if (faulty_run != c.bad_ends.end())
    accusations.push_back(fmt::format("{} found {}", c.new_name,
                                      printable(faulty_run->because.substr(0, faulty_run->because.find(':')))));
  if (!c.new_suspects.empty()) {
    std::vector<std::string> names;
    for (const Suspect& each : c.new_suspects) names.push_back(text_of(each));
    constexpr std::size_t longest_list = 40;
    accusations.push_back(fmt::format("{} suspects {}", c.new_name, list_of(names, "parts", longest_list)));
  }
  if (figures_too)
    for (const std::string& each : accusations) last += "; " + each;
  else if (!accusations.empty())
    first += word + join(accusations, "; ") + "; ";
  if (c.screening) last += " (screening)";
  const std::size_t taken = first.size() + last.size();
  c.headline = first + text_of_figures(c, longest_headline - std::min(longest_headline, taken)) + last;
}

}  // namespace p5::reports
