// The findings of NICs and of EFA.
#include <tuple>

#include "topo/checks/families.hpp"
#include "topo/tables.hpp"

namespace p5::topo {

// ---- nic.down, nic.count, nic.launched, efa.driver, nic.rate, efa.driver_rate, nic.pcie, nic.gdr, nic.names, nic.mtu,
// host.peermem, settings.ib_hca and nic.unusable: NICs that are missing, down, slow, differently named or not
// accessible.

namespace {

// EFA's driver reports 100 Gb/s for every device before its release 2.13.0, which queries the device (amzn-drivers,
// kernel/linux/efa/RELEASENOTES.md and commit c4c7926; aws-ofi-nccl src/nccl_ofi_net.cpp works around it).
constexpr GBps rate_of_old_driver{12.5};
constexpr const char* asking_driver = "2.13";

bool has_efa_by(const Platform* platform) { return platform && platform->network == "efa"; }

// True if the EFA driver reports one constant rate for all NICs of this host instead of the devices' own rates.
bool states_one_rate_for_all(const Host& host, const Platform* platform) {
  if (!has_efa_by(platform) || platform->nic_rate <= rate_of_old_driver) return false;
  const std::string driver = version_of(host, "efa driver");
  if (!driver.empty() && !contains({.from = {}, .below = asking_driver}, driver)) return false;
  return has_efa(host) && std::ranges::all_of(host.nics, [](const Nic& nic) {
           return nic.kind != "efa" || nic.rate == rate_of_old_driver;
         });
}

// A port that is down where the others' are up is a fault. An Ethernet port without a cable, or an InfiniBand one that
// carries no traffic of the job, is ordinary; one of the fabric is not.
Finding down(const Host& host, const Nic& nic, bool carries, bool alone) {
  const bool of_job = alone || (nic.kind != "ethernet" && carries);
  const Severity severity = alone || nic.kind == "efa" ? Severity::error : of_job ? Severity::warning : Severity::info;
  Finding finding = about_host(
      host, "nic.down", severity,
      fmt::format("{} device {} on {} is in state '{}'{}", nic.kind, nic.name, host.name, nic.state,
                  alone && nic.kind != "efa" ? ", and up on most other hosts" : ""),
      of_job ? "look at the driver's messages (dmesg) and the link; reboot or replace the host if the port stays down"
             : "nothing, unless this port should carry traffic");
  finding.subject.nic = nic.name;
  return finding;
}

// The kind of each host, with which it is compared: its platform, else the model of its GPUs, else what most are.
std::vector<std::string> kinds_of_hosts(const Topology& topology, const std::vector<const Platform*>& platforms) {
  std::vector<std::string> kinds, known;
  for (std::size_t at = 0; at < platforms.size(); ++at) {
    const std::vector<Gpu>& gpus = topology.hosts[at].gpu_devices;
    const auto first = std::ranges::find_if(gpus, [](const Gpu& gpu) { return !gpu.name.empty(); });
    kinds.push_back(platforms[at] ? platforms[at]->name : first == gpus.end() ? "" : first->name);
    if (!kinds.back().empty()) known.push_back(kinds.back());
  }
  std::ranges::replace(kinds, std::string(), usual(known).value_or(""));
  return kinds;
}

// Rates of the NICs that are up, the highest first.
std::vector<double> rates_up(const std::set<const Nic*>& nics) {
  std::vector<double> rates;
  for (const Nic* const nic : nics)
    if (nic->rate && nic->state == "up") rates.push_back(nic->rate->count);
  std::ranges::sort(rates, std::greater());
  return rates;
}

// The highest rates of NICs on any host of a kind: of each name, and of each place in the order of a host's rates.
struct HighestRates {
  std::map<std::string, double> of_names;
  std::vector<double> in_order;

  void add(const std::set<const Nic*>& nics) {
    for (const Nic* const nic : nics)
      if (nic->rate && nic->state == "up") of_names[nic->name] = std::max(of_names[nic->name], nic->rate->count);
    const std::vector<double> rates = rates_up(nics);
    in_order.resize(std::max(in_order.size(), rates.size()));
    for (std::size_t i = 0; i < rates.size(); ++i) in_order[i] = std::max(in_order[i], rates[i]);
  }

