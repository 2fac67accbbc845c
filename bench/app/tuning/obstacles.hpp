// What keeps NCCL from using the settings that a tuning finds: other tuners, variables, missing files.
#pragma once

#include <string>
#include <vector>

#include "bench/app/machine/files_on_hosts.hpp"
#include "bench/base/environment.hpp"
#include "topo/topology.hpp"

namespace p5 {

bool on_efa(const topo::Topology& topology);

// The value of tuner::chain_variable, where it is not empty, else the path of aws-ofi-nccl's library if NCCL on EFA
// finds the same one on all hosts: NCCL loads a single tuner, and aws-ofi-nccl's should keep the calls for which ours
// has no setting. "" without EFA, if NCCL_NET_PLUGIN is set, or if network plugins are in several folders: loading a
// second copy of the wrong one is worse than none. `environment`: as NCCL sees it.
std::string tuner_to_keep(const topo::Topology& topology, const Environment& environment);

// True if the library can be read on this host, and no name of a tuner is in it: aws-ofi-nccl's network plugin has one
// since 1.16, before that a library of its own.
bool lacks_tuner(const std::string& library);

// The reason for which jobs with these variables and this NCCL would not use the settings that are found for some of
// the collectives; "" without one.
std::string reason_for_no_rows(const Environment& environment, int nccl_version,
                               const std::vector<std::string>& collectives);

// The reason for which settings that need our tuner are not searched; "" without one. `chain`: tuner_to_keep(), unless
// that is a library without a tuner; `others`: the hosts whose file there is another one.
std::string reason_for_no_tuner(const topo::Topology& topology, const Environment& environment,
                                const std::string& chain, const std::string& library_without_tuner = "",
                                const std::vector<HostProblem>& others = {});

// The end of a sentence that says to unset NCCL_TUNER_PLUGIN, which has this value: how that tuner is kept. "" where it
// is ours or none.
std::string how_to_keep_tuner(const std::string& named);

// The reason for which nothing that needs our plugin's library can be confirmed, as it is not where p5bench looks for
// it; "" where it is. NCCL would continue without a tuner, and the files would be the default.
std::string reason_for_no_plugin(const std::string& plugin);

}  // namespace p5
