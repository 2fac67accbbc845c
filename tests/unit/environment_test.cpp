// The part of environment variables that reports keep.
#include "bench/base/environment.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/app/run/phases.hpp"
#include "reports/report.hpp"
#include "topo/settings.hpp"

namespace p5 {
namespace {

TEST(Environment, a_secret_is_one_by_a_word_of_its_name) {
  for (const char* name :
       {"NCCL_X_TOKEN", "FI_AUTH_KEY", "NCCL_SECRET", "OMPI_MCA_oob_password", "UCX_PASSWD", "FI_KEY_1"})
    EXPECT_TRUE(is_secret(name)) << name;
  for (const char* name : {"NCCL_IB_PKEY", "NCCL_AUTHOR", "FI_KEYS", "NCCL_TOKENS", "KEYNCCL", ""})
    EXPECT_FALSE(is_secret(name)) << name;
}

TEST(Environment, of_a_secret_only_that_it_is_set_is_recorded) {
  const Environment kept = recorded({{"NCCL_X_TOKEN", "hunter2"},
                                     {"NCCL_ALGO", "Ring"},
                                     {"OMPI_MCA_orte_precondition_transports", "56cc-a308"},
                                     {"OMPI_MCA_ess", "^singleton"},
                                     {"OMPI_MCA_ess_base_jobid", "7"},
                                     {"OMPI_MCA_btl", "tcp"}});
  EXPECT_EQ(kept,
            (Environment{
                {"NCCL_X_TOKEN", "(set; the value is not recorded)"}, {"NCCL_ALGO", "Ring"}, {"OMPI_MCA_btl", "tcp"}}));
  EXPECT_EQ(recorded(kept), kept);
}

TEST(Environment, words_of_the_command_line_hide_secrets_too) {
  const std::string hidden = "=(set; the value is not recorded)";
  EXPECT_EQ(recorded_argument("NCCL_X_TOKEN=a,b,NCCL_ALGO=Ring,Tree"),
            "NCCL_X_TOKEN" + hidden + ",NCCL_ALGO=Ring,Tree");
  EXPECT_EQ(recorded_argument("--b=NCCL_X_TOKEN=a=b"), "--b=NCCL_X_TOKEN" + hidden);
  for (const char* plain : {"--b=NCCL_ALGO=Ring,", "--quiet", "a,b", "", "--sizes=8,,9", "--key=x"})
    EXPECT_EQ(recorded_argument(plain), plain);
}

TEST(Environment, arms_are_described_without_secrets) {
  Options options;
  options.command = "ab";
  options.a = {{"NCCL_X_TOKEN", "hunter2"}};
  options.b = {{"NCCL_ALGO", "Ring"}};
  const std::vector<reports::ArmInfo> arms = describe_arms(options);
  EXPECT_EQ(arms.at(0).settings, recorded(options.a));
  EXPECT_EQ(arms.at(1).settings, options.b);
}

TEST(Environment, what_ranks_differ_in_is_told_without_secrets) {
  const std::vector<topo::Finding> found =
      topo::differing_settings({{"a", {{"NCCL_X_TOKEN", "hunter2"}}}, {"b", {{"NCCL_X_TOKEN", "hunter3"}}}}, true);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].evidence.find("NCCL_X_TOKEN"), std::string::npos);
  EXPECT_EQ(found[0].evidence.find("hunter"), std::string::npos) << found[0].evidence;
}

TEST(Environment, reports_of_earlier_versions_are_read_without_secrets) {
  reports::Report report;
  report.context = {{"env.NCCL_X_TOKEN", "hunter2"}, {"nccl", "2.28.3"}};
  report.arms.push_back({.name = "a", .settings = {{"NCCL_X_TOKEN", "hunter2"}}, .context = {}, .problem = {}});
  report.run.command = {"ab", "--a", "NCCL_X_TOKEN=hunter2"};
  const std::string again = to_json(reports::report_from_json(to_json(report))).dump();
  EXPECT_EQ(again.find("hunter2"), std::string::npos) << again;
  EXPECT_NE(again.find("2.28.3"), std::string::npos);
}

}  // namespace
}  // namespace p5
