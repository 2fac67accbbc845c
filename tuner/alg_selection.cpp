#include "tuner/alg_selection.hpp"

#include <cctype>
#include <string_view>

namespace p5::tuner {

namespace {

std::string in_capitals(std::string_view name) {
  std::string text;
  for (const char c : name) text += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::string alg_selection(const Setting& setting) {
  const bool all_protocols = setting.algorithm == Algorithm::tree || setting.algorithm == Algorithm::ring;
  if (!all_protocols && setting.protocol != Protocol::simple) return "";
  const std::string algorithm =
      setting.algorithm == Algorithm::nvls_tree ? "NVLSTREE" : in_capitals(name_of(setting.algorithm));
  const std::string name = algorithm + "_" + in_capitals(name_of(setting.protocol));
  // NCCL takes a name for all that begin with it.
  return setting.protocol == Protocol::ll ? name + "+^" + name + "128" : name;
}

}  // namespace p5::tuner
