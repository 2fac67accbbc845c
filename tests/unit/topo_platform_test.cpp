// The platform files: they load, their facts agree with each other, and a mistake is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "bench/base/embedded.hpp"
#include "bench/base/error.hpp"
#include "topo/platform.hpp"
#include "topo/tables.hpp"
#include "topo/topology.hpp"

namespace p5::topo {
namespace {

using ::testing::AllOf;
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

TEST(TopoPlatform, knows_how_many_nics_host_memory_feeds) {
  EXPECT_EQ(nics_fed_by_host_memory(find_platform("p5.48xlarge")), 4);
  EXPECT_EQ(nics_fed_by_host_memory(find_platform("p5en.48xlarge")), 6);
  // no measurement has shown that it binds
  EXPECT_EQ(nics_fed_by_host_memory(find_platform("p4d.24xlarge")), std::nullopt);
}

TEST(TopoPlatform, all_files_load) {
  std::vector<std::string> files;
  for (const auto& each : std::filesystem::directory_iterator(P5BENCH_SOURCE_FOLDER "/topo/platforms"))
    files.push_back(each.path().stem());
  std::ranges::sort(files);
  EXPECT_GE(files.size(), 14u);
  EXPECT_EQ(platform_names(), files);
}

TEST(TopoPlatform, facts_are_sane) {
  for (const Platform& platform : platforms()) {
    SCOPED_TRACE(platform.name);
    EXPECT_TRUE(platform.gpus == 8 || platform.gpus == 4 || platform.gpus == 1) << platform.gpus;
    EXPECT_GE(platform.gpu_memory, GiB(32));
    EXPECT_EQ(platform.links_per_gpu > 0, platform.gpus > 1);
    EXPECT_LE(platform.link_rate_achievable, platform.link_rate);
    EXPECT_LE(platform.link_rate, platform.link_rate_raw);
    EXPECT_FALSE(platform.summary.empty());
    EXPECT_FALSE(platform.gpu.empty());
    EXPECT_EQ(platform.nics > 0, platform.nic_rate.count > 0);
    EXPECT_GE(platform.network_cards, platform.nics);
    EXPECT_TRUE(platform.links_per_gpu == 0 || platform.link_rate_achievable.count > 0);
    EXPECT_TRUE(platform.nvswitch || platform.nodes_per_domain == 1);
    EXPECT_TRUE(platform.nvswitch || !platform.nvls);
    EXPECT_TRUE(platform.nvls || !platform.nvls_efficiency);
    EXPECT_LT(platform.nvls_efficiency.value_or(0), 1);
    EXPECT_TRUE(platform.baseboard.empty() || platform_of_instance_type(platform.baseboard));
    if (platform.nic_efficiency) {
      EXPECT_GT(*platform.nic_efficiency, 0.5);
      EXPECT_LT(*platform.nic_efficiency, 1);
    }
    EXPECT_GT(platform.dollars_per_hour.value_or(2), 1);
    EXPECT_EQ(platform.price_date, platform.dollars_per_hour ? "2026-07-20" : "");
    // An instance type whose NICs are not known gives the reason.
    EXPECT_EQ(platform.nics == 0, platform.network == "any" || platform.conflict_about("nics"));
    EXPECT_GT(platform.link_latency.count, 0);
    EXPECT_GT(platform.nic_latency, platform.link_latency);
    EXPECT_GE(platform.sources.size(), 5u);
  }
}

TEST(TopoPlatform, links_between_gpus_are_those_of_both_ends) {
  int platforms_with_links = 0;
  for (const Platform& platform : platforms()) {
    const auto& links = platform.simulated_links;
    if (links.empty()) continue;
    SCOPED_TRACE(platform.name);
    ++platforms_with_links;
    EXPECT_FALSE(platform.nvswitch);
    ASSERT_EQ(std::ssize(links), platform.gpus);
    for (std::size_t a = 0; a < links.size(); ++a) {
      ASSERT_EQ(links[a].size(), links.size());
      for (std::size_t b = 0; b < a; ++b) EXPECT_EQ(links[a][b], links[b][a]) << a << " and " << b;
      EXPECT_LE(std::accumulate(links[a].begin(), links[a].end(), 0), platform.links_per_gpu) << a;
    }
  }
  EXPECT_GT(platforms_with_links, 0);
}

// A list that holds a number is right in no field.
TEST(TopoPlatform, each_field_is_read) {
  const auto expect_refusals = [](const nlohmann::json& file, const char* pointer) {
    const nlohmann::json::json_pointer object(pointer);
    for (const auto& [field, value] : file.at(object).items()) {
      nlohmann::json wrong = file;
      wrong[object][field] = nlohmann::json::array({0.5});
      EXPECT_NE(refusal_of(wrong), "accepted") << pointer << "/" << field;
    }
  };
  for (const embedded::File& file : embedded::platform_files()) {
    SCOPED_TRACE(file.name);
    nlohmann::json platform = nlohmann::json::parse(file.text);
    const nlohmann::json published = std::exchange(platform["published"], nlohmann::json::array());
    expect_refusals(platform, "");
    expect_refusals(platform, "/simulator");
    for (const nlohmann::json& row : published) {
      platform["published"] = nlohmann::json::array({row});
      expect_refusals(platform, "/published/0");
    }
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

TEST(TopoPlatform, sums_of_nics_are_what_instance_types_promise) {
  for (const auto& [name, node] : std::vector<std::pair<std::string, double>>{{"p3dn.24xlarge", 12.5},
                                                                              {"p4d.24xlarge", 50},
                                                                              {"p4de.24xlarge", 50},
                                                                              {"p5.4xlarge", 12.5},
                                                                              {"p5.48xlarge", 400},
                                                                              {"p5e.48xlarge", 400},
                                                                              {"p5en.48xlarge", 400},
                                                                              {"p6-b200.48xlarge", 400},
                                                                              {"p6-b300.48xlarge", 800}})
    EXPECT_DOUBLE_EQ(find_platform(name).nics * find_platform(name).nic_rate.count, node) << name;
}

Host box(const std::string& gpu, int gpus, int links) {
  Host host;
  for (int i = 0; i < gpus; ++i) {
    host.gpu_devices.emplace_back().name = gpu;
    host.gpu_devices.back().links_possible = links;
  }
  return host;
}

TEST(TopoPlatform, a_box_is_known_by_its_gpus_and_their_links) {
  const auto name = [](const Host& host) {
    const Platform* platform = platform_of(host);
    return platform ? platform->name : "none";
  };
  EXPECT_EQ(name(box("NVIDIA H200", 8, 18)), "hgx-h200");
  EXPECT_EQ(name(box("NVIDIA H100 80GB HBM3", 8, 18)), "hgx-h100");
  EXPECT_EQ(name(box("NVIDIA A100-SXM4-80GB", 8, 12)), "hgx-a100");
  EXPECT_EQ(name(box("NVIDIA A100 80GB PCIe", 8, 12)), "none");
  EXPECT_EQ(name(box("NVIDIA A100-PCIE-40GB", 8, 12)), "none");
  EXPECT_EQ(name(box("NVIDIA A100X", 8, 12)), "none");
  EXPECT_EQ(name(box("NVIDIA A100-SXM4-40GB", 8, 12)), "hgx-a100");
  EXPECT_EQ(name(box("NVIDIA H100 NVL", 8, 12)), "none");
  EXPECT_EQ(name(box("NVIDIA GH200 480GB", 8, 18)), "none");
  EXPECT_EQ(name(box("NVIDIA H200", 4, 18)), "none");
  Host instance = box("NVIDIA H200", 8, 18);
  instance.instance_type = "p5en.48xlarge";
  EXPECT_EQ(name(instance), "p5en.48xlarge");
  EXPECT_EQ(name({}), "none");
}

// A container may have some of the devices, and NVML may have lost one.
TEST(TopoPlatform, gpus_that_only_pci_shows_are_no_other_model) {
  const Host whole = box("NVIDIA H100 80GB HBM3", 8, 18);
  Host part = box("NVIDIA H100 80GB HBM3", 7, 18);
  part.gpu_devices.emplace_back().pci.address = "0000:97:00.0";
  Topology topology;
  topology.hosts = {whole, part};
  EXPECT_EQ(gpu_model(topology), "H100");
  ASSERT_NE(platform_of(part), nullptr);
  EXPECT_EQ(platform_of(part)->name, "hgx-h100");
  part.gpu_devices.back().name = "NVIDIA H200";
  part.gpu_devices.back().links_possible = 18;
  EXPECT_EQ(platform_of(part), nullptr);
  topology.hosts = {whole, part};
  EXPECT_EQ(gpu_model(topology), "");
  part.gpu_devices.assign(8, Gpu{});
  EXPECT_EQ(platform_of(part), nullptr) << "nothing is known of any of them";
}

TEST(TopoPlatform, published_figures_have_a_source_and_a_quantity) {
  int figures = 0;
  for (const Platform& platform : platforms())
    for (const Published& row : platform.published) {
      SCOPED_TRACE(platform.name + " " + row.collective + " " + row.source);
      ++figures;
      EXPECT_FALSE(row.source.empty());
      EXPECT_NE(row.busbw.has_value(), row.latency.has_value());
      EXPECT_GT(row.busbw ? row.busbw->count : row.latency->count, 0);
      EXPECT_TRUE(row.latency || !row.tokens);
      EXPECT_TRUE(row.healthy || !row.note.empty());
      EXPECT_EQ(row.date.substr(0, 2), row.date.empty() ? "" : "20");
    }
  EXPECT_GT(figures, 150);
}

TEST(TopoPlatform, figures_within_a_node_are_those_of_the_baseboard) {
  const auto within = [](const std::string& name) {
    const std::vector<Published> all = published_of(find_platform(name));
    return std::ranges::count(all, 1, &Published::nodes);
  };
  EXPECT_GT(within("p5en.48xlarge"), 10);
  EXPECT_EQ(within("p5en.48xlarge"), within("p5e.48xlarge"));
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
  EXPECT_THAT(refusal_of(file), AllOf(HasSubstr("p5.48xlarge.json"), HasSubstr("/nics is missing")));
}

TEST(TopoPlatform, a_number_in_a_string_is_refused) {
  nlohmann::json file = p5_file();
  file["nic_rate_gb_per_s"] = "12.5";
  EXPECT_THAT(refusal_of(file), AllOf(HasSubstr("nic_rate_gb_per_s"), HasSubstr("'12.5'")));
}

TEST(TopoPlatform, values_out_of_bounds_are_refused) {
  for (const auto& [field, value] :
       std::vector<std::pair<std::string, nlohmann::json>>{{"gpus", 0},
                                                           {"gpus", 2.5},
                                                           {"simulator", 3},
                                                           {"nvls", "yes"},
                                                           {"network", "ib"},
                                                           {"published", nullptr},
                                                           {"conflicts", {{{"about", "nics"}}}},
                                                           {"dollars_per_hour", -1}}) {
    SCOPED_TRACE(field + " " + value.dump());
    nlohmann::json file = p5_file();
    file[field] = value;
    EXPECT_THAT(refusal_of(file), HasSubstr("platform file p5.48xlarge.json: "));
  }
}

TEST(TopoPlatform, mistakes_in_published_figures_are_named) {
  const auto refusal = [](const std::string& field, const nlohmann::json& value) {
    nlohmann::json file = p5_file();
    file["published"][0][field] = value;
    return refusal_of(file);
  };
  EXPECT_THAT(refusal("busbw_gb_per_s", {{"32MiB", "147"}}), HasSubstr("/published/0/busbw_gb_per_s/32MiB"));
  EXPECT_THAT(refusal("busbw_gb_per_s", {{"32XB", 147}}), HasSubstr("32XB"));
  EXPECT_THAT(refusal("nodes", 0), HasSubstr("/published/0/nodes"));
}

TEST(TopoPlatform, that_the_hosts_contradict_is_refused_by_host_and_fact) {
  Topology topology = synthetic(find_platform("p5.48xlarge"), 2);
  const auto refusal = [&](const char* name) {
    try {
      return platform_named_for(topology, name).name;
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refusal("p5.48xlarge"), "p5.48xlarge");
  EXPECT_EQ(refusal("hgx-h100"), "hgx-h100") << "its board";
  EXPECT_THAT(refusal("p5e.48xlarge"), HasSubstr("--platform p5e.48xlarge: n0 is a p5.48xlarge; leave"));
  EXPECT_THAT(refusal("hgx-a100"), HasSubstr("n0 is a p5.48xlarge"));
  for (Host& host : topology.hosts) {
    host.instance_type = "";
    for (Gpu& gpu : host.gpu_devices) gpu.name = "NVIDIA H100 80GB HBM3";
  }
  EXPECT_EQ(refusal("p5.48xlarge"), "p5.48xlarge");
  topology.hosts[1].gpu_devices[3].name = "NVIDIA H200";
  EXPECT_THAT(refusal("p5.48xlarge"), HasSubstr("n1 has H200 (NVIDIA H200), and p5.48xlarge has H100"));
  for (Host& host : topology.hosts)
    for (Gpu& gpu : host.gpu_devices) gpu.links_possible.reset();
  EXPECT_EQ(refusal("hgx-a100"), "hgx-a100") << "GPUs whose links are unknown may be on another board";
}

TEST(TopoPlatform, a_price_may_be_unknown) {
  nlohmann::json file = p5_file();
  file["dollars_per_hour"] = file["price_date"] = nullptr;
  EXPECT_FALSE(parse_platform("p5.48xlarge.json", file.dump()).dollars_per_hour);
}

TEST(TopoPlatform, a_file_that_is_not_json_is_refused_by_name) {
  EXPECT_THROW(parse_platform("x.json", "{"), UsageError);
  EXPECT_THROW(parse_platform("x.json", "[]"), UsageError);
}

}  // namespace
}  // namespace p5::topo
