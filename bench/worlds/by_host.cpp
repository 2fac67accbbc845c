#include "bench/worlds/by_host.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "bench/base/clock.hpp"
#include "bench/base/wire.hpp"

namespace p5 {

namespace {

// parts: of a gather, upwards. ask: for the part of a gather. lack: of a broadcast, the answer of who is not that far.
enum class LetterKind : std::uint8_t { parts, ask, lack, broadcast, alarm };

struct PartOfRank {
  int rank = 0;
  std::string text;
};

struct Words {
  LetterKind kind = LetterKind::parts;
  std::uint32_t number = 0;  // of the gather or broadcast; of an alarm its epoch
  std::vector<PartOfRank> parts = {};
  std::string text = {};
};

void fields(auto& visit, Is<PartOfRank> auto& part) {
  visit.must("rank", part.rank);
  visit.must("text", part.text);
}

void fields(auto& visit, Is<Words> auto& words) {
  visit.must("kind", words.kind);
  visit.must("number", words.number);
  visit.must("parts", words.parts);
  visit.must("text", words.text);
}

using PartsByRank = std::map<int, std::string>;

class WorldByHost final : public World {
 public:
  WorldByHost(std::unique_ptr<Post> post, TreePlace place, Seconds patience)
      : post_(std::move(post)), place_(std::move(place)), patience_(patience), hosted_{post_->participant()} {}

  int ranks() const override { return post_->participants(); }
  const std::vector<int>& hosted() const override { return hosted_; }
  bool leads() const override { return participant() == leader; }
  int participants() const override { return post_->participants(); }
  int participant() const override { return hosted_.front(); }

  std::vector<std::string> gather(const std::string& mine) override {
    const std::uint32_t number = gathers_++;
    if (leads()) return collect_all(number, mine);
    latest_part_ = mine;
    if (collects())
      collect_host(number);
    else
      send_part(place_.collector, number);
    if (asked_for_ > number) send_part(leader, number);
    let_leave();
    return {};
  }

  std::vector<int> awaited() const override {
    const std::lock_guard lock(awaited_mutex_);
    return {awaited_.begin(), awaited_.end()};
  }

  std::string broadcast(const std::string& leaders) override {
    const std::uint32_t number = broadcasts_;
    if (leads()) {
      ++broadcasts_;
      latest_broadcasts_.emplace_back(number, wire::blob_of(Words{LetterKind::broadcast, number, {}, leaders}));
      pass_on(latest_broadcasts_.back().second);
      let_leave();
      return leaders;
    }
    look();
    if (!heard_broadcasts_.contains(number) && asked_for_ > gathers_) say(leader, {LetterKind::lack, number});
    lacks_broadcast_ = true;
    wait_until([&] { return heard_broadcasts_.contains(number); });
    lacks_broadcast_ = false;
    ++broadcasts_;
    let_leave();
    return std::move(heard_broadcasts_.extract(number).mapped());
  }

  void raise_alarm(std::uint32_t epoch) override {
    if (!alarms_.insert(epoch).second) return;
    const Words words{LetterKind::alarm, epoch};
    if (leads())
      spread_alarm(participant(), epoch, wire::blob_of(words));
    else
      say(leader, words);
  }

  bool alarmed(std::uint32_t epoch) override {
    look();
    return alarms_.contains(epoch);
  }

 private:
  static constexpr int leader = 0;

  bool collects() const { return place_.collector == participant(); }

  void say(int to, const Words& words) { post_->send(to, wire::blob_of(words)); }

  void send_part(int to, std::uint32_t number) {
    say(to, {LetterKind::parts, number, {{participant(), latest_part_}}});
  }

  // What the leader says, to those below in the tree: other hosts first, since theirs is the longer way.
  void pass_on(const std::string& letter) {
    for (const std::vector<int>* const below : {&place_.next, &place_.others})
      for (const int each : *below) post_->send(each, letter);
  }

  template <class Condition>
  void wait_until(const Condition& come_true) {
    for (const Clock::time_point start = Clock::now();;) {
      look();
      if (come_true()) return;
      post_->pause(start);
    }
  }

