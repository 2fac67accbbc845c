// What a job's ranks recorded, in any format, and a job's file.
#include <nlohmann/json.hpp>
#include <string_view>

#include "bench/base/error.hpp"
#include "bench/base/input.hpp"
#include "bench/job/analysis.hpp"
#include "bench/job/formats.hpp"
#include "bench/model/job.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

void analyse_trace(std::string_view text) {
  p5::job::Trace trace;
  p5::job::TraceFile file("trace_rank_0.json", text);
  read_trace(file, trace);
  join_messages(trace);
  trace.finish();
  const p5::job::Analysis found = p5::job::analyse(trace, 0);
  p5::job::weights_of(found.job);
  for (const p5::job::TrafficOfGroups& each : found.traffic) traffic_csv(each);
  const nlohmann::json written = to_json(found.job);
  try {
    p5::job_from_json(written);
  } catch (const p5::UsageError&) {
    __builtin_trap();  // what is written can be read
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  p5::fuzz::on(data, size, [](std::string_view text) { to_json(p5::job_from_json(p5::parse_json(text))); });
  return p5::fuzz::on(data, size, analyse_trace);
}
