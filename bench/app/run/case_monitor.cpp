#include "bench/app/run/phases.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "bench/app/machine/machine.hpp"
#include "bench/app/machine/workers.hpp"

namespace p5 {

using nlohmann::json;

namespace {

// Minimum bytes that each NVLink domain sent to others, whatever the algorithm: as busbw counts them for one rank each.
std::uint64_t least_sent(const Measurement& m) {
  const Case& c = m.measured_case;
  constexpr std::array known{"all_reduce", "all_gather", "reduce_scatter"};
  if (m.outcome != Outcome::measured || domains_of(c) < 2 || c.group != "world" ||
      std::ranges::find(known, c.collective->name) == known.end())
    return 0;
  double operations = 0;
  for (const std::optional<Series>* series : {&m.latency, &m.throughput})
    if (*series) operations += static_cast<double>((*series)->summary.samples) * (*series)->operations_per_sample;
  return static_cast<std::uint64_t>(operations * static_cast<double>(c.bytes.count) *
                                    c.collective->bus_factor(domains_of(c)));
}

json to_json(const std::vector<topo::Windows>& cases) {
  json list = json::array();
  for (const topo::Windows& windows : cases) {
    json& one = list.emplace_back(json::array());
    for (const topo::Window& window : windows) one.push_back({window.from.count, window.to.count, window.failed});
  }
  return list;
}

std::vector<topo::Windows> windows_from(const json& list, Seconds begin) {
  std::vector<topo::Windows> cases;
  for (const json& windows : list) {
    topo::Windows& one = cases.emplace_back();
    for (const json& w : windows)
      one.push_back({{w.at(0).get<double>() + begin.count}, {w.at(1).get<double>() + begin.count}, w.at(2)});
  }
  return cases;
}

}  // namespace

class CaseMonitor::Cases final : public Observer {
 public:
  Cases(const CaseMonitor& case_monitor, Observer& inner) : monitor_(case_monitor), inner_(inner) {}

  void repetition_started(const Case& c, const RunProgress& progress) override {
    number_ = progress.number;
    started_ = monitor_.now();
    inner_.repetition_started(c, progress);
  }
  void repetition_finished(const Measurement& so_far, bool failed) override {
    unfinished_[number_].push_back({started_, monitor_.now(), failed});
    inner_.repetition_finished(so_far, failed);
  }
  void case_finished(const Measurement& m, bool failed) override {
    const auto [place, first] = index_of_.try_emplace(number_, windows.size());
    if (first) {
      windows.emplace_back();
      numbers.push_back(number_);
    }
    topo::Windows repetitions = std::move(unfinished_[number_]);
    unfinished_.erase(number_);
    repetitions.push_back({started_, monitor_.now(), failed});
    std::ranges::move(repetitions, std::back_inserter(windows[place->second]));
    bytes += least_sent(m);
    inner_.case_finished(m, failed);
  }
  void launch_started(const Arm& arm, const std::vector<Environment>& of_ranks) override {
    inner_.launch_started(arm, of_ranks);
  }
  void launch_failed(const Arm& arm, const std::string& why) override { inner_.launch_failed(arm, why); }
  void joining_failed(const JoinFailure& failure) override { inner_.joining_failed(failure); }
  void remark(const std::string& text) override { inner_.remark(text); }

  std::vector<std::size_t> numbers;    // case numbers, in the order in which the cases first finished
  std::vector<topo::Windows> windows;  // one entry per case of `numbers`
  std::uint64_t bytes = 0;

 private:
  const CaseMonitor& monitor_;
  Observer& inner_;
  Seconds started_{};
  std::size_t number_ = 0;
  std::map<std::size_t, std::size_t> index_of_;
  std::map<std::size_t, topo::Windows> unfinished_;  // cases whose rounds are not all done
};

CaseMonitor::CaseMonitor(ControlPlane& control, const Machine& machine) : wanted_(machine.backend_info().on_gpus()) {
  if (!wanted_) return;
  if (is_first_on_host(control, machine.topology))
    watch_ = std::make_unique<topo::Watch>(file_of_ours("p5bench-probe-nvml"));
  control.barrier();  // all hosts count time from here
  if (watch_) begin_ = watch_->now();
}

Seconds CaseMonitor::now() const { return {watch_ ? watch_->now().count - begin_.count : 0}; }

Observer& CaseMonitor::around(Observer& inner) {
  if (!wanted_ || !watch_) return inner;
  cases_ = std::make_shared<Cases>(*this, inner);
  return *cases_;
}

void CaseMonitor::finish(ControlPlane& control, const Machine& machine, Recorder& recorder) {
  if (!wanted_) return;
  // The last two entries are those of the GPUs alone and under load.
  std::vector<topo::Windows> spans;
  if (cases_) {
    spans = cases_->windows;
    spans.push_back(alone_);
    spans.push_back(loaded_);
  }
  const json agreed = json::parse(control.broadcast(cases_ ? to_json(spans).dump() : ""));
  json mine;
  if (watch_) {
    const auto me = static_cast<std::size_t>(control.participant());
    const topo::Host& host = machine.topology.hosts[static_cast<std::size_t>(machine.topology.host_of_rank[me])];
    const std::vector<topo::Tick> ticks = watch_->finish();
    mine = to_json(summarize(ticks, windows_from(agreed, begin_), host));
  }
  const std::vector<json> replies = gather_json(control, mine);
  if (!cases_) return;
  // Indexed by case, then by host; the first entry covers the whole watch.
  std::vector<std::vector<topo::HostActivity>> by_case(spans.size() + 1);
  for (const json& reply : replies) {
    if (reply.is_null()) continue;
    std::vector<topo::HostActivity> host = topo::during_from_json(reply);
    for (std::size_t i = 0; i < by_case.size() && i < host.size(); ++i) by_case[i].push_back(std::move(host[i]));
  }
  const std::vector<topo::HostActivity> loaded = std::move(by_case.back());
  by_case.pop_back();
  const std::vector<topo::HostActivity> alone = std::move(by_case.back());
  by_case.pop_back();
  recorder.add([&](ReportBuilder& report) {
    report.add_watch(by_case, cases_->numbers, cases_->bytes);
    report.add_local_activity(alone, loaded);
  });
}

}  // namespace p5
