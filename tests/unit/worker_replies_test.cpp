// Replies of a worker that are not accepted: scripts in the place of worker programs, one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/backends/worker.hpp"
#include "bench/base/error.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/measure/rendezvous.hpp"
#include "bench/model/agreement.hpp"
#include "bench/model/collective.hpp"
#include "tests/unit/in_folder.hpp"

namespace p5 {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// All replies of a good worker, as Python; `bad` names one that is replaced.
std::string script(const std::string& bad, const std::string& reply) {
  return "#!" P5BENCH_PYTHON + fmt::format(R"(
import json, socket, struct, time
ours = socket.socket(fileno=3)
identity = dict(device_uuid="GPU-1", device_name="", pci_address="", free_memory=1 << 30, total_memory=1 << 30,
                visible_devices=1, library="", library_path="", driver="", runtime="", address="")
replies = dict(identify=identity, unique_id=dict(id="x"), join=dict(environment=dict()), open=dict(slots=4),
               warm_up=dict(), close=dict(), verify=dict(wrong_elements=0, first=None, wrong_ranks=[]),
               selection=dict(selection=None), host_time=dict(seconds=1e-6), probe_nics=dict(nics=["", "nothing"]),
               cost_table=dict(cost_table=[dict(setting="a", microseconds=-1.5, chosen=True)]),
               check_locally=dict(figures=dict(launch_us=2.5), compute=dict(digests=dict(bf16="0a"), library="",
                                                                            corruption="", not_measured="")),
               check_host_copies=dict(figures=dict(host_to_device_gb_per_s=55.5)))
while True:
    head = ours.recv(16, socket.MSG_WAITALL)
    if len(head) < 16:
        break
    magic, version, epoch, length = struct.unpack("4I", head)
    order = json.loads(ours.recv(length, socket.MSG_WAITALL))
    name = order["order"]
    if name == "quit":
        break
    if name == "open":
        is_open = True
    if name == "close":
        assert is_open
        is_open = False
    if name == "sample":
        time.sleep(0.002 * order["samples"])
        replies[name] = dict(seconds=[0.001 / order["operations"]] * order["samples"])
    if name == "sample_concurrently":
        time.sleep(0.003 * order["samples"])
        replies[name] = dict(seconds=[[0.001, 0.002]] * order["samples"])
    body = json.dumps(replies[name])
    if name == "{}":
        body = r'''{}'''
    if body.startswith("{{"):
        body = json.dumps(dict(dict(ok=True), **json.loads(body)))
    ours.sendall(struct.pack("4I", magic, version, epoch, len(body)) + body.encode())
)",
                                           bad, reply);
}

class Replies : public InFolder {
 protected:
  // Sends each order once, for one rank alone. Throws CaseError or PhaseFailed.
  void work_with(const std::string& bad, const std::string& reply) {
    const fs::path file = folder / "worker";
    std::ofstream(file) << script(bad, reply);
    fs::permissions(file, fs::perms::owner_all);
    const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
    WorkerOptions options;
    options.program = file.string();
    WorkerBackend backend(*control, options);
    join_ranks(*control, backend);
    Case c;
    c.collective = &find_collective("all_reduce");
    c.op = ReduceOp::sum;
    c.bytes = {64};
    c.shape = c.collective->shape(c.bytes, false, size_of(c.type), 1);
    c.rounds = std::make_shared<std::vector<Round>>(std::vector<Round>{{{0}}});
    std::unique_ptr<Session> session = backend.open(c, 0);
    session->warm_up(1, "");
    times =
        session->sample({.quantity = Quantity::throughput, .operations = 2, .samples = 3, .poison_last = false}).at(0);
    verified = session->verify();
    EXPECT_FALSE(session->selection().has_value());
    EXPECT_EQ(session->cost_table().at(0).microseconds, -1.5);
    const std::vector<LocalChecks> checks = backend.check_locally({});
    ASSERT_EQ(checks.size(), 1u);
    EXPECT_EQ(checks[0].figures.at("launch_us"), 2.5);
    EXPECT_EQ(checks[0].compute.digests.at("bf16"), "0a");
    EXPECT_EQ(backend.check_host_copies().at(0).at("host_to_device_gb_per_s"), 55.5);
    EXPECT_EQ(session->host_time(), 1e-6);
    EXPECT_THAT(session->probe_nics({1}), testing::ElementsAre("", "nothing"));
    Case with_work = c;
    with_work.beside.push_back(parse_work("d2h"));
    session.reset();
    session = backend.open(with_work, 0);
    const ConcurrentTimes ends = session->sample_concurrently({.operations = {1, 2}, .samples = 2});
    EXPECT_EQ(ends, (ConcurrentTimes{{{0.001, 0.002}, {0.001, 0.002}}}));
    if (close) session->close();
    if (!close_and_go_on) return;
    session.reset();
    backend.open(c, 0);
  }

