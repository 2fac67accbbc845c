// The host's network devices as /sys states them: which are real, how fast, and which are two views of one port.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "bench/base/names.hpp"
#include "topo/discover.hpp"
#include "topo/system_files.hpp"
#include "topo/topology.hpp"

namespace p5::topo {

namespace fs = std::filesystem;

namespace {

std::optional<GBps> rate_from_gigabits(std::optional<double> gigabits) {
  if (!gigabits || *gigabits <= 0) return std::nullopt;
  return GBps{*gigabits / 8};
}

// "4: ACTIVE" is "up"; other states keep the kernel's word.
std::string rdma_state(const fs::path& port) {
  std::string state = read_text(port / "state").value_or("unknown");
  if (const std::size_t colon = state.find(':'); colon != std::string::npos) state = trimmed(state.substr(colon + 1));
  state = lower(state);
  return state == "active" ? "up" : state;
}

std::string rdma_kind(const std::string& driver, const fs::path& port) {
  if (driver == "efa") return "efa";
  // RDMA over Ethernet: an Ethernet port, whatever class the kernel lists it in.
  return read_text(port / "link_layer").value_or("InfiniBand") == "Ethernet" ? "ethernet" : "infiniband";
}

// Adds the properties that every physical device has.
void add_device(Nic& nic, const fs::path& device) {
  nic.driver = target_name(device / "driver");
  nic.numa_node = numa_node_of(device);
  nic.pci = pci_position_of(device);
  nic.pcie = pcie_link_of(device);
}

// EFA's driver reports its path to GPU memory: since release 2.6 "p2p" names it ("NVIDIA", "NVIDIA peermem", "NEURON")
// or is an empty line, from 1.9 to 2.5 "gdr" is 1 or 0 (amzn-drivers, kernel/linux/efa/src/efa_sysfs.c).
std::optional<bool> reaches_gpus(const fs::path& device) {
  if (const auto provider = read_text(device / "p2p")) return !provider->empty();
  const auto value = read_number(device / "gdr");
  return value ? std::optional(*value > 0) : std::nullopt;
}

// MTU in bytes of the network device on the same port, from which RoCE and IPoIB derive theirs.
std::optional<int> mtu_of(const fs::path& device) {
  for (const std::string& name : names_in(device / "net"))
    if (const auto mtu = read_number(device / "net" / name / "mtu"); mtu && *mtu >= 1) return static_cast<int>(*mtu);
  return std::nullopt;
}

// Device access is tested by opening: in a container the device cgroup may refuse it despite the permission bits.
void add_verbs(Nic& nic, const fs::path& root, const fs::path& device) {
  const std::vector<std::string> names = names_in(device / "infiniband_verbs");
  if (names.empty()) return;
  nic.verbs = names.front();
  if (root != "/") return;
  const int descriptor = ::open(("/dev/infiniband/" + nic.verbs).c_str(), O_RDWR | O_CLOEXEC);
  nic.verbs_usable = descriptor >= 0;
  if (descriptor >= 0) ::close(descriptor);
}

Nic rdma_nic(const fs::path& root, const fs::path& folder) {
  const fs::path port = folder / "ports/1";
  Nic nic;
  nic.name = folder.filename();
  add_device(nic, folder / "device");
  nic.kind = rdma_kind(nic.driver, port);
  nic.state = rdma_state(port);
  nic.rate = rate_from_gigabits(read_number(port / "rate"));  // "100 Gb/sec (4X EDR)"
  nic.hardware_address = read_text(folder / "node_guid").value_or("");
  nic.firmware = read_text(folder / "fw_ver").value_or("");
  nic.gdr = reaches_gpus(folder / "device");
  nic.mtu = mtu_of(folder / "device");
  add_verbs(nic, root, folder / "device");
  nic.counters = nic_counters(root, nic.name);
  return nic;
}

// Some drivers report operstate "unknown"; the carrier then shows whether there is a link.
std::string ethernet_state(const fs::path& folder) {
  std::string state = read_text(folder / "operstate").value_or("unknown");
  if (state != "unknown") return state;
  const auto carrier = read_number(folder / "carrier");
  return carrier ? (*carrier > 0 ? "up" : "down") : state;
}

Nic network_nic(const fs::path& folder) {
  Nic nic;
  nic.name = folder.filename();
  nic.state = ethernet_state(folder);
  nic.kind = present(folder / "device") ? "ethernet" : "virtual";
  if (const auto mtu = read_number(folder / "mtu"); mtu && *mtu >= 1) nic.mtu = static_cast<int>(*mtu);
  if (nic.kind == "virtual") return nic;  // the speed of a virtual device is made up
  add_device(nic, folder / "device");
  nic.hardware_address = read_text(folder / "address").value_or("");
  if (const auto megabits = read_number(folder / "speed"))
    nic.rate = rate_from_gigabits(*megabits / 1000);  // -1: unknown
  return nic;
}

bool loopback(const fs::path& folder) {
  constexpr double loopback_type = 772;  // ARPHRD_LOOPBACK
  return folder.filename() == "lo" || read_number(folder / "type") == loopback_type;
}

bool among(const std::vector<fs::path>& devices, const fs::path& link) {
  const fs::path device = target_of(link);
  return !device.empty() && std::find(devices.begin(), devices.end(), device) != devices.end();
}

// The same port again: the Ethernet side of an RDMA device, a virtual function beside its physical one, or one half of
// a real device enslaved to another real one (Hyper-V's accelerated networking).
bool second_view(const fs::path& folder, const std::vector<fs::path>& rdma_devices) {
  if (among(rdma_devices, folder / "device")) return true;
  if (!names_in(folder / "device/physfn/net").empty() || present(folder / "master/device")) return true;
  const std::vector<std::string> names = names_in(folder);
  return present(folder / "device") && std::any_of(names.begin(), names.end(), [&](const std::string& name) {
           return name.starts_with("lower_") && among(rdma_devices, folder / name / "device");
         });
}

// True for the functions of a board's own NICs by which it manages its NVSwitches, as those of B200 and B300 have: they
// carry no data. Often only root may read what tells them (the vital product data).
bool manages_switches(const fs::path& device) {
  const auto data = read_text(device / "vpd");
  return data && data->find("SW_MNG") != std::string::npos;
}

// One RDMA device of each port: of a physical function and its virtual ones the physical one, or the first other that
// this job can open where it cannot open that one. `physical`: the devices of their physical functions, "" for others.
std::vector<Nic> one_of_each_port(const std::vector<Nic>& all, const std::vector<fs::path>& devices,
                                  const std::vector<fs::path>& physical) {
  std::vector<Nic> nics;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!physical[i].empty() && std::ranges::find(devices, physical[i]) != devices.end()) continue;
    const Nic* chosen = &all[i];
    for (std::size_t j = 0; j < all.size() && chosen->verbs_usable == false; ++j)
      if (!physical[j].empty() && physical[j] == devices[i] && all[j].verbs_usable == true) chosen = &all[j];
    nics.push_back(*chosen);
  }
  return nics;
}

}  // namespace

