// Hosts out of the topology that NCCL writes (NCCL_TOPO_DUMP_FILE): GPUs, NICs, their links and NVLinks, of one job.
// NCCL writes all hosts that NVLink joins (MNNVL) into one file, each processor with the hash of its host. The files
// that NCCL reads (NCCL_TOPO_FILE) have the same form, but their GPUs and NICs have a PCI class only.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "topo/discover.hpp"
#include "topo/system_files.hpp"

namespace p5::topo {

namespace {

constexpr std::size_t deepest = 64;  // elements within each other
constexpr std::string_view amazon = "0x1d0f";

struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;
  bool is_empty = true;  // no element within it so far

  std::string text(const char* attribute) const {
    const auto at = attributes.find(attribute);
    return at == attributes.end() ? "" : at->second;
  }
  std::optional<int> number(const char* attribute) const {
    const std::string value = text(attribute);
    int number = 0;
    const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), number);
    return problem == std::errc() && end == value.data() + value.size() ? std::optional(number) : std::nullopt;
  }
};

// "16.0 GT/s PCIe"; "" and what no generation has are unknown.
PcieLink link_of(const Element& pci) {
  PcieLink link;
  if (const auto rate = leading_number(pci.text("link_speed"))) link.generation = pcie_generation(*rate);
  if (const auto width = pci.number("link_width"); width && *width >= 1 && *width <= 32) link.width = width;
  return link;
}

