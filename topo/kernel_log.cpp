// Xids of GPUs and SXids of NVSwitches in the kernel log since the machine booted and the driver was last loaded:
// earlier errors no longer apply.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <fstream>

#include "bench/base/names.hpp"
#include "topo/discover.hpp"
#include "topo/system_files.hpp"
#include "topo/tables.hpp"

namespace p5::topo {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view xid_mark = "NVRM: Xid (", sxid_mark = ": SXid (", driver_loads = "NVRM: loading NVIDIA UNIX";

}  // namespace

// "NVRM: Xid (PCI:0000:53:00): 79, pid=1234, name=python, GPU has fallen off the bus."; older drivers without "PCI:".
// "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 24007, Fatal, Link 30 sourcetrack timeout error"; lines with other words
// behind the code are details of such a one.
std::optional<Xid> xid_in(std::string_view line) {
  const bool of_switch = line.find(sxid_mark) != std::string_view::npos;
  const std::string_view mark = of_switch ? sxid_mark : xid_mark;
  const std::size_t at = line.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  line.remove_prefix(at + mark.size());
  if (line.starts_with("PCI:")) line.remove_prefix(4);
  const std::size_t end = line.find("): ");
  if (end == std::string_view::npos) return std::nullopt;
  Xid xid;
  xid.pci = lower(line.substr(0, std::min(end, line.find(' '))));
  line.remove_prefix(end + 3);
  const auto [after, problem] = std::from_chars(line.data(), line.data() + line.size(), xid.code);
  if (problem != std::errc()) return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(after - line.data()));
  constexpr std::size_t longest = 200;
  if (of_switch && !(is_of_switch(xid.code) && (line.starts_with(", Fatal") || line.starts_with(", Non-fatal"))))
    return std::nullopt;
  xid.text = trimmed(line.substr(std::min(line.size(), line.find_first_not_of(", "))).substr(0, longest));
  return xid;
}

bool starts_driver(std::string_view line) { return line.find(driver_loads) != std::string_view::npos; }

namespace {

// Errors of one code are told apart where their texts ask for different remedies: fatal and nonfatal ones of NVLinks.
bool are_alike(const Xid& one, const Xid& other) {
  return one.pci == other.pci && one.code == other.code &&
         &class_of_xid(one.code, one.text) == &class_of_xid(other.code, other.text);
}

// Keeps the order of the last occurrences: a later Xid may take back what an earlier one asked for.
void add(std::vector<Xid>& xids, std::string_view line) {
  if (starts_driver(line)) xids.clear();
  std::optional<Xid> xid = xid_in(line);
  if (!xid) return;
  const auto at = std::ranges::find_if(xids, [&](const Xid& other) { return are_alike(other, *xid); });
  if (at == xids.end()) {
    xids.push_back(std::move(*xid));
  } else {
    ++at->count;
    at->text = std::move(xid->text);
    std::rotate(at, at + 1, xids.end());
  }
}

// The kernel's own buffer: since the start of the machine, as far back as it reaches.
std::optional<std::vector<Xid>> in_buffer(const char* device) {
  const int descriptor = ::open(device, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  std::vector<Xid> xids;
  std::array<char, 8192> record{};
  for (;;) {
    const ssize_t length = ::read(descriptor, record.data(), record.size());
    if (length < 0 && (errno == EPIPE || errno == EINTR)) continue;  // overwritten meanwhile: the next
    if (length <= 0) break;
    const std::string_view text(record.data(), static_cast<std::size_t>(length));
    add(xids, text.substr(0, text.find('\n')));  // later lines of the record are the kernel's device dictionary
  }
  ::close(descriptor);
  return xids;
}

// "2026-11-23T19:58:53.123456+00:00 host kernel: ..." or "Nov 23 19:58:53 host kernel: ...", in this machine's time.
std::optional<std::time_t> time_of(const std::string& line, std::time_t now) {
  std::tm parts{};
  if (const char* rest = strptime(line.c_str(), "%Y-%m-%dT%H:%M:%S", &parts)) {
    while (*rest == '.' || (*rest >= '0' && *rest <= '9')) ++rest;
    int hours = 0, minutes = 0;
    char sign = '+';
    if (std::sscanf(rest, "%c%2d:%2d", &sign, &hours, &minutes) != 3) hours = minutes = 0;
    const std::time_t offset = (std::time_t{hours} * 60 + minutes) * 60;
    return timegm(&parts) - (sign == '-' ? -offset : offset);
  }
  if (!strptime(line.c_str(), "%b %e %H:%M:%S", &parts)) return std::nullopt;
  std::tm today{};
  localtime_r(&now, &today);
  parts.tm_year = today.tm_year;
  parts.tm_isdst = -1;
  constexpr std::time_t day = std::time_t{24} * 60 * 60;
  std::tm of_this_year = parts;
  if (const std::time_t time = std::mktime(&of_this_year); time <= now + day) return time;
  --parts.tm_year;
  return std::mktime(&parts);
}

std::string end_of(const fs::path& file) {
  constexpr std::streamoff longest = 32 << 20;
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) return "";
  const std::streamoff size = stream.tellg();
  std::string text(static_cast<std::size_t>(std::min(size, longest)), '\0');
  stream.seekg(-static_cast<std::streamoff>(text.size()), std::ios::end);
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

// Xid errors in rsyslog's current and previous file. Lines without a timestamp are skipped: they may be of an earlier
// boot.
std::optional<std::vector<Xid>> in_files(const fs::path& root) {
  const auto started = value_of(root / "proc/stat", "btime ");
  if (!started) return std::nullopt;
  constexpr double steps_of_the_clock = 60;
  const double from = leading_number(*started).value_or(0) - steps_of_the_clock;
  for (const char* name : {"kern.log", "messages", "syslog"}) {
    const fs::path file = root / "var/log" / name;
    const std::string current = end_of(file);
    if (current.empty()) continue;
    std::vector<Xid> xids;
    for (const std::string& text : {end_of(file.string() + ".1"), current})
      for (const std::string& line : lines_of(text)) {
        if (line.find("NVRM: ") == std::string::npos && line.find(sxid_mark) == std::string::npos) continue;
        const auto time = time_of(line, std::time(nullptr));
        if (time && static_cast<double>(*time) >= from) add(xids, line);
      }
    return xids;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<Xid>> discover_xids(const fs::path& root) {
  if (root == "/")
    if (auto xids = in_buffer("/dev/kmsg")) return xids;
  return in_files(root);
}

std::vector<Xid> xids_by_text(const std::vector<Xid>& before, const std::vector<Xid>& now, std::string_view pci,
                              int code, int count) {
  std::vector<Xid> found;
  std::string last;
  for (const Xid& each : now) {
    if (each.code != code || each.pci.empty() || !pci.starts_with(each.pci)) continue;
    last = each.text;
    const auto then = std::ranges::find_if(before, [&](const Xid& other) { return are_alike(other, each); });
    // The log may have been cut since, so that it has fewer of them.
    const int more = std::min(count, each.count - (then == before.end() ? 0 : std::min(then->count, each.count)));
    if (more == 0) continue;
    found.push_back({each.pci, code, more, each.text});
    count -= more;
  }
  if (count == 0) return found;
  if (found.empty()) return {{std::string(pci), code, count, last}};
  found.back().count += count;
  return found;
}

}  // namespace p5::topo
