#include "bench/control/host_tree.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "bench/base/units.hpp"
#include "bench/base/wire.hpp"

namespace p5 {

namespace {

// parts: of a gather, upwards. ask: for the part of a gather. lack: of a broadcast, the answer of who is not that far.
enum class MessageKind : std::uint8_t { parts, ask, lack, broadcast, abort_epoch };

struct PartOfRank {
  int rank = 0;
  std::string text;
};

struct MessageContent {
  MessageKind kind = MessageKind::parts;
  std::uint32_t number = 0;  // of the gather or broadcast; of an abort notice its epoch
  std::vector<PartOfRank> parts = {};
  std::string text = {};
};

void fields(auto& archive, Is<PartOfRank> auto& part) {
  archive.must("rank", part.rank);
  archive.must("text", part.text);
}

void fields(auto& archive, Is<MessageContent> auto& words) {
  archive.must("kind", words.kind);
  archive.must("number", words.number);
  archive.must("parts", words.parts);
  archive.must("text", words.text);
}

using PartsByRank = std::map<int, std::string>;

class HostTree final : public ControlPlane {
 public:
  HostTree(std::unique_ptr<ControlTransport> post, TreePosition place, Seconds patience)
      : transport_(std::move(post)),
        place_(std::move(place)),
        patience_(patience),
        hosted_{transport_->participant()} {}

  int ranks() const override { return transport_->participants(); }
  const std::vector<int>& hosted() const override { return hosted_; }
  bool is_leader() const override { return participant() == leader; }
  int participants() const override { return transport_->participants(); }
  int participant() const override { return hosted_.front(); }

  std::vector<std::string> gather(const std::string& mine) override {
    const std::uint32_t number = gathers_++;
    if (is_leader()) return collect_all(number, mine);
    latest_part_ = mine;
    if (collects())
      collect_host(number);
    else
      send_part(place_.collector, number);
    if (asked_for_ > number) send_part(leader, number);
    complete_sends();
    return {};
  }

  std::vector<int> missing_participants() const override {
    const std::lock_guard lock(awaited_mutex_);
    return {awaited_.begin(), awaited_.end()};
  }

  std::string broadcast(const std::string& leaders) override {
    const std::uint32_t number = broadcasts_;
    if (is_leader()) {
      ++broadcasts_;
      latest_broadcasts_.emplace_back(number,
                                      wire::serialize(MessageContent{MessageKind::broadcast, number, {}, leaders}));
      pass_on(latest_broadcasts_.back().second);
      complete_sends();
      return leaders;
    }
    look();
    if (!heard_broadcasts_.contains(number) && asked_for_ > gathers_) say(leader, {MessageKind::lack, number});
    lacks_broadcast_ = true;
    wait_until([&] { return heard_broadcasts_.contains(number); });
    lacks_broadcast_ = false;
    ++broadcasts_;
    complete_sends();
    return std::move(heard_broadcasts_.extract(number).mapped());
  }

  void notify_abort(std::uint32_t epoch) override {
    if (!aborts_.insert(epoch).second) return;
    const MessageContent words{MessageKind::abort_epoch, epoch};
    if (is_leader())
      forward_abort(participant(), epoch, wire::serialize(words));
    else
      say(leader, words);
  }

  bool abort_notified(std::uint32_t epoch) override {
    look();
    return aborts_.contains(epoch);
  }

 private:
  static constexpr int leader = 0;

  bool collects() const { return place_.collector == participant(); }

  void say(int to, const MessageContent& words) { transport_->send(to, wire::serialize(words)); }

  void send_part(int to, std::uint32_t number) {
    say(to, {MessageKind::parts, number, {{participant(), latest_part_}}});
  }

  // What the leader says, to those below in the tree: other hosts first, since theirs is the longer way.
  void pass_on(const std::string& message) {
    for (const std::vector<int>* const below : {&place_.next, &place_.others})
      for (const int each : *below) transport_->send(each, message);
  }

  template <class Condition>
  void wait_until(const Condition& come_true) {
    for (const Clock::time_point start = Clock::now();;) {
      look();
      if (come_true()) return;
      transport_->pause(start);
    }
  }

  // What is large leaves only while both sides look after it, and who goes on may not look for long. Who stands still
  // must not hold up who writes to it.
  void complete_sends() {
    const Clock::time_point start = Clock::now();
    wait_until([&] { return transport_->all_left() || since(start).count > patience_.count; });
  }

  std::vector<std::string> collect_all(std::uint32_t number, const std::string& mine) {
    PartsByRank& parts = parts_of_[number];
    parts.emplace(leader, mine);
    {
      const std::lock_guard lock(awaited_mutex_);
      for (int rank = 0; rank < ranks(); ++rank)
        if (!parts.contains(rank)) awaited_.insert(awaited_.end(), rank);
    }
    bool asked = false;
    const Clock::time_point start = Clock::now();
    wait_until([&] {
      if (parts.size() == static_cast<std::size_t>(ranks())) return true;
      if (!asked && since(start).count > patience_.count) {
        for (const int rank : missing_participants()) say(rank, {MessageKind::ask, number});
        asked = true;
      }
      return false;
    });
    std::vector<std::string> blobs;
    for (auto& [rank, text] : parts) blobs.push_back(std::move(text));
    forget_parts_of(number);
    latest_broadcasts_.clear();  // whoever has sent this part has heard them
    return blobs;
  }

  void collect_host(std::uint32_t number) {
    PartsByRank& parts = parts_of_[number];
    parts.emplace(participant(), latest_part_);
    wait_until([&] { return parts.size() == place_.others.size() + 1; });
    MessageContent words{MessageKind::parts, number};
    for (auto& [rank, text] : parts) words.parts.push_back({rank, std::move(text)});
    say(leader, words);
    forget_parts_of(number);
  }

