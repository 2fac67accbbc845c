// A topology: read, checked and shown. Not as XML of hwloc, which reads that itself.
#include <nlohmann/json.hpp>

#include "bench/base/input.hpp"
#include "reports/writer.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "topo/binding.hpp"
#include "topo/finding.hpp"
#include "topo/topology.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return p5::fuzz::on(data, size, [](std::string_view text) {
    using namespace p5::topo;
    const Topology topology = topology_from_json(p5::parse_json(text));
    to_json(topology).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    p5::reports::render_topology(topology, look(topology), bindings(topology, nullptr));
  });
}
