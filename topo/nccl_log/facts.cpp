// The lines of a log, and the facts about hosts, network and job that they state.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <regex>
#include <set>
#include <utility>

#include "topo/nccl_log/parts.hpp"
#include "topo/topology.hpp"

namespace p5::topo {

void each_line(std::string_view log, const std::function<void(const LogLine& line, std::size_t number)>& visit) {
  for (std::size_t number = 1; !log.empty(); ++number) {
    const std::size_t end = std::min(log.size(), log.find('\n'));
    const bool may_be_cut = end == log.size() && number > 1;  // nothing follows from what such a line does not say
    std::vector<LogLine> lines = log_lines(log.substr(0, end));
    if (may_be_cut) lines.back().text += "\u2026";
    for (const LogLine& line : lines) visit(line, number);
    log.remove_prefix(std::min(log.size(), end + 1));
  }
}

std::optional<std::vector<std::string>> caught_by(const std::regex& expression, const std::string& line,
                                                  std::size_t at) {
  // The recursion of std::regex needs a stack as deep as the text is long.
  constexpr std::size_t before = 300, after = 900;
  const std::size_t from = at > before ? at - before : 0;
  const std::string text = line.substr(from, at - from + after);
  std::smatch found;
  if (!std::regex_search(text, found, expression)) return std::nullopt;
  return std::vector<std::string>(std::next(found.begin()), found.end());
}

std::string word_after(const std::string& line, std::string_view mark) {
  const std::size_t at = line.find(mark);
  if (at == std::string::npos) return "";
  const std::size_t from = at + mark.size();
  return line.substr(from, std::min(line.size(), line.find_first_of(" ,+\"'", from)) - from);
}

namespace {

// Position where NCCL's own text begins; npos: not a line of NCCL's.
std::size_t words_in(const std::string& line) {
  for (const char* mark : {"NCCL INFO ", warning_mark})
    if (const std::size_t at = line.find(mark); at != std::string::npos) return at;
  return std::string::npos;
}

}  // namespace

std::string host_in(const std::string& line) {
  constexpr std::size_t longest = 300;
  const std::size_t at = words_in(line);
  if (at == std::string::npos) return "";
  const std::optional<NcclOrigin> origin =
      nccl_origin(std::string_view(line).substr(at > longest ? at - longest : 0, std::min(at, longest)));
  return origin ? std::string(origin->host) : "";
}

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

namespace {

// "#  Rank  0 Group  0 Pid  1234 on  host device  0 [0000:53:00] NVIDIA H100"; nccl-tests before 2.17 names no group.
void take_listed_rank(const std::string& line, LogFacts& facts) {
  static const std::regex form("\\bRank +(\\d{1,7}) (?:Group +\\d+ )?(?:Pid +\\d+ )?on +(\\S+) device +\\d");
  const std::size_t at = line.find("Rank ");
  if (at == std::string::npos || line.find(" device ", at) == std::string::npos) return;
  if (const auto caught = caught_by(form, line, at)) facts.ranks[(*caught)[1]].insert(std::stoi((*caught)[0]));
}

void take_communicator(const std::string& line, LogFacts& facts) {
  if (line.find("- Init ") == std::string::npos) return;
  const std::string ranks = word_after(line, " nranks ");
  if (ranks.empty() || !word_after(line, " parent ").empty()) return;
  facts.communicators.insert(ranks + " " + word_after(line, " commId "));
}

}  // namespace

void take_facts(const LogLine& log_line, std::size_t line_number, LogFacts& facts) {
  const std::string& line = log_line.text;
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
  take_communicator(line, facts);
  if (const std::string host = host_in(line); !host.empty() && log_line.begins) facts.hosts.insert(host);
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
  facts.hosts.insert(of_log.hosts.begin(), of_log.hosts.end());
  facts.communicators.insert(of_log.communicators.begin(), of_log.communicators.end());
  facts.lines += of_log.lines;
  facts.nccl_lines += of_log.nccl_lines;
}

std::vector<std::size_t> jobs_of(std::span<const LogFacts> logs) {
  std::vector<std::size_t> jobs(logs.size());
  std::iota(jobs.begin(), jobs.end(), std::size_t{0});
  std::map<std::string, std::size_t> first;  // log with the communicator
  for (std::size_t i = 0; i < logs.size(); ++i)
    for (const std::string& each : logs[i].communicators)
      if (const auto [known, fresh] = first.try_emplace(each, i); !fresh)
        std::ranges::replace(jobs, std::size_t{jobs[i]}, std::size_t{jobs[known->second]});
  std::set<std::size_t> named;
  for (std::size_t i = 0; i < logs.size(); ++i)
    if (!logs[i].communicators.empty()) named.insert(jobs[i]);
  return named.size() < 2 ? std::vector<std::size_t>(logs.size(), 0) : jobs;
}

namespace {

Answer answer(bool holds) { return holds ? Answer::yes : Answer::no; }

}  // namespace

Answer LogOrigin::efa() const {
  if (host) return answer(has_efa(*host) || (platform && platform->network == "efa"));
  if (platform) return answer(platform->network == "efa");
  return facts.efa ? Answer::yes : facts.verbs ? Answer::no : Answer::unknown;
}

Answer LogOrigin::verbs() const {
  if (efa() == Answer::yes) return Answer::no;
  if (!host) return facts.verbs ? Answer::yes : Answer::unknown;
  const std::vector<const Nic*> nics = nics_of_fabric(*host);
  if (std::ranges::any_of(nics, [](const Nic* nic) { return nic->state == "up"; })) return Answer::yes;
  // An Ethernet port with verbs may be meant for RDMA, or be the only port of a virtual machine.
  if (std::ranges::any_of(host->nics, [](const Nic& nic) { return nic.kind == "ethernet" && !nic.verbs.empty(); }))
    return Answer::unknown;
  return platform && platform->gpu_direct_rdma ? Answer::unknown : Answer::no;
}

Answer LogOrigin::fabric() const { return std::max(efa(), verbs()); }

Answer LogOrigin::direct() const {
  if (platform) return answer(platform->gpu_direct_rdma);
  return host || fabric() == Answer::no ? Answer::no : Answer::unknown;
}

Answer LogOrigin::holds(const std::string& where) const {
  if (where == "fabric") return fabric();
  if (where == "efa") return efa();
  // Yes only if known: a log that does not mention such devices may be from any host.
  if (where == "verbs") return answer(verbs() == Answer::yes);
  if (where == "direct") return direct();
  if (where == "far") return facts.far && !facts.near ? direct() : Answer::no;
  // With the plugin's protocol SENDRECV, which P4 uses, NCCL can only use its protocol Simple.
  if (where == "nvls" || where == "beyond p4") return answer(platform && platform->nvls);
  return Answer::yes;
}

bool LogOrigin::several_nodes() const {
  if (facts.most_nodes > 0 || facts.ranks.size() != 1) return facts.most_nodes != 1;
  const std::set<int>& ranks = facts.ranks.begin()->second;
  return *ranks.rbegin() + 1 != std::ssize(ranks);  // an excerpt of the list
}

}  // namespace p5::topo
