#include "topo/nccl_log.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <regex>
#include <set>
#include <tuple>
#include <utility>

#include "bench/base/text.hpp"
#include "topo/checks/families.hpp"
#include "topo/discover.hpp"
#include "topo/system_files.hpp"
#include "topo/tables.hpp"

namespace p5::topo {

namespace {

constexpr std::array<std::string_view, 8> places{"", "fabric", "efa", "verbs", "direct", "far", "nvls", "beyond p4"};
constexpr std::array<std::string_view, 3> counts{"nics", "rails", ""};
constexpr double no_time = std::numeric_limits<double>::quiet_NaN();

}  // namespace

void fields(auto& archive, Is<LogWording> auto& line) {
  archive.must("says", line.says);
  archive.may("matches", line.matches);
  archive.may("certain", line.certain);
  archive.must("known", line.known);
  archive.must("source", line.source);
}

void fields(auto& archive, Is<LogRule> auto& rule) {
  archive.must("id", rule.id);
  archive.must("summary", rule.summary);
  archive.must("severity", json_fields::named(rule.severity, severity_from));
  archive.must("about", json_fields::named(rule.about, about_from));
  archive.must("where", json_fields::one_of(rule.where, places));
  archive.may("across_nodes", rule.across_nodes);
  archive.may("count", json_fields::one_of(rule.count, counts));
  archive.may("evidence", rule.evidence);
  archive.may("progress", rule.progress);
  archive.must("lines", rule.lines);
  archive.must("remedy", rule.remedy);
}

const std::vector<LogRule>& log_rules() {
  static const auto all = make_rows<LogRule>("nccl_log.json");
  return all;
}

namespace {

struct Compiled {
  const LogRule* rule;
  const LogWording* wording;
  std::regex regex;
};

const std::vector<Compiled>& compiled_rules() {
  static const std::vector<Compiled> all = [] {
    std::vector<Compiled> made;
    for (const LogRule& rule : log_rules())
      for (const LogWording& wording : rule.lines)
        made.push_back({&rule, &wording, std::regex(wording.matches, std::regex::optimize)});
    return made;
  }();
  return all;
}

// Excerpt of the line around a position: the recursion of std::regex needs a stack as deep as the text is long.
std::string around(const std::string& line, std::size_t at) {
  constexpr std::size_t before = 300, after = 900;
  const std::size_t from = at > before ? at - before : 0;
  return line.substr(from, at - from + after);
}

}  // namespace

std::vector<LogMatch> rules_met(const std::string& line) {
  std::vector<LogMatch> met;
  for (const auto& [rule, wording, regex] : compiled_rules()) {
    if (!met.empty() && met.back().rule == rule) continue;
    const std::size_t at = line.find(wording->says);
    if (at == std::string::npos) continue;
    LogMatch match{rule, wording, {}};
    if (!wording->matches.empty()) {
      const std::string text = around(line, at);
      std::smatch found;
      if (!std::regex_search(text, found, regex)) continue;
      for (std::size_t i = 1; i < found.size(); ++i) match.caught.push_back(found[i]);
    }
    met.push_back(std::move(match));
  }
  return met;
}

namespace {

enum class Answer { no, unknown, yes };

Answer answer(bool holds) { return holds ? Answer::yes : Answer::no; }

// Facts about the hosts that the log itself states.
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
};

// Host and platform that wrote the line. Null: unknown.
struct LogOrigin {
  const Host* host = nullptr;
  const Platform* platform = nullptr;
  LogFacts facts;

  Answer efa() const {
    if (host) return answer(has_efa(*host) || (platform && platform->network == "efa"));
    if (platform) return answer(platform->network == "efa");
    return facts.efa ? Answer::yes : facts.verbs ? Answer::no : Answer::unknown;
  }
  Answer verbs() const {
    if (efa() == Answer::yes) return Answer::no;
    if (!host) return facts.verbs ? Answer::yes : Answer::unknown;
    const auto has = [&](auto kind) { return std::ranges::any_of(host->nics, kind); };
    const std::vector<const Nic*> fabric = nics_of_fabric(*host);
    if (std::ranges::any_of(fabric, [](const Nic* nic) { return nic->state == "up"; })) return Answer::yes;
    // An Ethernet port with verbs may be meant for RDMA, or be the only port of a virtual machine.
    if (has([](const Nic& nic) { return nic.kind == "ethernet" && !nic.verbs.empty(); })) return Answer::unknown;
    return platform && platform->gpu_direct_rdma ? Answer::unknown : Answer::no;
  }
  Answer fabric() const { return std::max(efa(), verbs()); }
  Answer direct() const {
    if (platform) return answer(platform->gpu_direct_rdma);
    return host || fabric() == Answer::no ? Answer::no : Answer::unknown;
  }
  Answer nvls() const { return answer(platform && platform->nvls); }

