// A tuner plugin for tests, with the versions that aws-ofi-nccl 1.20 has: it chooses tree/simple for all calls, and
// records the version of each call. With P5BENCH_TEST_TUNER=fail its calls fail, with refuse its start.
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "tuner/plugin/abi.hpp"

namespace abi = p5::tuner::abi;

extern "C" {
// Counts of starts and ends, which the test reads.
std::atomic<int> chained_tuner_started, chained_tuner_finalized;
// A logger in a file without NCCL.
void chained_tuner_logger(int level, unsigned long subsystems, const char* file, int line, const char* format, ...);
void chained_tuner_logger(int, unsigned long, const char*, int, const char*, ...) {}
}

namespace {

bool told_to(std::string_view what) {
  const char* text = std::getenv("P5BENCH_TEST_TUNER");
  return text && what == text;
}

abi::Result start(void** context) {
  static int something;
  *context = &something;
  if (told_to("refuse")) return abi::internal_error;
  ++chained_tuner_started;
  return abi::success;
}

abi::Result start_plain(std::size_t, std::size_t, abi::Logger, void** context) { return start(context); }
abi::Result start_named(void** context, std::uint64_t, std::size_t, std::size_t, abi::Logger, abi::NvlinkDomains*,
                        abi::Constants* constants) {
  if (constants) {
    constants->base_latencies[0][0] = 42;
    constants->bandwidths[4][3][2] = 43;
  }
  return start(context);
}

abi::Result answer(int version, float** costs, int* channels) {
  if (costs) reinterpret_cast<float*>(costs)[2] = 0;  // tree/simple
  *channels = version;
  return told_to("fail") ? abi::internal_error : abi::success;
}

abi::Result choose_v2(void*, int, std::size_t, int, int, int, int* algorithm, int* protocol, int* channels) {
  *algorithm = 0;
  *protocol = 2;
  return answer(2, nullptr, channels);
}
abi::Result choose_v3(void*, int, std::size_t, int, float** costs, int, int, int* channels) {
  return answer(3, costs, channels);
}
abi::Result choose_v6(void*, int, std::size_t, int, float** costs, int, int, int, int* channels) {
  return answer(6, costs, channels);
}
abi::Result chunk(void*, int, std::size_t, int, int, int, std::size_t* size) {
  *size = 65536;
  return told_to("fail") ? abi::internal_error : abi::success;
}
abi::Result finalize(void*) {
  ++chained_tuner_finalized;
  return abi::success;
}

}  // namespace

extern "C" {
extern const abi::TunerV2 ncclTunerPlugin_v2;
extern const abi::TunerV3 ncclTunerPlugin_v3;
extern const abi::TunerV6 ncclTunerPlugin_v6;
}
const abi::TunerV2 ncclTunerPlugin_v2{"chained", start_plain, choose_v2, finalize};
const abi::TunerV3 ncclTunerPlugin_v3{"chained", start_plain, choose_v3, finalize};
const abi::TunerV6 ncclTunerPlugin_v6{"chained", start_named, choose_v6, finalize, chunk};
