// Activity of GPUs and NICs during measurements: a separate program samples them once a second, and this side keeps the
// samples. The measuring process only runs a thread that reads one line per second.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "topo/finding.hpp"
#include "topo/topology.hpp"

namespace p5::topo {

struct Tick {
  struct Gpu {
    std::string uuid;
    GpuState state{};
    std::optional<std::uint64_t> corrected{}, uncorrected{};  // memory errors since the driver was loaded
  };
  struct Xid {
    std::string uuid;
    int code = 0;
    std::string text{};  // message in the kernel log; "": none, or the log is unreadable
    int count = 1;
  };
  Seconds at{};  // since the watch began
  std::vector<Gpu> gpus{};
  std::map<std::string, std::map<std::string, std::uint64_t>> nics{};  // counters by device
  std::vector<Xid> xids{};
};

// One line of the watching program. Throws UsageError.
Tick tick_from(const std::string& line, Seconds at);

// A span of time, since the watch began.
struct Window {
  Seconds from{}, to{};
  bool failed = false;  // workers were killed in it, which causes Xids by itself
};

struct XidEvent {
  int code = 0;
  std::string text{};  // message in the kernel log; "": unknown
  int count = 1;       // occurrences of the code with this remedy; `text` is from the last one
};

struct GpuActivity {
  int gpu = 0;                                                   // index in the host's gpu_devices
  int seconds = 0;                                               // samples in which it was not idle
  std::optional<int> sm_clock_min_mhz{}, sm_clock_median_mhz{};  // over those samples
  std::optional<int> temperature_max_c{};
  std::optional<double> power_max_w{};
  std::uint64_t throttle_mask = 0;  // all reasons seen, but for idling
  int held_back_seconds = 0;
  std::uint64_t corrected = 0, uncorrected = 0;  // new memory errors
  std::vector<XidEvent> xids{};                  // less those of killed workers
};

struct NicActivity {
  std::string nic;
  bool counts_bytes = false;                       // there is a counter of what it sends
  std::map<std::string, std::uint64_t> counted{};  // increase of each counter that grew
};

// One host while one case ran.
struct HostActivity {
  std::string host;
  int seconds = 0;  // samples
  std::vector<GpuActivity> gpus{};
  std::vector<NicActivity> nics{};
  // Times since the watch began, in the entry of the whole watch: of its last sample, and of the end of the last case.
  double watched_s = 0, measured_s = 0;
};

// True if the watch ended well before the last case, as where its program was killed or a device does not answer.
bool ended_early(const HostActivity& whole);

// Time windows of one case, one per launch.
using Windows = std::vector<Window>;

// Activity on one host: over the whole watch first, then per case. `ticks` are in their order. Xids of killed workers
// are dropped in `failed` windows.
std::vector<HostActivity> summarize(const std::vector<Tick>& ticks, const std::vector<Windows>& cases,
                                    const Host& host);

nlohmann::json to_json(const std::vector<HostActivity>& during);
std::vector<HostActivity> during_from_json(const nlohmann::json& j);

// The same without clocks, temperatures and power of GPUs that no rank uses, which others may use meanwhile. Their
// memory errors and Xids stay: the host is at fault. All stays where the ranks' GPUs are not known.
std::vector<HostActivity> activity_of_job(const Topology& topology, std::vector<HostActivity> hosts);

// One case over all hosts, for the report.
struct CaseWatch {
  int seconds = 0;  // samples of the host with the fewest
  std::optional<int> sm_clock_min_mhz{}, sm_clock_median_mhz{};
  std::optional<int> temperature_max_c{};
  std::optional<double> power_max_w{};
  std::vector<std::string> notes{};  // GPUs held back or failed, NICs that dropped packets
};
CaseWatch over_hosts(const std::vector<HostActivity>& hosts);
nlohmann::json to_json(const CaseWatch& watch);
CaseWatch case_watch_from_json(const nlohmann::json& j);

// Bytes that a host's fabric NICs sent, as they count them; absent when no NIC counts.
std::optional<std::uint64_t> bytes_sent(const HostActivity& host);

// Kinds of findings that watch_findings() can report.
std::vector<FindingKind> watch_kinds();

// Findings of the whole watch, over all hosts. `least_sent`: minimum number of bytes that the hosts of each NVLink
// domain must have sent together through their NICs; 0 when unknown.
std::vector<Finding> watch_findings(const Topology& topology, const std::vector<HostActivity>& hosts,
                                    std::uint64_t least_sent);

// Starts the program and reads it until the watch ends. A program that cannot be started or prints nothing leaves no
// ticks.
class Watch {
 public:
  explicit Watch(const std::string& program);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  Seconds now() const;
  // Ends the watching after one last look; waits for that for a moment only.
  std::vector<Tick> finish();

 private:
  struct Reader;
  std::chrono::steady_clock::time_point start_;
  std::shared_ptr<Reader> reader_;
};

}  // namespace p5::topo