  std::string refusal(const std::string& bad, const std::string& reply) {
    try {
      work_with(bad, reply);
    } catch (const CaseError& problem) {
      return problem.what();
    } catch (const PhaseFailed& failed) {
      return failed.what;
    }
    return "";
  }

  std::vector<double> times;
  Verification verified;
  bool close = false, close_and_go_on = false;
};

TEST_F(Replies, of_a_good_worker_are_taken) {
  EXPECT_EQ(refusal("", ""), "");
  EXPECT_EQ(times, (std::vector<double>{0.0005, 0.0005, 0.0005}));
  EXPECT_EQ(verified.wrong_elements, 0u);
}

// A worker has elements of its own rank only, whatever it says.
TEST_F(Replies, that_name_wrong_elements_of_another_rank_are_about_their_own) {
  EXPECT_EQ(refusal("verify",
                    "{\"wrong_elements\": 1, \"wrong_ranks\": [7], \"first\": {\"rank\": 99, \"offset\": 5, "
                    "\"wanted\": \"1\", \"got\": \"2\", \"guard\": false}}"),
            "");
  ASSERT_TRUE(verified.first);
  EXPECT_EQ(verified.first->rank, 0);
  EXPECT_EQ(verified.first->offset, 5u);
}

TEST_F(Replies, to_the_order_to_close_are_told_by_the_session_that_is_closed) {
  close = true;
  EXPECT_THAT(refusal("close", ""), HasSubstr("not understood"));
  close_and_go_on = true;
  EXPECT_EQ(refusal("", ""), "") << "one order to close for each session";
}

// A session that cannot be closed is gone; the next step of any case says what of.
TEST_F(Replies, to_the_order_to_close_are_told_with_the_next_step) {
  close_and_go_on = true;
  EXPECT_THAT(refusal("close", "{\"error\": \"the device is gone\"}"), HasSubstr("the device is gone"));
}

TEST_F(Replies, with_times_that_cannot_be_are_refused) {
  for (const char* const seconds :
       {"0.001, 0.0, 0.001", "0.001, -1, 0.001", "0.001, null, 0.001", "0.001, 1e308, 0.001", "0.001, \"x\", 0.001",
        "0.001, 0.001", "0.001, 0.001, 0.001, 0.001, 0.001, 0.001", "", "0.001, 30, 0.001", "0.001, [1], 0.001"})
    EXPECT_THAT(refusal("sample", fmt::format("{{\"seconds\": [{}]}}", seconds)), HasSubstr("its worker")) << seconds;
}

// The first workers find a device of which no others took memory.
TEST(MemoryOfWorkers, is_a_share_of_what_those_find_that_join_first) {
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  WorkerBackend backend(*control, WorkerOptions());
  const std::unique_ptr<Backend> arm = backend.arm({});
  const auto share = [](Backend& of, std::uint64_t free) {
    const std::string terms = of.negotiate({.groups = {{0}}}, {nlohmann::json{{"free_memory", free}}.dump()});
    return nlohmann::json::parse(terms).at("memory").get<std::uint64_t>();
  };
  EXPECT_EQ(share(backend, 1000), 850u);
  backend.share_memory(2);
  EXPECT_EQ(share(backend, 1000), 425u);
  EXPECT_EQ(share(*arm, 600), 425u) << "beside the buffers of the others";
  EXPECT_EQ(share(*arm, 100), 85u) << "no more than there is";
  backend.share_memory(1);
  EXPECT_EQ(share(*arm, 1000), 850u);
}

