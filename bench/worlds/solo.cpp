#include <numeric>

#include "bench/worlds/worlds.hpp"

namespace p5 {

namespace {

class SoloWorld final : public World {
 public:
  explicit SoloWorld(int ranks) : hosted_(static_cast<std::size_t>(ranks)) {
    std::iota(hosted_.begin(), hosted_.end(), 0);
  }
  int ranks() const override { return static_cast<int>(hosted_.size()); }
  const std::vector<int>& hosted() const override { return hosted_; }
  bool leads() const override { return true; }
  int participants() const override { return 1; }
  int participant() const override { return 0; }
  std::vector<std::string> gather(const std::string& mine) override { return {mine}; }
  std::string broadcast(const std::string& leaders) override { return leaders; }

  void raise_alarm(std::uint32_t) override {}
  bool alarmed(std::uint32_t) override { return false; }

 private:
  std::vector<int> hosted_;
};

}  // namespace

std::unique_ptr<World> make_solo_world(int ranks) { return std::make_unique<SoloWorld>(ranks); }

}  // namespace p5
