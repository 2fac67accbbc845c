// Each GPU under the load of a job: matrix products alone, messages alone, and both at once.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/plan.hpp"

namespace p5 {

// A part of such a load; a rank has at most one of each. The name is that in figures: "links" in "load_links_gb_per_s".
//   products: bf16 matrix products
//   links: exchanges with a GPU of the same NVLink domain, both ways
//   nics: exchanges with the same GPU of another domain
//   copies: to the host, where a job has a single GPU
struct LoadPart {
  std::string_view name;
  std::string_view label;  // "bf16 matrix products"
  std::string_view unit;   // in names of figures: "tflop_per_s"
  double unit_amount = 1;  // operations of a product, or bytes, of one unit
  bool exchanges = false;  // with another rank, which may be the slow one: of several partners the best counts
};
inline constexpr std::array load_parts{
    LoadPart{"products", "bf16 matrix products", "tflop_per_s", 1e12, false},
    LoadPart{"links", "messages over links", "gb_per_s", 1e9, true},
    LoadPart{"nics", "messages over NICs", "gb_per_s", 1e9, true},
    LoadPart{"copies", "copies to the host", "gb_per_s", 1e9, false},
};

// A case of all parts that a job has, which run at the same time.
struct LoadCase {
  Case all;
  // The number in load_parts of the case's own operation, then of each work beside it; null: a filler of which no
  // figure is kept.
  std::vector<std::optional<std::size_t>> parts;
  // Bytes that one operation of each moves, or the floating-point operations of a product.
  std::vector<double> amounts;
};

// The cases for the load. Exchanges are between pairs of the GPUs of a domain, and between pairs of domains. With more
// than two GPUs or domains a second case has other pairs, and with an odd number a third one has, so that a GPU with a
// slow partner also has an exchange with another one.
std::vector<LoadCase> load_cases(const std::string& backend_name, const JobFacts& job);

// Parts, by number in load_parts, that a rank has at the same time in those cases in which it has most. The rate that
// is left of one part depends on the others, so that figures of ranks with different parts are not comparable: where
// domains are of unequal size, some ranks have no partner over the NICs, and some have one, others two.
struct LoadOfRank {
  std::set<std::set<std::size_t>> parts;
  std::map<std::size_t, std::set<int>> partners;  // ranks with which it exchanges messages of a part
};
std::vector<LoadOfRank> loads_of_ranks(const DomainOfRank& domain_of_rank);

// Wall time of the samples of one case, without opening it, in the short form.
inline constexpr Seconds short_load{0.35};

// Runs the cases on all participants, with joined ranks, each for short_load, or for its part of `burn` where that is
// more. `found`: for each rank, at the leader and empty elsewhere, or where the backend cannot run them:
//   load_PART_alone_UNIT   the rate of a part while the rank does nothing else
//   load_PART_UNIT         while all parts of the case run
//   load_PART_share        the second over the first, taken in turns: 1 where the others cost nothing
// for each of load_parts that the rank has, and the first wrong result. A share that is below those of other GPUs
// points to the device: to its clocks where the products slow, to its links or NICs where the messages do. Throws
// PhaseFailed; the backend has then been abandoned, and of what was found the wrong results are there alone: figures of
// some of the cases are not comparable.
void check_under_load(ControlPlane& control, Backend& backend, const std::vector<LoadCase>& cases, Seconds burn,
                      std::vector<LocalChecks>& found);

}  // namespace p5
