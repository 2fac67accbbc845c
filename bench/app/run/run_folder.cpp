#include "bench/app/run/run_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "bench/app/machine/workers.hpp"
#include "bench/base/environment.hpp"
#include "bench/base/error.hpp"
#include "bench/base/input.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/thread.hpp"
#include "reports/atomic_file.hpp"
#include "reports/journal.hpp"
#include "reports/nodes.hpp"
#include "reports/report.hpp"
#include "reports/writer.hpp"
#include "topo/topology.hpp"

namespace p5 {

struct FileWriter::State {
  enum class Action { replace, append, remove };
  struct Task {
    std::filesystem::path path;
    std::string text;
    Action action = Action::replace;
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Task> waiting;
  std::filesystem::path writing;  // the file being written
  std::exception_ptr problem;     // not thrown yet
  bool only_in_flush = false;
  bool unanswered = false;  // a flush gave up, and nothing was written since
  bool done = false;
  Perform write_file;

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return done || !waiting.empty(); });
      if (done) return;
      Task task = std::move(waiting.front());
      waiting.pop_front();
      writing = std::move(task.path);
      lock.unlock();
      const std::exception_ptr failure = perform(writing, task);
      lock.lock();
      writing.clear();
      unanswered = false;
      if (!problem) problem = failure;
      changed.notify_all();
    }
  }

  // Lack of memory is no fault of the disk.
  std::exception_ptr perform(const std::filesystem::path& path, const Task& task) const try {
    const bool removes = task.action == Action::remove, appends = task.action == Action::append;
    if (write_file && !removes)
      write_file(path, task.text, appends);
    else if (appends)
      reports::append_line(path, task.text);
    else if (!removes)
      reports::write_atomically(path, task.text);
    else if (std::filesystem::is_regular_file(std::filesystem::symlink_status(path)))
      std::filesystem::remove(path);
    return nullptr;
  } catch (const std::bad_alloc&) {
    return std::current_exception();
  } catch (const std::exception& failure) {
    return std::make_exception_ptr(EnvironmentError(failure.what()));
  }

  // A newer text of a file replaces one that still waits.
  void add(Task task) {
    const std::lock_guard lock(mutex);
    const auto last =
        std::find_if(waiting.rbegin(), waiting.rend(), [&](const Task& each) { return each.path == task.path; });
    if (last != waiting.rend() && last->action == Action::replace && task.action == Action::replace)
      last->text = std::move(task.text);
    else
      waiting.push_back(std::move(task));
    changed.notify_all();
    throw_problem();
  }

  // Requires the lock.
  void throw_problem(bool flushes = false) {
    if (problem && (flushes || !only_in_flush)) std::rethrow_exception(std::exchange(problem, nullptr));
  }
};

FileWriter::FileWriter(Perform perform) : state_(std::make_shared<State>()) {
  state_->write_file = std::move(perform);
  start_thread([state = state_] { state->run(); }).detach();
}

FileWriter::~FileWriter() {
  const std::lock_guard lock(state_->mutex);
  state_->done = true;
  state_->changed.notify_all();
}

void FileWriter::write(const std::filesystem::path& path, std::string text) { state_->add({path, std::move(text)}); }

void FileWriter::append(const std::filesystem::path& path, std::string line) {
  state_->add({path, std::move(line), State::Action::append});
}

void FileWriter::remove(const std::filesystem::path& path) { state_->add({path, "", State::Action::remove}); }

void FileWriter::flush(Seconds timeout) {
  const Seconds once_more{std::min(1.0, timeout.count / 10)};
  std::unique_lock lock(state_->mutex);
  const auto is_idle = [&] { return state_->waiting.empty() && state_->writing.empty(); };
  const auto wait = [&](Seconds time, const auto& ends) {
    state_->changed.wait_for(lock, std::chrono::duration<double>(time.count), ends);
  };
  if (state_->unanswered) wait(once_more, [&] { return !state_->unanswered; });
  if (!state_->unanswered) wait(timeout, is_idle);
  state_->unanswered = !is_idle();
  if (state_->unanswered)
    throw EnvironmentError(fmt::format("a file system does not answer: '{}' is not written after {}",
                                       state_->writing.string(), to_text(timeout)));
  state_->throw_problem(true);
}