  // True if a NIC of the host is slower than that in its place, under whatever names.
  bool exceed(const std::set<const Nic*>& nics) const {
    const std::vector<double> rates = rates_up(nics);
    for (std::size_t i = 0; i < rates.size(); ++i)
      if (rates[i] < 0.99 * in_order[i]) return true;
    return false;
  }
};

// True if the GPUs do not share this many NICs evenly: there may be another one, which is slow.
bool lacks_nics(const Host& host, std::ptrdiff_t nics) {
  const std::ptrdiff_t gpus = std::max<std::ptrdiff_t>(host.gpus, std::ssize(host.gpu_devices));
  return nics > 0 && nics < gpus && gpus % nics != 0;
}

}  // namespace

NicsOfHosts all_nics_with_rdma(const Topology& topology) {
  NicsOfHosts all;
  for (const Host& host : topology.hosts) {
    const std::vector<const Nic*> nics = nics_with_rdma(host);
    all.emplace_back(nics.begin(), nics.end());
  }
  return all;
}

NicsOfHosts carrying_nics(const Topology& topology) {
  const std::vector<std::string> kinds = kinds_of_hosts(topology, platforms_of_hosts(topology));
  std::map<std::string, std::map<std::string, double>> highest;  // of Ethernet ports by kind of host and name
  for (std::size_t at = 0; at < kinds.size(); ++at)
    for (const Nic* const nic : nics_with_rdma(topology.hosts[at])) {
      // A device of NCCL may have the rates of several NICs.
      if (nic->kind != "ethernet" || nic->state != "up" || !nic->rate || !topology.hosts[at].seen_by.empty()) continue;
      double& its = highest[kinds[at]][nic->name];
      its = std::max(its, nic->rate->count);
    }
  std::map<std::string, double> full;
  for (const auto& [kind, places] : highest) {
    std::vector<double> rates;
    for (const auto& [name, rate] : places) rates.push_back(rate);
    full[kind] = usual(rates).value_or(std::ranges::max(rates));
  }
  NicsOfHosts carrying(kinds.size());
  for (std::size_t at = 0; at < kinds.size(); ++at)
    for (const Nic* const nic : nics_with_rdma(topology.hosts[at])) {
      const std::map<std::string, double>& places = highest[kinds[at]];
      const auto place = nic->kind == "ethernet" ? places.find(nic->name) : places.end();
      if (place == places.end() || place->second >= 0.99 * full.at(kinds[at])) carrying[at].insert(nic);
    }
  return carrying;
}

std::vector<std::vector<const Nic*>> ports_down_alone(const Topology& topology) {
  using Place = std::pair<std::string, std::string>;  // the kind of the port and its name
  struct Kind {
    int hosts = 0;
    std::map<Place, int> up;   // hosts on which it is
    std::vector<int> numbers;  // of ports that are up
  };
  const std::vector<std::string> kinds = kinds_of_hosts(topology, platforms_of_hosts(topology));
  const NicsOfHosts carrying = carrying_nics(topology);
  std::map<std::string, Kind> all;
  std::vector<int> number_up;
  for (std::size_t at = 0; at < kinds.size(); ++at) {
    Kind& its = all[kinds[at]];
    ++its.hosts;
    number_up.push_back(0);
    for (const Nic* const nic : carrying[at]) {
      if (nic->state != "up") continue;
      ++its.up[{nic->kind, nic->name}];
      ++number_up.back();
    }
    its.numbers.push_back(number_up.back());
  }
  std::map<std::string, int> usual_number;
  for (const auto& [kind, its] : all) usual_number[kind] = usual(its.numbers).value_or(0);
  std::vector<std::vector<const Nic*>> down_alone(kinds.size());
  for (std::size_t at = 0; at < kinds.size(); ++at) {
    const Kind& its = all.at(kinds[at]);
    // As many ports as elsewhere, under other names.
    if (number_up[at] >= usual_number.at(kinds[at])) continue;
    for (const Nic& nic : topology.hosts[at].nics) {
      const auto up = its.up.find({nic.kind, nic.name});
      if (nic.state == "up" || nic.state == "unknown" || up == its.up.end()) continue;
      if (up->second >= 2 && 2 * up->second > its.hosts - 1) down_alone[at].push_back(&nic);
    }
  }
  return down_alone;
}

std::vector<Finding> nics_down(const Topology& topology) {
  const std::vector<const Platform*> platforms = platforms_of_hosts(topology);
  const std::vector<std::vector<const Nic*>> alone = ports_down_alone(topology);
  const NicsOfHosts carrying = carrying_nics(topology);
  std::vector<Finding> findings;
  for (std::size_t at = 0; at < platforms.size(); ++at)
    for (const Nic& nic : topology.hosts[at].nics) {
      // Some instance types show InfiniBand devices of their boards beside EFA, which carry nothing.
      const bool idle = nic.kind == "virtual" || (has_efa_by(platforms[at]) && nic.kind == "infiniband");
      if (idle || nic.state == "up" || nic.state == "unknown") continue;
      const bool is_alone = std::ranges::find(alone[at], &nic) != alone[at].end();
      findings.push_back(down(topology.hosts[at], nic, carrying[at].contains(&nic), is_alone));
    }
  return findings;
}

namespace {

// True if none of the host's EFA functions has a driver: nothing is known of the devices.
bool lacks_efa_driver(const Host& host) { return !has_efa(host) && host.efa_without_driver.value_or(0) > 0; }

// The reason to assume that a host was launched with this number of EFA devices and has lost none; "": none. `counts`:
// those of all hosts of its platform. A network card has one EFA device at most. EC2 does not say which interfaces have
// one: that of the first card may have none, on all hosts alike.
std::string sign_of_launch(const Host& host, const Platform& platform, int count, const std::vector<int>& counts) {
  const int cards = host.network_cards.value_or(platform.network_cards);
  if (count == 0 && (cards < platform.network_cards || counts.size() == 1))
    return "it was launched without, as a host does not lose all";
  if (count == cards - (platform.network_cards - platform.nics))
    return fmt::format("EC2 has attached interfaces to {} of its {} network cards: it was launched with so few", cards,
                       platform.network_cards);
  return count == std::ranges::max(counts) && std::ranges::count(counts, count) > 1
             ? "none of these hosts has more: they were launched with so many"
             : "";
}

// Hosts whose number of EFA devices is not their platform's, by whether they were launched with it.
std::vector<Finding> other_nic_counts(const Topology& topology, bool launched_so, const char* id, const char* action) {
  const std::vector<const Platform*> platforms = platforms_of_hosts(topology);
  std::vector<int> counts;
  std::map<const Platform*, std::vector<int>> of_platforms;
  for (std::size_t at = 0; at < platforms.size(); ++at) {
    counts.push_back(static_cast<int>(std::ranges::count(topology.hosts[at].nics, "efa", &Nic::kind)));
    of_platforms[platforms[at]].push_back(counts.back());
  }
  std::vector<Finding> findings;
  for (std::size_t at = 0; at < platforms.size(); ++at) {
    const Host& host = topology.hosts[at];
    const Platform* const platform = platforms[at];
    const int count = counts[at];
    if (!has_efa_by(platform) || platform->nics == 0 || !host.seen_by.empty() || count == platform->nics) continue;
    if (lacks_efa_driver(host)) continue;
    const std::string sign = sign_of_launch(host, *platform, count, of_platforms.at(platform));
    if (sign.empty() == launched_so) continue;
    findings.push_back(about_host(host, id, Severity::error,
                                  fmt::format("{} shows {}, {} has {}{}", host.name, plural(count, "EFA device"),
                                              platform->name, platform->nics, launched_so ? ", and " + sign : ""),
                                  action));
  }
  return findings;
}

}  // namespace

std::vector<Finding> wrong_nic_counts(const Topology& topology) {
  return other_nic_counts(
      topology, false, "nic.count",
      "check the launch template (one EFA interface per network card), the EFA driver (fi_info -p efa) and, in a "
      "container, that all devices are passed in; replace the host if the count stays wrong");
}

std::vector<Finding> nic_counts_at_launch(const Topology& topology) {
  return other_nic_counts(
      topology, true, "nic.launched",
      "launch the hosts with one EFA interface per network card (launch template), and see that the EFA driver is "
      "loaded (fi_info -p efa) and that containers get all devices");
}

std::vector<Finding> without_efa_driver(const Topology& topology) {
  return each_host(
      topology, "efa.driver", Severity::error,
      "load the kernel module efa (modprobe efa); where it is not there for this kernel, or too old for these "
      "devices (dmesg), install the current EFA installer; the instance is not at fault",
      [](const Host& host) -> std::string {
        if (!lacks_efa_driver(host)) return "";
        return fmt::format("{} on the PCI bus of {}, and the EFA driver serves none",
                           plural(*host.efa_without_driver, "EFA device"), host.name);
      });
}

std::vector<Finding> slow_nics(const Topology& topology) {
  const std::vector<const Platform*> platforms = platforms_of_hosts(topology);
  const std::vector<std::string> kinds = kinds_of_hosts(topology, platforms);
  const NicsOfHosts carrying = carrying_nics(topology);
  std::map<std::string, std::vector<double>> rates;
  for (std::size_t at = 0; at < kinds.size(); ++at)
    for (const Nic* const nic : carrying[at])
      if (topology.hosts[at].seen_by.empty() && nic->rate && nic->state == "up")
        rates[kinds[at]].push_back(nic->rate->count);
  // Beside its EFA devices an instance may have InfiniBand devices of other rates, which carry nothing.
  std::map<std::string, std::optional<double>> usual_of_kinds;
  for (const auto& [kind, its] : rates) usual_of_kinds[kind] = usual(its);
  const auto full_rate = [&](std::size_t host) -> std::optional<double> {
    if (!has_efa_by(platforms[host])) return usual_of_kinds[kinds[host]];
    return platforms[host]->nics > 0 ? std::optional(platforms[host]->nic_rate.count) : std::nullopt;
  };
  std::vector<std::optional<double>> full;
  std::map<std::string, HighestRates> highest_of_kinds;
  for (std::size_t at = 0; at < kinds.size(); ++at) {
    full.push_back(states_one_rate_for_all(topology.hosts[at], platforms[at]) ? std::nullopt : full_rate(at));
    highest_of_kinds[kinds[at]].add(carrying[at]);
  }
  // EFA devices are all there for the job. Elsewhere NICs of a lower rate may serve storage, unless another host of the
  // kind has a faster one in their place, and this one has fewer that are as fast.
  const auto serves_storage = [&](std::size_t host, const Nic& nic) {
    const HighestRates& highest = highest_of_kinds.at(kinds[host]);
    const auto place = highest.of_names.find(nic.name);
    return !has_efa_by(platforms[host]) && (place == highest.of_names.end() ||
                                            nic.rate->count >= 0.99 * place->second || !highest.exceed(carrying[host]));
  };
  const auto is_slow = [&](std::size_t host, const Nic& nic) {
    // A device of NCCL may have the rates of several NICs.
    if (!topology.hosts[host].seen_by.empty()) return false;
    return (nic.kind == "efa" || !has_efa_by(platforms[host])) && full[host] && nic.state == "up" && nic.rate &&
           nic.rate->count < 0.99 * *full[host];
  };
  // A slower Ethernet port is ordinary, as hosts are managed by them, unless the GPUs do not share the others evenly
  // and would with those of its rate. Where a port is down, that one may be what is lacking.
  const NicsOfHosts with_rdma = all_nics_with_rdma(topology);
  const auto may_be_of_job = [&](std::size_t host, const Nic& nic) {
    if (nic.kind != "ethernet") return true;
    const std::ptrdiff_t others = std::ssize(carrying[host]);
    const std::ptrdiff_t alike = std::ranges::count_if(with_rdma[host], [&](const Nic* each) {
      return each->kind == "ethernet" && each->state == "up" && each->rate && each->rate->count == nic.rate->count &&
             !carrying[host].contains(each);
    });
    return lacks_nics(topology.hosts[host], others) && !lacks_nics(topology.hosts[host], others + alike);
  };
  const auto evidence = [&](std::size_t host, const Nic& nic) {
    return fmt::format("at {:.6g} GB/s of {:.6g} by the kernel", nic.rate->count, *full[host]);
  };
  return both(nics_of_each_host(
                  topology, "nic.rate", Severity::error, evidence,
                  "reboot, and replace the instance if that does not help: all traffic waits for the slowest rail",
                  [&](std::size_t host, const Nic& nic) { return is_slow(host, nic) && !serves_storage(host, nic); }),
              nics_of_each_host(
                  topology, "nic.rate", Severity::warning, evidence,
                  "nothing if they serve storage; else reboot, and replace the instance if that does not help: "
                  "all traffic waits for the slowest rail",
                  [&](std::size_t host, const Nic& nic) {
                    return is_slow(host, nic) && serves_storage(host, nic) && may_be_of_job(host, nic);
                  },
                  with_rdma));
}

std::vector<Finding> old_efa_drivers(const Topology& topology) {
  const std::vector<const Platform*> platforms = platforms_of_hosts(topology);
  std::vector<Finding> findings;
  for (std::size_t at = 0; at < platforms.size(); ++at) {
    const Host& host = topology.hosts[at];
    const Platform* const platform = platforms[at];
    if (!states_one_rate_for_all(host, platform)) continue;
    const std::string driver = version_of(host, "efa driver");
    findings.push_back(about_host(
        host, "efa.driver_rate", Severity::warning,
        fmt::format("the EFA driver{} on {} states 100 Gb/s for all its EFA devices; those of {} have {:.6g}, which "
                    "drivers from {} on state",
                    driver.empty() ? "" : " " + driver, host.name, platform->name, platform->nic_rate.count * 8,
                    asking_driver),
        "install the EFA driver of a current EFA installer: NCCL and libfabric plan with the rate that it states; the "
        "instance is not at fault"));
  }
  return findings;
}

// Compares with the NICs of the same kind and rate on all hosts of the kind, and with the maximum of the NIC itself.
std::vector<Finding> narrow_nics(const Topology& topology) {
  using Like = std::tuple<std::string, std::string, double>;
  const std::vector<std::string> kinds = kinds_of_hosts(topology, platforms_of_hosts(topology));
  const auto like = [&](std::size_t host, const Nic& nic) {
    return Like{kinds[host], nic.kind, nic.rate ? nic.rate->count : 0};
  };
  const NicsOfHosts carrying = carrying_nics(topology);
  std::map<Like, std::vector<int>> generations;
  for (std::size_t at = 0; at < kinds.size(); ++at)
    for (const Nic* const nic : carrying[at])
      if (nic->pcie.generation) generations[like(at, *nic)].push_back(*nic->pcie.generation);
  std::map<Like, std::optional<int>> usual_generations;
  for (const auto& [its, all] : generations) usual_generations[its] = usual(all);
  const auto full = [&](std::size_t host, const Nic& nic) {
    const auto others = usual_generations.find(like(host, nic));
    const std::optional<int> most = others == usual_generations.end() ? std::nullopt : others->second;
    return std::max(nic.pcie.generation_max.value_or(0), most.value_or(0));
  };
  // Virtual functions may state lanes that no device has.
  const auto lanes = [](const std::optional<int>& width) { return width && *width >= 1 && *width <= 32; };
  const auto narrow = [&](const Nic& nic) {
    return lanes(nic.pcie.width) && lanes(nic.pcie.width_max) && *nic.pcie.width < *nic.pcie.width_max;
  };
  return nics_of_each_host(
      topology, "nic.pcie", Severity::warning,
      [&](std::size_t host, const Nic& nic) {
        return narrow(nic)
                   ? fmt::format("with {} PCIe lanes of {}", *nic.pcie.width, *nic.pcie.width_max)
                   : fmt::format("at PCIe generation {}, where {} is usual", *nic.pcie.generation, full(host, nic));
      },
      "reboot, so that the link is trained again; replace the host if that does not help",
      [&](std::size_t host, const Nic& nic) {
        return narrow(nic) || (nic.pcie.generation && *nic.pcie.generation < full(host, nic));
      });
}

// Not conclusive: registration by DMA-BUF does not need this part of the driver. NCCL's log reports the path in use.
std::vector<Finding> without_gdr(const Topology& topology) {
  const std::vector<const Platform*> platforms = platforms_of_hosts(topology);
  static constexpr const char* evidence =
      "without GPUDirect RDMA by the driver itself (sysfs p2p is empty, or gdr is 0): without DMA-BUF, traffic goes "
      "through host memory";
  return nics_of_each_host(
      topology, "nic.gdr", Severity::warning, [](const Nic&) { return evidence; },
      "install the EFA driver of the current EFA installer with its GPU Direct RDMA part "
      "(efa_nv_peermem), matching the NVIDIA driver, and load it",
      [&](std::size_t host, const Nic& nic) {
        return platforms[host] && platforms[host]->gpu_direct_rdma && nic.gdr == false;
      });
}

namespace {

// True if the NIC supports RDMA verbs: InfiniBand, or Ethernet with an RDMA device (RoCE).
bool has_verbs(const Nic& nic) { return nic.kind == "infiniband" || (nic.kind == "ethernet" && !nic.verbs.empty()); }

std::set<std::string> names_of_carrying(const Host&, const std::set<const Nic*>& nics) {
  std::set<std::string> names;
  for (const Nic* const nic : nics) names.insert(nic->name);
  return names;
}

// "mlx5_3 at 0000:9a:00.0"; none where one is not known. What a virtual machine shows is the hypervisor's choice.
std::set<std::string> places_of_carrying(const Host& host, const std::set<const Nic*>& nics) {
  std::set<std::string> places;
  if (host.virtual_machine != false) return {};
  for (const Nic* const nic : nics) {
    if (nic->pci.address.empty()) return {};
    places.insert(fmt::format("{} at {}", nic->name, nic->pci.address));
  }
  return places;
}

std::vector<std::string> missing_in(const std::set<std::string>& all, const std::set<std::string>& others) {
  std::vector<std::string> missing;
  std::ranges::set_difference(others, all, std::back_inserter(missing));
  return missing;
}

}  // namespace

// NCCL's variables select NICs by name, so NCCL_IB_HCA selects other NICs on a host where names or PCI addresses
// differ. A host with another number of NICs has findings of its own.
std::vector<Finding> renamed_nics(const Topology& topology) {
  const NicsOfHosts carrying = carrying_nics(topology);
  std::vector<Finding> findings;
  std::set<std::string> told;
  for (const auto list : {names_of_carrying, places_of_carrying}) {
    std::vector<std::set<std::string>> all;
    for (std::size_t i = 0; i < carrying.size(); ++i) all.push_back(list(topology.hosts[i], carrying[i]));
    const std::optional<std::set<std::string>> most = usual(all);
    for (std::size_t i = 0; most && i < all.size(); ++i) {
      const Host& host = topology.hosts[i];
      if (all[i] == *most || all[i].size() != most->size() || !told.insert(host.name).second) continue;
      findings.push_back(about_host(
          host, "nic.names", Severity::warning,
          fmt::format("{} has {} where the other hosts have {}", host.name, join(missing_in(*most, all[i])),
                      join(missing_in(all[i], *most))),
          "check there for a NIC in another slot and for other naming rules (udev); variables that name NICs, such as "
          "NCCL_IB_HCA, select other NICs on this host"));
    }
  }
  return findings;
}

// The port of InfiniBand or RoCE takes its own from the network device's. Ports of another rate may serve storage.
std::vector<Finding> odd_nic_mtus(const Topology& topology) {
  const auto like = [](const Nic& nic) { return std::pair{nic.kind, nic.rate ? nic.rate->count : 0}; };
  const auto counts = [](const Nic& nic) { return has_verbs(nic) && nic.state == "up" && nic.mtu; };
  std::map<std::pair<std::string, double>, std::vector<int>> mtus;
  for (const std::set<const Nic*>& nics : carrying_nics(topology))
    for (const Nic* const nic : nics)
      if (counts(*nic)) mtus[like(*nic)].push_back(*nic->mtu);
  const auto most = [&](const Nic& nic) { return usual(mtus.at(like(nic))).value_or(*nic.mtu); };
  return nics_of_each_host(
      topology, "nic.mtu", Severity::warning,
      [&](const Nic& nic) { return fmt::format("with an MTU of {}, where {} is usual", *nic.mtu, most(nic)); },
      "set one MTU on all ports and switches: queue pairs between ports that differ do not come up, or take the "
      "smaller one",
      [&](const Nic& nic) { return counts(nic) && *nic.mtu != most(nic); });
}

// DMA-BUF is the alternative from Linux 5.12 and NVIDIA's driver 515 on. Where it may exist, only NCCL's log shows
// which one is used.
std::vector<Finding> without_peermem(const Topology& topology) {
  return each_host(topology, "host.peermem", Severity::warning,
                   "load it (modprobe nvidia_peermem); traffic between GPU and NIC goes through the host until then",
                   [](const Host& host) -> std::string {
                     const bool up =
                         std::ranges::any_of(nics_with_rdma(host), [](const Nic* nic) { return nic->state == "up"; });
                     const bool verbs = !has_efa(host) && host.gpus > 0 && up;
                     if (!verbs || !host.modules || host.modules->empty()) return "";
                     const auto loaded = [&](const char* name) {
                       return std::ranges::find(*host.modules, name) != host.modules->end();
                     };
                     if (loaded("nvidia_peermem") || loaded("nv_peer_mem")) return "";
                     std::vector<std::string> old;
                     for (const auto& [part, least] : {std::pair{"kernel", "5.12"}, std::pair{"nvidia driver", "515"}})
                       if (contains({.from = {}, .below = least}, version_of(host, part)))
                         old.push_back(fmt::format("{} {}", part, version_of(host, part)));
                     if (old.empty()) return "";
                     return fmt::format(
                         "nvidia_peermem is not loaded on {}, and with {} there is no DMA-BUF: its NICs do not reach "
                         "GPU memory",
                         host.name, join(old));
                   });
}

// NCCL_IB_HCA lists the devices that NCCL may use, as in "=mlx5_0:1,mlx5_1" (ports are ignored here); "^" excludes.
std::vector<Finding> absent_hcas(const Topology& topology) {
  std::string names = setting(topology, "NCCL_IB_HCA");
  if (names.empty() || names.starts_with('^')) return {};
  const bool exact = names.starts_with('=');
  if (exact) names.erase(0, 1);
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    if (has_efa(host) || std::ranges::none_of(host.nics, has_verbs)) continue;
    std::vector<std::string> missing, listed = split(names);
    for (const std::string& entry : listed) {
      const std::string name = entry.substr(0, entry.find(':'));
      if (name.empty() || std::ranges::any_of(host.nics, [&](const Nic& nic) {
            return has_verbs(nic) && (exact ? nic.name == name : nic.name.starts_with(name));
          }))
        continue;
      missing.push_back(name);
    }
    if (missing.empty()) continue;
    const bool none = missing.size() == listed.size();
    findings.push_back(about_host(host, "settings.ib_hca", none ? Severity::error : Severity::warning,
                                  fmt::format("NCCL_IB_HCA names {}, which {} on {}", join(missing),
                                              missing.size() == 1 ? "is not" : "are not", host.name),
                                  none ? "unset NCCL_IB_HCA or name NICs that are there (ibv_devices): NCCL finds none "
                                         "and goes over TCP sockets"
                                       : "name NICs that all hosts have (ibv_devices): this host uses fewer rails"));
  }
  return findings;
}

