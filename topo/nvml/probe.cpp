// p5bench-probe-nvml: prints NVML's report of this host's GPUs as JSON. A separate program, because NVML may block for
// minutes on a hung driver: the parent can kill it, and it waits no longer than the given limit, or twice as long while
// one GPU after the other answers.
//   p5bench-probe-nvml SECONDS       one line: {"driver", "cuda", "gpus": [Gpu], "asked", "answered", "problem"}
//   p5bench-probe-nvml --watch       one line per second until its input closes, see watch()
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "topo/discover.hpp"
#include "topo/nvml/library.hpp"
#include "topo/system_files.hpp"
#include "topo/topology.hpp"

namespace p5::nvml {

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr unsigned long long critical_xid = 8;

struct Watched {
  Device device = nullptr;
  std::string uuid, pci;
};

std::vector<Watched> find_gpus(const Library& library, Asking& asking) {
  unsigned count = 0;
  std::vector<Watched> found;
  if (library.call(asking, "nvmlDeviceGetCount_v2", &count) != success) return found;
  for (unsigned i = 0; i < count; ++i) {
    Watched one;
    if (library.call(asking, "nvmlDeviceGetHandleByIndex_v2", i, &one.device) != success) continue;
    const Gpu gpu(library, one.device, asking);
    one.uuid = gpu.text("nvmlDeviceGetUUID");
    PciInfo place;
    if (gpu.call("nvmlDeviceGetPciInfo_v3", &place) == success) one.pci = pci_address(place);
    found.push_back(one);
  }
  return found;
}

// NVML queues Xids as events until they are read. Null where NVML has no events.
void* listen(const Library& library, const std::vector<Watched>& gpus, Asking& asking) {
  void* set = nullptr;
  if (library.call(asking, "nvmlEventSetCreate", &set) != success) return nullptr;
  for (const Watched& gpu : gpus) library.call(asking, "nvmlDeviceRegisterEvents", gpu.device, critical_xid, set);
  return set;
}

std::vector<topo::Xid> logged_xids() { return topo::discover_xids("/").value_or(std::vector<topo::Xid>{}); }

// NVML reports the code only; some codes need the message that the driver logs beside them. `logged`: the log as it was
// when last read.
json xids_since(const Library& library, const std::vector<Watched>& gpus, void* set, std::vector<topo::Xid>& logged,
                Asking& asking) {
  std::map<std::pair<const Watched*, unsigned long long>, int> counts;
  constexpr int most = 1000;  // a faulty GPU may report the same Xid endlessly
  for (int i = 0; set && i < most; ++i) {
    EventData event;
    if (library.call(asking, "nvmlEventSetWait_v2", set, &event, 0u) != success) break;
    if (event.type != critical_xid) continue;
    const auto at = std::ranges::find(gpus, event.device, &Watched::device);
    ++counts[{at == gpus.end() ? nullptr : &*at, event.data}];
  }
  json xids = json::array();
  if (counts.empty()) return xids;
  const std::vector<topo::Xid> before = std::exchange(logged, logged_xids());
  for (const auto& [of, count] : counts) {
    const auto& [gpu, code] = of;
    for (const topo::Xid& each : topo::xids_by_text(before, logged, gpu ? gpu->pci : "", static_cast<int>(code), count))
      xids.push_back({{"uuid", gpu ? gpu->uuid : ""}, {"code", code}, {"text", each.text}, {"count", each.count}});
  }
  return xids;
}

json look_at(const Library& library, const Watched& watched) {
  Asking asking{nullptr};
  const Gpu gpu(library, watched.device, asking);
  topo::Gpu told;
  told.state = state_of(gpu);
  const auto errors = [&](int kind) {
    constexpr int since_load = 0;
    const auto count = gpu.number<unsigned long long>("nvmlDeviceGetTotalEccErrors", kind, since_load);
    return count ? json(*count) : json();
  };
  constexpr int corrected = 0, uncorrected = 1;
  const auto replays = gpu.number("nvmlDeviceGetPcieReplayCounter");
  return {{"uuid", watched.uuid},
          {"state", to_json(told.state)},
          {"corrected", errors(corrected)},
          {"uncorrected", errors(uncorrected)},
          {"replays", replays ? json(*replays) : json()}};
}

json look_at_nics() {
  json nics = json::object();
  for (const std::string& name : topo::names_in("/sys/class/infiniband")) nics[name] = topo::nic_counters("/", name);
  return nics;
}

// True when the other side has gone.
bool closed_within(std::chrono::milliseconds time) {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return ::poll(&input, 1, static_cast<int>(std::max<std::chrono::milliseconds::rep>(0, time.count()))) > 0;
}

// The driver is queried by a separate thread: if it does not answer in time, the NICs are reported without the GPUs.
class Driver {
 public:
  struct WatchAnswers {
    json gpus = json::array(), xids = json::array();
  };

  // Within `patience`, or what little there is.
  WatchAnswers look(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    ++wanted_;
    changed_.notify_all();
    changed_.wait_for(lock, patience, [&] { return absent_ || done_ == wanted_; });
    return std::exchange(told_, {});
  }