void FileWriter::throw_only_in_flush() {
  const std::lock_guard lock(state_->mutex);
  state_->only_in_flush = true;
}

void FileWriter::check() {
  const std::lock_guard lock(state_->mutex);
  state_->throw_problem();
}

namespace {

namespace fs = std::filesystem;

constexpr const char* note_prefix = "lost-rank-";
constexpr Bytes largest_note = KiB(64);

// Timeout of a rank that writes or removes its note.
constexpr Seconds note_for_leader_timeout{10};

// `latest` may be replaced only if it is a link.
void require_link_or_nothing(const fs::path& link) {
  std::error_code problem;
  const fs::file_status status = fs::symlink_status(link, problem);
  if (fs::exists(status) && !fs::is_symlink(status))
    throw UsageError(
        fmt::format("'{}' is in the way of the link to the latest run; move it or name another --out", link.string()));
}

// Start second of a run and its number within that second: STAMP, STAMP-2, STAMP-3.
std::pair<std::string, int> parse_stamp(const fs::path& run) {
  const std::string name = run.filename().string();
  const std::size_t dash = name.find('-');
  int number = 1;
  if (dash != std::string::npos) std::from_chars(name.data() + dash + 1, name.data() + name.size(), number);
  return {name.substr(0, dash), number};
}

// Exclusive lock on a folder of runs; no lock if the file system has none.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder) : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (fd_ >= 0) (void)::flock(fd_, LOCK_EX);
  }
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

// A run that started later in the same second in the same cluster keeps the link. Numbers of different clusters do not
// compare, so the last writer wins there.
void point_latest(const fs::path& link, const fs::path& target) {
  const FolderLock lock(link.parent_path());
  std::error_code problem;
  const fs::path before = fs::read_symlink(link, problem);
  const auto there = parse_stamp(before), mine = parse_stamp(target);
  if (before.parent_path() == target.parent_path() && there.first == mine.first && there.second > mine.second) return;
  reports::replace_link(link, target);
}

// Creates a folder named by the time; runs within one second get different names.
fs::path new_folder(const fs::path& parent) {
  require_link_or_nothing(parent / "latest");
  require_link_or_nothing(parent.parent_path() / "latest");
  reports::make_folder(parent);
  std::string stamp = utc_now();
  std::erase_if(stamp, [](char c) { return c == '-' || c == ':'; });
  for (int i = 1;; ++i) {
    const fs::path folder = parent / (i == 1 ? stamp : fmt::format("{}-{}", stamp, i));
    std::error_code problem;
    if (fs::create_directory(folder, problem)) return folder;
    if (problem) reports::make_folder(folder);  // throws with the reason
  }
}

}  // namespace

RunFolder::RunFolder(const fs::path& out, const std::string& cluster)
    : path_(new_folder(out / cluster)), files_(std::make_unique<FileWriter>()) {}

void RunFolder::become_latest() {
  if (!files_) return;
  const fs::path of_cluster = path_.parent_path();
  point_latest(of_cluster / "latest", path_.filename());
  point_latest(of_cluster.parent_path() / "latest", of_cluster.filename() / path_.filename());
}

namespace {

// The formats that are files beside report.json.
std::vector<const reports::Writer*> format_files_of(const std::vector<std::string>& formats) {
  std::vector<const reports::Writer*> wanted;
  for (const reports::Writer& writer : reports::writers())
    if (writer.name != "json" && !writer.suffix.empty() && std::ranges::find(formats, writer.name) != formats.end())
      wanted.push_back(&writer);
  return wanted;
}

}  // namespace

void RunFolder::write_formats(const reports::Report& report, const std::vector<std::string>& formats) {
  if (!files_) return;
  for (const reports::Writer* const writer : format_files_of(formats))
    write(writer->file_name("report"), writer->render(report));
}

