// Which of a host's GPUs a check takes, and what is said of the others.
#include "bench/app/machine/machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "bench/app/machine/backends.hpp"
#include "bench/base/error.hpp"
#include "topo/topology.hpp"

namespace p5 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

topo::NvmlAnswer four() {
  topo::NvmlAnswer told;
  told.answered = true;
  for (const char* uuid : {"GPU-a0", "GPU-b1", "GPU-c2", "GPU-d3"}) {
    topo::Gpu& gpu = told.gpus.emplace_back();
    gpu.uuid = uuid;
    gpu.processes = 0;
  }
  return told;
}

TEST(OwnGpus, takes_all_in_their_order) {
  const OwnGpus own = choose_gpus(four(), nullptr);
  EXPECT_THAT(own.usable, ElementsAre("GPU-a0", "GPU-b1", "GPU-c2", "GPU-d3"));
  EXPECT_THAT(own.skipped, IsEmpty());
  EXPECT_EQ(own.why_none, "");
}

TEST(OwnGpus, leaves_those_that_cannot_be_used_and_says_why) {
  topo::NvmlAnswer told = four();
  told.gpus[0].processes = 2;
  told.gpus[0].used_by = {"pid 123, python", "pid 4"};
  told.gpus[1].processes = 1;  // in another namespace
  told.gpus[2].mig = true;
  const OwnGpus own = choose_gpus(told, nullptr);
  EXPECT_THAT(own.usable, ElementsAre("GPU-d3"));
  EXPECT_THAT(own.skipped, ElementsAre("GPU 0 (in use by pid 123, python; pid 4)", "GPU 1 (in use by 1 process)",
                                       "GPU 2 (in MIG mode)"));
  told.gpus[3].compute_mode = "prohibited";
  told.gpus[0].problem = "nvmlDeviceGetUUID did not answer within 5 s";
  EXPECT_THAT(choose_gpus(told, nullptr).skipped,
              ElementsAre("GPU 0 (nvmlDeviceGetUUID did not answer within 5 s)", "GPU 1 (in use by 1 process)",
                          "GPU 2 (in MIG mode)", "GPU 3 (its compute mode is 'prohibited')"));
}

TEST(OwnGpus, keeps_to_those_that_the_process_may_see) {
  const auto seen = [](const char* visible) { return choose_gpus(four(), visible).usable; };
  EXPECT_THAT(seen("2,0"), ElementsAre("GPU-a0", "GPU-c2"));
  EXPECT_THAT(seen("GPU-d,GPU-b1"), ElementsAre("GPU-b1", "GPU-d3"));
  EXPECT_THAT(seen("1,9,2"), ElementsAre("GPU-b1")) << "as CUDA reads it, up to the first that is none";
  EXPECT_THAT(seen(""), IsEmpty());
}

TEST(OwnGpus, are_counted_as_far_as_the_process_may_see_them) {
  EXPECT_EQ(visible_gpus(four().gpus, nullptr), 4);
  EXPECT_EQ(visible_gpus(four().gpus, "0"), 1);
  EXPECT_EQ(visible_gpus(four().gpus, ""), 0);
}

TEST(OwnGpus, where_there_is_none_it_matters_why) {
  topo::NvmlAnswer told = four();
  for (topo::Gpu& gpu : told.gpus) gpu.processes = 1;
  EXPECT_EQ(choose_gpus(told, nullptr).code_of_none, ExitCode::ok) << "a node at work is no node at fault";
  for (topo::Gpu& gpu : told.gpus) gpu.mig = true;
  EXPECT_EQ(choose_gpus(told, nullptr).code_of_none, ExitCode::environment);
  topo::NvmlAnswer nothing;
  nothing.problem = "nvmlInit_v2 did not answer within 5 s";
  EXPECT_EQ(choose_gpus(nothing, nullptr).code_of_none, ExitCode::unfinished);
  nothing.asked = false;
  EXPECT_EQ(choose_gpus(nothing, nullptr).code_of_none, ExitCode::environment) << "the installation's fault";
  nothing.asked = nothing.answered = true;
  nothing.problem = "Driver Not Loaded";
  const OwnGpus own = choose_gpus(nothing, nullptr);
  EXPECT_EQ(own.code_of_none, ExitCode::environment);
  EXPECT_THAT(own.why_none, HasSubstr("there is no GPU here (NVML: Driver Not Loaded)"));
  EXPECT_THAT(choose_gpus(four(), "").why_none, HasSubstr("there is no GPU here (CUDA_VISIBLE_DEVICES=)"));
}

// A probe that prints `answer`.
topo::NvmlAnswer told_by(const std::string& answer) {
  const std::filesystem::path probe = std::filesystem::path(testing::TempDir()) / "p5bench-probe-of-another-version";
  std::ofstream(probe) << "#!/bin/sh\ncat << END\n" << answer << "\nEND\n";
  std::filesystem::permissions(probe, std::filesystem::perms::owner_all);
  topo::NvmlAnswer told = topo::ask_nvml(probe, {20});
  std::filesystem::remove(probe);
  return told;
}