class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)), hosts_(1) {}

  void open(Element element) {
    if (open_.empty() && std::exchange(has_root_, true))
      throw UsageError(
          fmt::format("<{}> begins where the topology has ended: these are several files in one; give one of them",
                      printable(element.name)));
    if (open_.size() >= deepest) throw UsageError(fmt::format("its elements are nested more than {} deep", deepest));
    if (element.name == "cpu") {
      enter_host(element.text("host_hash"));
      const int numa = element.number("numaid").value_or(-1);
      if (numa >= 0) host().numa.push_back({numa, "", {}, {}});
    }
    if (element.name == "gpu") add_gpu(element);
    if (element.name == "nvlink" && gpu_) add_nvlinks(element);
    if (element.name == "net") add_net(element);
    if (!open_.empty()) open_.back().is_empty = false;
    open_.push_back(std::move(element));
  }
  void close(const std::string& name) {
    if (open_.empty() || open_.back().name != name)
      throw UsageError(fmt::format("</{}> ends what did not begin", printable(name)));
    if (name == "pci" && open_.back().is_empty) add_by_class();
    open_.pop_back();
    if (name == "gpu") gpu_ = false;
  }
  Topology take() {
    if (!open_.empty()) throw UsageError(fmt::format("it ends within <{}>", printable(open_.back().name)));
    const auto is_empty = [](const OfJob& each) { return each.host.gpu_devices.empty() && each.host.nics.empty(); };
    if (std::ranges::all_of(hosts_, is_empty))
      throw UsageError(
          "it names no GPU and no NIC, by <gpu>, <net> or a PCI class; give what NCCL writes (NCCL_TOPO_DUMP_FILE=FILE "
          "in a job)");
    std::ranges::stable_sort(hosts_, {}, &OfJob::first_rank);
    Topology topology;
    std::map<int, int> host_of_rank;
    for (std::size_t at = 0; at < hosts_.size(); ++at) {
      Host& each = hosts_[at].host;
      put_in_order(each.gpu_devices);
      each.name = each.host_name = hosts_.size() == 1 ? name_ : fmt::format("{}-{}", name_, at + 1);
      each.seen_by = "nccl";
      each.gpus = static_cast<int>(each.gpu_devices.size());
      each.numa_nodes = static_cast<int>(each.numa.size());
      find_rails(each);
      topology.hosts.push_back(std::move(each));
      for (const int rank : hosts_[at].ranks) host_of_rank.emplace(rank, static_cast<int>(at));
    }
    // The file of a job of several cliques has the ranks of one of them.
    const bool has_all = !host_of_rank.empty() && std::cmp_equal(host_of_rank.rbegin()->first, host_of_rank.size() - 1);
    if (hosts_.size() > 1 && has_all)
      for (const auto& [rank, host_of_it] : host_of_rank) topology.host_of_rank.push_back(host_of_it);
    return topology;
  }

 private:
  // The device that the innermost elements stand in.
  struct Device {
    PciPosition place;
    PcieLink link;
    int numa_node = -1;
    std::string vendor, model, kind;  // as numbers: "0x10de", "0x2330", "0x030200"
  };
  Device device() const {
    Device device;
    for (const Element& each : open_) {
      if (each.name == "cpu") {
        device.numa_node = std::max(-1, each.number("numaid").value_or(-1));
        device.place.path.push_back(fmt::format("pci of NUMA node {}", device.numa_node));
      }
      if (each.name != "pci") continue;
      if (!device.place.address.empty()) device.place.path.push_back(device.place.address);
      device.place.address = lower(each.text("busid"));
      device.link = link_of(each);
      device.vendor = each.text("vendor");
      device.model = each.text("device");
      device.kind = each.text("class");
    }
    return device;
  }
  // Null if it is absent. Throws UsageError naming the attribute.
  static std::optional<int> natural(const Element& element, const char* attribute) {
    if (!element.attributes.contains(attribute)) return std::nullopt;
    const std::optional<int> number = element.number(attribute);
    if (!number || *number < 0)
      throw UsageError(fmt::format("{}=\"{}\" of a <{}> has to be a whole number from 0", attribute,
                                   printable(element.text(attribute)), printable(element.name)));
    return number;
  }
  static Gpu gpu_at(const Device& at) {
    Gpu gpu;
    gpu.pci = at.place;
    gpu.pcie = at.link;
    gpu.numa_node = at.numa_node;
    return gpu;
  }
  static Nic nic_at(const Device& at, const std::string& name, bool efa, const char* state) {
    Nic nic{.name = name,
            .kind = efa                             ? "efa"
                    : at.kind.starts_with("0x0207") ? "infiniband"
                                                    : "ethernet",
            .driver = efa ? "efa" : "",
            .state = state};
    nic.numa_node = at.numa_node;
    nic.pci = at.place;
    nic.pcie = at.link;
    return nic;
  }
  // A device without <gpu> or <net>, by the classes that NCCL takes for GPUs and NICs.
  void add_by_class() {
    const Device at = device();
    if (at.kind.starts_with("0x03") && (at.vendor.empty() || at.vendor == "0x10de"))
      host().gpu_devices.push_back(gpu_at(at));
    if (at.kind.starts_with("0x02"))
      host().nics.push_back(
          nic_at(at, at.place.address, at.vendor == amazon && at.model.starts_with("0xefa"), "unknown"));
  }
  // By NCCL's numbers, which are those of the driver, and then those without one.
  static void put_in_order(std::vector<Gpu>& gpus) {
    std::ranges::stable_sort(gpus, {},
                             [](const Gpu& gpu) { return gpu.nccl_device.value_or(std::numeric_limits<int>::max()); });
    for (std::size_t at = 0; at < gpus.size(); ++at)
      if (std::optional<int>& number = gpus[at].nccl_device; number && std::cmp_equal(*number, at)) number.reset();
  }
  void add_gpu(const Element& element) {
    Gpu gpu = gpu_at(device());
    const int number = element.number("dev").value_or(-1);
    gpu.nccl_device = number >= 0 ? number : static_cast<int>(host().gpu_devices.size());
    gpu.architecture = natural(element, "sm").value_or(0);
    host().gpu_devices.push_back(std::move(gpu));
    gpu_ = true;
    if (const std::optional<int> rank = element.number("rank"); rank && *rank >= 0) {
      hosts_[current_].ranks.push_back(*rank);
      hosts_[current_].first_rank = std::min(hosts_[current_].first_rank, *rank);
    }
  }
  void add_nvlinks(const Element& element) {
    Gpu& gpu = host().gpu_devices.back();
    if (const std::optional<int> count = natural(element, "count"))
      gpu.links = gpu.links.value_or(0) + std::min(*count, 64);
  }
  void add_net(const Element& element) {
    const Device at = device();
    Nic nic =
        nic_at(at, element.text("name"), at.vendor == amazon && element.number("gdr"), "up");  // others are omitted
    constexpr double megabits = 8000;
    if (const auto speed = element.number("speed"); speed && *speed > 0) nic.rate = GBps{*speed / megabits};
    nic.hardware_address = element.text("guid");
    if (const auto gdr = element.number("gdr")) nic.gdr = *gdr > 0;
    host().nics.push_back(std::move(nic));
  }

  struct OfJob {
    Host host{};
    std::string hash{};
    std::vector<int> ranks{};
    int first_rank = std::numeric_limits<int>::max();
  };
  Host& host() { return hosts_[current_].host; }

  // Without a hash all processors are of the first host.
  void enter_host(const std::string& hash) {
    if (hash.empty()) return;
    if (hosts_.size() == 1 && hosts_[0].hash.empty()) hosts_[0].hash = hash;
    const auto known = std::ranges::find(hosts_, hash, &OfJob::hash);
    current_ = static_cast<std::size_t>(known - hosts_.begin());
    if (known != hosts_.end()) return;
    constexpr std::size_t most = 1000;  // NVLink joins 18 hosts of GB200
    if (hosts_.size() == most) throw UsageError(fmt::format("it has more than {} hosts", most));
    hosts_.emplace_back().hash = hash;
  }

  std::string name_;
  std::vector<OfJob> hosts_;
  std::size_t current_ = 0;
  std::vector<Element> open_;
  bool gpu_ = false;
  bool has_root_ = false;
};

