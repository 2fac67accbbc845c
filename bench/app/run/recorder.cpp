#include "bench/app/run/recorder.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/app/run/arm_comparison.hpp"
#include "bench/app/run/sides.hpp"
#include "bench/base/clock.hpp"
#include "bench/measure/launches.hpp"
#include "reports/atomic_file.hpp"
#include "reports/joining.hpp"
#include "reports/local_checks.hpp"
#include "reports/slow_launches.hpp"
#include "reports/writer.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;

// `latest` is ours to move only where it is a link.
void refuse_in_the_way(const fs::path& link) {
  std::error_code problem;
  const fs::file_status status = fs::symlink_status(link, problem);
  if (fs::exists(status) && !fs::is_symlink(status))
    throw UsageError(
        fmt::format("'{}' is in the way of the link to the latest run; move it or name another --out", link.string()));
}

// A new folder named by the time; two runs within one second get different ones.
fs::path new_folder(const fs::path& parent) {
  refuse_in_the_way(parent / "latest");
  refuse_in_the_way(parent.parent_path() / "latest");
  reports::make_folder(parent);
  std::string stamp = utc_now();
  std::erase_if(stamp, [](char c) { return c == '-' || c == ':'; });
  for (int i = 1;; ++i) {
    const fs::path folder = parent / (i == 1 ? stamp : fmt::format("{}-{}", stamp, i));
    std::error_code problem;
    if (fs::create_directory(folder, problem)) return folder;
    if (problem) reports::make_folder(folder);  // says what is wrong
  }
}

// Under mpirun stderr is a pipe to it: look at where the launcher's own stderr goes.
bool stderr_is_terminal() {
  if (isatty(STDERR_FILENO)) return true;
  std::error_code problem;
  const fs::path target = fs::read_symlink(fmt::format("/proc/{}/fd/2", ::getppid()), problem);
  return !problem && (target.string().starts_with("/dev/pts/") || target.string().starts_with("/dev/tty"));
}

// What lost ranks left word of, which is then removed.
std::string take_notes(const fs::path& folder) {
  std::string words;
  std::error_code problem;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, problem)) {
    if (!entry.path().filename().string().starts_with("lost-rank-")) continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    words += (words.empty() ? "" : "; ") + text.str();
    fs::remove(entry.path(), problem);
  }
  return words;
}

// The journal keeps the samples; the report needs only what they sum up to.
void drop_samples(Measurement& m) {
  for (std::optional<Series>* series : {&m.latency, &m.throughput})
    if (*series) std::vector<double>().swap((*series)->samples);
  // A group of the whole job tells nothing and may be large.
  if (!m.measured_case.collective->pairwise) m.slowest_group.clear();
  if (m.groups.size() == 1 && !m.measured_case.collective->pairwise) m.groups.clear();
}

}  // namespace

fs::path note_of_rank(const fs::path& folder, int rank) { return folder / fmt::format("lost-rank-{}", rank); }

Recorder::Recorder(const Options& options, reports::Report report, std::optional<reports::Side> baseline)
    : options_(options),
      baseline_(std::move(baseline)),
      folder_(new_folder(fs::path(options.out) / report.run.cluster)),
      report_(std::move(report)) {
  terminal_ = !options.quiet && stderr_is_terminal();
  report_.run.started = utc_now();
  reports::point_link(folder_.parent_path() / "latest", folder_.filename());
  reports::point_link(fs::path(options.out) / "latest", fs::path(report_.run.cluster) / folder_.filename());
  const std::lock_guard lock(mutex_);
  write_reports(false);
}

void Recorder::go_on(const EarlierRun& earlier, Kept kept) {
  const std::lock_guard lock(mutex_);
  const std::string how =
      earlier.report.run.ended_by.empty() ? "" : fmt::format(", which was ended: {}", earlier.report.run.ended_by);
  report_.run.remarks.push_back(fmt::format("goes on with the run of {} ({}){}; {} results are of that one",
                                            earlier.report.run.started, earlier.folder.string(), how,
                                            kept.results.size()));
  kept_ = kept.results.size();
  report_.results = std::move(kept.results);
  add_file("measurements.jsonl", kept.journal);
  write_reports(false);
}