// NCCL's workers and those that measure single NICs have one control plane.
TEST_F(Replies, come_from_workers_of_one_backend_after_those_of_another_failed) {
  const fs::path file = folder / "worker";
  std::ofstream(file) << script("", "");
  fs::permissions(file, fs::perms::owner_all);
  WorkerOptions options;
  options.program = file.string();
  constexpr Seconds limit{30};
  constexpr std::size_t samples = 20;  // they take longer than the time between two looks at abort notices
  run_threads(1, [&](ControlPlane& control) {
    WorkerBackend first(control, options), second(control, options);
    for (const auto& [failing, healthy] : {std::pair(&first, &second), std::pair(&second, &first)}) {
      for (WorkerBackend* const each : {failing, healthy})
        if (!each->joined()) join_ranks(control, *each);
      EXPECT_THROW(failing->ask({{"order", "unknown"}}, limit), CaseError);
      const nlohmann::json reply = healthy->ask({{"order", "sample"}, {"samples", samples}, {"operations", 1}}, limit);
      EXPECT_EQ(reply.at("seconds").size(), samples);
      failing->abandon();
    }
  });
}

// The ranks that did start wait for the limit of a join alone.
TEST_F(Replies, to_a_start_are_awaited_no_longer_than_a_join_may_take) {
  const fs::path file = folder / "worker";
  std::ofstream(file) << "#!/bin/sh\nexec sleep 60\n";
  fs::permissions(file, fs::perms::owner_all);
  WorkerOptions options;
  options.program = file.string();
  options.join_limit = {0.2};
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  WorkerBackend backend(*control, options);
  const Clock::time_point began = Clock::now();
  EXPECT_THROW(backend.advertise({.groups = {{0}}, .limit = Seconds{0.1}, .start = Seconds{30}}), CaseError);
  EXPECT_LT(since(began).count, 20);
}

// Groups of a case join like the whole job, so they have its time.
TEST(CommunicatorsOfCases, have_the_time_of_a_join_or_the_timeout_where_that_is_longer) {
  for (const int ranks : {1, 2048}) {
    const std::unique_ptr<ControlPlane> control = make_solo_control_plane(ranks);
    WorkerOptions options;
    EXPECT_EQ(WorkerBackend(*control, options).rendezvous_limit().count, ranks == 1 ? 120 : 240);
    options.join_limit = {10};
    options.timeout = {2};
    EXPECT_EQ(WorkerBackend(*control, options).rendezvous_limit().count, ranks == 1 ? 10 : 20);
    options.timeout = {60};
    EXPECT_EQ(WorkerBackend(*control, options).rendezvous_limit().count, 60);
  }
}

// Its supervisor has little time after the deadline, and must not spend it on waiting for the worker to quit.
TEST_F(Replies, that_do_not_come_until_the_deadline_end_the_worker_at_once) {
  const fs::path file = folder / "worker";
  std::ofstream(file) << "#!/bin/sh\nexec sleep 60\n";
  fs::permissions(file, fs::perms::owner_all);
  WorkerOptions options;
  options.program = file.string();
  options.deadline = later(Clock::now(), {0.2});
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  const Clock::time_point began = Clock::now();
  {
    WorkerBackend backend(*control, options);
    EXPECT_THROW(backend.identify(), StalledError);
  }
  EXPECT_LT(since(began).count, 4) << "a worker that answers has 5 s to quit";
}

// The others start whatever becomes of one, as they wait for nobody.
TEST_F(Replies, to_a_start_come_though_the_worker_of_another_rank_ends_as_it_starts) {
  const fs::path slow = folder / "slow", lost = folder / "lost";
  std::ofstream(folder / "worker") << script("", "");
  std::ofstream(slow) << "#!/bin/sh\nsleep 1\nexec " << (folder / "worker").string() << "\n";
  std::ofstream(lost) << "#!/bin/sh\nkill -SEGV $$\n";
  for (const fs::path& each : {folder / "worker", slow, lost}) fs::permissions(each, fs::perms::owner_all);
  run_threads(2, [&](ControlPlane& control) {
    WorkerOptions options;
    options.program = (control.is_leader() ? slow : lost).string();
    WorkerBackend backend(control, options);
    if (control.is_leader())
      EXPECT_EQ(backend.identify().device_uuid, "GPU-1");
    else
      EXPECT_THROW(backend.identify(), LostError);
  });
}