void RunFolder::rewrite_formats(const reports::Report& report, const std::vector<std::string>& formats) {
  if (!files_) return;
  for (const reports::Writer* const writer : format_files_of(formats))
    files_->remove(path_ / writer->file_name("report"));
  write_formats(report, formats);
}

void RunFolder::write_report(const reports::Report& report) {
  if (!files_) return;
  const reports::Writer& writer = reports::find_writer("json");
  write(writer.file_name("report"), writer.render(report));
}

void RunFolder::rewrite_report(const reports::Report& report) {
  if (!files_) return;
  files_->remove(path_ / reports::find_writer("json").file_name("report"));
  write_report(report);
}

void RunFolder::add_to_journal(const reports::Result& result) {
  if (!files_) return;
  files_->append(path_ / "measurements.jsonl",
                 to_json(result, true).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void RunFolder::flush() {
  if (files_) files_->flush(flush_timeout_);
}

namespace {

std::string take_notes_in(const fs::path& folder) {
  std::set<std::string> texts;  // ranks of one host may find the same
  std::error_code problem;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, problem)) {
    if (!entry.path().filename().string().starts_with(note_prefix)) continue;
    try {
      texts.insert(read_input(entry.path(), largest_note, ""));
    } catch (const UsageError&) {
      continue;  // not a note of this program
    }
    fs::remove(entry.path(), problem);
  }
  return join(std::vector(texts.begin(), texts.end()), "; ");
}

}  // namespace

std::string RunFolder::take_notes() const {
  if (!files_) return "";
  return call_within<std::string>(take_notes_timeout_, [folder = path_] { return take_notes_in(folder); }).value_or("");
}

void require_no_file_of_run(std::string_view option, const fs::path& file) {
  std::error_code problem;
  const fs::path place = fs::weakly_canonical(fs::absolute(file), problem);
  const auto is_there = [&](const fs::path& path) { return fs::exists(fs::symlink_status(path, problem)); };
  if (place.empty() || !is_there(place) || !is_there(place.parent_path() / reports::journal_name)) return;
  throw UsageError(fmt::format("{}: '{}' is a file of a run, which this would replace; name another", option,
                               printable(file.string())));
}

void write_note_for_leader(const fs::path& folder, int rank, const std::string& why) try {
  (void)call_within<bool>(note_for_leader_timeout, [file = folder / fmt::format("{}{}", note_prefix, rank), why] {
    reports::write_atomically(file, why);
    return true;
  });
} catch (const std::exception&) {
  // The job ends anyway, without the reason.
}

void remove_note_for_leader(const fs::path& folder, int rank) {
  (void)call_within<bool>(note_for_leader_timeout, [file = folder / fmt::format("{}{}", note_prefix, rank)] {
    std::error_code problem;
    return fs::remove(file, problem);
  });
}

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Identifies a case by its JSON, so by everything that a measurement depends on. `pairs_sampled` is a result of the
// budget, not of the plan.
std::string key_of(const Case& c) {
  json key = reports::to_json(c);
  key.erase("pairs_sampled");
  return key.dump(-1, ' ', false, json::error_handler_t::replace);
}

UsageError refusal(const EarlierRun& earlier, const std::string& why) {
  return UsageError(fmt::format("--resume: {}: {}; start without --resume", earlier.folder.string(), why));
}

std::string hosts_of(const reports::Report& report) {
  std::string names;
  for (const topo::Host& host : report.topology.hosts) names += (names.empty() ? "" : ",") + host.name;
  return names;
}

std::string arms_of(const reports::Report& report) {
  json arms = json::object();
  for (const reports::ArmInfo& arm : report.arms) arms[arm.name] = arm.settings;
  return arms.dump(-1, ' ', false, json::error_handler_t::replace);
}

