#include "bench/control/collective_errors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <new>

#include "bench/control/control_planes.hpp"

namespace p5 {
namespace {

constexpr int how_many = 3;

// A collective step per character: gather, broadcast, or a barrier.
void take_step(ControlPlane& control, char step, const std::string& said) {
  const std::string mine = said + std::to_string(control.participant());
  if (step == 'b') {
    EXPECT_EQ(control.broadcast(mine), said + "0");
  } else if (step == 'w') {
    control.barrier();
  } else if (const auto all = control.gather(mine); control.is_leader()) {
    EXPECT_THAT(all, testing::ElementsAre(said + "0", said + "1", said + "2"));
  } else {
    EXPECT_TRUE(all.empty());
  }
}

TEST(CollectiveErrors, says_what_the_inner_world_would_in_any_order) {
  run_threads(how_many, [](ControlPlane& inner) {
    CollectiveErrors control(inner);
    for (const std::string steps : {"", "g", "b", "gbgb", "bbb", "ggg", "bgwgbw"})
      EXPECT_FALSE(control.attempt([&] {
        for (const char step : steps) take_step(control, step, std::string("\0-", 2) + steps);
      }));
  });
}

TEST(CollectiveErrors, one_ranks_problem_is_all_ranks_problem_wherever_they_are) {
  for (const std::string steps : {"gbgb", "bbb", "ggg", "wgbgw"})
    for (std::size_t at = 0; at <= steps.size(); ++at)
      for (int failing = 0; failing < how_many; ++failing)
        run_threads(how_many, [&](ControlPlane& inner) {
          CollectiveErrors control(inner);
          const std::optional<Problem> problem = control.attempt([&] {
            for (std::size_t i = 0; i < steps.size(); ++i) {
              if (i == at && control.participant() == failing) throw EnvironmentError("no space: left");
              take_step(control, steps[i], "x");
            }
            if (at == steps.size() && control.participant() == failing) throw EnvironmentError("no space: left");
          });
          ASSERT_TRUE(problem) << steps << at << failing;
          EXPECT_EQ(problem->code, ExitCode::environment);
          EXPECT_EQ(problem->what, (failing ? "rank " + std::to_string(failing) + ": " : "") + "no space: left");
          EXPECT_FALSE(control.attempt([&] { take_step(control, 'b', "next"), take_step(control, 'g', "next"); }))
              << "what follows knows nothing of it";
        });
}

TEST(CollectiveErrors, of_several_problems_the_leaders_counts_everywhere) {
  run_threads(how_many, [](ControlPlane& inner) {
    CollectiveErrors control(inner);
    const auto problem = control.attempt([&] { throw UsageError("mine " + std::to_string(control.participant())); });
    ASSERT_TRUE(problem);
    EXPECT_EQ(problem->code, ExitCode::usage);
    EXPECT_EQ(problem->what, "mine 0");
    EXPECT_THROW(problem->raise(), UsageError);
  });
}

TEST(CollectiveErrors, an_exception_of_any_kind_is_a_problem) {
  run_threads(how_many, [](ControlPlane& inner) {
    CollectiveErrors control(inner);
    const auto problem = control.attempt([&] {
      if (control.is_leader()) throw std::bad_alloc();
      control.broadcast("");
    });
    ASSERT_TRUE(problem);
    EXPECT_EQ(problem->code, ExitCode::unfinished);
    EXPECT_THROW(problem->raise(), std::runtime_error);
  });
}

// The action sends its "finish" even after a failure, like a leader whose followers loop until then.
TEST(CollectiveErrors, who_talks_on_after_a_problem_is_not_waited_for) {
  run_threads(how_many, [](ControlPlane& inner) {
    CollectiveErrors control(inner);
    const auto problem = control.attempt([&] {
      if (control.participant() == 2) throw EnvironmentError("gone");
      try {
        for (;;) control.broadcast("order");
      } catch (...) {
        control.broadcast("finish");
        throw;
      }
    });
    ASSERT_TRUE(problem);
    EXPECT_EQ(problem->what, "rank 2: gone");
    EXPECT_FALSE(control.attempt([&] { take_step(control, 'g', "next"); }));
  });
}

TEST(CollectiveErrors, a_lost_job_is_nobodys_problem_to_share) {
  std::atomic<int> leaving{0};
  EXPECT_THROW(run_threads(how_many,
                           [&](ControlPlane& inner) {
                             CollectiveErrors control(inner);
                             try {
                               control.attempt([&] {
                                 if (control.participant() == 1) throw JobLost("others wait for this rank for ever");
                                 control.barrier();
                               });
                             } catch (const JobLost&) {
                               ++leaving;
                               throw;
                             }
                           }),
               JobLost);
  EXPECT_EQ(leaving, how_many);
}

}  // namespace
}  // namespace p5
