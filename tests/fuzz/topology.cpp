// A topology, as JSON or as XML of hwloc: read, checked and shown.
#include <nlohmann/json.hpp>

#include "bench/base/input.hpp"
#include "reports/topology_text.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "topo/binding.hpp"
#include "topo/finding.hpp"
#include "topo/topology.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return p5::fuzz::on(data, size, [](std::string_view text) {
    using namespace p5::topo;
    Topology topology;
    if (text.starts_with('<'))
      topology.hosts.push_back(host_from_hwloc_xml(std::string(text), "host"));
    else
      topology = topology_from_json(p5::parse_json(text));
    to_json(topology).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    p5::reports::render_topology(topology, look(topology), bindings(topology, nullptr));
  });
}