  Answer holds(const std::string& where) const {
    if (where == "fabric") return fabric();
    if (where == "efa") return efa();
    // Yes only if known: a log that does not mention such devices may be from any host.
    if (where == "verbs") return answer(verbs() == Answer::yes);
    if (where == "direct") return direct();
    if (where == "far") return facts.far && !facts.near ? direct() : Answer::no;
    // With the plugin's protocol SENDRECV, which P4 uses, NCCL can only use its protocol Simple.
    if (where == "nvls" || where == "beyond p4") return nvls();
    return Answer::yes;
  }
  // True unless the log says that there is one.
  bool several_nodes() const {
    if (facts.most_nodes > 0 || facts.ranks.size() != 1) return facts.most_nodes != 1;
    const std::set<int>& ranks = facts.ranks.begin()->second;
    return *ranks.rbegin() + 1 != std::ssize(ranks);  // an excerpt of the list
  }
};

template <class Number>
std::optional<Number> number_in(const std::vector<std::string>& caught, std::size_t at) {
  Number number = 0;
  if (at >= caught.size()) return std::nullopt;
  const std::string& text = caught[at];
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() ? std::optional(number) : std::nullopt;
}

// Compares the number in the line with the platform's, else with those in other lines of the log. Null: the number is
// as expected, or no expected one is known.
std::optional<std::string> counted(const LogMatch& match, const LogOrigin& place) {
  const std::optional<int> seen = number_in<int>(match.caught, 0);
  if (!seen) return std::nullopt;
  const std::string& what = match.rule->count;
  const Platform* const platform = place.platform;
  if (!platform || platform->nics == 0) {
    const auto most = place.facts.most.find(what);
    if (most == place.facts.most.end() || *seen >= most->second) return std::nullopt;
    return fmt::format("{} {} here, {} elsewhere in the log: ", *seen, what, most->second);
  }
  if (what == "nics")
    return *seen == platform->nics ? std::nullopt
                                   : std::optional(fmt::format("{} NICs of {}: ", *seen, platform->nics));
  const int expected = std::max(1, platform->nics / std::max(1, platform->gpus));
  return *seen >= expected ? std::nullopt : std::optional(fmt::format("{} of {} rails for a GPU: ", *seen, expected));
}

// Replaces %1, %2, ... in the text by the groups of the match; "" if the line lacks one of them.
std::string filled(const std::string& text, const std::vector<std::string>& caught) {
  std::string whole;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%' || at + 1 == text.size()) {
      whole += text[at];
      continue;
    }
    const auto number = static_cast<std::size_t>(text[++at] - '0');
    if (number == 0 || number > caught.size() || caught[number - 1].empty()) return "";
    whole += caught[number - 1];
  }
  return whole;
}

std::string remedy_of(const LogRule& rule, const LogOrigin& place) {
  if (const auto any = rule.remedy.find("any"); any != rule.remedy.end()) return any->second;
  const std::string &efa = rule.remedy.at("efa"), &verbs = rule.remedy.at("verbs");
  if (place.efa() == Answer::yes) return efa;
  if (place.efa() == Answer::no && place.fabric() != Answer::no) return verbs;
  return fmt::format("with InfiniBand or RoCE: {}. On EFA: {}", verbs, efa);
}

// Rule that one line meets; nullopt: the line shows no problem.
struct Shown {
  const LogRule* rule;
  Severity severity;
  std::string before;               // text in front of the line in the evidence
  std::vector<std::string> caught;  // by the expression
};

Severity milder(Severity severity) { return severity == Severity::error ? Severity::warning : Severity::info; }

std::optional<Shown> shown_by(const std::string& line, const LogOrigin& place) {
  for (const LogMatch& match : rules_met(line)) {
    const LogRule& rule = *match.rule;
    Answer wrong = place.holds(rule.where);
    if (wrong == Answer::unknown && match.wording->certain) wrong = Answer::yes;
    if (wrong == Answer::no || (rule.across_nodes && !place.several_nodes())) continue;
    Shown shown{&rule, wrong == Answer::yes ? rule.severity : milder(rule.severity),
                filled(rule.evidence, match.caught), match.caught};
    if (!rule.count.empty()) {
      const std::optional<std::string> difference = counted(match, place);
      if (!difference) continue;
      shown.before = *difference;
    }
    return shown;
  }
  return std::nullopt;
}

// Ends a line that the end of the log may have cut, so that nothing follows from what it does not say.
constexpr const char* cut = "\u2026";

// Lines that stand in one line of the file have its number.
void each_line(std::string_view log, const std::function<void(const LogLine& line, std::size_t number)>& visit) {
  for (std::size_t number = 1; !log.empty(); ++number) {
    const std::size_t end = std::min(log.size(), log.find('\n'));
    const bool may_be_cut = end == log.size() && number > 1;
    std::vector<LogLine> lines = log_lines(log.substr(0, end));
    if (may_be_cut) lines.back().text += cut;
    for (const LogLine& line : lines) visit(line, number);
    log.remove_prefix(std::min(log.size(), end + 1));
  }
}

