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

// parts: the parts of a gather, upwards. request_part: from the leader. request_broadcast: to the leader, from
// a rank that lacks a broadcast. abort_notice: of a failure, to all.
enum class MessageKind : std::uint8_t { parts, request_part, request_broadcast, broadcast, abort_notice };

struct PartOfRank {
  int rank = 0;
  std::string text;
};

struct MessageContent {
  MessageKind kind = MessageKind::parts;
  std::uint32_t number = 0;  // number of the gather or broadcast; epoch of an abort notice
  std::vector<PartOfRank> parts = {};
  std::string text = {};
};

void fields(auto& archive, Is<PartOfRank> auto& part) {
  archive.must("rank", part.rank);
  archive.must("text", part.text);
}

void fields(auto& archive, Is<MessageContent> auto& content) {
  archive.must("kind", content.kind);
  archive.must("number", content.number);
  archive.must("parts", content.parts);
  archive.must("text", content.text);
}

using PartsByRank = std::map<int, std::string>;

class HostTree final : public ControlPlane {
 public:
  HostTree(std::unique_ptr<ControlTransport> transport, TreePosition place, Seconds patience)
      : transport_(std::move(transport)),
        place_(std::move(place)),
        patience_(patience),
        hosted_{transport_->participant()} {}

  int ranks() const override { return transport_->participants(); }
  const std::vector<int>& hosted() const override { return hosted_; }

  std::vector<std::string> gather(const std::string& mine) override {
    const std::uint32_t number = gathers_++;
    if (is_leader()) return collect_all(number, mine);
    latest_part_ = mine;
    if (is_collector())
      collect_host(number);
    else
      send_part(place_.collector, number);
    if (requested_ > number) send_part(leader, number);
    complete_sends();
    return {};
  }

  std::vector<int> missing_participants() const override {
    const std::lock_guard lock(awaited_mutex_);
    return {awaited_.begin(), awaited_.end()};
  }

  std::string broadcast(const std::string& text_of_leader) override {
    const std::uint32_t number = broadcasts_;
    if (is_leader()) {
      ++broadcasts_;
      latest_broadcasts_.emplace_back(
          number, wire::serialize(MessageContent{MessageKind::broadcast, number, {}, text_of_leader}));
      forward(latest_broadcasts_.back().second);
      complete_sends();
      return text_of_leader;
    }
    poll();
    if (!received_broadcasts_.contains(number) && requested_ > gathers_)
      send_content(leader, {MessageKind::request_broadcast, number});
    awaits_broadcast_ = true;
    wait_until([&] { return received_broadcasts_.contains(number); });
    awaits_broadcast_ = false;
    ++broadcasts_;
    complete_sends();
    return std::move(received_broadcasts_.extract(number).mapped());
  }

  void notify_abort(std::uint32_t epoch) override {
    if (!aborts_.insert(epoch).second) return;
    const MessageContent content{MessageKind::abort_notice, epoch};
    if (is_leader())
      forward_abort(participant(), epoch, wire::serialize(content));
    else
      send_content(leader, content);
  }

  bool abort_notified(std::uint32_t epoch) override {
    poll();
    return aborts_.contains(epoch);
  }

 private:
  static constexpr int leader = 0;

  bool is_collector() const { return place_.collector == participant(); }

  void send_content(int to, const MessageContent& content) { transport_->send(to, wire::serialize(content)); }

  void send_part(int to, std::uint32_t number) {
    send_content(to, {MessageKind::parts, number, {{participant(), latest_part_}}});
  }

  // Forwards a broadcast to the ranks below in the tree: other hosts first, whose path is longer.
  void forward(const std::string& message) {
    for (const std::vector<int>* const below : {&place_.next, &place_.others})
      for (const int each : *below) transport_->send(each, message);
  }

  template <class Condition>
  void wait_until(const Condition& condition) {
    for (const Clock::time_point start = Clock::now();;) {
      poll();
      if (condition()) return;
      transport_->pause(start);
    }
  }