  void forget_parts_of(std::uint32_t number) {
    parts_of_.erase(number);
    gathers_done_ = number + 1;
  }

  void look() {
    while (const std::optional<ControlMessage> message = transport_->receive()) {
      MessageContent words = wire::deserialize<MessageContent>(message->text);
      switch (words.kind) {
        case MessageKind::parts:
          take_parts(words);
          break;
        case MessageKind::ask:
          answer(words.number);
          break;
        case MessageKind::lack:
          for (const auto& [number, text] : latest_broadcasts_)
            if (number >= words.number) transport_->send(message->from, text);
          break;
        case MessageKind::broadcast:
          if (words.number < broadcasts_ || heard_broadcasts_.contains(words.number)) break;
          pass_on(message->text);
          heard_broadcasts_.emplace(words.number, std::move(words.text));
          break;
        case MessageKind::abort_epoch:
          aborts_.insert(words.number);
          forward_abort(message->from, words.number, message->text);
          break;
      }
    }
    if (is_leader()) repeat_aborts();
  }

  // Once, to those below; the leader may hear of it from many, and remembers whom it need not tell again.
  void forward_abort(int from, std::uint32_t epoch, const std::string& message) {
    if (is_leader()) {
      const auto found = std::ranges::find(aborts_forwarded_, epoch, &Spread::epoch);
      if (found != aborts_forwarded_.end()) found->raised_by.insert(from);
    }
    if (!spread_.insert(epoch).second) return;
    if (is_leader()) aborts_forwarded_.push_back({epoch, message, {from}});
    pass_on(message);
  }

  // Who does not look hides an abort notice from those below it. So after a while all hear of it directly but those
  // that raised it: still no more than two messages for each rank.
  void repeat_aborts() {
    std::erase_if(aborts_forwarded_, [&](const Spread& abort_epoch) {
      if (since(abort_epoch.start).count <= patience_.count) return false;
      for (int rank = 0; rank < ranks(); ++rank)
        if (rank != leader && !abort_epoch.raised_by.contains(rank)) transport_->send(rank, abort_epoch.message);
      return true;
    });
  }

  // A rank may be a gather ahead, and a part that has come directly comes once more with its host's.
  void take_parts(MessageContent& words) {
    if (words.number < gathers_done_) return;
    PartsByRank& parts = parts_of_[words.number];
    for (PartOfRank& part : words.parts) parts.try_emplace(part.rank, std::move(part.text));
    if (!is_leader() || words.number >= gathers_) return;
    const std::lock_guard lock(awaited_mutex_);
    for (const PartOfRank& part : words.parts) awaited_.erase(part.rank);
  }

  void answer(std::uint32_t number) {
    if (number + 1 == gathers_) send_part(leader, number);
    if (number < gathers_) return;
    asked_for_ = number + 1;
    if (lacks_broadcast_) say(leader, {MessageKind::lack, broadcasts_});
  }

  const std::unique_ptr<ControlTransport> transport_;
  const TreePosition place_;
  const Seconds patience_;
  const std::vector<int> hosted_;

  std::uint32_t gathers_ = 0, gathers_done_ = 0;   // begun; those whose parts went on
  std::map<std::uint32_t, PartsByRank> parts_of_;  // by gather, what has not gone on
  std::string latest_part_;                        // for the leader, should it ask
  std::uint32_t asked_for_ = 0;                    // the leader misses the parts of gathers before this one
  mutable std::mutex awaited_mutex_;
  std::set<int> awaited_;

  std::uint32_t broadcasts_ = 0;  // that are over here
  bool lacks_broadcast_ = false;  // waits for the next
  std::map<std::uint32_t, std::string> heard_broadcasts_;
  std::vector<std::pair<std::uint32_t, std::string>> latest_broadcasts_;  // at the leader: those that some may lack

  std::set<std::uint32_t> aborts_, spread_;  // epochs: of those heard of; of those that those below were told
  struct Spread {
    std::uint32_t epoch = 0;
    std::string message;
    std::set<int> raised_by;
    Clock::time_point start = Clock::now();
  };
  std::vector<Spread> aborts_forwarded_;  // at the leader: those that it has not told all directly
};

}  // namespace

std::vector<int> number_hosts(const std::vector<std::string>& name_of_rank) {
  std::map<std::string, int> numbers;
  std::vector<int> host_of_rank;
  for (const std::string& name : name_of_rank)
    host_of_rank.push_back(numbers.try_emplace(name, static_cast<int>(numbers.size())).first->second);
  return host_of_rank;
}

std::vector<TreePosition> tree_of(const std::vector<int>& host_of_rank) {
  std::vector<TreePosition> places(host_of_rank.size());
  std::vector<int> collectors;  // by host
  for (std::size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    const auto host = static_cast<std::size_t>(host_of_rank[rank]);
    if (host == collectors.size()) collectors.push_back(static_cast<int>(rank));
    places[rank].collector = collectors[host];
    if (places[rank].collector != static_cast<int>(rank))
      places[static_cast<std::size_t>(collectors[host])].others.push_back(static_cast<int>(rank));
  }
  // Above a host is the one whose number lacks its highest bit.
  for (std::size_t host = 0; host < collectors.size(); ++host)
    for (std::size_t bit = 1; host + bit < collectors.size(); bit *= 2)
      if (bit > host) places[static_cast<std::size_t>(collectors[host])].next.push_back(collectors[host + bit]);
  return places;
}

std::unique_ptr<ControlPlane> make_world_by_host(std::unique_ptr<ControlTransport> post, TreePosition place,
                                                 Seconds patience) {
  return std::make_unique<HostTree>(std::move(post), std::move(place), patience);
}

}  // namespace p5