constexpr const char* warning_mark = "NCCL WARN ";
constexpr const char* marks[] = {"NCCL INFO ", warning_mark};

// Position where NCCL's own text begins; npos: not a line of NCCL's.
std::size_t words_in(const std::string& line) {
  for (const char* mark : marks)
    if (const std::size_t at = line.find(mark); at != std::string::npos) return at;
  return std::string::npos;
}

// The line without its host, process and thread prefix, shortened for display.
std::string essence(const std::string& line) {
  constexpr std::size_t longest = 200, mark_length = 10;
  const std::size_t at = words_in(line);
  // The text of these lines is a bare error number, so the source location in front of it is kept.
  const std::size_t source = at == std::string::npos ? at : line.rfind("transport/nvls.cc:", at);
  std::string text = at == std::string::npos       ? line
                     : source != std::string::npos ? line.substr(source)
                                                   : line.substr(at + mark_length);
  text.erase(text.find_last_not_of(" \t\r") + 1);
  text.erase(0, text.find_first_not_of(' '));
  return text.size() > longest ? text.substr(0, longest) + "..." : text;
}

// Host in the "HOST:PID:TID [DEVICE] " prefix that NCCL puts before its text; "": none.
std::string host_in(const std::string& line) {
  constexpr std::size_t longest = 300;
  const std::size_t at = words_in(line);
  if (at == std::string::npos) return "";
  const std::optional<NcclOrigin> origin =
      nccl_origin(std::string_view(line).substr(at > longest ? at - longest : 0, std::min(at, longest)));
  return origin ? std::string(origin->host) : "";
}

// "[rank3]:" in front of what PyTorch prints, "" where the line has none.
std::string_view rank_tag(std::string_view line) {
  const std::size_t at = line.find("[rank"), end = line.find("]:", at);
  return end == std::string_view::npos ? "" : line.substr(at, end + 2 - at);
}

// The word that follows `mark`, "" where the line has no such mark.
std::string word_after(const std::string& line, std::string_view mark, const char* ends = " ,+\"'") {
  const std::size_t at = line.find(mark);
  if (at == std::string::npos) return "";
  const std::size_t from = at + mark.size();
  return line.substr(from, std::min(line.size(), line.find_first_of(ends, from)) - from);
}

// "#  Rank  0 Group  0 Pid  1234 on  host device  0 [0000:53:00] NVIDIA H100"; nccl-tests before 2.17 names no group.
void take_listed_rank(const std::string& line, LogFacts& facts) {
  static const std::regex form("\\bRank +(\\d{1,7}) (?:Group +\\d+ )?(?:Pid +\\d+ )?on +(\\S+) device +\\d");
  const std::size_t at = line.find("Rank ");
  if (at == std::string::npos || line.find(" device ", at) == std::string::npos) return;
  const std::string text = around(line, at);
  if (std::smatch found; std::regex_search(text, found, form)) facts.ranks[found[2]].insert(std::stoi(found[1]));
}

void take_facts(const std::string& line, std::size_t line_number, LogFacts& facts) {
  const auto says = [&](const char* text) { return line.find(text) != std::string::npos; };
  const bool is_nccl = words_in(line) != std::string::npos;
  if (is_nccl) ++facts.nccl_lines;
  // The rest of a line of the file, as the end of a JSON object, is no line of its own.
  if (std::exchange(facts.newest, line_number) != line_number || is_nccl) ++facts.lines;
  if (const std::string version = word_after(line, "NCCL version "); !version.empty() && std::isdigit(version[0]))
    facts.nccl.insert(version);
  for (const char* mark : {"Initializing aws-ofi-nccl ", "Using aws-ofi-nccl "})  // the latter before 1.5
    if (const std::string version = word_after(line, mark); !version.empty()) facts.plugin.insert(version);
  for (const char* mark : {"Running on ", "GDR-supported instance type "})
    if (const std::string name = word_after(line, mark); platform_of_instance_type(name)) facts.platform = name;
  const auto raise = [&](int& most, const std::string& number) {
    if (!number.empty()) most = std::max(most, std::atoi(number.c_str()));
  };
  raise(facts.most_nodes, word_after(line, " nNodes "));
  take_listed_rank(line, facts);
  if (says("rovider is efa")) raise(facts.most["nics"], word_after(line, "(found "));
  raise(facts.most["rails"], word_after(line, "Created device with "));
  facts.near = facts.near || says("GPU Direct RDMA Enabled for GPU") || says("/GDRDMA");
  facts.far = facts.far || (says("GPU Direct RDMA ") && (says("nabled for HCA") || says(" (distance ")));
  facts.efa = facts.efa || says("rovider is efa");
  // From 2.24.3 on NCCL ends this line with "[RO]" (relaxed ordering), and writes it on hosts without a device too.
  facts.verbs = facts.verbs || says("NET/IB : Using [0]") || says("via NET/IB/") || says("Using network IB");
}

