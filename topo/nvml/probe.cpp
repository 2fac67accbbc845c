// p5bench-probe-nvml: prints NVML's report of this host's GPUs as JSON. A separate program, because NVML may block for
// minutes on a hung driver: the parent can kill it, and it never waits longer than the given limit.
//   p5bench-probe-nvml SECONDS       one line: {"driver", "cuda", "gpus": [Gpu], "asked", "answered", "problem"}
//   p5bench-probe-nvml --watch       a line a second until its input closes, see watch.hpp
#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "topo/nvml/describe.hpp"
#include "topo/nvml/watch.hpp"
#include "topo/topology.hpp"

namespace {

using namespace p5;
using nlohmann::json;

struct OneGpu {
  topo::Gpu gpu;
  nvml::Asking asking{nullptr};
  bool begun = false, done = false;
};

// Answers received so far. They outlive threads that never return from a hung driver.
struct DriverAnswers {
  std::mutex mutex;
  std::condition_variable changed;
  std::string driver, cuda, problem;
  std::deque<OneGpu> gpus;
  nvml::Asking asking{nullptr};
  bool counted = false;
};

std::string system_text(const nvml::Library& library, DriverAnswers& answers, const char* function) {
  std::array<char, 96> text{};
  return library.call(answers.asking, function, text.data(), unsigned{text.size()}) == nvml::success ? text.data() : "";
}

void ask_gpu(const nvml::Library& library, DriverAnswers& answers, unsigned index) {
  OneGpu& mine = answers.gpus[index];
  {
    const std::lock_guard lock(answers.mutex);
    mine.begun = true;
  }
  nvml::Device device = nullptr;
  const nvml::Result result = library.call(mine.asking, "nvmlDeviceGetHandleByIndex_v2", index, &device);
  if (result == nvml::success) {
    nvml::describe({library, device, mine.asking}, [&](const topo::Gpu& gpu) {
      const std::lock_guard lock(answers.mutex);
      mine.gpu = gpu;
    });
  }
  const std::lock_guard lock(answers.mutex);
  if (result != nvml::success)
    mine.gpu.problem = fmt::format("nvmlDeviceGetHandleByIndex_v2: {}", library.words(result));
  mine.done = true;
  answers.changed.notify_all();
}

// False where limits allow no more threads.
bool start(std::function<void()> body) try {
  std::thread(std::move(body)).detach();
  return true;
} catch (const std::system_error&) {
  return false;
}

// One thread per GPU, so that a GPU that hangs does not delay the others' facts. If threads run out, the remaining GPUs
// are queried sequentially.
void ask(DriverAnswers& answers) try {
  static const nvml::Library library(answers.asking);
  const std::string driver = system_text(library, answers, "nvmlSystemGetDriverVersion");
  int cuda = 0;
  const bool knows_cuda = library.call(answers.asking, "nvmlSystemGetCudaDriverVersion_v2", &cuda) == nvml::success;
  unsigned count = 0;
  const nvml::Result result = library.call(answers.asking, "nvmlDeviceGetCount_v2", &count);
  if (result != nvml::success)
    throw std::runtime_error(fmt::format("nvmlDeviceGetCount_v2: {}", library.words(result)));
  std::vector<unsigned> left;
  {
    const std::lock_guard lock(answers.mutex);
    answers.driver = driver;
    if (knows_cuda) answers.cuda = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
    for (unsigned i = 0; i < count; ++i) answers.gpus.emplace_back();
    for (unsigned i = 0; i < count; ++i)
      if (!start([&answers, i] { ask_gpu(library, answers, i); })) left.push_back(i);
    answers.counted = true;
    answers.changed.notify_all();
  }
  for (const unsigned each : left) ask_gpu(library, answers, each);
} catch (const std::exception& problem) {
  const std::lock_guard lock(answers.mutex);
  answers.problem = problem.what();
  answers.counted = true;
  answers.changed.notify_all();
}

bool complete(const DriverAnswers& answers) {
  return answers.counted && std::ranges::all_of(answers.gpus, [](const OneGpu& one) { return one.done; });
}

json in_words(DriverAnswers& answers, double limit_s) {
  const auto silent = [&](const nvml::Asking& asking) {
    const char* const function = asking.load();
    return fmt::format("{} did not answer within {:.3g} s", function ? function : "NVML", limit_s);
  };
  if (!answers.counted) answers.problem = silent(answers.asking);
  json gpus = json::array();
  // A GPU that was not queried for lack of threads does not count as one that does not answer.
  const bool asked = std::ranges::all_of(answers.gpus, &OneGpu::begun);
  if (!asked) answers.problem = "too few threads to ask all GPUs; raise the limit of processes (ulimit -u, pids.max)";
  for (OneGpu& one : answers.gpus) {
    if (!asked) break;
    if (!one.done) one.gpu.problem = silent(one.asking);
    gpus.push_back(to_json(one.gpu));
  }
  return {{"driver", answers.driver},
          {"cuda", answers.cuda},
          {"gpus", gpus},
          {"asked", asked},
          {"answered", answers.counted && asked},
          {"problem", answers.problem}};
}

void describe_host(double limit_s) {
  static DriverAnswers answers;
  if (!start([] { ask(answers); })) ask(answers);  // without a thread, the parent process enforces the limit
  std::unique_lock lock(answers.mutex);
  answers.changed.wait_for(lock, std::chrono::duration<double>(limit_s), [] { return complete(answers); });
  std::printf("%s\n", in_words(answers, limit_s).dump(-1, ' ', true, json::error_handler_t::replace).c_str());
  std::fflush(stdout);
  _exit(0);  // a thread may be held by the driver
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--watch") == 0) return nvml::watch();
  const double limit_s = argc == 2 ? std::strtod(argv[1], nullptr) : 0;
  if (limit_s > 0) describe_host(limit_s);
  std::fputs("p5bench starts this program by itself; it takes a number of seconds or --watch\n", stderr);
  return 2;
}
