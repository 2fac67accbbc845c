// Small kernel files as text and numbers. Errors are ignored deliberately: a fact that cannot be read is absent.
#include "topo/system_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "bench/base/error.hpp"
#include "bench/base/input.hpp"

namespace p5::topo {

namespace fs = std::filesystem;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view space(" \t\r\n\0", 5);
  const std::size_t from = text.find_first_not_of(space);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(space) - from + 1);
}

std::optional<double> leading_number(std::string_view text) {
  text = trimmed(text);
  double number = 0;
  const auto [after, problem] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (problem != std::errc()) return std::nullopt;
  return number;
}

std::optional<std::string> read_text(const fs::path& file) try {
  // Reading may fail, of a process that has just ended or of a port that is down. Libraries are read too.
  constexpr Bytes largest = GiB(1);
  const std::string text = read_input(file, largest, "");
  if (text.empty()) return std::nullopt;
  return std::string(trimmed(text));
} catch (const UsageError&) {
  return std::nullopt;
}

std::optional<double> read_number(const fs::path& file) {
  const auto text = read_text(file);
  return text ? leading_number(*text) : std::nullopt;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::optional<std::string> value_of(const fs::path& file, std::string_view key) {
  const auto text = read_text(file);
  if (!text) return std::nullopt;
  for (const std::string& line : lines_of(*text))
    if (line.starts_with(key)) return std::string(trimmed(std::string_view(line).substr(key.size())));
  return std::nullopt;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code problem;
  for (fs::directory_iterator at(folder, problem), end; !problem && at != end; at.increment(problem))
    names.push_back(at->path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

fs::path target_of(const fs::path& link) {
  std::error_code problem;
  const fs::path target = fs::canonical(link, problem);
  return problem ? fs::path() : target;
}

std::string target_name(const fs::path& link) { return target_of(link).filename(); }

bool present(const fs::path& path) {
  std::error_code problem;
  return fs::exists(path, problem);
}

bool has_driver(const fs::path& device) {
  const int file = ::open(device.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return errno != ENOENT && errno != ENOTDIR && errno != ENXIO && errno != ENODEV;
  ::close(file);
  return true;
}

}  // namespace p5::topo