void add_facts(const LogFacts& of_log, LogFacts& facts) {
  facts.nccl.insert(of_log.nccl.begin(), of_log.nccl.end());
  facts.plugin.insert(of_log.plugin.begin(), of_log.plugin.end());
  if (!of_log.platform.empty()) facts.platform = of_log.platform;
  facts.most_nodes = std::max(facts.most_nodes, of_log.most_nodes);
  for (const auto& [host, ranks] : of_log.ranks) facts.ranks[host].insert(ranks.begin(), ranks.end());
  for (const auto& [what, number] : of_log.most) facts.most[what] = std::max(facts.most[what], number);
  facts.efa = facts.efa || of_log.efa;
  facts.verbs = facts.verbs || of_log.verbs;
  facts.near = facts.near || of_log.near;
  facts.far = facts.far || of_log.far;
  facts.lines += of_log.lines;
  facts.nccl_lines += of_log.nccl_lines;
}

// Number and name of the collective that each rank waits in, by rank.
using Steps = std::map<int, std::pair<std::uint64_t, std::string>>;
// By process group, as PyTorch names it; "": it does not. Each counts its collectives on its own.
using Progress = std::map<std::string, Steps>;

// "7(TENSOR_MODEL_PARALLEL_GROUP)" of "[PG ID 3 PG GUID 7(TENSOR_MODEL_PARALLEL_GROUP) Rank 0]", and "0 (default_pg)"
// of "[PG 0 (default_pg) Rank 3]" of PyTorch 2.4.
std::string process_group_in(const std::string& line) {
  static const std::regex form("\\[PG (?:ID \\d+ PG GUID )?([^\\]]{1,80}) Rank \\d+\\]");
  const std::size_t at = line.find("[PG ");
  if (at == std::string::npos) return "";
  const std::string text = around(line, at);
  std::smatch found;
  return std::regex_search(text, found, form) ? found[1].str() : "";
}

// Seconds in the stamp of PyTorch 2.4 and later, "[rank3]:[E909 09:55:46.996672294 ", which has no year; NaN: there is
// none.
double stamp_of_pytorch(const std::string& line) {
  constexpr std::size_t mark_length = 4, longest = 40;
  const std::size_t at = line.rfind("]:[");
  if (at == std::string::npos || at + mark_length > line.size()) return no_time;
  std::string stamp = line.substr(at + mark_length, longest);
  if (stamp.find(' ') == 3) stamp.insert(0, "0");
  std::tm parts{};
  parts.tm_year = 2000 - 1900;  // a leap year
  const char* const fraction = strptime(stamp.c_str(), "%m%d %H:%M:%S", &parts);
  return fraction ? static_cast<double>(timegm(&parts)) + std::atof(fraction) : no_time;
}

// The collective that a rank waits in, as a line of PyTorch's watchdog names it.
struct Waiting {
  std::string group;
  int rank = 0;
  std::uint64_t number = 0;
  std::string operation;
  double since = no_time, until = no_time;  // of the line's stamp; NaN: the line does not say it
};

std::optional<Waiting> waiting_in(const std::string& line, const std::vector<std::string>& caught) {
  const auto rank = number_in<int>(caught, 0);
  const auto number = number_in<std::uint64_t>(caught, 1);
  if (!rank || !number) return std::nullopt;
  const double until = stamp_of_pytorch(line);
  const std::string milliseconds = word_after(line, " ran for ");
  return Waiting{process_group_in(line),
                 *rank,
                 *number,
                 caught.size() > 2 ? caught[2] : "",
                 milliseconds.empty() ? no_time : until - 1e-3 * std::atof(milliseconds.c_str()),
                 until};
}

// Lines before the newest attempt of a job are left out: a rank that began to wait after a line of its own was started
// again in between. Of the other lines the lowest number of each rank in a group counts: it has not come further.
Progress progress_of(const std::vector<Waiting>& lines) {
  std::map<int, double> first;  // time of each rank's first line
  for (const Waiting& each : lines) {
    double& known = first.try_emplace(each.rank, each.until).first->second;
    known = std::fmin(known, each.until);
  }
  double begin = -std::numeric_limits<double>::infinity();
  for (const Waiting& each : lines)
    if (each.since > first.at(each.rank)) begin = std::max(begin, each.since);
  Progress progress;
  for (const Waiting& each : lines) {
    if (each.until < begin) continue;
    const std::pair at(each.number, each.operation);
    auto& lowest = progress[each.group].try_emplace(each.rank, at).first->second;
    if (each.number < lowest.first || (each.number == lowest.first && lowest.second.empty())) lowest = at;
  }
  return progress;
}

