// Results of a watch: windows, hosts, findings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <algorithm>

#include <nlohmann/json.hpp>

#include "bench/base/error.hpp"
#include "topo/watch.hpp"

namespace p5::topo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr std::uint64_t gigabyte = 1'000'000'000;

Host host(int gpus = 4) {
  Host host;
  host.name = "a";
  for (int i = 0; i < gpus; ++i) {
    Gpu gpu;
    gpu.uuid = "GPU-" + std::to_string(i);
    gpu.name = "H100";
    host.gpu_devices.push_back(gpu);
  }
  for (const char* name : {"r0", "r1", "r2"}) host.nics.push_back({name, "efa", "efa", "up", GBps{12.5}, 0});
  return host;
}

// With a rank on each GPU.
Topology one(const Host& host) {
  Topology topology;
  topology.hosts = {host};
  topology.host_of_rank = std::vector<int>(host.gpu_devices.size(), 0);
  return topology;
}

// Busy GPUs at their top clock, at this second.
Tick tick(double at, int gpus = 4) {
  Tick tick{.at = {at}};
  for (int i = 0; i < gpus; ++i)
    tick.gpus.push_back({"GPU-" + std::to_string(i),
                         {.sm_clock_mhz = 1980, .temperature_c = 60, .power_w = 500, .throttle_mask = 4},
                         0});
  return tick;
}

std::vector<Tick> ticks(int count) {
  std::vector<Tick> all;
  for (int i = 0; i < count; ++i) all.push_back(tick(0.1 + i));
  return all;
}

std::vector<Finding> findings(const std::vector<Tick>& seen, const Windows& windows = {}, std::uint64_t least_sent = 0,
                              const Host& where = host()) {
  std::vector<Finding> found = watch_findings(one(where), {summarize(seen, {windows}, where).front()}, least_sent);
  for (const Finding& each : found) {
    const auto is = [&](const FindingKind& kind) { return kind.id == each.id && kind.about == each.about; };
    EXPECT_TRUE(std::ranges::any_of(watch_kinds(), is)) << each.id << " is not listed so";
  }
  return found;
}

// Hosts of an NVLink domain send together what must leave it.
TEST(TopoWatch, of_hosts_of_one_nvlink_domain_adds_up_what_their_nics_sent) {
  Topology topology;
  std::vector<HostActivity> activities;
  for (int i = 0; i < 8; ++i) {
    Host& each = topology.hosts.emplace_back(host());
    each.name = "h" + std::to_string(i);
    for (Gpu& gpu : each.gpu_devices) gpu.fabric_cluster = i < 4 ? "u0" : "u1";
    activities.push_back({.host = each.name, .nics = {{"r0", true, {{"tx_bytes", 2 * gigabyte}}}}});
  }
  const auto bypassed = [&] {
    std::vector<Finding> found = watch_findings(topology, activities, 10 * gigabyte);
    std::erase_if(found, [](const Finding& finding) { return finding.id != "nic.bypassed"; });
    return found;
  };
  EXPECT_THAT(bypassed(), IsEmpty());
  for (std::size_t i = 4; i < 8; ++i) activities[i].nics[0].counted["tx_bytes"] = gigabyte / 2;
  ASSERT_THAT(bypassed(), SizeIs(1));
  EXPECT_EQ(bypassed()[0].subject.host, "");
  EXPECT_THAT(bypassed()[0].hosts, ElementsAre("h4", "h5", "h6", "h7"));
  EXPECT_THAT(bypassed()[0].evidence,
              StartsWith("at least 10 GB must have left the NVLink domain of h4 to h7, but its 4 NICs"));
  activities.pop_back();  // a host that was not watched
  EXPECT_THAT(bypassed(), IsEmpty());
  for (Host& each : topology.hosts)
    for (Gpu& gpu : each.gpu_devices) gpu.fabric_cluster = "";
  EXPECT_THAT(bypassed(), SizeIs(7)) << "hosts that are domains of their own";
}

