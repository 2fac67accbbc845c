#include "bench/base/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"

namespace p5 {

Environment current_environment() {
  Environment variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (const std::size_t equals = text.find('='); equals != std::string::npos)
      variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

std::string value_or_empty(const Environment& variables, const std::string& name) {
  const auto found = variables.find(name);
  return found == variables.end() ? std::string() : found->second;
}

Environment with_changes(Environment variables, const Environment& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

bool is_variable_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && !digit(name[0]) && std::ranges::all_of(name, [&](char c) { return letter(c) || digit(c); });
}

bool is_secret(std::string_view name) {
  constexpr std::array<std::string_view, 6> secrets{"secret", "token", "password", "passwd", "key", "auth"};
  const std::vector<std::string> words = split(lower(name), '_');
  return std::ranges::any_of(
      words, [&](const std::string& word) { return std::ranges::find(secrets, word) != secrets.end(); });
}

bool is_job_specific(std::string_view name) {
  constexpr std::array<std::string_view, 3> prefixes{"OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_initial_"};
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::string recorded_value(std::string_view name, const std::string& value) {
  if (is_secret(name) && !value.empty()) return "(set; the value is not recorded)";
  return is_utf8(value) ? value : printable(value);
}

std::string recorded_argument(const std::string& word) {
  const std::size_t start = word.starts_with("--") ? word.find('=') + 1 : 0;  // "--b="; 0 without one
  std::vector<std::string> kept;
  bool hiding = false;
  for (const std::string& part : split(std::string_view(word).substr(start))) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) {
      if (!hiding) kept.push_back(part);  // else it continues a secret value that contains commas
      continue;
    }
    const std::string name = part.substr(0, equals);
    hiding = is_secret(name);
    kept.push_back(name + "=" + recorded_value(name, part.substr(equals + 1)));
  }
  return word.substr(0, start) + join(kept, ",");
}

Environment recorded(const Environment& variables) {
  Environment kept;
  for (const auto& [name, value] : variables)
    if (!is_job_specific(name)) kept[is_utf8(name) ? name : printable(name)] = recorded_value(name, value);
  return kept;
}

}  // namespace p5