std::string named_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t most_named = 4;
  return ranks.size() > most_named ? fmt::format("{} ranks", ranks.size())
                                   : fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

// "rank 7 at ALLREDUCE number 64088, 6 ranks at ALLREDUCE number 96117", the rank that is behind first.
std::string steps_text(const Steps& steps) {
  constexpr std::size_t most_named = 4;
  std::map<std::pair<std::uint64_t, std::string>, std::vector<int>> at;
  for (const auto& [rank, work] : steps) at[work].push_back(rank);
  std::vector<std::string> parts;
  std::size_t told = 0;
  for (const auto& [work, ranks] : at) {
    if (parts.size() == most_named) break;
    parts.push_back(
        fmt::format("{} at {}number {}", named_ranks(ranks), work.second.empty() ? "" : work.second + " ", work.first));
    told += ranks.size();
  }
  if (told < steps.size())
    parts.push_back(fmt::format("{} more up to number {}", steps.size() - told, at.rbegin()->first.first));
  return join(parts);
}

// "in 7(TP) rank 3 at ALLREDUCE number 814, rank 2 at ALLREDUCE number 815; 2 more groups; no such line of rank 5 (if
// its log is given)", the groups with a rank that is behind first. The only group is not named.
std::string progress_text(const Progress& progress) {
  constexpr std::size_t most_named = 4;
  std::vector<const Progress::value_type*> groups;
  std::set<int> ranks;
  for (const Progress::value_type& group : progress) {
    groups.push_back(&group);
    for (const auto& [rank, work] : group.second) ranks.insert(rank);
  }
  std::ranges::stable_partition(groups, [](const Progress::value_type* group) {
    const Steps& steps = group->second;
    return std::ranges::any_of(steps, [&](const auto& each) { return each.second != steps.begin()->second; });
  });
  std::vector<std::string> parts;
  for (const Progress::value_type* group : groups) {
    if (parts.size() == most_named) break;
    const bool is_named = groups.size() > 1 && !group->first.empty();
    parts.push_back((is_named ? "in " + group->first + " " : "") + steps_text(group->second));
  }
  if (parts.size() < groups.size()) parts.push_back(fmt::format("{} more groups", groups.size() - parts.size()));
  std::vector<int> missing;
  for (std::int64_t next = 0; const int rank : ranks) {
    for (; next < rank && missing.size() <= ranks.size(); ++next) missing.push_back(static_cast<int>(next));
    next = std::int64_t{rank} + 1;
  }
  // Logs of few of the ranks say nothing of the others.
  if (!missing.empty() && missing.size() <= ranks.size())
    parts.push_back(fmt::format("no such line of {} (if {} given)", named_ranks(missing),
                                missing.size() == 1 ? "its log is" : "their logs are"));
  return join(parts, "; ");
}

// The machine that wrote a line of the kernel's log, as far as the line and those before it tell.
struct KernelSource {
  std::string host;      // in front of "kernel:", or the label of the line; "": neither, as in dmesg
  std::size_t from = 0;  // without a host: first line of its log where it follows that of another machine, else 0
  auto operator<=>(const KernelSource&) const = default;
};

// Seconds in the stamp of dmesg, since the machine's start or, with -T, since 1970; null: there is none.
std::optional<double> kernel_stamp(const std::string& line) {
  constexpr std::size_t most_in_front = 100;
  for (std::size_t at = line.find('['); at < most_in_front; at = line.find('[', at + 1)) {
    const std::size_t end = line.find(']', at);
    if (end == std::string::npos) return std::nullopt;
    const std::string stamp = line.substr(at + 1, end - at - 1);
    std::tm parts{};
    if (strptime(stamp.c_str(), "%a %b %d %H:%M:%S %Y", &parts)) return static_cast<double>(timegm(&parts));
    const std::size_t first = stamp.find_first_not_of(' ');
    if (first != std::string::npos && std::ranges::count(stamp, '.') == 1 &&
        stamp.find_first_not_of("0123456789.", first) == std::string::npos)
      return leading_number(std::string_view(stamp).substr(first));
  }
  return std::nullopt;
}

// Host in front of "kernel:" (syslog, journalctl), else the label of pdsh, clush or srun: "node1: [ 9123.100000] NVRM:
// ".
std::string kernel_host(const std::string& line) {
  if (const std::size_t end = line.find(" kernel: "); end != std::string::npos && end > 0) {
    const std::size_t from = line.rfind(' ', end - 1) + 1;
    return line.substr(from, end - from - (line[end - 1] == ':' ? 1 : 0));
  }
  constexpr std::size_t longest = 200;
  static const std::regex label("^\\s*([^\\s\\[\\]:]+):\\s+(?:\\[|NVRM: |nvidia-nvswitch|kern|\\d+,\\d+,\\d)");
  const std::string start = line.substr(0, longest);
  std::smatch found;
  return std::regex_search(start, found, label) && found[1] != "kernel" ? found[1].str() : "";
}