TEST(TopoWatch, a_line_of_the_program_is_a_tick) {
  const Tick told = tick_from(
      R"({"gpus": [{"uuid": "GPU-1", "state": {"sm_clock_mhz": 345}, "corrected": 4, "uncorrected": 3, "replays": null}],
          "nics": {"r0": {"tx_bytes": 18446744073709551615}}, "xids": [{"uuid": "GPU-1", "code": 79},
          {"uuid": "GPU-1", "code": 74, "text": "NVLink", "count": 9}]})",
      {2.5});
  EXPECT_EQ(told.at, Seconds{2.5});
  EXPECT_EQ(told.gpus.at(0).state.sm_clock_mhz, 345);
  EXPECT_EQ(told.gpus[0].corrected, 4u);
  EXPECT_EQ(told.gpus[0].uncorrected, 3u);
  EXPECT_EQ(told.nics.at("r0").at("tx_bytes"), ~std::uint64_t{0});
  EXPECT_EQ(told.xids.at(0).code, 79);
  EXPECT_EQ(told.xids[0].text, "");
  EXPECT_EQ(told.xids[0].count, 1);
  EXPECT_EQ(told.xids.at(1).count, 9);
  for (const char* const line :
       {"hello", "{}", R"({"gpus": [], "nics": {}, "xids": [{"uuid": "GPU-1", "code": "79"}]})",
        R"({"gpus": [{"uuid": "GPU-1"}], "nics": {}, "xids": []})"})
    try {
      tick_from(line, {0});
      ADD_FAILURE() << line;
    } catch (const UsageError& problem) {
      EXPECT_THAT(problem.what(), HasSubstr("have to be installed beside each other")) << line;
      EXPECT_THAT(problem.what(), Not(HasSubstr("exception"))) << line;
    }
}

TEST(TopoWatch, healthy_gpus_at_their_power_cap_are_no_news) {
  EXPECT_THAT(findings(ticks(8)), IsEmpty());
  EXPECT_THAT(findings({}), IsEmpty());
}

TEST(TopoWatch, gpus_at_application_clocks_are_no_news_unless_theirs_are_lower) {
  std::vector<Tick> seen = ticks(8);
  for (Tick& each : seen)
    for (Tick::Gpu& gpu : each.gpus) gpu.state.throttle_mask = 0x2;
  EXPECT_THAT(findings(seen), IsEmpty());
  for (Tick& each : seen) each.gpus[3].state.sm_clock_mhz = 1200;
  const std::vector<Finding> found = findings(seen);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "gpu.straggler");
}

TEST(TopoWatch, a_window_has_what_was_seen_within_it) {
  std::vector<Tick> seen = ticks(6);
  seen[3].gpus[2].state = {.sm_clock_mhz = 600, .temperature_c = 91, .power_w = 300, .throttle_mask = 0x44};
  const std::vector<HostActivity> during =
      summarize(seen, {{{{0}, {2.5}}}, {{{2.5}, {4.5}}}, {{{4.2}, {4.9}}}}, host());
  ASSERT_THAT(during, SizeIs(4));
  EXPECT_EQ(during[0].seconds, 6);
  EXPECT_EQ(during[1].seconds, 3);
  EXPECT_EQ(during[1].gpus.at(2).held_back_seconds, 0);
  EXPECT_EQ(during[2].gpus.at(2).held_back_seconds, 1);
  EXPECT_EQ(during[2].gpus.at(2).sm_clock_min_mhz, 600);
  EXPECT_EQ(during[2].gpus.at(2).temperature_max_c, 91);
  EXPECT_EQ(during[3].seconds, 0);
  const CaseWatch watch = over_hosts({during[2]});
  EXPECT_EQ(watch.seconds, 2);
  EXPECT_EQ(watch.sm_clock_min_mhz, 600);
  EXPECT_EQ(watch.sm_clock_median_mhz, 1980);
  ASSERT_THAT(watch.notes, SizeIs(1));
  EXPECT_THAT(watch.notes[0], AllOf(HasSubstr("a GPU 2: held back (hardware thermal) in 1 of 2"), HasSubstr("91 °C")));
  EXPECT_EQ(to_json(case_watch_from_json(to_json(watch))), to_json(watch));
}

