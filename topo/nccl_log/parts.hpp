// The parts of reading logs, in the files beside this one, and what they share; nccl_log.cpp puts them together.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/text.hpp"
#include "topo/finding.hpp"
#include "topo/nccl_log.hpp"
#include "topo/platform.hpp"

namespace p5::topo {

// ---- facts.cpp: lines, and what they state of the machine and of the job.

inline constexpr const char* warning_mark = "NCCL WARN ";

// Lines that stand in one line of the file have its number.
void each_line(std::string_view log, const std::function<void(const LogLine& line, std::size_t number)>& visit);

// The groups of the expression, from 1 on, in the excerpt of a line around a position; null: it does not match.
std::optional<std::vector<std::string>> caught_by(const std::regex& expression, const std::string& line,
                                                  std::size_t at);
// The word that follows `mark`, "" where the line has no such mark.
std::string word_after(const std::string& line, std::string_view mark);
// Host in the "HOST:PID:TID [DEVICE] " prefix that NCCL puts before its text; "": none.
std::string host_in(const std::string& line);
// The line without its host, process and thread prefix, shortened for display.
std::string essence(const std::string& line);

// Facts about the hosts and their job that the log itself states.
struct LogFacts {
  std::set<std::string> nccl, plugin;
  std::string platform;
  int most_nodes = 0;                            // nodes of the largest communicator; 0: not logged
  std::map<std::string, std::set<int>> ranks{};  // by host, in nccl-tests' list of ranks
  std::map<std::string, int> most{};             // highest number over all lines, by LogRule::count
  bool efa = false, verbs = false;
  bool near = false;  // a GPU and a NIC use GPUDirect RDMA
  bool far = false;   // NICs are capable of it, or were found too far from a GPU
  std::size_t lines = 0, nccl_lines = 0;
  std::size_t newest = 0;  // number of the newest line
  // They tell the jobs of several logs apart.
  std::set<std::string, std::less<>> hosts{};
  std::set<std::string> communicators{};  // by their id and, before 2.17, which has none, by their ranks
};

void take_facts(const LogLine& log_line, std::size_t line_number, LogFacts& facts);
void add_facts(const LogFacts& of_log, LogFacts& facts);

// The job of each log, as a number. Logs of the same communicators are of one job, and one without any is a job of its
// own. All are of one job where no more than one job has communicators.
std::vector<std::size_t> jobs_of(std::span<const LogFacts> logs);

enum class Answer { no, unknown, yes };

// Host and platform that wrote the line. Null: unknown.
struct LogOrigin {
  const Host* host = nullptr;
  const Platform* platform = nullptr;
  LogFacts facts;

  Answer efa() const;
  Answer verbs() const;
  Answer fabric() const;
  Answer direct() const;
  // `where`: of a LogRule.
  Answer holds(const std::string& where) const;
  // True unless the log says that there is one.
  bool several_nodes() const;
};

// ---- rules.cpp: the table of messages that NCCL, its network plugin and the layers below log when something is wrong
// (tables/nccl_log.json), and what a line shows by it.

// One wording of a rule.
struct LogWording {
  std::string says;      // stands in the line as it is
  std::string matches;   // a regular expression that the line has to meet besides, "": none
  bool certain = false;  // the wording is conclusive without knowledge of the host
  std::string known;     // software and versions with this wording
  std::string source;
};

// Only the first rule in the table that a line meets is reported, so special rules stand before general ones.
struct LogRule {
  std::string id, summary;
  Severity severity = Severity::error;
  About about = About::software;
  std::string where;          // on which hosts it is wrong: "" (all), "fabric", "efa", "verbs", "direct", "far", ...
  bool across_nodes = false;  // irrelevant to a job on one node
  std::string count;          // "nics", "rails": the number in the line against the platform's; ""
  std::string evidence;       // text in front of the line; %1 and %2 stand for the groups of the expression
  bool progress = false;  // the groups are a rank, a number and a name: how far each rank came, of all lines together
  std::vector<LogWording> lines;
  std::map<std::string, std::string> remedy;  // "any", or "efa" and "verbs"
};

const std::vector<LogRule>& log_rules();

struct LogMatch {
  const LogRule* rule = nullptr;
  const LogWording* wording = nullptr;
  std::vector<std::string> caught;  // by the expression, from 1 on
};
// All rules that a line meets, in the order of the table. The line is without escape sequences.
std::vector<LogMatch> rules_met(const std::string& line);

// Rule that one line meets.
struct Shown {
  const LogRule* rule;
  Severity severity;
  std::string before;               // text in front of the line in the evidence
  std::vector<std::string> caught;  // by the expression
};
// Null: the line shows no problem.
std::optional<Shown> shown_by(const std::string& line, const LogOrigin& place);

std::string remedy_of(const LogRule& rule, const LogOrigin& place);

// ---- progress.cpp: how far each rank came.

inline constexpr double no_time = std::numeric_limits<double>::quiet_NaN();

// The collective that a rank waits in, as a line of PyTorch's watchdog names it.
struct Waiting {
  std::string group;  // process group, as PyTorch names it; "": it does not
  int rank = 0;
  std::uint64_t number = 0;
  std::string operation;
  double since = no_time, until = no_time;  // of the line's stamp; NaN: the line does not say it
};
std::optional<Waiting> waiting_in(const std::string& line, const std::vector<std::string>& caught);

// "in 7(TP) rank 3 at ALLREDUCE number 814, rank 2 at ALLREDUCE number 815; 2 more groups; no such line of rank 5 (if
// its log is given)", the groups with a rank that is behind first. The only group is not named.
std::string progress_text(const std::vector<Waiting>& lines);

}  // namespace p5::topo