  // Never returns, but where there is no NVML.
  void serve() {
    Asking asking{nullptr};
    std::unique_ptr<const Library> library;
    try {
      library = std::make_unique<const Library>(asking);
    } catch (const std::exception&) {  // no NVML: the NICs are still there
      const std::lock_guard lock(mutex_);
      absent_ = true;
      changed_.notify_all();
      return;
    }
    const std::vector<Watched> gpus = find_gpus(*library, asking);
    std::vector<topo::Xid> logged = logged_xids();
    void* const events = listen(*library, gpus, asking);
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return done_ < wanted_; });
      const int wanted = wanted_;
      lock.unlock();
      WatchAnswers told;
      for (const Watched& gpu : gpus) told.gpus.push_back(look_at(*library, gpu));
      told.xids = xids_since(*library, gpus, events, logged, asking);
      lock.lock();
      done_ = wanted;
      told_.gpus = std::move(told.gpus);
      for (json& xid : told.xids) told_.xids.push_back(std::move(xid));
      changed_.notify_all();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  WatchAnswers told_;
  int wanted_ = 0, done_ = 0;
  bool absent_ = false;
};

}  // namespace

// Watches GPUs and NICs while others measure: a line of JSON a second on standard output, until standard input
// closes.
//   {"gpus": [{"uuid", "state": GpuState, "corrected", "uncorrected", "replays"}], "nics": {NAME: {COUNTER: value}},
//    "xids": [{"uuid", "code", "text", "count"}]}, the last line may be shorter.
// Works without NVML too: then it reports NICs only. Returns the exit status.
int watch() {
  // Ctrl-C reaches all processes of the group, but only the parent decides when this one ends.
  for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGPIPE}) std::signal(signal, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (nice(10) == -1) errno = 0;  // the job's own processes come first
  static Driver driver;
  std::thread([] { driver.serve(); }).detach();
  constexpr std::chrono::milliseconds patience(800);
  auto next = Clock::now();
  for (bool last = false;;) {
    Driver::WatchAnswers told = driver.look(patience);
    const json line{{"gpus", std::move(told.gpus)}, {"nics", look_at_nics()}, {"xids", std::move(told.xids)}};
    std::printf("%s\n", line.dump(-1, ' ', true, json::error_handler_t::replace).c_str());
    if (std::fflush(stdout) != 0 || last) _exit(0);
    next += std::chrono::seconds(1);
    last = closed_within(std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now()));
  }
}

}  // namespace p5::nvml

namespace {

using namespace p5;
using nlohmann::json;

struct OneGpu {
  topo::Gpu gpu;
  nvml::Asking asking{nullptr};
  bool begun = false, done = false;
};

// A GPU that the driver has and NVML may not list.
struct OpenedGpu {
  topo::DriverGpu gpu;
  bool done = false;
};

// Answers received so far. They outlive threads that never return from a hung driver.
struct DriverAnswers {
  std::mutex mutex;
  std::condition_variable changed;
  std::string driver, cuda, problem;
  std::deque<OneGpu> gpus;
  std::deque<OpenedGpu> opened;  // where the driver has more GPUs than NVML lists
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

void open_gpu(DriverAnswers& answers, OpenedGpu& mine) {
  std::string problem = topo::why_not_started(mine.gpu.file);
  const std::lock_guard lock(answers.mutex);
  mine.gpu.problem = std::move(problem);
  mine.done = true;
  answers.changed.notify_all();
}

// NVML lists no GPU that the driver cannot start; GPUs that this process may not use are not listed either. Which of
// the GPUs are listed is known when all have answered, so all are opened meanwhile.
void open_gpus(DriverAnswers& answers, unsigned listed) {
  const std::vector<topo::DriverGpu> of_driver = topo::gpus_of_driver("/");
  if (of_driver.size() <= listed) return;
  for (const topo::DriverGpu& each : of_driver) {
    OpenedGpu& mine = answers.opened.emplace_back(each);
    mine.done = !start([&answers, &mine] { open_gpu(answers, mine); });
  }
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
    open_gpus(answers, count);
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
  return answers.counted && std::ranges::all_of(answers.gpus, &OneGpu::done) &&
         std::ranges::all_of(answers.opened, &OpenedGpu::done);
}

// Waits for all GPUs for `limit_s`, or up to twice as long while further ones answer: without persistence mode the
// driver initializes each when it is first asked for, which takes seconds, and one after the other. Returns the time
// in seconds after which it gave up.
double wait_for_gpus(DriverAnswers& answers, std::unique_lock<std::mutex>& lock, double limit_s) {
  constexpr int halves_of_limit = 2, most_halves = 4;
  const std::chrono::duration<double> half_of_limit(limit_s / halves_of_limit);
  std::ptrdiff_t before = 0;
  for (int halves = 1;; ++halves) {
    const bool all = answers.changed.wait_for(lock, half_of_limit, [&] { return complete(answers); });
    const std::ptrdiff_t answered = std::ranges::count_if(answers.gpus, &OneGpu::done);
    if (all || halves == most_halves || (halves >= halves_of_limit && answered == before))
      return halves * half_of_limit.count();
    before = answered;
  }
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
  std::vector<topo::Gpu> listed;
  for (OneGpu& one : answers.gpus) {
    if (!asked) break;
    if (!one.done) one.gpu.problem = silent(one.asking);
    listed.push_back(one.gpu);
  }
  std::vector<topo::DriverGpu> of_driver;
  for (OpenedGpu& one : answers.opened) {
    if (!one.done)
      one.gpu.problem = fmt::format("opening {} did not answer within {:.3g} s", one.gpu.file.string(), limit_s);
    of_driver.push_back(one.gpu);
  }
  if (asked) std::ranges::move(topo::unlisted_gpus(listed, of_driver), std::back_inserter(listed));
  for (const topo::Gpu& gpu : listed) gpus.push_back(to_json(gpu));
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
  const double waited_s = wait_for_gpus(answers, lock, limit_s);
  std::printf("%s\n", in_words(answers, waited_s).dump(-1, ' ', true, json::error_handler_t::replace).c_str());
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
