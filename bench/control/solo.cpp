#include <numeric>

#include "bench/control/control_planes.hpp"

namespace p5 {

namespace {

class SoloControlPlane final : public ControlPlane {
 public:
  explicit SoloControlPlane(int ranks) : hosted_(static_cast<std::size_t>(ranks)) {
    std::iota(hosted_.begin(), hosted_.end(), 0);
  }
  int ranks() const override { return static_cast<int>(hosted_.size()); }
  const std::vector<int>& hosted() const override { return hosted_; }
  bool is_leader() const override { return true; }
  int participants() const override { return 1; }
  int participant() const override { return 0; }
  std::vector<std::string> gather(const std::string& mine) override { return {mine}; }
  std::string broadcast(const std::string& leaders) override { return leaders; }

  void notify_abort(std::uint32_t) override {}
  bool abort_notified(std::uint32_t) override { return false; }

 private:
  std::vector<int> hosted_;
};

}  // namespace

std::unique_ptr<ControlPlane> make_solo_world(int ranks) { return std::make_unique<SoloControlPlane>(ranks); }

}  // namespace p5
