// The platform files: that they load, that their facts agree with each other, and that a mistake is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/embedded.hpp"
#include "bench/error.hpp"
#include "topo/platform.hpp"

namespace p5::topo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

nlohmann::json p5_file() {
  for (const embedded::File& file : embedded::platform_files())
    if (file.name == "p5.48xlarge.json") return nlohmann::json::parse(file.text);
  throw std::runtime_error("p5.48xlarge.json is not compiled in");
}

std::string refusal_of(const nlohmann::json& file) {
  try {
    parse_platform("p5.48xlarge.json", file.dump());
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TopoPlatform, all_files_load) {
  EXPECT_THAT(platform_names(), ElementsAre("p4d.24xlarge", "p5.48xlarge", "p5en.48xlarge"));
}

TEST(TopoPlatform, facts_are_sane) {
  for (const Platform& platform : platforms()) {
    SCOPED_TRACE(platform.name);
    EXPECT_EQ(platform.gpus, 8);
    EXPECT_GE(platform.gpu_memory, GiB(40));
    EXPECT_GE(platform.nics * platform.nic_rate.count, 50);
    EXPECT_LE(platform.link_rate_achievable, platform.link_rate);
    EXPECT_LE(platform.link_rate, platform.link_rate_raw);
    EXPECT_GT(platform.nic_efficiency, 0.5);
    EXPECT_LT(platform.nic_efficiency, 1);
    EXPECT_GT(platform.dollars_per_hour.value_or(0), 1);
    EXPECT_EQ(platform.price_date, "2026-07-20");
    EXPECT_GT(platform.link_latency.count, 0);
    EXPECT_GT(platform.nic_latency, platform.link_latency);
    EXPECT_GE(platform.sources.size(), 5u);
  }
}

TEST(TopoPlatform, knows_a_p5_by_its_instance_type) {
  const Platform* platform = platform_of_instance_type("p5.48xlarge");
  ASSERT_NE(platform, nullptr);
  EXPECT_EQ(platform->gpu, "H100");
  EXPECT_EQ(platform->gpu_memory, MiB(81920));
  EXPECT_EQ(platform->links_per_gpu, 18);
  EXPECT_EQ(platform->nics, 32);
  EXPECT_EQ(platform->nic_rate, GBps{12.5});
  EXPECT_DOUBLE_EQ(platform->link_latency.count, 0.6e-6);
  EXPECT_EQ(platform_of_instance_type("m7i.large"), nullptr);
  EXPECT_EQ(platform_of_instance_type(""), nullptr);
}

TEST(TopoPlatform, a_misspelt_name_gets_the_nearest_one) {
  EXPECT_EQ(find_platform("p5en.48xlarge").gpu, "H200");
  try {
    find_platform("p5.48xlage");
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("p5.48xlage"), HasSubstr("did you mean 'p5.48xlarge'")));
  }
}

TEST(TopoPlatform, a_missing_field_is_named_with_its_file) {
  nlohmann::json file = p5_file();
  file.erase("nics");
  EXPECT_THAT(refusal_of(file), AllOf(HasSubstr("p5.48xlarge.json"), HasSubstr("'nics' is missing")));
}

TEST(TopoPlatform, a_number_in_a_string_is_refused) {
  nlohmann::json file = p5_file();
  file["nic_rate_gb_per_s"] = "12.5";
  EXPECT_THAT(refusal_of(file), AllOf(HasSubstr("nic_rate_gb_per_s"), HasSubstr("\"12.5\"")));
}

TEST(TopoPlatform, an_unknown_field_is_refused_with_the_nearest_one) {
  nlohmann::json file = p5_file();
  file["simulator"]["nic_latency_uss"] = 1;
  EXPECT_THAT(refusal_of(file),
              AllOf(HasSubstr("simulator.nic_latency_uss"), HasSubstr("did you mean 'nic_latency_us'")));
}

TEST(TopoPlatform, values_out_of_bounds_are_refused) {
  for (const auto& [field, value] :
       std::vector<std::pair<std::string, nlohmann::json>>{{"nic_efficiency", 1.1},
                                                           {"nic_efficiency", 0},
                                                           {"gpus", 0},
                                                           {"gpus", 2.5},
                                                           {"link_rate_achievable_gb_per_s", 30},
                                                           {"sources", nlohmann::json::array()},
                                                           {"summary", ""},
                                                           {"simulator", 3},
                                                           {"dollars_per_hour", -1},
                                                           {"name", "p6"}}) {
    SCOPED_TRACE(field + " " + value.dump());
    nlohmann::json file = p5_file();
    file[field] = value;
    EXPECT_THAT(refusal_of(file), HasSubstr("platform file p5.48xlarge.json: "));
  }
}

TEST(TopoPlatform, a_price_may_be_unknown) {
  nlohmann::json file = p5_file();
  file["dollars_per_hour"] = nullptr;
  EXPECT_FALSE(parse_platform("p5.48xlarge.json", file.dump()).dollars_per_hour);
}

TEST(TopoPlatform, a_file_that_is_not_json_is_refused_by_name) {
  EXPECT_THROW(parse_platform("x.json", "{"), UsageError);
  EXPECT_THROW(parse_platform("x.json", "[]"), UsageError);
}

}  // namespace
}  // namespace p5::topo