std::vector<Finding> unusable_nics(const Topology& topology) {
  const auto evidence = [](const Nic& nic) {
    return fmt::format("cannot be opened by this job (/dev/infiniband/{})", nic.verbs);
  };
  const auto of_kind = [&](bool efa, const char* action) {
    return nics_of_each_host(topology, "nic.unusable", Severity::error, evidence, action,
                             [=](const Nic& nic) { return (nic.kind == "efa") == efa && nic.verbs_usable == false; });
  };
  return both(
      of_kind(true,
              "give the job access: in a container pass the EFA devices of /dev/infiniband, all of them and no others "
              "(Kubernetes: request vpc.amazonaws.com/efa), on a host check the permissions; one device of another "
              "driver that is there and cannot be opened makes libfabric offer none"),
      of_kind(false,
              "give the job access: in a container pass /dev/infiniband and all its devices "
              "(Kubernetes: request the RDMA resource), on a host check the permissions"));
}

// ---- efa.provider, efa.domains and efa.plugin: the software between NCCL and the EFA devices. Without any part of it
// NCCL falls back to TCP sockets and reports that in its log only.

namespace {

constexpr const char* fallback = "NCCL would go on over TCP sockets, at a tenth of the speed, without an error";

std::vector<const Nic*> efa_nics(const Host& host) {
  std::vector<const Nic*> nics;
  for (const Nic& nic : host.nics)
    if (nic.kind == "efa") nics.push_back(&nic);
  return nics;
}

bool offers_efa(const Libfabric& libfabric) {
  return std::ranges::any_of(libfabric.domains, [](const auto& domain) { return domain.provider == "efa"; });
}

}  // namespace