void Recorder::begin(topo::Limits limits, std::vector<topo::Finding> findings, reports::Fitness fitness) {
  const std::lock_guard lock(mutex_);
  report_.limits = std::move(limits);
  report_.findings = std::move(findings);
  fitness_ = std::move(fitness);
  for (reports::Result& result : report_.results) result.verdict = judge(result.measurement);
  write_reports(false);
}

void Recorder::add_findings(std::vector<topo::Finding> findings) {
  const std::lock_guard lock(mutex_);
  std::ranges::move(findings, std::back_inserter(report_.findings));
  std::ranges::stable_sort(report_.findings, {}, &topo::Finding::severity);
}

void Recorder::add_local_checks(std::vector<LocalFigures> of_ranks) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || of_ranks.empty() || of_ranks.front().empty()) return;
    report_.local_checks = std::move(of_ranks);
  }
  add_findings(reports::slow_alone(report_));
}

void Recorder::add_file(const std::string& name, const std::string& text) const {
  reports::write_atomically(folder_ / name, text);
}

void Recorder::visit_started(const Case& c, const Standing& standing) {
  const std::lock_guard lock(mutex_);
  running_ = c;
  standing_ = standing;
  if (standing.several) launch_started_.try_emplace({c.arm, standing.launch}, utc_now());
  if (terminal_ && since(shown_).count > 0.2)
    show_progress(fmt::format("{:>3} %  {} of {}, {}, about {} left", 100 * standing.index / standing.count,
                              standing.index + 1, standing.count, describe(c), to_text(standing.left)));
}

void Recorder::visit_finished(const Measurement& so_far, bool /*failed*/) {
  const std::lock_guard lock(mutex_);
  running_.reset();
  begun_.insert_or_assign(standing_.number, so_far);
}

void Recorder::case_finished(const Measurement& m, bool /*failed*/) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  running_.reset();
  begun_.erase(standing_.number);
  add(standing_.number, m);
  // A hundredth of the time at most: the report of a long run takes a while to write.
  if (since(written_).count > std::max(2.0, 100 * writing_s_)) write_reports(false);
}

reports::ArmInfo* Recorder::find_arm(const std::string& name) {
  const auto found = std::ranges::find(report_.arms, name, &reports::ArmInfo::name);
  return found == report_.arms.end() ? nullptr : &*found;
}

void Recorder::launch_started(const Arm& arm, const std::vector<Backend::Variables>& of_ranks) {
  const std::lock_guard lock(mutex_);
  reports::ArmInfo* const info = find_arm(arm.name);
  if (!info) return;
  ++info->launches;
  info->context = of_ranks.front();
  info->context.erase("gpu.uuid");
}

void Recorder::launch_failed(const Arm& arm, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (reports::ArmInfo* const info = find_arm(arm.name)) info->problem = why;
}

// At once: what follows may take as long again.
void Recorder::joining_failed(const JoinFailure& failure) {
  fmt::print(stderr, "p5bench: {}\n", reports::join_message(failure));
  std::fflush(stderr);
  add_findings(reports::join_findings(failure));
  const std::lock_guard lock(mutex_);
  if (!ended_) write_reports(false);
}

void Recorder::remark(const std::string& text) {
  const std::lock_guard lock(mutex_);
  report_.run.remarks.push_back(text);
}

std::string Recorder::reason_not_to_tune() {
  const std::lock_guard lock(mutex_);
  combine_launches();
  for (const reports::Result& result : report_.results) {
    const Measurement& m = result.measurement;
    if (m.outcome == Outcome::failed || m.wrong_elements > 0)
      return fmt::format("{} {}: nobody tunes around a fault", describe(m.measured_case),
                         m.wrong_elements > 0 ? "gave wrong data" : "failed");
  }
  for (const topo::Finding& finding : report_.findings)
    if (finding.id == reports::check_failed)
      return fmt::format("a GPU failed alone ({}): nobody tunes around a fault", finding.evidence);
  return "";
}