// A host's name stays when its machine or a GPU is replaced.
void require_same_hardware(const EarlierRun& earlier, const topo::Topology& fresh) {
  const topo::Topology& then = earlier.report.topology;
  if (then.host_of_rank != fresh.host_of_rank) throw refusal(earlier, "its ranks were on the hosts in another order");
  const auto same = [&](const std::string& what, const std::string& was, const std::string& is) {
    if (!was.empty() && !is.empty() && was != is)
      throw refusal(earlier, fmt::format("{} was '{}', now it is '{}'", what, was, is));
  };
  for (std::size_t i = 0; i < std::min(then.hosts.size(), fresh.hosts.size()); ++i)
    same("the instance of " + fresh.hosts[i].name, then.hosts[i].instance, fresh.hosts[i].instance);
  for (std::size_t rank = 0; rank < std::min(then.gpu_of_rank.size(), fresh.gpu_of_rank.size()); ++rank) {
    const auto host = static_cast<std::size_t>(fresh.host_of_rank.at(rank));
    same(fmt::format("the GPU of rank {} on {}", rank, fresh.hosts.at(host).name), then.gpu_of_rank[rank],
         fresh.gpu_of_rank[rank]);
  }
}

std::set<std::string> known_gpus_of(const topo::Topology& topology, std::ptrdiff_t host) {
  std::set<std::string> gpus;
  for (std::size_t rank = 0; rank < std::min(topology.gpu_of_rank.size(), topology.host_of_rank.size()); ++rank)
    if (topology.host_of_rank[rank] == host && !topology.gpu_of_rank[rank].empty())
      gpus.insert(topology.gpu_of_rank[rank]);
  return gpus;
}

// True if both have this host, with the same instance and GPUs as far as these are known.
bool have_same_host(const topo::Topology& then, const topo::Topology& now, const std::string& name) {
  const auto was = std::ranges::find(then.hosts, name, &topo::Host::name);
  const auto is = std::ranges::find(now.hosts, name, &topo::Host::name);
  if (was == then.hosts.end() || is == now.hosts.end()) return false;
  if (!was->instance.empty() && !is->instance.empty() && was->instance != is->instance) return false;
  const std::set<std::string> before = known_gpus_of(then, was - then.hosts.begin());
  const std::set<std::string> after = known_gpus_of(now, is - now.hosts.begin());
  return std::ranges::includes(before, after) || std::ranges::includes(after, before);
}

// Findings concern machines, whatever software found them: those of hosts that are replaced or left out are dropped.
void drop_findings_of_other_hosts(reports::Report& earlier, const topo::Topology& now) {
  const auto is_there = [&](const std::string& host) { return have_same_host(earlier.topology, now, host); };
  std::erase_if(earlier.findings, [&](const topo::Finding& each) {
    if (!each.subject.host.empty()) return !is_there(each.subject.host);
    if (!each.hosts.empty()) return !std::ranges::all_of(each.hosts, is_there);
    return !std::ranges::all_of(earlier.topology.hosts, is_there, &topo::Host::name);
  });
}

// Results of both runs share one report, so machine, versions and layout must match.
void require_same_job(const EarlierRun& earlier, const reports::Report& fresh) {
  const auto same = [&](const std::string& what, const std::string& then, const std::string& now) {
    if (then != now) throw refusal(earlier, fmt::format("it had {} '{}', now it is '{}'", what, then, now));
  };
  const reports::RunInfo &then = earlier.report.run, &now = fresh.run;
  same("p5bench", then.version, now.version);
  same("cluster", then.cluster, now.cluster);
  same("backend", then.backend, now.backend);
  same("launches", std::to_string(then.launches), std::to_string(now.launches));
  same("arms", arms_of(earlier.report), arms_of(fresh));
  same("ranks", std::to_string(then.ranks), std::to_string(now.ranks));
  same("hosts", hosts_of(earlier.report), hosts_of(fresh));
  require_same_hardware(earlier, fresh.topology);
  std::set<std::string> names{"gpu", "nccl", "nccl.path", "libfabric", "cuda.driver", "cuda.runtime", "mpi"};
  constexpr std::string_view variable = "env.";
  for (const auto* const report : {&earlier.report, &fresh})
    for (const auto& [name, value] : report->context)
      if (name.starts_with(variable) && changes_library(std::string_view(name).substr(variable.size())))
        names.insert(name);
  for (const std::string& name : names) {
    const auto value = [&](const reports::Report& report) { return value_or_empty(report.context, name); };
    same(name.starts_with(variable) ? name.substr(variable.size()) : name, value(earlier.report), value(fresh));
  }
}

}  // namespace

