// Launchers: which of their variables count when MPI sees another job.
#include "bench/control/launcher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace p5 {
namespace {

using ::testing::HasSubstr;

std::string objection(const Environment& environment, int ranks) {
  return job_mismatch(detect_launcher(environment), ranks);
}

TEST(Launcher, of_another_library_is_refused_by_every_rank_of_it) {
  for (const char* rank : {"0", "1", "3"}) {
    for (const auto& [size, number] : {std::pair{"PMI_SIZE", "PMI_RANK"},
                                       {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
                                       {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
                                       {"FLUX_JOB_SIZE", "FLUX_TASK_RANK"}}) {
      const std::string why = objection({{size, "4"}, {number, rank}}, 1);
      EXPECT_THAT(why, HasSubstr("started 4 processes, but MPI sees a job of 1"));
      EXPECT_THAT(why, HasSubstr(std::string("this is rank ") + rank + " (" + number + ")"));
      EXPECT_THAT(why, HasSubstr("srun --mpi=pmix"));
      EXPECT_EQ(objection({{size, "4"}, {number, rank}}, 4), "");
    }
  }
  EXPECT_THAT(objection({{"PMIX_RANK", "1"}}, 1), HasSubstr("rank 1 (PMIX_RANK), but MPI sees a job of 1"));
  EXPECT_THAT(objection({{"PMI_RANK", "2"}}, 1), HasSubstr("rank 2 (PMI_RANK)"));
}

TEST(Launcher, torchrun_is_known_by_all_three_of_its_variables) {
  const Environment environment{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}};
  EXPECT_THAT(objection(environment, 1), HasSubstr("torchrun"));
  for (const auto& [name, value] : environment) {
    Environment less = environment;
    less.erase(name);
    EXPECT_EQ(objection(less, 1).empty(), name == "LOCAL_RANK") << name;
  }
}

TEST(Launcher, of_one_process_or_nearer_than_another_is_fine) {
  EXPECT_EQ(objection({}, 1), "");
  EXPECT_EQ(objection({{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}}, 1), "");
  EXPECT_EQ(objection({{"SLURM_PROCID", "0"}}, 1), "") << "a batch script";
  EXPECT_EQ(objection({{"PMIX_RANK", "0"}}, 1), "");
  EXPECT_EQ(objection({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}}, 1), "");
  // mpirun's daemons are srun's tasks, one for each host.
  EXPECT_EQ(objection({{"OMPI_COMM_WORLD_SIZE", "8"},
                       {"OMPI_COMM_WORLD_RANK", "7"},
                       {"SLURM_STEP_NUM_TASKS", "2"},
                       {"SLURM_PROCID", "1"}},
                      8),
            "");
}

TEST(Launcher, that_can_be_asked_for_a_job_is_known_before_mpi_is_started) {
  const Environment step{{"SLURM_NODELIST", "n1"}, {"SLURM_STEP_ID", "0"}};
  EXPECT_TRUE(has_no_process_manager(step)) << "srun without --mpi";
  EXPECT_TRUE(has_no_process_manager({}));
  EXPECT_TRUE(has_no_process_manager({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})) << "another MPI's mpirun";
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", "PMI_RANK", "PMI_FD"}) {
    Environment helped = step;
    helped[name] = "1";
    EXPECT_FALSE(has_no_process_manager(helped)) << name;
  }
}

}  // namespace
}  // namespace p5