TEST(TopoWatch, launches_of_one_case_count_together) {
  std::vector<Tick> seen = ticks(8);
  for (std::size_t i = 0; i < seen.size(); ++i) seen[i].nics["r0"] = {{"tx_bytes", i * 10}};
  const Windows launches{{{1}, {2.5}}, {{5}, {6.5}}};  // polls at 1.1, 2.1; 5.1, 6.1
  const HostActivity during = summarize(seen, {launches}, host()).at(1);
  EXPECT_EQ(during.seconds, 4);
  ASSERT_THAT(during.nics, SizeIs(1));
  EXPECT_EQ(during.nics[0].counted.at("tx_bytes"), 60u) << "from the look before each launch to the look after it";
}

TEST(TopoWatch, an_idle_gpus_low_clock_is_none) {
  std::vector<Tick> seen = ticks(8);
  for (Tick& each : seen) each.gpus[1].state = {.sm_clock_mhz = 345, .throttle_mask = 1};
  EXPECT_THAT(findings(seen), IsEmpty());
}

TEST(TopoWatch, a_gpu_below_the_clock_of_its_like_is_a_straggler) {
  std::vector<Tick> seen = ticks(8);
  for (Tick& each : seen) each.gpus[3].state.sm_clock_mhz = 1200;
  const std::vector<Finding> found = findings(seen);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "gpu.straggler");
  EXPECT_EQ(found[0].subject.gpu, 3);
  EXPECT_THAT(found[0].evidence, AllOf(HasSubstr("1200 MHz"), HasSubstr("3 GPUs like it at 1980 MHz")));
  seen.resize(2);
  EXPECT_THAT(findings(seen), IsEmpty()) << "two looks are no proof";
}

// A check measures the GPUs that no job uses.
TEST(TopoWatch, clocks_of_gpus_that_no_rank_uses_are_none_of_the_job) {
  std::vector<Tick> seen = ticks(8);
  for (Tick& each : seen) {
    each.gpus[3].state = {.sm_clock_mhz = 1300, .temperature_c = 91, .power_w = 650, .throttle_mask = 0x44};
    each.gpus[3].uncorrected = 0;
  }
  seen.back().gpus[3].uncorrected = 2;
  seen.back().xids = {{"GPU-3", 79, ""}};
  Topology topology = one(host());
  const auto ids = [&] {
    const auto during = activity_of_job(topology, summarize(seen, {}, host()));
    std::vector<std::string> found;
    for (const Finding& each : watch_findings(topology, {during.front()}, 0)) {
      found.push_back(each.id);
      EXPECT_EQ(each.subject.xid, each.id == "gpu.xid" ? std::optional(79) : std::nullopt);
    }
    return found;
  };
  EXPECT_THAT(ids(), ElementsAre("gpu.held_back", "gpu.new_memory_errors", "gpu.xid", "gpu.straggler"));
  topology.gpu_of_rank = {"GPU-0", "GPU-1", "GPU-2"};
  EXPECT_THAT(ids(), ElementsAre("gpu.new_memory_errors", "gpu.xid"));
  const CaseWatch watch = over_hosts(activity_of_job(topology, summarize(seen, {}, host())));
  EXPECT_EQ(watch.sm_clock_min_mhz, 1980);
  EXPECT_EQ(watch.temperature_max_c, 60);
  EXPECT_EQ(watch.seconds, 8);
  // Those of others may be most of a host.
  for (Tick& each : seen) {
    for (const std::size_t gpu : {4, 5, 6, 7}) {
      each.gpus.push_back(tick(0, 8).gpus[gpu]);
      each.gpus.back().state.sm_clock_mhz = 1300;
    }
    each.gpus[0].state.sm_clock_mhz = 1200;
  }
  seen.back().gpus[3].uncorrected = 0;
  seen.back().xids.clear();
  topology = one(host(8));
  topology.gpu_of_rank = {"GPU-0", "GPU-1", "GPU-2"};
  const auto during = activity_of_job(topology, summarize(seen, {}, host(8)));
  const std::vector<Finding> found = watch_findings(topology, {during.front()}, 0);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "gpu.straggler");
  EXPECT_EQ(found[0].subject.gpu, 0);
}