TEST(OwnGpus, are_not_known_where_the_probe_is_of_another_version) {
  for (const char* const answer :
       {"{}", R"({"driver": 5})", R"({"driver": "1", "cuda": "1", "problem": "", "answered": true, "gpus": [{}]})",
        R"({"driver": "1", "cuda": "1", "problem": "", "answered": true})", "{no JSON}"}) {
    const topo::NvmlAnswer told = told_by(answer);
    EXPECT_FALSE(told.answered) << answer;
    const OwnGpus own = choose_gpus(told, nullptr);
    EXPECT_THAT(own.usable, IsEmpty()) << answer;
    EXPECT_EQ(own.code_of_none, ExitCode::environment) << answer;
    EXPECT_THAT(own.why_none, HasSubstr("have to be installed beside each other")) << answer;
    EXPECT_THAT(own.why_none, Not(HasSubstr("exception"))) << answer;
  }
  const topo::NvmlAnswer right =
      told_by(R"({"driver": "1", "cuda": "13", "problem": "", "answered": true, "gpus": []})");
  EXPECT_TRUE(right.asked && right.answered) << right.problem;
  EXPECT_EQ(right.cuda, "13");
}

// A check whose workers find a GPU that CUDA cannot use.
TEST(FailedGpus, are_at_fault_where_another_of_their_host_works) {
  const std::string problem =
      "cudaFree, the first call on the device: uncorrectable ECC error encountered (cudaErrorECCUncorrectable, 214)";
  EXPECT_TRUE(is_of_device(problem));
  EXPECT_FALSE(is_of_device("cudaFree, the first call on the device: out of memory (cudaErrorMemoryAllocation, 2)"));
  EXPECT_FALSE(is_of_device("CUDA shows this process no GPU, though there is a driver: look at CUDA_VISIBLE_DEVICES"));
  topo::Topology topology;
  topology.hosts.resize(1);
  topology.hosts[0].name = "node";
  topology.hosts[0].gpu_devices = four().gpus;
  topology.host_of_rank = {0, 0, 0};
  const auto found = [&](const char* visible) { return failed_gpus(topology, {"", problem, ""}, visible); };
  ASSERT_EQ(found("GPU-a0,GPU-c2,GPU-d3").size(), 1U) << "GPU 1 is skipped";
  const topo::Finding of_gpu = found("GPU-a0,GPU-c2,GPU-d3").front();
  EXPECT_EQ(of_gpu.id, "gpu.check_failed");
  EXPECT_TRUE(topo::condemns(of_gpu));
  EXPECT_EQ(of_gpu.subject.host, "node");
  EXPECT_EQ(of_gpu.subject.gpu, 2);
  EXPECT_EQ(of_gpu.evidence, "rank 1: " + problem);
  for (const char* const visible : {"GPU-a0,GPU-c2", static_cast<const char*>(nullptr)}) {
    ASSERT_EQ(found(visible).size(), 1U);
    EXPECT_EQ(found(visible)[0].subject.host, "node");
    EXPECT_EQ(found(visible)[0].subject.gpu, std::nullopt) << "the ranks' GPUs are not known";
  }
  const std::string launch = "cudaFree, the first call on the device: (cudaErrorLaunchFailure, 719)";
  EXPECT_THAT(failed_gpus(topology, {launch, launch, launch}, nullptr), IsEmpty()) << "what all have in common fails";
  EXPECT_EQ(failed_gpus(topology, {"", launch, ""}, nullptr).size(), 1U);
  EXPECT_EQ(failed_gpus(topology, {problem, problem, problem}, nullptr).size(), 3U);
  EXPECT_THAT(failed_gpus(topology, {"", launch, ""}, nullptr, {0, 2}), IsEmpty()) << "nothing is known of the others";
  topology.hosts.push_back(topology.hosts.front());
  topology.host_of_rank = {0, 0, 1};
  EXPECT_THAT(failed_gpus(topology, {"", "", launch}, nullptr), IsEmpty()) << "its host may be to blame";
}

// Workers that do not answer tell no more than that, and those that end as they start, where others do not.
TEST(UnansweredRanks, are_told_with_their_host_which_is_not_condemned) {
  topo::Topology topology;
  topology.hosts.resize(2);
  topology.hosts[0].name = "h1";
  topology.hosts[1].name = "h2";
  topology.host_of_rank = {0, 0, 1, 1};
  const std::vector<std::string> none(4);
  const std::string silent = "no answer for 15 s to \"identify\"",
                    lost = "its worker (process 7) was ended by signal 11 (Segmentation fault)";
  for (const std::string& what : {silent, lost}) {
    std::vector<std::string> one(4);
    one[3] = what;
    const std::vector<topo::Finding> found =
        what == silent ? unanswered_ranks(topology, one, none) : unanswered_ranks(topology, none, one);
    ASSERT_EQ(found.size(), 1U) << what;
    EXPECT_EQ(found[0].id, "gpu.check_failed");
    EXPECT_EQ(found[0].subject.host, "h2");
    EXPECT_EQ(found[0].evidence, "rank 3: " + what);
    EXPECT_FALSE(topo::condemns(found[0]));
  }
  EXPECT_THAT(unanswered_ranks(topology, none, {lost, lost, lost, lost}), IsEmpty()) << "what all have in common fails";
  EXPECT_EQ(unanswered_ranks(topology, {silent, "", "", ""}, {"", lost, lost, lost}).size(), 4U);
}

