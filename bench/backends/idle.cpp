// Where there is nothing to measure with: it performs nothing, so no case is ever opened.
#include <stdexcept>

#include "bench/backends/backends.hpp"

namespace p5 {

namespace {

class IdleBackend final : public Backend {
 public:
  std::unique_ptr<Session> open(const Case&, int) override { throw std::logic_error("an idle backend opens nothing"); }
  Bytes memory_per_rank(const Case&) const override { return {}; }
  CostModel cost() const override { return {}; }
  bool performs(const Collective&) const override { return false; }
  bool recovers() const override { return true; }
  bool joined() const override { return false; }
};

}  // namespace

std::unique_ptr<Backend> make_idle_backend() { return std::make_unique<IdleBackend>(); }

}  // namespace p5
