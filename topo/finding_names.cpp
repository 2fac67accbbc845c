// Names of severities and of what findings are about.
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "topo/finding.hpp"

namespace p5::topo {

namespace {

constexpr std::array<std::pair<Severity, std::string_view>, 3> severity_names{
    {{Severity::error, "error"}, {Severity::warning, "warning"}, {Severity::info, "info"}}};

constexpr std::array<std::pair<About, std::string_view>, 5> about_names{{{About::hardware, "hardware"},
                                                                         {About::fabric, "fabric"},
                                                                         {About::software, "software"},
                                                                         {About::settings, "settings"},
                                                                         {About::host, "host"}}};

template <class Enum, std::size_t count>
Enum named(const std::array<std::pair<Enum, std::string_view>, count>& all, std::string_view kind,
           const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [value, text] : all) {
    if (text == name) return value;
    known.emplace_back(text);
  }
  throw UsageError(unknown_name(kind, name, known));
}

}  // namespace

Severity severity_from(const std::string& name) { return named(severity_names, "severity", name); }
About about_from(const std::string& name) { return named(about_names, "part that findings are about", name); }
std::string_view name_of(Severity severity) { return severity_names[static_cast<std::size_t>(severity)].second; }
std::string_view name_of(About about) { return about_names[static_cast<std::size_t>(about)].second; }

}  // namespace p5::topo
