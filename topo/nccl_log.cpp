#include "topo/nccl_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <tuple>
#include <utility>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "topo/checks/families.hpp"
#include "topo/discover.hpp"
#include "topo/nccl_log/parts.hpp"
#include "topo/system_files.hpp"
#include "topo/tables.hpp"

namespace p5::topo {

namespace {

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

// "[rank3]:" in front of what PyTorch prints, "" where the line has none.
std::string_view rank_tag(std::string_view line) {
  const std::size_t at = line.find("[rank"), end = line.find("]:", at);
  return end == std::string_view::npos ? "" : line.substr(at, end + 2 - at);
}

}  // namespace

std::vector<Finding> findings_in_log(std::string_view log, const Host& host, const Platform* platform, int rank) {
  LogOrigin place{&host, platform, {}};
  each_line(log, [&](const LogLine& line, std::size_t number) { take_facts(line, number, place.facts); });
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
  for (std::size_t i = 0; i < logs.size(); ++i)
    each_line(logs[i].text,
              [&](const LogLine& line, std::size_t number) { take_facts(line, number, facts_of_logs[i]); });
  // A line is judged by the facts of its own job.
  const std::vector<std::size_t> jobs = jobs_of(facts_of_logs);
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
      if (!log_line.begins) host = known_end(host, facts.hosts);
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
      texts.push_back((of_jobs.size() > 1 ? logs[job].name + ": " : "") + progress_text(lines));
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