// An error in a line of the kernel's log: an Xid or SXid, or what a rule of the table knows.
struct KernelError {
  KernelSource source;
  std::string said;
  std::size_t line = 0;
  std::optional<Xid> xid;
  std::optional<Shown> shown;
};

// The errors of a log since the last start of the driver of each machine. The log may be of several machines, one
// behind the other: then the stamps of dmesg fall, or a kernel starts, of which dmesg has no earlier lines. Those of
// one machine are in order but for parts of a second.
class KernelErrors {
 public:
  // True if what a rule showed in the line is one of them.
  bool take(const std::string& line, std::size_t number, const std::optional<Shown>& shown) {
    constexpr double out_of_order = 1;
    if (const std::optional<double> stamp = kernel_stamp(line)) {
      const bool starts_kernel = line.find("] Linux version ") != std::string::npos;
      if (newest_ && (starts_kernel || *stamp < *newest_ - out_of_order)) from_ = number;
      newest_ = stamp;
    }
    const bool starts = starts_driver(line);
    std::optional<Xid> xid = xid_in(line);
    const bool is_shown = shown && !xid && line.find("NVRM: ") != std::string::npos;
    if (!starts && !xid && !is_shown) return false;
    KernelSource source{kernel_host(line), 0};
    if (source.host.empty()) source.from = from_;
    if (starts)
      std::erase_if(errors_, [&](const KernelError& each) { return each.source == source; });
    else
      errors_.push_back({std::move(source), essence(line), number, std::move(xid), is_shown ? shown : std::nullopt});
    return is_shown;
  }

  const std::vector<KernelError>& all() const { return errors_; }

  // The class of each Xid, null for other errors. The driver takes back resets and reboots that it asked for by a later
  // Xid of the GPU.
  std::vector<const XidClass*> classes() const {
    std::vector<const XidClass*> classes(errors_.size());
    std::map<std::pair<KernelSource, std::string_view>, const XidClass*> taken_back;  // by machine and GPU
    for (std::size_t i = errors_.size(); i-- > 0;) {
      const std::optional<Xid>& xid = errors_[i].xid;
      if (!xid) continue;
      const XidClass*& then = taken_back[{errors_[i].source, xid->pci}];
      const XidClass& kind = class_of_xid(xid->code, xid->text);
      if (kind.name == "none") then = &kind;
      classes[i] = then && (kind.name == "reset" || kind.name == "reboot") ? then : &kind;
    }
    return classes;
  }

 private:
  std::vector<KernelError> errors_;
  std::optional<double> newest_;
  std::size_t from_ = 0;
};

std::vector<std::string> listed(const std::set<std::string>& all) { return {all.begin(), all.end()}; }

// The properties that tell the jobs of several logs apart: communicators by their id and, before 2.17, which has none,
// by their ranks.
struct LogIdentity {
  std::set<std::string> communicators;
  std::set<std::string, std::less<>> hosts;
};

void take_identity(const LogLine& log_line, LogIdentity& identity) {
  const std::string& line = log_line.text;
  if (const std::string host = host_in(line); !host.empty() && log_line.begins) identity.hosts.insert(host);
  if (line.find("- Init ") == std::string::npos) return;
  const std::string ranks = word_after(line, " nranks ");
  if (ranks.empty() || !word_after(line, " parent ").empty()) return;
  identity.communicators.insert(ranks + " " + word_after(line, " commId "));
}

// The job of each log, as a number. Logs of the same communicators are of one job, and one without any is of the job
// that alone has its hosts. All are of one job where no more than one job has communicators.
std::vector<std::size_t> jobs_of(std::span<const LogIdentity> logs) {
  std::vector<std::size_t> jobs(logs.size());
  std::iota(jobs.begin(), jobs.end(), std::size_t{0});
  std::map<std::string, std::size_t> first;  // log with the communicator
  for (std::size_t i = 0; i < logs.size(); ++i)
    for (const std::string& each : logs[i].communicators)
      if (const auto [known, fresh] = first.try_emplace(each, i); !fresh)
        std::ranges::replace(jobs, std::size_t{jobs[i]}, std::size_t{jobs[known->second]});
  std::map<std::string, std::set<std::size_t>> of_host;
  std::set<std::size_t> named;
  for (std::size_t i = 0; i < logs.size(); ++i) {
    if (logs[i].communicators.empty()) continue;
    named.insert(jobs[i]);
    for (const std::string& host : logs[i].hosts) of_host[host].insert(jobs[i]);
  }
  if (named.size() < 2) return std::vector<std::size_t>(logs.size(), 0);
  for (std::size_t i = 0; i < logs.size(); ++i) {
    if (!logs[i].communicators.empty()) continue;
    std::set<std::size_t> possible;
    for (const std::string& host : logs[i].hosts)
      if (const auto found = of_host.find(host); found != of_host.end())
        possible.insert(found->second.begin(), found->second.end());
    if (possible.size() == 1) jobs[i] = *possible.begin();
  }
  return jobs;
}

}  // namespace

