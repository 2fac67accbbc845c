#include "topo/nvml/watch.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "topo/discover.hpp"
#include "topo/nvml/describe.hpp"
#include "topo/system_files.hpp"

namespace p5::nvml {

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr unsigned long long critical_xid = 8;

struct Watched {
  Device device = nullptr;
  std::string uuid;
};

std::vector<Watched> find_gpus(const Library& library, Asking& asking) {
  unsigned count = 0;
  std::vector<Watched> found;
  if (library.call(asking, "nvmlDeviceGetCount_v2", &count) != success) return found;
  for (unsigned i = 0; i < count; ++i) {
    Watched one;
    if (library.call(asking, "nvmlDeviceGetHandleByIndex_v2", i, &one.device) != success) continue;
    one.uuid = Gpu(library, one.device, asking).text("nvmlDeviceGetUUID");
    found.push_back(one);
  }
  return found;
}

// NVML keeps Xids as events until somebody asks. Null where it has none.
void* listen(const Library& library, const std::vector<Watched>& gpus, Asking& asking) {
  void* set = nullptr;
  if (library.call(asking, "nvmlEventSetCreate", &set) != success) return nullptr;
  for (const Watched& gpu : gpus) library.call(asking, "nvmlDeviceRegisterEvents", gpu.device, critical_xid, set);
  return set;
}

json xids_since(const Library& library, const std::vector<Watched>& gpus, void* set, Asking& asking) {
  json xids = json::array();
  constexpr int most = 1000;  // a GPU in trouble may tell the same without end
  for (int i = 0; set && i < most; ++i) {
    EventData event;
    if (library.call(asking, "nvmlEventSetWait_v2", set, &event, 0u) != success) break;
    if (event.type != critical_xid) continue;
    const auto at = std::ranges::find(gpus, event.device, &Watched::device);
    xids.push_back({{"uuid", at == gpus.end() ? "" : at->uuid}, {"code", event.data}});
  }
  return xids;
}

json look_at(const Library& library, const Watched& watched) {
  Asking asking{nullptr};
  const Gpu gpu(library, watched.device, asking);
  topo::Gpu told;
  told.state = state_of(gpu);
  constexpr int uncorrected = 1, since_load = 0;
  const auto errors = gpu.number<unsigned long long>("nvmlDeviceGetTotalEccErrors", uncorrected, since_load);
  const auto replays = gpu.number("nvmlDeviceGetPcieReplayCounter");
  return {{"uuid", watched.uuid},
          {"state", to_json(told.state)},
          {"uncorrected", errors ? json(*errors) : json()},
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

}  // namespace

int watch() {
  std::signal(SIGINT, SIG_IGN);  // Ctrl-C reaches all processes: whoever started this one says when to end
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Asking asking{nullptr};
  std::unique_ptr<const Library> library;
  std::vector<Watched> gpus;
  void* events = nullptr;
  try {
    library = std::make_unique<const Library>(asking);
    gpus = find_gpus(*library, asking);
    events = listen(*library, gpus, asking);
  } catch (const std::exception&) {  // no NVML: the NICs are still there
  }
  auto next = Clock::now();
  for (bool last = false;;) {
    json line{{"gpus", json::array()}, {"nics", look_at_nics()}};
    for (const Watched& gpu : gpus) line["gpus"].push_back(look_at(*library, gpu));
    line["xids"] = library ? xids_since(*library, gpus, events, asking) : json::array();
    std::printf("%s\n", line.dump(-1, ' ', true, json::error_handler_t::replace).c_str());
    if (std::fflush(stdout) != 0 || last) _exit(0);
    next += std::chrono::seconds(1);
    last = closed_within(std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now()));
  }
}

}  // namespace p5::nvml