// A run that measures nothing for it has no report, so that its one line has to say what to do.
TEST(FailedStarts, are_refused_with_the_first_rank_their_number_and_what_to_do) {
  using ::testing::AllOf;
  using ::testing::StartsWith;
  using ::testing::ThrowsMessage;
  EXPECT_NO_THROW(refuse_failed_starts({"", ""}));
  const std::string lost = "its worker (process 7) ended with status 0 (h2)";
  EXPECT_THAT(
      [&] {
        refuse_failed_starts({"", lost, ""});
      },
      ThrowsMessage<EnvironmentError>(
          AllOf(StartsWith("rank 1: " + lost + "; look at that host's GPUs"), HasSubstr("run again without it"))));
  EXPECT_THAT(
      [&] {
        refuse_failed_starts({"", lost, lost, lost});
      },
      ThrowsMessage<EnvironmentError>(StartsWith("rank 1 and 2 more: " + lost)));
  for (const std::vector<std::string>& all : {std::vector{lost}, std::vector{lost, lost}})
    EXPECT_THAT([&] { refuse_failed_starts(all); },
                ThrowsMessage<EnvironmentError>(
                    AllOf(HasSubstr("; no worker starts: look at the driver"), Not(HasSubstr("without it")))));
  for (const char* const said : {"error while loading shared libraries: libnccl.so.2: cannot open shared object file",
                                 "symbol lookup error: undefined symbol: ncclCommWindowRegister"})
    for (const std::vector<std::string>& some : {std::vector<std::string>{said, said}, {"", said}})
      EXPECT_THAT(
          [&] { refuse_failed_starts(some); },
          ThrowsMessage<EnvironmentError>(AllOf(HasSubstr("mpirun -x LD_LIBRARY_PATH"), Not(HasSubstr("nvidia-smi")))));
}

TEST(FailedGpus, with_errors_of_memory_or_links_are_at_fault_by_themselves_too) {
  topo::Topology topology;
  topology.hosts.resize(1);
  topology.hosts[0].name = "node";
  topology.hosts[0].gpu_devices = four().gpus;
  topology.host_of_rank = {0};
  for (const char* const error : {"cudaErrorECCUncorrectable", "cudaErrorNvlinkUncorrectable"}) {
    const std::vector<topo::Finding> found = failed_gpus(topology, {error}, "GPU-d3");
    ASSERT_EQ(found.size(), 1U) << error;
    EXPECT_TRUE(topo::condemns(found[0]));
    EXPECT_EQ(found[0].subject.gpu, 3);
  }
  for (const char* const error : {"cudaErrorLaunchFailure", "cudaErrorContained", "cudaErrorHardwareStackError"})
    EXPECT_THAT(failed_gpus(topology, {error}, "GPU-d3"), IsEmpty()) << error;
}

topo::Gpu gpu_with_links(int links, const std::string& remote) {
  topo::Gpu gpu;
  gpu.name = "NVIDIA H200";
  gpu.links = links;
  for (int i = 0; i < links; ++i) gpu.nvlinks.push_back({.number = i, .active = true, .remote = remote});
  return gpu;
}

TEST(GpusAlike, are_those_of_hosts_where_all_pairs_have_as_many_links) {
  topo::Topology topology;
  const auto alike = [&](const std::string& platform = "") {
    topology.platform = platform;
    return are_gpus_alike(topology);
  };
  topology.hosts.resize(2);
  for (topo::Host& host : topology.hosts) host.gpu_devices.assign(8, gpu_with_links(18, "switch"));
  EXPECT_TRUE(alike());
  topology.hosts[1].gpu_devices[3] = gpu_with_links(17, "switch");
  EXPECT_FALSE(alike());
  topology.hosts[1].gpu_devices.clear();
  EXPECT_FALSE(alike()) << "nothing is known of a host";
  topology.hosts[1].gpu_devices.assign(4, gpu_with_links(0, ""));
  EXPECT_FALSE(alike()) << "PCIe alone";
  topology.hosts[1].gpu_devices.assign(4, gpu_with_links(12, "gpu"));
  EXPECT_FALSE(alike()) << "NVLinks from GPU to GPU, of which pairs may have different numbers";
  topology.hosts[1].gpu_devices.assign(4, gpu_with_links(18, ""));
  EXPECT_FALSE(alike()) << "the driver does not say where they lead";
  EXPECT_TRUE(alike("hgx-h200")) << "but such systems have switches";
  topology.hosts[1].gpu_devices[0].links.reset();
  EXPECT_FALSE(alike("hgx-h200"));
}

}  // namespace
}  // namespace p5