std::vector<Finding> absent_provider(const Topology& topology) {
  return each_host(
      topology, "efa.provider", Severity::error,
      "see what fi_info -p efa says; install the EFA installer's libfabric and put it first in LD_LIBRARY_PATH; in a "
      "container pass only the EFA devices of /dev/infiniband",
      [](const Host& host) -> std::string {
        if (!has_efa(host) || !host.libfabric || offers_efa(*host.libfabric)) return "";
        const Libfabric& libfabric = *host.libfabric;
        if (!libfabric.answered) return "";  // its providers are unknown
        std::vector<std::string> closed;
        for (const Nic& nic : host.nics)
          if (nic.kind != "efa" && nic.verbs_usable == false) closed.push_back(nic.name);
        return fmt::format(
            "{} EFA devices on {}, but libfabric{} offers none of them{}{}: {}", efa_nics(host).size(), host.name,
            libfabric.version.empty() ? "" : " " + libfabric.version,
            libfabric.problem.empty() ? "" : " (" + libfabric.problem + ")",
            closed.empty()
                ? ""
                : ", as it does where devices of other drivers are there and cannot be opened (" + join(closed) + ")",
            fallback);
      });
}

std::vector<Finding> missing_domains(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    if (!host.libfabric || !offers_efa(*host.libfabric)) continue;
    std::vector<const Nic*> missing;
    for (const Nic* nic : efa_nics(host)) {
      const bool offered = std::ranges::any_of(host.libfabric->domains, [&](const Libfabric::Domain& domain) {
        return domain.nic == nic->name || (domain.nic.empty() && domain.name.starts_with(nic->name));
      });
      // Devices that are down or out of reach have findings of their own.
      if (!offered && nic->state == "up" && nic->verbs_usable != false) missing.push_back(nic);
    }
    if (!missing.empty())
      findings.push_back(about_nics(host, missing, "efa.domains", Severity::error, "not among what libfabric offers",
                                    "see what fi_info -p efa says, and FI_EFA_IFACE; reboot or replace the instance"));
  }
  return findings;
}

std::vector<Finding> absent_plugins(const Topology& topology) {
  return each_host(
      topology, "efa.plugin", Severity::error,
      "install aws-ofi-nccl (it comes with the EFA installer) and put its lib folder into LD_LIBRARY_PATH on all "
      "nodes; NCCL_NET=\"AWS Libfabric\" makes its absence an error",
      [](const Host& host) -> std::string {
        if (!has_efa(host) || host.gpus == 0 || !host.net_plugins) return "";
        if (host.other_net_plugins.size() != host.net_plugins->size()) return "";
        return host.net_plugins->empty()
                   ? fmt::format("no libnccl-net*.so is where NCCL on {} would look for it: {}", host.name, fallback)
                   : fmt::format("NCCL on {} would find {} and no aws-ofi-nccl, without which it cannot use EFA: {}",
                                 host.name, join(*host.net_plugins), fallback);
      });
}

}  // namespace p5::topo