void Recorder::add_tuning(reports::Tuning tuning) {
  const std::lock_guard lock(mutex_);
  report_.tuning = std::move(tuning);
}

void Recorder::add_watch(const std::vector<std::vector<topo::During>>& by_case, std::uint64_t least_sent) {
  const std::lock_guard lock(mutex_);
  if (ended_ || by_case.empty()) return;
  for (std::size_t i = 0; kept_ + i < report_.results.size() && i + 1 < by_case.size(); ++i)
    if (const topo::CaseWatch during = topo::over_hosts(by_case[i + 1]); during.seconds > 0)
      report_.results[kept_ + i].during = during;
  std::ranges::move(topo::watch_findings(report_.topology, by_case.front(), least_sent),
                    std::back_inserter(report_.findings));
  std::ranges::stable_sort(report_.findings, {}, &topo::Finding::severity);
}

ExitCode Recorder::finish() {
  const std::lock_guard lock(mutex_);
  if (ended_) return report_.exit_code;
  report_.status = "complete";
  close_run("");
  report_.exit_code = reports::exit_code(report_);
  const std::string comparison = report_.arms.empty() ? "" : compare_and_write();
  const std::string against_baseline = baseline_ ? compare_with_baseline() : "";
  write_reports(true);
  fmt::print("{}{}", closing_text(comparison), against_baseline);
  fmt::print("Report: {}\n", folder_.string());
  std::fflush(stdout);
  return report_.exit_code;
}

void Recorder::end_early(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  const std::string notes = take_notes(folder_);
  const std::string reason = notes.empty() ? why : fmt::format("{} ({})", notes, why);
  if (running_) begun_.try_emplace(standing_.number).first->second.measured_case = *running_;
  for (auto& [number, m] : begun_) {
    if (m.outcome != Outcome::failed) m.because = reason;
    m.outcome = Outcome::failed;
    if (standing_.several) m.launch = standing_.launch;
    add(number, m);
  }
  report_.status = "partial";
  close_run(reason);
  report_.exit_code = worse(reports::exit_code(report_), ExitCode::unfinished);
  write_reports(true);
  fmt::print(stderr, "p5bench: {}; what was measured until then is in {}\n", reason, folder_.string());
  std::fflush(stderr);
}

// With the lock held, as all below. The whole on a console, or one line.
std::string Recorder::closing_text(const std::string& comparison) const {
  const bool whole = !options_.quiet && std::ranges::find(options_.formats, "console") != options_.formats.end();
  if (!report_.arms.empty())
    return whole ? reports::render_outline(report_) + "\n" + comparison
                 : comparison.substr(comparison.rfind('\n', comparison.size() - 2) + 1);
  if (whole && reports::never_joined(report_)) return reports::render_outline(report_);  // of cases there is nothing
  if (whole) return reports::render_console(report_);
  return fmt::format("{}\n", report_.grade == reports::Grade::unknown ? "NOT JUDGED" : reports::name_of(report_.grade));
}

void Recorder::close_run(const std::string& ended_by) {
  ended_ = true;
  report_.run.ended_by = ended_by;
  report_.run.ended = utc_now();
  combine_launches();
  look_at_launches();
  report_.grade = reports::overall(report_);
  if (terminal_) show_progress("");
}