constexpr std::string_view blanks = " \t\r\n";

// Takes the text up to the first of these characters, or all of it, from its beginning.
std::string_view take_until(std::string_view& text, std::string_view characters) {
  const std::string_view taken = text.substr(0, text.find_first_of(characters));
  text.remove_prefix(taken.size());
  return taken;
}

// Reads NAME A="..." B = '...'. Throws UsageError naming the element if there is anything else.
Element element_in(std::string_view text) {
  Element element{std::string(take_until(text, blanks)), {}};
  const auto skip_blanks = [&] { text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size())); };
  for (skip_blanks(); !text.empty(); skip_blanks()) {
    const std::string name(take_until(text, "= \t\r\n\"'"));
    skip_blanks();
    const bool has_value = text.starts_with('=');
    if (has_value) text.remove_prefix(1);
    skip_blanks();
    const std::string_view quotes = text.substr(0, 1);
    const bool quoted = quotes == "\"" || quotes == "'";
    const std::size_t end = quoted ? text.find(quotes, 1) : std::string_view::npos;
    if (name.empty() || !has_value || end == std::string_view::npos)
      throw UsageError(fmt::format("<{}> has {} where NAME=\"VALUE\" is due", printable(element.name),
                                   name.empty() ? in_quotes(text) : in_quotes(name)));
    if (!element.attributes.emplace(name, text.substr(1, end - 1)).second)
      throw UsageError(fmt::format("<{}> has {} twice", printable(element.name), in_quotes(name)));
    text.remove_prefix(end + 1);
  }
  return element;
}

// The '>' that ends the tag at the beginning of the text, or a '<', which no tag holds; one '>' may be in a value.
std::size_t end_of_tag(std::string_view xml) {
  char quotes = 0;
  for (std::size_t at = 1; at < xml.size(); ++at) {
    if (xml[at] == '<' || (!quotes && xml[at] == '>')) return at;
    if (quotes ? xml[at] == quotes : xml[at] == '"' || xml[at] == '\'') quotes = quotes ? 0 : xml[at];
  }
  return std::string_view::npos;
}

// The end of what begins with this '<' and is no element: a comment may hold elements. Null: it is an element.
std::optional<std::string_view> end_of_other(std::string_view xml) {
  if (xml.starts_with("<!--")) return "-->";
  if (xml.starts_with("<?")) return "?>";
  return xml.starts_with("<!") ? std::optional<std::string_view>(">") : std::nullopt;
}

}  // namespace

bool is_nccl_xml(std::string_view text) {
  const std::size_t at = text.find("<system");
  return at != std::string_view::npos && text.find("<topology") == std::string_view::npos;
}

Topology topology_from_nccl_xml(std::string_view xml, const std::string& name) {
  constexpr std::size_t longest = 4096;  // characters of one tag; NCCL's have about 300
  Reader reader(name);
  const char* const begin = xml.data();
  while (true) {
    xml.remove_prefix(std::min(xml.find('<'), xml.size()));
    if (xml.empty()) return reader.take();
    const std::optional<std::string_view> other = end_of_other(xml);
    const std::size_t end = other ? xml.find(*other) : end_of_tag(xml);
    if (end == std::string_view::npos) throw UsageError("it ends within a tag");
    std::string_view tag = other ? "" : xml.substr(1, end - 1);
    try {
      if (tag.size() > longest) throw UsageError(fmt::format("a tag has more than {} characters", longest));
      const bool ends = tag.starts_with("/"), empty = !ends && tag.ends_with("/");
      if (empty) tag.remove_suffix(1);
      if (ends) tag.remove_prefix(1);
      if (!other && !ends) reader.open(element_in(tag));
      const std::string element(take_until(tag, blanks));
      if (!other && xml[end] == '<') throw UsageError(fmt::format("the tag of <{}> has no end", printable(element)));
      if (ends || empty) reader.close(element);
    } catch (const UsageError& problem) {
      throw UsageError(fmt::format("line {}: {}", 1 + std::count(begin, xml.data(), '\n'), problem.what()));
    }
    xml.remove_prefix(end + 1);
  }
}

}  // namespace p5::topo