TEST(TopoWatch, new_memory_errors_are_errors_and_old_ones_are_not) {
  std::vector<Tick> seen = ticks(4);
  for (Tick& each : seen) each.gpus[0].uncorrected = 5, each.gpus[1].uncorrected = 1;
  seen[3].gpus[1].uncorrected = 3;
  const std::vector<Finding> found = findings(seen);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "gpu.new_memory_errors");
  EXPECT_EQ(found[0].severity, Severity::error);
  EXPECT_EQ(found[0].subject.gpu, 1);
  EXPECT_THAT(found[0].evidence, HasSubstr("2 new"));
}

TEST(TopoWatch, corrected_memory_errors_are_counted_and_no_finding) {
  std::vector<Tick> seen = ticks(4);
  for (Tick& each : seen) each.gpus[1].corrected = 7;
  seen[2].gpus[1].corrected = 9;
  seen[3].gpus[1].corrected = 12;
  EXPECT_EQ(summarize(seen, {{{{0}, {9}}}}, host()).at(0).gpus.at(1).corrected, 5u);
  EXPECT_THAT(findings(seen), IsEmpty());
}

TEST(TopoWatch, xids_of_workers_that_we_killed_are_no_news_but_others_are) {
  std::vector<Tick> seen = ticks(8);
  seen[2].xids = {{"GPU-1", 43, ""}};
  seen[2].xids.push_back({"GPU-2", 79, ""});
  const Windows failed{{{1}, {2}, true}};
  std::vector<Finding> found = findings(seen, failed);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].subject.gpu, 2);
  EXPECT_EQ(found[0].severity, Severity::error);
  found = findings(seen, {{{1}, {2}, false}});
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_THAT(found[0].evidence, HasSubstr("Xid 43"));
}

