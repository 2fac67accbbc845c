// Obstacles that keep NCCL from using the settings that a tuning finds: other tuners, variables, missing files.
#pragma once

#include <string>
#include <vector>

#include "bench/app/machine/files_on_hosts.hpp"
#include "bench/base/environment.hpp"
#include "topo/topology.hpp"

namespace p5 {

bool on_efa(const topo::Topology& topology);

// The library of the tuner that decides the calls for which ours has no setting; NCCL itself loads a single tuner. It
// is the value of tuner::chain_variable if that is not empty, else the path of aws-ofi-nccl's library if NCCL on EFA
// finds the same one on all hosts. "" without EFA, if NCCL_NET_PLUGIN is set, or if network plugins are in several
// folders: no tuner is better than a second copy of the wrong plugin. `environment`: as NCCL sees it.
std::string tuner_to_keep(const topo::Topology& topology, const Environment& environment);

// True if the library can be read on this host and has no tuner's symbol in it. aws-ofi-nccl's network plugin contains
// the tuner since 1.16; before, the tuner was a library of its own.
bool lacks_tuner(const std::string& library);

// The reason for which jobs with these variables and this NCCL would not use the settings (rows of the tuner's file)
// that are found for some of the collectives; "" if there is none.
std::string reason_for_no_rows(const Environment& environment, int nccl_version,
                               const std::vector<std::string>& collectives);

// The reason for which settings that need our tuner are not searched; "" if there is none. `chain`: tuner_to_keep(), or
// "" if that is a library that p5bench found itself and that has no tuner: it is `library_without_tuner` then.
// `others`: hosts that have another file at the path `chain`.
std::string reason_for_no_tuner(const topo::Topology& topology, const Environment& environment,
                                const std::string& chain, const std::string& library_without_tuner = "",
                                const std::vector<HostProblem>& others = {});

// The end of a sentence that says to unset NCCL_TUNER_PLUGIN: a way to keep the tuner `named`, which the variable
// names. "" if that is ours or none.
std::string how_to_keep_tuner(const std::string& named);

// The reason for which nothing that needs our plugin's library can be confirmed: it is not where p5bench looks for it.
// "" if it is there. NCCL would continue without a tuner, and the default would be compared with itself.
std::string reason_for_no_plugin(const std::string& plugin);

}  // namespace p5