std::vector<Nic> discover_nics(const fs::path& root) {
  std::vector<Nic> all;
  std::vector<fs::path> rdma_devices, physical;
  const fs::path rdma = root / "sys/class/infiniband";
  for (const std::string& name : names_in(rdma)) {
    all.push_back(rdma_nic(root, rdma / name));
    rdma_devices.push_back(target_of(rdma / name / "device"));
    physical.push_back(target_of(rdma / name / "device/physfn"));
  }
  std::vector<Nic> nics = one_of_each_port(all, rdma_devices, physical);
  std::erase_if(
      nics, [&](const Nic& nic) { return nic.kind == "infiniband" && manages_switches(rdma / nic.name / "device"); });
  const fs::path network = root / "sys/class/net";
  for (const std::string& name : names_in(network)) {
    const fs::path folder = network / name;
    std::error_code problem;
    if (!fs::is_directory(folder, problem) || loopback(folder) || second_view(folder, rdma_devices)) continue;
    nics.push_back(network_nic(folder));
  }
  return nics;
}

// ---- Rails of each GPU: the NICs of the fabric that share the most bridges with it.

namespace {

// Proximity of two devices: larger is nearer.
struct PcieDistance {
  int shared = 0;  // bridges, the host bridge included
  bool same_numa_node = false;
  friend auto operator<=>(const PcieDistance&, const PcieDistance&) = default;
};

PcieDistance nearness(const Gpu& gpu, const Nic& nic) {
  const auto& a = gpu.pci.path;
  const auto& b = nic.pci.path;
  const auto differ = std::ranges::mismatch(a, b);
  return {static_cast<int>(differ.in1 - a.begin()), gpu.numa_node >= 0 && gpu.numa_node == nic.numa_node};
}

// One shared component is the host bridge: with a NUMA node's worth of devices below it that is no rail.
std::string by(const PcieDistance& nearest) {
  if (nearest.shared > 1) return "pcie switch";
  if (nearest.shared == 1) return "host bridge";
  return nearest.same_numa_node ? "numa node" : "host";
}

void find_rails(Gpu& gpu, const std::vector<const Nic*>& nics) {
  gpu.nics.clear();
  gpu.nics_by.clear();
  gpu.nics_shared.reset();
  PcieDistance nearest;
  for (const Nic* nic : nics) nearest = std::max(nearest, nearness(gpu, *nic));
  for (const Nic* nic : nics)
    if (nearness(gpu, *nic) == nearest) gpu.nics.push_back(nic->name);
  if (!gpu.nics.empty()) gpu.nics_by = by(nearest);
}

}  // namespace

