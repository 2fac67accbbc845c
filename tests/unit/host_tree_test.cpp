#include "bench/control/host_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace p5 {
namespace {

using testing::ElementsAre;

constexpr Seconds endless{3600}, soon{0.02};

// Messages between participants, in memory.
class PostOffice {
 public:
  // look_again: polling interval of a waiting participant, unless a message arrives.
  PostOffice(int participants, Seconds look_again)
      : boxes_(static_cast<std::size_t>(participants)), look_again_(look_again) {}

  struct Count {
    std::uint64_t messages = 0, bytes = 0;
  };
  int participants() const { return static_cast<int>(boxes_.size()); }
  Count sent_by(int participant) { return counted(participant, &Box::sent); }
  Count got_by(int participant) { return counted(participant, &Box::got); }
  std::uint64_t messages() {
    std::uint64_t all = 0;
    for (int each = 0; each < participants(); ++each) all += sent_by(each).messages;
    return all;
  }
  // Waits until so many messages have arrived there, polled or not.
  void wait_for_messages(int participant, std::uint64_t messages) {
    Box& box = box_of(participant);
    std::unique_lock lock(box.mutex);
    box.changed.wait(lock, [&] { return box.got.messages >= messages; });
  }

  std::unique_ptr<ControlTransport> post_of(int participant) {
    return std::make_unique<MemoryPost>(*this, participant);
  }

 private:
  struct Box {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<ControlMessage> messages;
    Count sent, got;
  };

  class MemoryPost final : public ControlTransport {
   public:
    MemoryPost(PostOffice& office, int participant) : office_(office), participant_(participant) {}
    int participants() const override { return office_.participants(); }
    int participant() const override { return participant_; }
    void send(int to, std::string text) override {
      count(participant_, &Box::sent, text);
      count(to, &Box::got, text);
      Box& box = office_.box_of(to);
      const std::lock_guard lock(box.mutex);
      box.messages.push_back({participant_, std::move(text)});
      box.changed.notify_all();
    }
    bool all_left() override { return true; }
    std::optional<ControlMessage> receive() override {
      Box& box = office_.box_of(participant_);
      const std::lock_guard lock(box.mutex);
      if (box.messages.empty()) return std::nullopt;
      ControlMessage message = std::move(box.messages.front());
      box.messages.pop_front();
      return message;
    }
    void pause(Clock::time_point) override {
      Box& box = office_.box_of(participant_);
      std::unique_lock lock(box.mutex);
      box.changed.wait_for(lock, std::chrono::duration<double>(office_.look_again_.count),
                           [&] { return !box.messages.empty(); });
    }

   private:
    void count(int whose, Count Box::*which, const std::string& text) {
      Box& box = office_.box_of(whose);
      const std::lock_guard lock(box.mutex);
      ++(box.*which).messages;
      (box.*which).bytes += text.size();
    }

    PostOffice& office_;
    const int participant_;
  };

  Box& box_of(int participant) { return boxes_[static_cast<std::size_t>(participant)]; }
  Count counted(int participant, Count Box::*which) {
    Box& box = box_of(participant);
    const std::lock_guard lock(box.mutex);
    return box.*which;
  }

  std::vector<Box> boxes_;
  const Seconds look_again_;
};

std::vector<int> hosts_of(int ranks, int on_a_host) {
  std::vector<int> host_of_rank;
  for (int rank = 0; rank < ranks; ++rank) host_of_rank.push_back(rank / on_a_host);
  return host_of_rank;
}

// A thread for each participant.
void run_by_host(PostOffice& office, int on_a_host, Seconds patience, const std::function<void(ControlPlane&)>& body) {
  const std::vector<TreePosition> places = build_tree(hosts_of(office.participants(), on_a_host));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < office.participants(); ++rank)
    threads.emplace_back(
        [&, rank] { body(*make_host_tree(office.post_of(rank), places[static_cast<std::size_t>(rank)], patience)); });
  for (std::thread& each : threads) each.join();
}

std::string part_of(int rank, int gather = 0) { return std::to_string(rank) + " in " + std::to_string(gather); }

std::vector<std::string> parts_of_all(int ranks, int gather = 0) {
  std::vector<std::string> parts;
  for (int rank = 0; rank < ranks; ++rank) parts.push_back(part_of(rank, gather));
  return parts;
}

