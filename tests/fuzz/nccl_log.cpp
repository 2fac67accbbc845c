// A log of NCCL or a job's output, and as NCCL's own topology.
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/fuzz/fuzz.hpp"
#include "topo/nccl_log.hpp"
#include "topo/topology.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return p5::fuzz::on(data, size, [](std::string_view text) {
    using namespace p5::topo;
    const std::vector<LogText> logs{{"log", text}};
    explain_logs(logs, nullptr);
    to_json(topology_from_nccl_xml(text, "host"));
  });
}