bool has_efa(const Host& host) {
  return std::ranges::any_of(host.nics, [](const Nic& nic) { return nic.kind == "efa"; });
}

std::vector<const Nic*> nics_of_fabric(const Host& host) {
  std::vector<const Nic*> nics;
  const bool efa = has_efa(host);
  double infiniband = 0, ethernet = 0;  // the rates of ports that are up
  std::size_t ethernet_up = 0;          // fewer than the InfiniBand ports are for storage, though these be down
  for (const Nic& nic : host.nics) {
    if (nic.kind == (efa ? "efa" : "infiniband")) nics.push_back(&nic);
    const double rate = nic.state == "up" && nic.rate ? nic.rate->count : 0;
    if (nic.kind == "infiniband") infiniband += rate;
    if (nic.kind == "ethernet" && !nic.verbs.empty()) ethernet += rate, ethernet_up += rate > 0 ? 1 : 0;
  }
  if (!efa && ethernet > infiniband && ethernet_up >= nics.size()) nics.clear();
  return nics;
}

std::vector<const Nic*> nics_with_rdma(const Host& host) {
  std::vector<const Nic*> nics = nics_of_fabric(host);
  if (nics.empty())
    for (const Nic& nic : host.nics)
      if (nic.kind == "ethernet" && !nic.verbs.empty()) nics.push_back(&nic);
  return nics;
}

void find_rails(Host& host) {
  const std::vector<const Nic*> nics = nics_of_fabric(host);
  for (Gpu& gpu : host.gpu_devices) find_rails(gpu, nics);
  for (Gpu& gpu : host.gpu_devices)
    if (!gpu.nics.empty())
      gpu.nics_shared = static_cast<int>(
          std::ranges::count_if(host.gpu_devices, [&](const Gpu& other) { return other.nics == gpu.nics; }));
}

namespace {

const std::string& place_on_bus(const Nic* nic) { return nic->pci.address.empty() ? nic->name : nic->pci.address; }

bool is_closed(const Nic* nic) { return nic->verbs_usable == false; }

// Without those that this job cannot open, where it can open others: a container sees all devices of its host in /sys,
// and may have been given some of them.
std::vector<const Nic*> nics_of_job(const Host& host) {
  std::vector<const Nic*> nics = nics_of_fabric(host);
  if (!std::ranges::all_of(nics, is_closed)) std::erase_if(nics, is_closed);
  return nics;
}

}  // namespace

std::vector<std::vector<std::string>> nics_by_place(const std::vector<Host>& hosts) {
  std::vector<std::vector<const Nic*>> of_hosts;
  for (const Host& host : hosts) {
    of_hosts.push_back(nics_of_job(host));
    std::ranges::stable_sort(of_hosts.back(), {}, place_on_bus);
  }
  std::vector<std::vector<std::string>> names;
  if (of_hosts.empty()) return names;
  const std::vector<const Nic*>& places = *std::ranges::max_element(of_hosts, {}, &std::vector<const Nic*>::size);
  for (const std::vector<const Nic*>& nics : of_hosts) {
    std::vector<std::string>& its = names.emplace_back(places.size());
    std::vector<const Nic*> elsewhere;
    for (const Nic* nic : nics) {
      const auto place = std::ranges::find(places, place_on_bus(nic), place_on_bus);
      std::string* const free =
          place == places.end() ? nullptr : &its[static_cast<std::size_t>(place - places.begin())];
      if (free && free->empty())
        *free = nic->name;
      else
        elsewhere.push_back(nic);
    }
    for (const Nic* nic : elsewhere) *std::ranges::find(its, std::string()) = nic->name;
  }
  return names;
}

}  // namespace p5::topo
