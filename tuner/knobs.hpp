// Variables that are read once per process, from knobs/*.json: what could be tried in a fresh worker, where it makes
// sense and what it risks. The files are compiled in.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/constraints.hpp"

namespace p5::tuner {

enum class Transport { any, net, efa, nvls };  // net: any network between nodes

struct Knob {
  std::string name;     // of the variable
  std::string summary;  // one line
  std::string since;    // version of NCCL that first has it, "2.28.3"; "" for a variable of another library
  int step = 3;  // the order of trying: 2 what a communicator may also be told, 3 NCCL's own, 4 the network plugin's
  std::vector<std::string> values;
  std::string standard;                // "default" in the file; "" where it depends
  std::vector<std::string> platforms;  // beginnings of instance types; empty: all
  int least_nodes = 1;
  Transport transport = Transport::any;
  std::vector<std::string> collectives;  // that it can change; empty: all
  std::string risk, source;
};

// One file. Throws UsageError naming the file, the knob and the field that is missing, unknown or out of bounds.
std::vector<Knob> parse_knobs(std::string_view file, std::string_view text);

// All, in the order of the files: what promises most comes first, because a search may end before the last.
const std::vector<Knob>& knobs();

// Where they are to be applied.
struct KnobScope {
  std::string platform;  // "" where not known: then a knob for certain platforms is not tried
  int nodes = 1;
  int nccl_version =
      0;  // as ncclGetVersion counts; 0 where not known: then everything that NCCL has to know is left out
  bool efa = false, nvls = false;
  std::vector<std::string> collectives;  // that are measured; empty: all
};
bool applies(const Knob& knob, const KnobScope& place);
// The values that are worth a process: without the default.
std::vector<std::string> values_to_try(const Knob& knob);

// "2.28.3" as ncclGetVersion counts: 22803 (since 2.9; before, 2.8.4 was 2804). 0 for no version.
int nccl_version_of(std::string_view text);

}  // namespace p5::tuner
