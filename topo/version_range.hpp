// Versions of software, compared by their numbers.
#pragma once

#include <string>

#include "bench/base/json_fields.hpp"

namespace p5::topo {

// Range of versions from one (inclusive) to another (exclusive); "": unbounded.
struct VersionRange {
  std::string from, below;
};

// "1.22.0amzn4.0" is 1.22.0: what follows the numbers does not count. False of a version that is not known.
bool contains(const VersionRange& range, const std::string& version);

void fields(auto& archive, Is<VersionRange> auto& range) {
  archive.may("from", range.from);
  archive.may("below", range.below);
}

}  // namespace p5::topo