// Waits until the leader waits for exactly these, as another thread sees it; otherwise the test never ends.
void wait_until_awaited(const ControlPlane& leader, const std::vector<int>& ranks) {
  while (leader.missing_participants() != ranks) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(TreeOfHosts, reaches_each_rank_once) {
  for (const int ranks : {1, 2, 7, 64, 4096})
    for (const int on_a_host : {1, 3, 8}) {
      const std::vector<TreePosition> places = build_tree(hosts_of(ranks, on_a_host));
      std::vector<int> reached{0};
      for (std::size_t at = 0; at < reached.size(); ++at) {
        const TreePosition& place = places[static_cast<std::size_t>(reached[at])];
        for (const auto* const below : {&place.next, &place.others})
          reached.insert(reached.end(), below->begin(), below->end());
      }
      std::vector<int> all(static_cast<std::size_t>(ranks));
      std::iota(all.begin(), all.end(), 0);
      std::ranges::sort(reached);
      EXPECT_EQ(reached, all) << ranks << " ranks, " << on_a_host << " on a host";
    }
}

TEST(TreeOfHosts, takes_ranks_together_that_are_scattered_over_hosts) {
  const std::vector<TreePosition> places = build_tree(number_hosts({"b", "a", "b", "a", "c"}));
  EXPECT_THAT(places[0].others, ElementsAre(2));
  EXPECT_THAT(places[1].others, ElementsAre(3));
  EXPECT_THAT(places[0].next, ElementsAre(1, 4));
  EXPECT_EQ(places[3].collector, 1);
}

struct Size {
  int ranks = 0, on_a_host = 0, depth = 0;  // depth: of the tree of hosts
};
class ByHost : public testing::TestWithParam<Size> {};

TEST_P(ByHost, an_agreement_costs_the_leader_a_letter_for_each_host) {
  const auto [ranks, on_a_host, depth] = GetParam();
  const int hosts = ranks / on_a_host;
  PostOffice office(ranks, {1});
  run_by_host(office, on_a_host, endless, [ranks = ranks](ControlPlane& control) {
    const std::vector<std::string> parts = control.gather(part_of(control.participant()));
    if (control.is_leader()) {
      EXPECT_EQ(parts, parts_of_all(ranks));
    }
    if (!control.is_leader()) {
      EXPECT_EQ(parts, std::vector<std::string>());
    }
    EXPECT_EQ(control.broadcast(control.is_leader() ? "decision" : "another"), "decision");
  });
  const auto in_all = static_cast<std::uint64_t>(ranks);
  EXPECT_EQ(office.messages(), 2 * (in_all - 1));
  EXPECT_EQ(office.got_by(0).messages, static_cast<std::uint64_t>(hosts - 1 + on_a_host - 1));
  EXPECT_EQ(office.sent_by(0).messages, static_cast<std::uint64_t>(depth + on_a_host - 1));
  PostOffice::Count most;
  std::uint64_t bytes = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const PostOffice::Count got = office.got_by(rank), sent = office.sent_by(rank);
    bytes += sent.bytes;
    if (rank == 0) continue;
    most.messages = std::max(most.messages, got.messages + sent.messages);
    most.bytes = std::max(most.bytes, got.bytes + sent.bytes);
  }
  EXPECT_LE(most.messages, static_cast<std::uint64_t>(2 * on_a_host + depth));
  RecordProperty("letters", std::to_string(office.messages()));
  RecordProperty("letters_to_leader", std::to_string(office.got_by(0).messages));
  RecordProperty("letters_of_leader", std::to_string(office.sent_by(0).messages));
  RecordProperty("bytes", std::to_string(bytes));
  RecordProperty("bytes_of_leader", std::to_string(office.got_by(0).bytes + office.sent_by(0).bytes));
  RecordProperty("most_letters_of_another", std::to_string(most.messages));
  RecordProperty("most_bytes_of_another", std::to_string(most.bytes));
}