TEST(TopoWatch, an_xid_that_the_driver_reports_endlessly_is_one_finding) {
  std::vector<Tick> seen = ticks(4);
  for (int i = 0; i < 1000; ++i) seen[1].xids.push_back({"GPU-2", 74, ""});
  seen[2].xids = {{"GPU-2", 74, "NVLink: fatal error detected on link 6", 500}, {"GPU-3", 74, ""}, {"GPU-2", 79, ""}};
  const std::vector<Finding> found = findings(seen);
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_EQ(found[0].evidence,
            "GPU 2 of a: Xid 74 while measuring (1500 times): \"NVLink: fatal error detected on link 6\"");
  EXPECT_EQ(found[1].evidence, "GPU 2 of a: Xid 79 while measuring");
  EXPECT_EQ(found[2].evidence, "GPU 3 of a: Xid 74 while measuring");
  const std::vector<HostActivity> during = summarize(seen, {{{{0}, {9}}}}, host());
  EXPECT_THAT(over_hosts({during.at(1)}).notes, SizeIs(3));
  EXPECT_EQ(during_from_json(to_json(during)).at(1).gpus.at(2).xids.at(0).count, 1500);
  // Other words after the same code may ask for another remedy.
  seen[1].xids = {{"GPU-1", 154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"}};
  seen[2].xids = {{"GPU-1", 154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"}};
  const auto severities = [&] {
    std::vector<Severity> all;
    for (const Finding& each : findings(seen)) all.push_back(each.severity);
    return all;
  };
  EXPECT_THAT(severities(), ElementsAre(Severity::info, Severity::info)) << "taken back";
  std::swap(seen[1].xids, seen[2].xids);
  EXPECT_THAT(severities(), ElementsAre(Severity::info, Severity::error));
  seen[3].xids = seen[1].xids;  // and taken back again
  EXPECT_THAT(severities(), ElementsAre(Severity::info, Severity::info));
}

std::vector<Tick> traffic(std::vector<std::uint64_t> sent, const char* counter = "tx_bytes") {
  std::vector<Tick> seen = ticks(3);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const std::string nic = "r" + std::to_string(i);
    for (Tick& each : seen) each.nics[nic] = {{"tx_bytes", 1000}, {counter, 1000}, {"rx_drops", 7}};
    seen.back().nics[nic][counter] += sent[i];
  }
  return seen;
}

TEST(TopoWatch, counters_that_begin_again_lose_nothing) {
  const std::uint64_t must = 100 * gigabyte;
  std::vector<Tick> seen = traffic({40 * gigabyte, 40 * gigabyte, 40 * gigabyte});
  // One NIC is reset behind its traffic, one is not there for a while.
  Tick end = seen.back();
  end.at = {9};
  end.nics["r0"] = {{"tx_bytes", 5}, {"rx_drops", 3}};
  Tick between = seen.back();
  between.at = {5};
  between.nics.erase("r1");
  for (Tick* each : {&between, &end}) each->gpus[2].uncorrected = 2;
  end.gpus[2].uncorrected = 1;
  for (Tick& each : seen) each.gpus[2].uncorrected = 0;
  seen.push_back(between);
  seen.push_back(end);
  const HostActivity during = summarize(seen, {}, host()).front();
  EXPECT_EQ(bytes_sent(during), 120 * gigabyte + 5);
  EXPECT_EQ(during.gpus.at(2).uncorrected, 3u);
  std::vector<std::string> ids;
  for (const Finding& each : findings(seen, {}, must)) ids.push_back(each.id);
  EXPECT_THAT(ids, ElementsAre("gpu.new_memory_errors", "nic.errors"));
}

TEST(TopoWatch, data_that_never_touched_the_nics_went_another_way) {
  const std::uint64_t must = 100 * gigabyte;
  const std::vector<Finding> found = findings(traffic({0, 1000, 0}), {}, must);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "nic.bypassed");
  EXPECT_EQ(found[0].severity, Severity::error);
  EXPECT_THAT(found[0].evidence, AllOf(HasSubstr("at least 100 GB"), HasSubstr("3 NICs")));
  EXPECT_THAT(findings(traffic({34 * gigabyte, 34 * gigabyte, 34 * gigabyte}), {}, must), IsEmpty());
  EXPECT_THAT(findings(traffic({40 * gigabyte, 40 * gigabyte, 40 * gigabyte}, "rdma_write_bytes"), {}, must),
              IsEmpty());
  EXPECT_THAT(findings(ticks(3), {}, must), IsEmpty()) << "NICs that do not count prove nothing";
}

// Its program was killed after 2 s, and data was sent for 10 minutes.
TEST(TopoWatch, nics_that_were_not_watched_to_the_end_prove_nothing) {
  const std::uint64_t must = 100 * gigabyte;
  const std::vector<Tick> seen = traffic({10 * gigabyte, 0, 0});
  EXPECT_THAT(findings(seen, {{{0}, {8}}}, must), SizeIs(1));
  EXPECT_THAT(findings(seen, {{{0}, {8}}, {{8}, {600}}}, must), IsEmpty());
  const HostActivity whole = summarize(seen, {{{{0}, {8}}}, {{{8}, {600}}}}, host()).front();
  EXPECT_TRUE(ended_early(whole));
  EXPECT_EQ(whole.watched_s, 2.1);
  EXPECT_EQ(whole.measured_s, 600);
  EXPECT_TRUE(ended_early(summarize({}, {{{{0}, {600}}}}, host()).front()));
}

// As at the end of a soak of two days.
TEST(TopoWatch, many_ticks_and_many_windows_are_summed) {
  constexpr int count = 20'000;
  std::vector<Tick> seen;
  Windows windows;
  for (int i = 0; i < count; ++i) {
    seen.push_back(tick(i, 1));
    windows.push_back({{i - 0.2}, {i + 0.2}});
  }
  const std::vector<HostActivity> during = summarize(seen, {windows}, host(1));
  EXPECT_EQ(during.at(1).seconds, count);
  EXPECT_EQ(during[1].gpus.at(0).seconds, count);
}

TEST(TopoWatch, a_tick_of_two_windows_counts_once) {
  std::vector<Tick> seen = ticks(4);
  EXPECT_EQ(summarize(seen, {{{{0}, {2.1}}, {{2.1}, {9}}, {{1}, {2.5}}, {{5}, {4}}}}, host()).at(1).seconds, 4);
}

TEST(TopoWatch, a_rail_that_carries_less_than_its_neighbours_is_named) {
  const std::vector<Finding> found = findings(traffic({40 * gigabyte, 40 * gigabyte, 10 * gigabyte}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "nic.uneven");
  EXPECT_EQ(found[0].subject.nic, "r2");
  Host storage = host();
  for (Nic& nic : storage.nics) nic.kind = "infiniband";
  EXPECT_THAT(findings(traffic({40 * gigabyte, 40 * gigabyte, 0}), {}, 0, storage), IsEmpty());
}

TEST(TopoWatch, nics_of_gpus_without_a_rank_are_idle_and_not_uneven) {
  Host half = host();
  for (const char* const name : {"r3", "r4", "r5"}) half.nics.push_back({name, "efa", "efa", "up", GBps{12.5}, 0});
  half.gpu_devices[0].nics = {"r0", "r1"};
  half.gpu_devices[1].nics = {"r2"};
  half.gpu_devices[2].nics = {"r3", "r4"};
  half.gpu_devices[3].nics = {"r5"};
  Topology topology = one(half);
  const auto uneven = [&](const std::vector<std::uint64_t>& sent) {
    std::vector<std::string> names;
    for (const Finding& each : watch_findings(topology, {summarize(traffic(sent), {}, half).front()}, 0))
      names.push_back(each.id + " " + each.subject.nic.value_or(""));
    return names;
  };
  const std::vector<std::uint64_t> first_two{40 * gigabyte, 40 * gigabyte, 40 * gigabyte,
                                             gigabyte / 2,  gigabyte / 2,  gigabyte / 2};
  EXPECT_THAT(uneven(first_two), SizeIs(3)) << "all GPUs have ranks";
  topology.host_of_rank = {0, 0};
  EXPECT_THAT(uneven(first_two), IsEmpty()) << "the GPUs of the ranks are unknown";
  topology.gpu_of_rank = {"GPU-0", "GPU-1"};
  EXPECT_THAT(uneven(first_two), IsEmpty());
  EXPECT_THAT(uneven({40 * gigabyte, 40 * gigabyte, 10 * gigabyte, 0, 0, 0}), ElementsAre("nic.uneven r2"));
}

TEST(TopoWatch, dropped_packets_are_told_by_nic) {
  std::vector<Tick> seen = traffic({gigabyte, gigabyte, gigabyte});
  seen.back().nics["r1"]["rx_drops"] = 12;
  const std::vector<Finding> found = findings(seen);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "nic.errors");
  EXPECT_EQ(found[0].subject.nic, "r1");
  EXPECT_THAT(found[0].evidence, HasSubstr("5 rx_drops"));
}

TEST(TopoWatch, travels_between_ranks) {
  std::vector<Tick> seen = traffic({gigabyte, 5, 0});
  seen[1].gpus[0].state.throttle_mask = 0x40;
  const std::vector<HostActivity> during = summarize(seen, {{{{0}, {9}}}}, host());
  EXPECT_EQ(to_json(during_from_json(nlohmann::json::parse(to_json(during).dump()))), to_json(during));
}

TEST(TopoWatch, a_program_that_cannot_be_started_leaves_nothing_and_holds_nobody_up) {
  Watch watch("/nowhere/p5bench-probe-nvml");
  EXPECT_THAT(watch.finish(), IsEmpty());
}

// The kernel's log has details that the code alone lacks.
TEST(TopoWatch, an_xid_says_what_its_text_says) {
  const auto of = [](int code, const std::string& text) {
    std::vector<Tick> seen = ticks(4);
    seen[2].xids = {{"GPU-1", code, text}};
    const std::vector<HostActivity> during = during_from_json(to_json(summarize(seen, {}, host())));
    const std::vector<Finding> found = watch_findings(one(host()), {during.front()}, 0);
    EXPECT_THAT(found, SizeIs(1));
    return found.at(0);
  };
  const std::string change = "GPU recovery action changed from 0x1 (GPU Reset Required) to ";
  EXPECT_EQ(of(154, change + "0x0 (None)").severity, Severity::info);
  EXPECT_THAT(of(154, change + "0x2 (Node Reboot Required)").action, StartsWith("reboot"));
  EXPECT_THAT(of(154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)").action,
              StartsWith("reset"));
  EXPECT_EQ(of(154, "").severity, Severity::warning) << "nobody may read the kernel's log";
  EXPECT_EQ(of(149, "NETIR_LINK_EVT Fatal XC0 i0 Link 08").severity, Severity::error);
  EXPECT_EQ(of(145, "RLW_REMAP Nonfatal XC1 i0 Link 03").severity, Severity::warning);
  EXPECT_THAT(of(64, "").action, StartsWith("replace"));
  EXPECT_THAT(of(94, "Contained: SM (0x1). RST: No, D-RST: No").action,
              AllOf(HasSubstr("restart"), HasSubstr("reset")));
  EXPECT_THAT(of(79, "GPU has fallen off the bus.").evidence, HasSubstr("\"GPU has fallen off the bus.\""));
}

// Findings about packet loss name flow control on RoCE, the part on other fabrics.
TEST(TopoWatch, lost_packets_have_the_remedy_of_their_network) {
  Host two = host();
  two.nics = {{"mlx5_0", "ethernet", "mlx5_core", "up", {}, 0}, {"mlx5_1", "infiniband", "mlx5_core", "up", {}, 0}};
  Topology topology;
  topology.hosts = {two};
  const auto of = [&](const std::string& nic, const std::map<std::string, std::uint64_t>& counted) {
    HostActivity during{.host = two.name};
    during.nics = {{nic, true, counted}};
    return watch_findings(topology, {during}, 0);
  };
  EXPECT_THAT(of("mlx5_0", {{"tx_bytes", 9}, {"np_cnp_sent", 3}, {"rp_cnp_handled", 3}}), IsEmpty());
  const std::vector<Finding> bare = of("mlx5_0", {{"out_of_sequence", 7}, {"packet_seq_err", 2}});
  ASSERT_THAT(bare, SizeIs(1));
  EXPECT_EQ(bare[0].id, "nic.errors");
  EXPECT_THAT(bare[0].evidence, HasSubstr("7 out_of_sequence"));
  EXPECT_THAT(bare[0].action, HasSubstr("no congestion notice"));
  EXPECT_THAT(of("mlx5_0", {{"rx_discards_phy", 7}, {"np_cnp_sent", 2}}).at(0).action, HasSubstr("PFC"));
  EXPECT_THAT(of("mlx5_1", {{"symbol_error", 7}}).at(0).action, HasSubstr("cable"));
}

}  // namespace
}  // namespace p5::topo