  // What is large leaves only while both sides look after it, and who goes on may not look for long. Who stands still
  // must not hold up who writes to it.
  void let_leave() {
    const Clock::time_point start = Clock::now();
    wait_until([&] { return post_->all_left() || since(start).count > patience_.count; });
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
        for (const int rank : awaited()) say(rank, {LetterKind::ask, number});
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
    Words words{LetterKind::parts, number};
    for (auto& [rank, text] : parts) words.parts.push_back({rank, std::move(text)});
    say(leader, words);
    forget_parts_of(number);
  }

  void forget_parts_of(std::uint32_t number) {
    parts_of_.erase(number);
    gathers_done_ = number + 1;
  }

  void look() {
    while (const std::optional<Letter> letter = post_->receive()) {
      Words words = wire::value_of<Words>(letter->text);
      switch (words.kind) {
        case LetterKind::parts:
          take_parts(words);
          break;
        case LetterKind::ask:
          answer(words.number);
          break;
        case LetterKind::lack:
          for (const auto& [number, text] : latest_broadcasts_)
            if (number >= words.number) post_->send(letter->from, text);
          break;
        case LetterKind::broadcast:
          if (words.number < broadcasts_ || heard_broadcasts_.contains(words.number)) break;
          pass_on(letter->text);
          heard_broadcasts_.emplace(words.number, std::move(words.text));
          break;
        case LetterKind::alarm:
          alarms_.insert(words.number);
          spread_alarm(letter->from, words.number, letter->text);
          break;
      }
    }
    if (leads()) repeat_alarms();
  }

  // Once, to those below; the leader may hear of it from many, and remembers whom it need not tell again.
  void spread_alarm(int from, std::uint32_t epoch, const std::string& letter) {
    if (leads()) {
      const auto found = std::ranges::find(alarms_spread_, epoch, &Spread::epoch);
      if (found != alarms_spread_.end()) found->raised_by.insert(from);
    }
    if (!spread_.insert(epoch).second) return;
    if (leads()) alarms_spread_.push_back({epoch, letter, {from}});
    pass_on(letter);
  }

  // Who does not look hides an alarm from those below it. So after a while all hear of it directly but those that
  // raised it: still no more than two letters for each rank.
  void repeat_alarms() {
    std::erase_if(alarms_spread_, [&](const Spread& alarm) {
      if (since(alarm.start).count <= patience_.count) return false;
      for (int rank = 0; rank < ranks(); ++rank)
        if (rank != leader && !alarm.raised_by.contains(rank)) post_->send(rank, alarm.letter);
      return true;
    });
  }

  // A rank may be a gather ahead, and a part that has come directly comes once more with its host's.
  void take_parts(Words& words) {
    if (words.number < gathers_done_) return;
    PartsByRank& parts = parts_of_[words.number];
    for (PartOfRank& part : words.parts) parts.try_emplace(part.rank, std::move(part.text));
    if (!leads() || words.number >= gathers_) return;
    const std::lock_guard lock(awaited_mutex_);
    for (const PartOfRank& part : words.parts) awaited_.erase(part.rank);
  }

  void answer(std::uint32_t number) {
    if (number + 1 == gathers_) send_part(leader, number);
    if (number < gathers_) return;
    asked_for_ = number + 1;
    if (lacks_broadcast_) say(leader, {LetterKind::lack, broadcasts_});
  }

  const std::unique_ptr<Post> post_;
  const TreePlace place_;
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

  std::set<std::uint32_t> alarms_, spread_;  // epochs: of those heard of; of those that those below were told
  struct Spread {
    std::uint32_t epoch = 0;
    std::string letter;
    std::set<int> raised_by;
    Clock::time_point start = Clock::now();
  };
  std::vector<Spread> alarms_spread_;  // at the leader: those that it has not told all directly
};

}  // namespace

std::vector<int> number_hosts(const std::vector<std::string>& name_of_rank) {
  std::map<std::string, int> numbers;
  std::vector<int> host_of_rank;
  for (const std::string& name : name_of_rank)
    host_of_rank.push_back(numbers.try_emplace(name, static_cast<int>(numbers.size())).first->second);
  return host_of_rank;
}

std::vector<TreePlace> tree_of(const std::vector<int>& host_of_rank) {
  std::vector<TreePlace> places(host_of_rank.size());
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

std::unique_ptr<World> make_world_by_host(std::unique_ptr<Post> post, TreePlace place, Seconds patience) {
  return std::make_unique<WorldByHost>(std::move(post), std::move(place), patience);
}

}  // namespace p5
