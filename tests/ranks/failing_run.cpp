// The acceptance run with one rank that misbehaves on purpose, for tests:
// failing_run RANK open|warm_up|sample|verify|alone|PHASE throw|refuse|die|hang|stop|slow|mark|lie|SIGNAL CASE
// [p5bench's arguments]. CASE counts from 0; alone: between the steps of a case. PHASE: a phase of the run, for which
// CASE has no meaning; failing_run phases lists them. SIGNAL: one of those that end a job, sent to itself as by a
// launcher. slow: 20 s late. mark: makes the file P5BENCH_MARK, for which other processes may wait.
// P5BENCH_LONGEST_WAIT: for other ranks, in seconds. P5BENCH_PHASES: a file that gets a line for each phase that the
// leader begins.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/app/program.hpp"
#include "bench/app/run/phases.hpp"
#include "bench/base/error.hpp"
#include "bench/base/thread.hpp"

namespace {

using namespace p5;

struct Plot {
  int rank = 0;
  std::string phase, what;
  int case_number = 0;
};

// Misbehaves as `plot` demands; wrong data is handled in verify.
void act(const Plot& plot, bool here, const std::string& phase) {
  if (!here || phase != plot.phase) return;
  if (plot.what == "throw") throw std::runtime_error("thrown on purpose");
  if (plot.what == "refuse") throw CaseError("refused on purpose");
  if (plot.what == "die") std::raise(SIGKILL);
  if (plot.what == "stop") std::raise(SIGSTOP);
  for (const auto& [signal, name] : termination_signals)
    if (plot.what == name) ::kill(::getpid(), signal);  // to the process: its own thread takes it
  if (plot.what == "mark") std::ofstream(std::getenv("P5BENCH_MARK")).flush();  // a file that others look for
  if (plot.what == "slow") std::this_thread::sleep_for(std::chrono::seconds(20));
  while (plot.what == "hang") std::this_thread::sleep_for(std::chrono::seconds(1));
}

class FailingSession final : public Session {
 public:
  FailingSession(std::unique_ptr<Session> inner, const Plot& plot, int rank, bool here)
      : inner_(std::move(inner)), plot_(plot), rank_(rank), here_(here) {}

  int slots() const override { return inner_->slots(); }
  void warm_up(int operations, const std::string& setting) override {
    act(plot_, here_, "warm_up");
    inner_->warm_up(operations, setting);
  }
  Times sample(const SampleRequest& request) override {
    if (calls_++ > 0) act(plot_, here_, "sample");  // the first ones are a trial during the warm-up
    return inner_->sample(request);
  }
  Verification verify() override {
    act(plot_, here_, "verify");
    Verification v = inner_->verify();
    if (!here_ || plot_.what != "lie") return v;
    return {.wrong_elements = v.wrong_elements + 1,
            .first = WrongElement{.rank = rank_, .offset = 1, .wanted = "2", .got = "3"}};
  }

 private:
  std::unique_ptr<Session> inner_;
  const Plot& plot_;
  int rank_;
  bool here_;
  int calls_ = 0;
};

class FailingBackend final : public Backend {
 public:
  FailingBackend(std::unique_ptr<Backend> inner, const Plot& plot, int rank)
      : inner_(std::move(inner)), plot_(plot), rank_(rank) {}

  std::unique_ptr<Session> open(const Case& c, int round) override {
    const bool here = rank_ == plot_.rank && opened_++ == plot_.case_number;
    act(plot_, here, "open");
    return std::make_unique<FailingSession>(inner_->open(c, round), plot_, rank_, here);
  }
  Bytes memory_per_rank(const Case& c) const override { return inner_->memory_per_rank(c); }
  CostModel cost() const override {
    act(plot_, rank_ == plot_.rank && opened_ > plot_.case_number, "alone");
    return inner_->cost();
  }
  bool recovers() const override { return inner_->recovers(); }

 private:
  std::unique_ptr<Backend> inner_;
  const Plot plot_;
  int rank_, opened_ = 0;
};

void write_down(const std::string& phase, int rank) {
  const char* const file = std::getenv("P5BENCH_PHASES");
  if (file && rank == 0) std::ofstream(file, std::ios::app) << phase << "\n";
}

std::optional<Seconds> longest_wait() {
  const char* const seconds = std::getenv("P5BENCH_LONGEST_WAIT");
  return seconds ? std::optional(Seconds{std::atof(seconds)}) : std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "phases") {
    for (const std::string& phase : phases_of_run()) std::puts(phase.c_str());
    return 0;
  }
  if (argc < 5) return std::fputs("usage: failing_run RANK PHASE WHAT CASE [OPTIONS]\n", stderr), 2;
  const Plot plot{.rank = std::atoi(argv[1]), .phase = argv[2], .what = argv[3], .case_number = std::atoi(argv[4])};
  return run_program(
      std::vector<std::string>(argv + 5, argv + argc),
      {.wrap_backend = [&](std::unique_ptr<Backend> inner,
                           int rank) { return std::make_unique<FailingBackend>(std::move(inner), plot, rank); },
       .enter_phase =
           [&](const std::string& phase, int rank) {
             write_down(phase, rank);
             act(plot, rank == plot.rank, phase);
           },
       .longest_wait = longest_wait()});
}