// The wait that was allowed is compared with the one that a start may take.
TEST_F(Replies, to_a_start_are_cut_short_by_the_deadline_of_the_command_alone) {
  const fs::path file = folder / "worker";
  std::ofstream(file) << "#!/bin/sh\nexec sleep 60\n";
  fs::permissions(file, fs::perms::owner_all);
  struct Waits {
    double join_s;
    std::optional<double> deadline_s;
    bool cut_short;
  };
  for (const Waits& waits : {Waits{30, 0.1, true}, Waits{0.1, 30, false}, Waits{0.1, std::nullopt, false}}) {
    WorkerOptions options;
    options.program = file.string();
    options.join_limit = {waits.join_s};
    if (waits.deadline_s) options.deadline = deadline_in({*waits.deadline_s});
    const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
    WorkerBackend backend(*control, options);
    try {
      join_ranks(*control, backend);
      ADD_FAILURE() << "it joined";
    } catch (const PhaseFailed& failed) {
      EXPECT_EQ(failed.cut_short, waits.cut_short) << failed.what;
      EXPECT_EQ(failed.what.find("time limit of the whole command") != std::string::npos, waits.cut_short);
    }
  }
}

TEST_F(Replies, that_lack_what_was_asked_for_or_hold_another_kind_are_refused) {
  const std::pair<const char*, const char*> bad[] = {
      {"identify", "{}"},
      {"identify", "{\"device_uuid\": 7}"},
      {"unique_id", "{}"},
      {"unique_id", "{\"id\": 7}"},
      {"join", "{}"},
      {"join", "{\"environment\": [1]}"},
      {"join", "{\"environment\": {\"a\": 1}}"},
      {"open", "{}"},
      {"open", "{\"slots\": 0}"},
      {"open", "{\"slots\": -1}"},
      {"open", "{\"slots\": 1e308}"},
      {"open", "{\"slots\": null}"},
      {"sample", "{}"},
      {"sample", "{\"seconds\": 1}"},
      {"verify", "{}"},
      {"verify", "{\"wrong_elements\": -1, \"first\": null}"},
      {"verify", "{\"wrong_elements\": 1, \"first\": {\"rank\": \"x\"}}"},
      {"verify", "{\"wrong_elements\": 1, \"first\": null, \"wrong_ranks\": []}"},
      {"selection", "{}"},
      {"selection", "{\"selection\": {\"algorithm\": 1}}"},
      {"cost_table", "{}"},
      {"cost_table", "{\"cost_table\": [1]}"},
      {"host_time", "{}"},
      {"host_time", "{\"seconds\": 0}"},
      {"host_time", "{\"seconds\": -1}"},
      {"host_time", "{\"seconds\": 1e308}"},
      {"host_time", "{\"seconds\": \"x\"}"},
      {"probe_nics", "{}"},
      {"probe_nics", "{\"nics\": []}"},
      {"probe_nics", "{\"nics\": [1]}"},
      {"sample_concurrently", "{}"},
      {"sample_concurrently", "{\"seconds\": [1]}"},
      {"sample_concurrently", "{\"seconds\": [[0.001, 0.002]]}"},
      {"sample_concurrently", "{\"seconds\": [[0.001], [0.001]]}"},
      {"sample_concurrently", "{\"seconds\": [[0.001, 0.0], [0.001, 0.002]]}"},
      {"sample_concurrently", "{\"seconds\": [[0.001, null], [0.001, 0.002]]}"},
      {"sample_concurrently", "{\"seconds\": [[0.001, 1e308], [0.001, 0.002]]}"},
      {"check_locally", "{}"},
      {"check_locally", "{\"figures\": {\"launch_us\": -1}}"},
      {"check_locally", "{\"figures\": {\"launch_us\": 1}}"},
      {"check_host_copies", "{}"},
      {"check_host_copies", "{\"figures\": {\"host_to_device_gb_per_s\": \"fast\"}}"},
      {"check_locally", "{\"figures\": {\"launch_us\": 1}, \"compute\": {\"digests\": 7}}"},
      {"check_locally",
       "{\"figures\": {}, \"compute\": {\"digests\": {}, \"library\": \"\", \"corruption\": \"wrong\", "
       "\"partner\": 77, \"not_measured\": \"\"}}"},
      {"warm_up", "[]"},
      {"warm_up", "7"}};
  for (const auto& [order, reply] : bad) EXPECT_NE(refusal(order, reply), "") << order << " " << reply;
}

}  // namespace
}  // namespace p5
