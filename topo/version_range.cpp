#include "topo/version_range.hpp"

#include <sstream>
#include <vector>

namespace p5::topo {

namespace {

std::vector<int> numbers(const std::string& version) {
  std::vector<int> parts;
  std::istringstream text(version);
  for (int part; text >> part; text.ignore(1)) parts.push_back(part);
  return parts;
}

}  // namespace

bool contains(const VersionRange& range, const std::string& version) {
  const std::vector<int> known = numbers(version);
  if (known.empty()) return false;
  return (range.from.empty() || known >= numbers(range.from)) && (range.below.empty() || known < numbers(range.below));
}

}  // namespace p5::topo