  // Polls until all sent messages have left: large ones progress only while both sides poll, and a rank that continues
  // may not poll for long. The wait is limited, so that a stuck receiver does not hold up its senders.
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
        for (const int rank : missing_participants()) send_content(rank, {MessageKind::request_part, number});
        asked = true;
      }
      return false;
    });
    std::vector<std::string> texts;
    for (auto& [rank, text] : parts) texts.push_back(std::move(text));
    forget_parts_of(number);
    latest_broadcasts_.clear();  // each rank received them before it sent its part of this gather
    return texts;
  }

  void collect_host(std::uint32_t number) {
    PartsByRank& parts = parts_of_[number];
    parts.emplace(participant(), latest_part_);
    wait_until([&] { return parts.size() == place_.others.size() + 1; });
    MessageContent content{MessageKind::parts, number};
    for (auto& [rank, text] : parts) content.parts.push_back({rank, std::move(text)});
    send_content(leader, content);
    forget_parts_of(number);
  }

  void forget_parts_of(std::uint32_t number) {
    parts_of_.erase(number);
    gathers_done_ = number + 1;
  }

  void poll() {
    while (const std::optional<ControlMessage> message = transport_->receive()) {
      MessageContent content = wire::deserialize<MessageContent>(message->text);
      switch (content.kind) {
        case MessageKind::parts:
          receive_parts(content);
          break;
        case MessageKind::request_part:
          answer_request(content.number);
          break;
        case MessageKind::request_broadcast:
          for (const auto& [number, text] : latest_broadcasts_)
            if (number >= content.number) transport_->send(message->from, text);
          break;
        case MessageKind::broadcast:
          if (content.number < broadcasts_ || received_broadcasts_.contains(content.number)) break;
          forward(message->text);
          received_broadcasts_.emplace(content.number, std::move(content.text));
          break;
        case MessageKind::abort_notice:
          aborts_.insert(content.number);
          forward_abort(message->from, content.number, message->text);
          break;
      }
    }
    if (is_leader()) repeat_aborts();
  }

  // Forwards each epoch once to the ranks below. The leader may receive it from many, and records them as ranks that
  // need no repetition.
  void forward_abort(int from, std::uint32_t epoch, const std::string& message) {
    if (is_leader()) {
      const auto found = std::ranges::find(aborts_forwarded_, epoch, &ForwardedAbort::epoch);
      if (found != aborts_forwarded_.end()) found->raised_by.insert(from);
    }
    if (!forwarded_.insert(epoch).second) return;
    if (is_leader()) aborts_forwarded_.push_back({epoch, message, {from}});
    forward(message);
  }

  // A rank that does not poll hides an abort notice from those below it. After `patience` the leader sends it directly
  // to all ranks that did not raise it: at most two messages for each rank.
  void repeat_aborts() {
    std::erase_if(aborts_forwarded_, [&](const ForwardedAbort& abort_epoch) {
      if (since(abort_epoch.start).count <= patience_.count) return false;
      for (int rank = 0; rank < ranks(); ++rank)
        if (rank != leader && !abort_epoch.raised_by.contains(rank)) transport_->send(rank, abort_epoch.message);
      return true;
    });
  }

  // Keeps the parts of the current gather and of the next one, which a rank may have begun. A part that was sent
  // directly arrives again with its host's, and is then dropped.
  void receive_parts(MessageContent& content) {
    if (content.number < gathers_done_) return;
    PartsByRank& parts = parts_of_[content.number];
    for (PartOfRank& part : content.parts) parts.try_emplace(part.rank, std::move(part.text));
    if (!is_leader() || content.number >= gathers_) return;
    const std::lock_guard lock(awaited_mutex_);
    for (const PartOfRank& part : content.parts) awaited_.erase(part.rank);
  }

  void answer_request(std::uint32_t number) {
    if (number + 1 == gathers_) send_part(leader, number);
    if (number < gathers_) return;
    requested_ = number + 1;
    if (awaits_broadcast_) send_content(leader, {MessageKind::request_broadcast, broadcasts_});
  }

  const std::unique_ptr<ControlTransport> transport_;
  const TreePosition place_;
  const Seconds patience_;
  const std::vector<int> hosted_;

  std::uint32_t gathers_ = 0, gathers_done_ = 0;   // started; forwarded or, at the leader, completed
  std::map<std::uint32_t, PartsByRank> parts_of_;  // by gather, not forwarded yet
  std::string latest_part_;                        // kept in case the leader requests it
  std::uint32_t requested_ = 0;                    // the leader polled for all gathers with a smaller number
  mutable std::mutex awaited_mutex_;
  std::set<int> awaited_;

  std::uint32_t broadcasts_ = 0;   // completed here
  bool awaits_broadcast_ = false;  // waits for the next one
  std::map<std::uint32_t, std::string> received_broadcasts_;
  std::vector<std::pair<std::uint32_t, std::string>> latest_broadcasts_;  // at the leader: may be lacking at some ranks

  std::set<std::uint32_t> aborts_, forwarded_;  // epochs received; epochs forwarded
  struct ForwardedAbort {
    std::uint32_t epoch = 0;
    std::string message;
    std::set<int> raised_by;
    Clock::time_point start = Clock::now();
  };
  std::vector<ForwardedAbort> aborts_forwarded_;  // at the leader: not sent to all directly yet
};

}  // namespace

std::vector<int> number_hosts(const std::vector<std::string>& name_of_rank) {
  std::map<std::string, int> numbers;
  std::vector<int> host_of_rank;
  for (const std::string& name : name_of_rank)
    host_of_rank.push_back(numbers.try_emplace(name, static_cast<int>(numbers.size())).first->second);
  return host_of_rank;
}

std::vector<TreePosition> build_tree(const std::vector<int>& host_of_rank) {
  std::vector<TreePosition> places(host_of_rank.size());
  std::vector<int> collectors;  // by host
  for (std::size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    const auto host = static_cast<std::size_t>(host_of_rank[rank]);
    if (host == collectors.size()) collectors.push_back(static_cast<int>(rank));
    places[rank].collector = collectors[host];
    if (places[rank].collector != static_cast<int>(rank))
      places[static_cast<std::size_t>(collectors[host])].others.push_back(static_cast<int>(rank));
  }
  // The parent of a host is the host whose number lacks its highest bit.
  for (std::size_t host = 0; host < collectors.size(); ++host)
    for (std::size_t bit = 1; host + bit < collectors.size(); bit *= 2)
      if (bit > host) places[static_cast<std::size_t>(collectors[host])].next.push_back(collectors[host + bit]);
  return places;
}

std::unique_ptr<ControlPlane> make_host_tree(std::unique_ptr<ControlTransport> transport, TreePosition place,
                                             Seconds patience) {
  return std::make_unique<HostTree>(std::move(transport), std::move(place), patience);
}

}  // namespace p5