void Recorder::add(std::size_t number, const Measurement& m) {
  const reports::Result line{m, judge(m)};
  reports::append_line(folder_ / "measurements.jsonl",
                       to_json(line, true).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  const auto [place, first] = launches_.try_emplace(number, Launches{report_.results.size(), {}});
  if (first) report_.results.emplace_back();
  reports::Result& result = report_.results[place->second.at];
  if (m.launch) {
    place->second.all.push_back(m);
    place->second.combined = false;
    if (first) result.measurement.measured_case = m.measured_case;
  } else {
    result = line;
    drop_samples(result.measurement);
  }
}

// What each case's launches come to together.
void Recorder::combine_launches() {
  for (auto& [number, launches] : launches_) {
    if (launches.combined) continue;
    const int planned = options_.soak.count > 0 ? static_cast<int>(launches.all.size()) : options_.launches;
    reports::Result& result = report_.results[launches.at];
    result.measurement = combine(launches.all, planned);
    result.verdict = judge(result.measurement);
    drop_samples(result.measurement);
    launches.combined = true;
    report_.run.launches = std::max(report_.run.launches, planned);
  }
}

// Once, at the end of the run.
void Recorder::look_at_launches() {
  std::vector<const reports::LaunchesOfCase*> cases;
  for (const auto& [number, launches] : launches_) cases.push_back(&launches.all);
  std::ranges::move(reports::slow_launches(cases, launch_started_), std::back_inserter(report_.findings));
  std::ranges::stable_sort(report_.findings, {}, &topo::Finding::severity);
}

reports::Verdict Recorder::judge(const Measurement& m) const {
  return reports::judge(m, report_.limits, report_.topology, fitness_);
}

void Recorder::write_reports(bool pages) {
  const auto began = Clock::now();
  combine_launches();
  report_.run.wall_s = since(started_).count;
  for (const reports::Writer& writer : reports::writers()) {
    const bool wanted =
        writer.name == "json" || (pages && std::ranges::find(options_.formats, writer.name) != options_.formats.end());
    if (wanted && writer.render && !writer.suffix.empty())
      reports::write_atomically(folder_ / writer.file_name("report"), writer.render(report_));
  }
  written_ = Clock::now();
  writing_s_ = since(began).count;
}

// The answer of an `ab`, in all wanted formats beside the report; its exit code becomes the run's. Returns the text for
// the console.
std::string Recorder::compare_and_write() {
  std::vector<reports::Result> journal;
  for (const auto& [number, launches] : launches_)
    for (const Measurement& m : launches.all) journal.push_back({m, {}});
  std::string why_not;
  std::optional<reports::Comparison> comparison = compare_arms(report_, std::move(journal), why_not);
  if (!comparison) {
    report_.exit_code = worse(report_.exit_code, ExitCode::unfinished);
    return fmt::format("The arms cannot be compared: {}\n", why_not);
  }
  comparison->made = report_.run.ended;
  report_.exit_code = worse(report_.exit_code, comparison->exit_code);
  write_beside(*comparison);
  return reports::render_console(*comparison);
}

// What the baseline says of this run; the exit code becomes the run's. Returns the text for the console.
std::string Recorder::compare_with_baseline() {
  write_reports(false);  // the run is read like any other
  try {
    const std::vector<reports::Run> runs{reports::read_run(folder_.string())};
    reports::Comparison comparison =
        reports::compare(*baseline_, reports::make_side("NEW", runs), {.seed = report_.run.seed});
    comparison.made = report_.run.ended;
    report_.exit_code = worse(report_.exit_code, comparison.exit_code);
    write_beside(comparison);
    return options_.quiet ? comparison.headline + "\n" : "\n" + reports::render_console(comparison);
  } catch (const UsageError& problem) {
    report_.exit_code = worse(report_.exit_code, ExitCode::inconclusive);
    return fmt::format("This run cannot be compared with the baseline: {}\n", problem.what());
  }
}

void Recorder::write_beside(const reports::Comparison& comparison) const {
  std::vector<std::string> formats = options_.formats;
  if (std::ranges::find(formats, "json") == formats.end()) formats.push_back("json");
  write_comparison(comparison, formats, folder_);
}

void Recorder::show_progress(const std::string& line) {
  fmt::print(stderr, "\r\033[K{}", line);
  std::fflush(stderr);
  shown_ = Clock::now();
}

}  // namespace p5