TEST_P(ByHost, an_alarm_of_all_costs_two_letters_for_each_rank) {
  const auto [ranks, on_a_host, depth] = GetParam();
  PostOffice office(ranks, {1});
  run_by_host(office, on_a_host, endless, [](ControlPlane& control) {
    control.notify_abort(7);
    control.barrier();  // earlier messages have arrived then
    EXPECT_TRUE(control.abort_notified(7));
    control.notify_abort(7);
  });
  const auto in_all = static_cast<std::uint64_t>(ranks), of_barrier = 2 * (in_all - 1);
  EXPECT_LE(office.messages() - of_barrier, 2 * in_all);
  EXPECT_GE(office.messages() - of_barrier, in_all - 1);
  RecordProperty("alarm_letters", std::to_string(office.messages() - of_barrier));
}

TEST_P(ByHost, an_alarm_of_one_is_heard_by_all_wherever_they_wait) {
  const auto [ranks, on_a_host, depth] = GetParam();
  for (const int raiser : {0, on_a_host % ranks, ranks - 1}) {
    PostOffice office(ranks, {1});
    run_by_host(office, on_a_host, endless, [raiser](ControlPlane& control) {
      // Most ranks wait in the gather or the broadcast, and those that poll for abort notices receive them through
      // these.
      if (control.participant() == raiser) control.notify_abort(3);
      while (control.participant() % 5 == 0 && !control.abort_notified(3)) std::this_thread::yield();
      control.barrier();
      EXPECT_TRUE(control.abort_notified(3));
      EXPECT_FALSE(control.abort_notified(4));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ByHost,
                         testing::Values(Size{64, 8, 3}, Size{64, 64, 0}, Size{64, 1, 6}, Size{4096, 8, 9}),
                         [](const auto& size) {
                           return std::to_string(size.param.ranks) + "_ranks_" + std::to_string(size.param.on_a_host) +
                                  "_on_a_host";
                         });

// Each host's first rank in turn, including hosts with others below them.
TEST(HostTree, an_alarm_gets_past_who_does_not_look) {
  constexpr int ranks = 16, on_a_host = 2;
  for (int silent = on_a_host; silent < ranks; silent += on_a_host) {
    PostOffice office(ranks, soon);
    std::latch heard(ranks - 1);
    run_by_host(office, on_a_host, soon, [&](ControlPlane& control) {
      if (control.participant() == silent) {
        heard.wait();
        EXPECT_TRUE(control.abort_notified(2));
        return;
      }
      if (control.participant() == ranks - 1) control.notify_abort(2);
      while (!control.abort_notified(2)) std::this_thread::yield();
      heard.count_down();
      // The leader keeps polling for its messages, as in the next operation that it waits for.
      while (control.is_leader() && !heard.try_wait()) control.abort_notified(2);
    });
    EXPECT_LE(office.messages(), std::uint64_t{2 * (ranks - 1)});
  }
}

TEST(HostTree, parts_may_be_gathers_ahead) {
  constexpr int ranks = 12, collector = 4, ahead = 5;
  constexpr int gathers = 3;
  PostOffice office(ranks, soon);
  run_by_host(office, 4, endless, [&](ControlPlane& control) {
    if (control.participant() == collector) office.wait_for_messages(collector, gathers);
    for (int gather = 0; gather < gathers; ++gather) {
      const std::vector<std::string> parts = control.gather(part_of(control.participant(), gather));
      if (control.is_leader()) {
        EXPECT_EQ(parts, parts_of_all(ranks, gather));
      }
    }
    EXPECT_EQ(control.broadcast(control.is_leader() ? "first" : ""), "first");
    EXPECT_EQ(control.broadcast(control.is_leader() ? "second" : ""), "second");
  });
  EXPECT_GE(office.sent_by(ahead).messages, static_cast<std::uint64_t>(gathers));
}

// No other rank is late. The late one returns, and repeated messages change nothing.
void expect_alone_awaited(int stopped,
                          const std::function<void(ControlPlane&, const std::function<void()>& stop)>& body) {
  constexpr int ranks = 64, on_a_host = 4;
  PostOffice office(ranks, soon);
  std::latch named(1);
  std::thread watcher;
  run_by_host(office, on_a_host, soon, [&](ControlPlane& control) {
    if (control.is_leader())
      watcher = std::thread([&] {
        wait_until_awaited(control, {stopped});
        named.count_down();
      });
    body(control, [&] {
      if (control.participant() == stopped) named.wait();
    });
    for (int gather = 0; gather < 3; ++gather) {
      const std::vector<std::string> parts = control.gather(part_of(control.participant(), gather));
      if (control.is_leader()) {
        EXPECT_EQ(parts, parts_of_all(ranks, gather));
      }
      EXPECT_EQ(control.broadcast(control.is_leader() ? part_of(0, gather) : ""), part_of(0, gather));
    }
    if (control.is_leader()) {
      watcher.join();
      EXPECT_THAT(control.missing_participants(), ElementsAre());
    }
  });
}

TEST(HostTree, a_rank_that_does_not_come_is_awaited_alone) {
  for (const int stopped : {1, 5, 63})
    expect_alone_awaited(stopped, [](ControlPlane& control, const auto& stop) {
      stop();
      control.barrier();
    });
}

TEST(HostTree, a_collector_that_does_not_come_is_awaited_alone) {
  for (const int stopped : {4, 8, 60})
    expect_alone_awaited(stopped, [](ControlPlane& control, const auto& stop) {
      stop();
      control.barrier();
    });
}

TEST(HostTree, a_collector_that_does_not_pass_on_what_the_leader_says_is_awaited_alone) {
  for (const int stopped : {4, 8, 60})
    expect_alone_awaited(stopped, [](ControlPlane& control, const auto& stop) {
      control.gather("");
      stop();
      EXPECT_EQ(control.broadcast(control.is_leader() ? "one" : ""), "one");
      EXPECT_EQ(control.broadcast(control.is_leader() ? "two" : ""), "two");
      control.barrier();
    });
}

TEST(HostTree, who_lacks_what_the_leader_says_before_it_waits_for_it_gets_it_too) {
  constexpr int collector = 4, late = 5;
  PostOffice office(8, soon);
  std::latch named(1);
  std::thread watcher;
  run_by_host(office, 4, soon, [&](ControlPlane& control) {
    if (control.is_leader())
      watcher = std::thread([&] {
        wait_until_awaited(control, {collector});
        named.count_down();
      });
    control.gather("");
    if (control.participant() == collector) named.wait();
    if (control.participant() == late) {
      while (office.got_by(late).messages == 0) std::this_thread::yield();  // until the leader's request
      control.abort_notified(0);
    }
    EXPECT_EQ(control.broadcast(control.is_leader() ? "word" : ""), "word");
    control.barrier();
    if (control.is_leader()) watcher.join();
  });
}

TEST(HostTree, an_answer_that_comes_late_is_not_taken_for_the_next_part) {
  constexpr int collector = 4, late = 5;
  PostOffice office(8, soon);
  std::latch first_done(1), answered(1), named(1);
  std::thread watcher;
  run_by_host(office, 4, soon, [&](ControlPlane& control) {
    const int me = control.participant();
    // The rank does not poll for the request of its first part before its host's message has brought that part.
    if (me == collector) office.wait_for_messages(late, 1);
    control.gather(part_of(me, 0));
    if (control.is_leader()) first_done.count_down();
    if (me == late) {
      first_done.wait();
      control.abort_notified(0);
      answered.count_down();
      named.wait();
    } else {
      answered.wait();
    }
    if (control.is_leader())
      watcher = std::thread([&] {
        wait_until_awaited(control, {late});
        named.count_down();
      });
    const std::vector<std::string> parts = control.gather(part_of(me, 1));
    if (control.is_leader()) {
      EXPECT_EQ(parts, parts_of_all(8, 1));
      watcher.join();
    }
    control.broadcast("");
  });
}

TEST(HostTree, who_is_asked_before_it_comes_answers_when_it_does) {
  constexpr int collector = 4;
  PostOffice office(8, soon);
  std::latch named(1);
  run_by_host(office, 4, soon, [&](ControlPlane& control) {
    std::thread watcher;
    // The other ranks of the second host answer only the leader's request; their collector never collects.
    if (control.is_leader())
      watcher = std::thread([&] {
        wait_until_awaited(control, {collector});
        named.count_down();
      });
    if (control.participant() > collector)
      while (office.got_by(control.participant()).messages == 0) std::this_thread::yield();
    if (control.participant() == collector) named.wait();
    const std::vector<std::string> parts = control.gather(part_of(control.participant()));
    if (control.is_leader()) {
      EXPECT_EQ(parts, parts_of_all(8));
    }
    control.broadcast("");
    if (watcher.joinable()) watcher.join();
  });
}

}  // namespace
}  // namespace p5