bool can_be_kept(const Measurement& m, const std::string& ended_by) {
  // A kill soon after a signal may leave the report of before the signal.
  const bool interrupted =
      m.because.starts_with("ended by ") || (m.because == ended_by && ended_by.find(disk_remedy) != std::string::npos);
  return m.wrong_elements > 0 || m.outcome == Outcome::measured || (m.outcome == Outcome::failed && !interrupted);
}

namespace {

// The result that a line of the journal keeps, if any. Cases that are not in the plan are measured again.
std::optional<reports::Result> result_to_keep(const std::string& line, const EarlierRun& earlier) {
  try {
    reports::Result result = reports::result_from_json(parse_json(line));
    const Measurement& m = result.measurement;
    const bool beside = m.measured_case.for_parts || m.measured_case.nic;
    if (can_be_kept(m, earlier.report.run.ended_by) && (!beside || m.wrong_elements > 0)) return result;
  } catch (const std::exception&) {  // truncated by a killed run: measured again
  }
  return {};
}

// Completes groups from the plan: a line names only the first rank of those that are no pairs. Where the case is not in
// the plan, these are left out. False if the line names a rank that the job does not have.
bool complete_groups(Measurement& m, int ranks) {
  std::map<int, const Group*> of_first_rank;
  if (!m.measured_case.collective->pairwise && !m.measured_case.rounds) {
    m.groups.clear();
    for (std::vector<Group>* const groups : {&m.silent_groups, &m.finished_groups, &m.wrong_groups}) groups->clear();
  } else if (!m.measured_case.collective->pairwise) {
    for (const Round& round : *m.measured_case.rounds)
      for (const Group& group : round) of_first_rank[group.front()] = &group;
  }
  bool known = true;
  const auto complete = [&](Group& group) {
    if (const auto found = of_first_rank.find(group.front()); found != of_first_rank.end()) group = *found->second;
    known = known && std::ranges::all_of(group, [&](int rank) { return rank < ranks; });
  };
  for (GroupResult& each : m.groups) complete(each.group);
  for (std::vector<Group>* const groups : {&m.silent_groups, &m.finished_groups, &m.wrong_groups})
    for (Group& group : *groups) complete(group);
  return known;
}

std::vector<std::string> lines_of_journal(const EarlierRun& earlier) {
  const fs::path path = earlier.folder / "measurements.jsonl";
  std::error_code problem;
  if (earlier.report.results.empty() && !fs::exists(fs::symlink_status(path, problem))) return {};
  std::istringstream text(read_input(path, largest_journal, "it has what was measured: start without --resume"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

bool has_journal(const EarlierRun& earlier) {
  std::error_code unknown;
  return fs::exists(earlier.folder / reports::journal_name, unknown);
}

// A journal that cannot be read counts: its run is refused with the reason.
bool has_results_to_keep(const EarlierRun& earlier) {
  if (!has_journal(earlier)) return false;
  try {
    return std::ranges::any_of(lines_of_journal(earlier),
                               [&](const std::string& line) { return result_to_keep(line, earlier).has_value(); });
  } catch (const UsageError&) {
    return true;
  }
}

// Case key to arm and index in the plan.
using Places = std::map<std::string, std::pair<std::size_t, std::size_t>>;

Places places_of(const std::vector<Case>& planned, const std::vector<Arm>& arms) {
  Places places;
  for (std::size_t arm = 0; arm < arms.size(); ++arm)
    for (std::size_t at = 0; at < planned.size(); ++at)
      places.try_emplace(key_of(with_arm(planned[at], arms[arm])), arm, at);
  return places;
}

// The arguments that decide what is measured, as they are recorded: --resume takes those of the interrupted run.
std::vector<std::string> words_of_plan(const std::vector<std::string>& arguments) {
  constexpr std::array<std::string_view, 2> flags{"--resume", "--quiet"};
  constexpr std::array<std::string_view, 4> with_value{"--out", "--format", "--budget", "--seed"};
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string word = recorded_argument(arguments[i]), name = word.substr(0, word.find('='));
    if (std::ranges::find(with_value, name) != with_value.end())
      i += name == word ? 1 : 0;
    else if (std::ranges::find(flags, name) == flags.end() && !(i == 0 && word == "run"))
      words.push_back(word);
  }
  return words;
}

// A run that could not begin to continue another one, which still has the results, is no run to continue.
bool began(const EarlierRun& run) {
  return has_journal(run) || std::ranges::find(run.report.run.command, "--resume") == run.report.run.command.end();
}

constexpr const char* job_variable = "SLURM_JOB_ID";

// The job that Slurm has started again, which keeps its number; "" if it did not.
std::string requeued_job() {
  const Environment environment = current_environment();
  const std::string restarts = value_or_empty(environment, "SLURM_RESTART_COUNT");
  return restarts.empty() || restarts == "0" ? "" : value_or_empty(environment, job_variable);
}

// True if its first host is this one, or it was simulated.
bool began_here(const reports::Report& report) {
  const std::vector<topo::Host>& hosts = report.topology.hosts;
  return report.provenance == "simulated" || (!hosts.empty() && hosts.front().name == topo::host_name().name);
}

// The runs of OUT/CLUSTER/TIME. Folders that cannot be read have none.
std::vector<fs::path> runs_in(const fs::path& out, const std::string& cluster) {
  std::vector<fs::path> found;
  const auto each_folder = [](const fs::path& of, const auto& take) {
    std::error_code problem, unknown;
    for (fs::directory_iterator at(of, problem), end; !problem && at != end; at.increment(problem))
      if (fs::is_directory(at->symlink_status(unknown))) take(at->path());
  };
  each_folder(out, [&](const fs::path& of_cluster) {
    if (cluster.empty() || of_cluster.filename() == cluster)
      each_folder(of_cluster, [&](const fs::path& run) {
        std::error_code unknown;
        if (fs::exists(run / "report.json", unknown)) found.push_back(run);
      });
  });
  return found;
}

bool may_be_continued(const Options& options, const reports::Report& report) {
  return reports::takes_resume(report) && reports::subcommand_of(report) == options.command;
}

// The run with the largest preference is continued, the newest of equal ones. An interrupted run without results begins
// again; a complete one mostly has nothing left to measure.
int preference(bool same_options, bool complete, bool has_results) {
  if (complete) return same_options ? 2 : 0;
  if (has_results) return same_options ? 4 : 3;
  return same_options ? 3 : 1;
}

// The preferred run that began here. No run counts that is older than a complete one of the same options; of other
// options, such as another --timeout, the newest counts that is complete or has results, and any without results that
// is newer. Where Slurm started the job again, only interrupted runs of this job and of the same options count. Null if
// there is none.
std::optional<EarlierRun> newest_of_this_job(const Options& options, const std::vector<std::string>& arguments,
                                             const std::string& requeued) {
  constexpr std::size_t most_read = 100;
  constexpr std::array<std::string_view, 2> not_needed{"pairs", "groups"};
  std::vector<fs::path> folders = runs_in(options.out, options.cluster);
  std::ranges::stable_sort(folders, std::greater(), parse_stamp);
  if (folders.size() > most_read) folders.resize(most_read);
  std::optional<EarlierRun> found;
  int best = -1;
  bool others_are_closed = false;
  for (const fs::path& folder : folders) {
    try {
      const std::string file = (folder / "report.json").string();
      EarlierRun run{fs::canonical(folder), reports::read_report(file, not_needed)};
      if (!began_here(run.report) || !began(run) || !may_be_continued(options, run.report)) continue;
      const bool same = words_of_plan(run.report.run.command) == words_of_plan(arguments);
      if (!requeued.empty() &&
          (!same || value_or_empty(run.report.context, std::string("env.") + job_variable) != requeued))
        continue;
      if (!same && others_are_closed) continue;
      const bool complete = run.report.status == "complete";
      if (complete && !requeued.empty()) break;
      const bool has_results = !complete && has_results_to_keep(run);
      if (const int preferred = preference(same, complete, has_results); preferred > best) {
        run.report = reports::read_report(file);
        found = std::move(run);
        best = preferred;
      }
      if (same && (complete || has_results)) break;
      others_are_closed = others_are_closed || complete || has_results;
    } catch (const std::exception&) {
      continue;  // not a run of this version
    }
  }
  return found;
}

}  // namespace

EarlierRun find_earlier_run(const Options& options, const std::vector<std::string>& arguments) {
  const std::string job = requeued_job();
  if (std::optional<EarlierRun> own = newest_of_this_job(options, arguments, job)) return *std::move(own);
  if (!job.empty())
    throw UsageError(
        fmt::format("--resume: there is no interrupted run of job {} with these options in '{}'; start "
                    "without --resume",
                    printable(job), options.out));
  std::error_code problem, unknown;
  const fs::path latest = fs::canonical(fs::path(options.out) / options.cluster / "latest", problem);
  const std::string file = (latest / "report.json").string();
  if (!problem && (fs::exists(file, unknown) || unknown)) {
    EarlierRun newest{latest, reports::read_report(file)};
    if (may_be_continued(options, newest.report)) return newest;
  }
  throw UsageError(
      fmt::format("--resume: there is no run in '{}' to go on with; start without --resume, or name the "
                  "--out of that run",
                  options.out));
}

std::vector<KeptLine> keep_results(EarlierRun& earlier, const reports::Report& fresh, const std::vector<Case>& planned,
                                   const std::vector<Arm>& arms) {
  try {
    require_same_job(earlier, fresh);
  } catch (const UsageError&) {
    if (earlier.report.status == "complete" || has_results_to_keep(earlier)) throw;
    drop_findings_of_other_hosts(earlier.report, fresh.topology);
    earlier.report.tuning.reset();
    earlier.report.arms.clear();
    return {};
  }
  const Places places = places_of(planned, arms);
  std::vector<KeptLine> kept, beside;
  std::map<CaseInLaunch, std::size_t> line_of;
  for (std::string& text : lines_of_journal(earlier)) {
    std::optional<reports::Result> result = result_to_keep(text, earlier);
    if (!result) continue;
    Measurement& m = result->measurement;
    if (m.measured_case.for_parts || m.measured_case.nic) {
      if (complete_groups(m, fresh.run.ranks)) beside.push_back({{}, *std::move(result), std::move(text), true});
      continue;
    }
    const auto found = places.find(key_of(m.measured_case));
    if (found == places.end())
      throw refusal(earlier, fmt::format("it measured {}, which is not in this plan: give the options that it had",
                                         describe(m.measured_case)));
    const auto [arm, at] = found->second;
    m.measured_case.rounds = planned[at].rounds;
    m.measured_case.shape = planned[at].shape;
    if (!complete_groups(m, fresh.run.ranks)) continue;
    const CaseInLaunch place{arm, m.launch.value_or(0), at};
    KeptLine line{place, *std::move(result), std::move(text)};
    const auto [known, first] = line_of.try_emplace(place, kept.size());
    if (first)
      kept.push_back(std::move(line));
    else
      kept[known->second] = std::move(line);
  }
  const std::size_t whole = planned.size() * arms.size() * static_cast<std::size_t>(fresh.run.launches);
  if (earlier.report.status == "complete" && kept.size() == whole) throw refusal(earlier, "nothing is left to measure");
  std::ranges::move(beside, std::back_inserter(kept));
  return kept;
}

}  // namespace p5