std::vector<FindingKind> log_findings() {
  std::vector<FindingKind> all;
  for (const LogRule& rule : log_rules()) all.push_back({rule.id, rule.about, rule.summary});
  return all;
}

std::vector<Finding> findings_in_log(std::string_view log, const Host& host, const Platform* platform, int rank) {
  LogOrigin place{&host, platform, {}};
  each_line(log, [&](const LogLine& line, std::size_t number) { take_facts(line.text, number, place.facts); });
  std::vector<Finding> findings;
  std::set<const LogRule*> found_before;
  each_line(log, [&](const LogLine& log_line, std::size_t) {
    const std::string& line = log_line.text;
    const std::optional<Shown> shown = shown_by(line, place);
    if (!shown || !found_before.insert(shown->rule).second) return;
    findings.push_back(
        about_host(host, shown->rule->id, shown->severity,
                   fmt::format("{}NCCL's log of rank {} on {}: \"{}\"", shown->before, rank, host.name, essence(line)),
                   remedy_of(*shown->rule, place)));
    findings.back().about = shown->rule->about;
  });
  return findings;
}

Explanation explain_logs(std::span<const LogText> logs, const Platform* platform) {
  std::vector<LogFacts> facts_of_logs(logs.size());
  std::vector<LogIdentity> identities(logs.size());
  for (std::size_t i = 0; i < logs.size(); ++i)
    each_line(logs[i].text, [&](const LogLine& line, std::size_t number) {
      take_facts(line.text, number, facts_of_logs[i]);
      take_identity(line, identities[i]);
    });
  // A line is judged by the facts of its own job.
  const std::vector<std::size_t> jobs = jobs_of(identities);
  LogFacts facts;  // of all logs
  std::map<std::size_t, LogOrigin> places;
  std::set<std::string> platforms;
  for (std::size_t i = 0; i < logs.size(); ++i) {
    LogOrigin& place = places.try_emplace(jobs[i], LogOrigin{nullptr, platform, {}}).first->second;
    add_facts(facts_of_logs[i], place.facts);
    add_facts(facts_of_logs[i], facts);
  }
  for (auto& [job, place] : places) {
    if (!platform) place.platform = platform_of_instance_type(place.facts.platform);
    if (place.platform) platforms.insert(place.platform->name);
  }
  Explanation all{{}, facts.lines, facts.nccl_lines, listed(facts.nccl), listed(facts.plugin), join(listed(platforms)),
                  {}};
  // Lines with one remedy are findings of their own by what stands in front of them, as far as these are few.
  std::map<std::tuple<std::string, Severity, std::string>, std::map<std::string, std::size_t>> index;
  std::set<std::pair<std::size_t, std::string>> hosts;
  const auto add = [&](Finding finding, const std::string& before, std::size_t most_apart, const Explained& shown,
                       const std::string& host) {
    std::map<std::string, std::size_t>& alike = index[{finding.id, finding.severity, finding.action}];
    const std::string evidence = before + finding.evidence;
    finding.evidence = alike.size() < most_apart || alike.contains(evidence) ? evidence : "others: " + finding.evidence;
    const auto [at, first] = alike.try_emplace(finding.evidence, all.findings.size());
    if (first) {
      all.findings.push_back(shown);
      all.findings.back().finding = std::move(finding);
    }
    Explained& explained = all.findings[at->second];
    ++explained.count;
    if (!host.empty() && hosts.emplace(at->second, host).second) explained.hosts.push_back(host);
    return at->second;
  };
  const auto finding_of = [](const Shown& shown, const LogOrigin& place) {
    const LogRule& rule = *shown.rule;
    return Finding{rule.id, shown.severity, {}, rule.summary, remedy_of(rule, place), rule.about};
  };
  std::map<std::size_t, std::map<std::size_t, std::vector<Waiting>>> waiting;  // by finding and job
  std::map<std::pair<std::string, std::size_t>, std::size_t> unknown;  // by host, or by log where no host is named
  std::set<std::string, std::less<>> known_hosts;
  for (const LogIdentity& each : identities) known_hosts.insert(each.hosts.begin(), each.hosts.end());
  for (std::size_t i = 0; i < logs.size(); ++i) {
    const LogText& log = logs[i];
    const LogOrigin& place = places.at(jobs[i]);
    KernelErrors of_kernel;
    std::set<std::string, std::less<>> quoting;  // tags of ranks whose next line quotes NCCL's last warning
    each_line(log.text, [&](const LogLine& log_line, std::size_t number) {
      constexpr std::size_t most_apart = 8;
      const std::string& line = log_line.text;
      const std::string_view words = trimmed(line);
      const std::string tag(rank_tag(words));
      const bool announces = words.ends_with("Last error:");
      const bool quoted = !announces && quoting.erase(tag) > 0 && words != tag;
      if (announces) quoting.insert(tag);
      const bool warns = quoted || line.find(warning_mark) != std::string::npos;
      const std::optional<Shown> shown = shown_by(line, place);
      if (of_kernel.take(line, number, shown)) return;
      if (!shown && !(warns && rules_met(line).empty())) return;
      std::string host = host_in(line);
      if (!log_line.begins) host = known_end(host, known_hosts);
      if (!shown) {
        const auto [at, first] = unknown.try_emplace({host, host.empty() ? i : logs.size()}, all.unknown.size());
        if (first) all.unknown.push_back({host, essence(line), log.name, number, 0});
        ++all.unknown[at->second].count;
        return;
      }
      const std::size_t at =
          add(finding_of(*shown, place), shown->before, most_apart, {{}, essence(line), log.name, number, 0, {}}, host);
      if (!shown->rule->progress) return;
      if (const std::optional<Waiting> one = waiting_in(line, shown->caught)) waiting[at][jobs[i]].push_back(*one);
    });
    const std::vector<const XidClass*> classes = of_kernel.classes();
    for (std::size_t at = 0; at < classes.size(); ++at) {
      constexpr std::size_t most_parts = 1000;  // each is a device of its own to be looked after
      const auto& [source, said, number, xid, shown] = of_kernel.all()[at];
      const bool is_task = std::ranges::all_of(source.host, [](unsigned char c) { return std::isdigit(c); });
      const std::string host = is_task ? "" : source.host;  // srun --label says the number of the task
      if (shown) {
        add(finding_of(*shown, place), shown->before, most_parts, {{}, said, log.name, number, 0, {}}, host);
        continue;
      }
      const XidClass& kind = *classes[at];
      const std::string device = kind.of_switch ? "NVSwitch" : "GPU";
      const std::string where = !source.host.empty() ? fmt::format(" of {}{}", is_task ? "task " : "", source.host)
                                : source.from > 0    ? fmt::format(" in {} from line {} on", log.name, source.from)
                                : logs.size() > 1    ? " in " + log.name
                                                     : "";
      Finding finding{"gpu.xid",   kind.severity,
                      {},          "the driver reported an error of the " + device,
                      kind.action, kind.of_switch ? About::fabric : About::hardware};
      finding.subject.xid = xid->code;
      add(std::move(finding),
          fmt::format("{} {} of the {} at {}{}: ", kind.of_switch ? "SXid" : "Xid", xid->code, device, xid->pci, where),
          most_parts, {{}, said, log.name, number, 0, {}}, host);
    }
  }
  for (const auto& [at, of_jobs] : waiting) {
    std::vector<std::string> texts;  // a job is named by its first log
    for (const auto& [job, lines] : of_jobs)
      texts.push_back((of_jobs.size() > 1 ? logs[job].name + ": " : "") + progress_text(progress_of(lines)));
    all.findings[at].finding.evidence.insert(0, join(texts, "; ") + ": ");
  }
  for (Explained& each : all.findings)
    if (each.hosts.size() == 1) each.finding.subject.host = each.hosts.front();
  // A device that failed is the cause of what its peers log.
  std::ranges::stable_sort(all.findings, {}, [](const Explained& each) {
    return std::pair(each.finding.severity, each.finding.about != About::hardware);
  });
  return all;
}

std::optional<Remedy> remedy_for(std::string_view text) {
  for (const LogMatch& match : rules_met(std::string(text))) {
    const LogRule& rule = *match.rule;
    if (rule.where.empty() && rule.count.empty() && rule.severity == Severity::error)
      return Remedy{rule.id, rule.remedy.at("any"), rule.about};
  }
  return std::nullopt;
}

std::vector<Finding> of_all_ranks(const std::vector<std::vector<Finding>>& of_rank) {
  std::vector<Finding> findings;
  std::map<std::pair<std::string, std::string>, std::pair<std::size_t, int>> seen;  // index, further ranks
  for (const std::vector<Finding>& one : of_rank)
    for (const Finding& each : one) {
      const auto [at, first] = seen.try_emplace({each.subject.host, each.id}, findings.size(), 0);
      if (first) {
        findings.push_back(each);
      } else {
        ++at->second.second;
      }
    }
  for (const auto& [key, where_and_more] : seen)
    if (const auto& [index, more] = where_and_more; more > 0)
      findings[index].evidence += fmt::format(" (and {} more {})", more, more == 1 ? "rank" : "ranks");
  std::ranges::stable_sort(findings, {}, &Finding::severity);
  return findings;
}

}  // namespace p5::topo
