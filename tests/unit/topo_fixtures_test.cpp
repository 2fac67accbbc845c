// Whole machines, healthy and with one fault each: a fault is found at the right part and nothing else; healthy
// machines have no findings. P5BENCH_UPDATE=1 writes the findings into faults.json; check the difference before you
// accept it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "reports/judge.hpp"
#include "topo/finding.hpp"
#include "topo/nccl_log.hpp"
#include "topo/settings.hpp"
#include "topo/watch.hpp"

namespace p5::topo {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

const std::string machines_folder = std::string(P5BENCH_SOURCE_FOLDER) + "/tests/fixtures/machines/";
const std::vector<std::string> machines = [] {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(machines_folder))
    if (file.path().extension() == ".json" && file.path().stem() != "faults") names.push_back(file.path().stem());
  std::ranges::sort(names);
  return names;
}();

const json& recording(const std::string& machine) {
  static std::map<std::string, json> of;
  if (!of.contains(machine)) of[machine] = json::parse(std::ifstream(machines_folder + machine + ".json"));
  return of[machine];
}

ordered_json faults() { return ordered_json::parse(std::ifstream(machines_folder + "faults.json")); }

// Findings as in a report, without the action.
ordered_json found(const json& machine) {
  ordered_json list = ordered_json::array();
  for (const json& each : to_json(look(topology_from_json(machine)))) {
    ordered_json subject;
    for (const char* part : {"host", "gpu", "nic"})
      if (!each["subject"][part].is_null() && each["subject"][part] != "") subject[part] = each["subject"][part];
    list.push_back({{"id", each["id"]},
                    {"severity", each["severity"]},
                    {"about", each["about"]},
                    {"subject", subject},
                    {"evidence", each["evidence"]}});
  }
  return list;
}

void write(const ordered_json& all) {
  std::ofstream file(machines_folder + "faults.json");
  file << "[\n";
  for (std::size_t i = 0; i < all.size(); ++i) {
    file << "  {\n";
    for (const auto& [key, value] : all[i].items()) {
      if (key != "expect") {
        file << fmt::format("    \"{}\": {},\n", key, value.dump());
        continue;
      }
      file << "    \"expect\": [";
      for (std::size_t n = 0; n < value.size(); ++n) file << (n ? ",\n      " : "\n      ") << value[n].dump();
      file << "]\n";
    }
    file << (i + 1 < all.size() ? "  },\n" : "  }\n");
  }
  file << "]\n";
}

TEST(Machines, that_are_healthy_give_no_finding) {
  for (const std::string& machine : machines) EXPECT_EQ(found(recording(machine)), ordered_json::array()) << machine;
}

TEST(Machines, are_marked_as_made_by_hand) {
  for (const std::string& machine : machines) {
    EXPECT_THAT(recording(machine).at("made_by").get<std::string>(), ::testing::HasSubstr("by hand"));
    for (const char* part : {"facts", "guesses"}) EXPECT_FALSE(recording(machine).at(part).empty()) << part;
    EXPECT_NE(topology_from_json(recording(machine)).provenance, "discovered");
  }
}

TEST(Machines, with_a_fault_give_its_finding_and_no_other) {
  ordered_json all = faults();
  for (ordered_json& fault : all) {
    const std::string name = fmt::format("{} on {}: {}", fault["finding"].get<std::string>(),
                                         fault["machine"].get<std::string>(), fault["what"].get<std::string>());
    const json broken = recording(fault["machine"]).patch(json::parse(fault["edits"].dump()));
    const ordered_json seen = found(broken);
    if (std::getenv("P5BENCH_UPDATE")) fault["expect"] = seen;
    EXPECT_EQ(seen, fault["expect"]) << name;
    ASSERT_FALSE(seen.empty()) << name;
    for (const ordered_json& each : seen) EXPECT_EQ(each["id"], fault["finding"]) << name;
  }
  if (std::getenv("P5BENCH_UPDATE")) write(all);
}

// A run whose figures are all good, on each of them: only errors about hardware and fabric count.
TEST(Machines, that_are_broken_fail_a_run_and_those_that_are_set_up_badly_do_not) {
  int broken = 0, others = 0;
  for (const ordered_json& fault : faults()) {
    reports::Report report;
    report.results.emplace_back().verdict.grade = reports::Grade::ok;
    report.findings = look(topology_from_json(recording(fault["machine"]).patch(json::parse(fault["edits"].dump()))));
    const bool unsound = std::ranges::any_of(fault["expect"], [](const ordered_json& each) {
      return each["severity"] == "error" && (each["about"] == "hardware" || each["about"] == "fabric");
    });
    EXPECT_EQ(reports::overall(report), unsound ? reports::Grade::faulty : reports::Grade::ok) << fault["what"];
    EXPECT_EQ(reports::exit_code(report), unsound ? ExitCode::slow : ExitCode::ok) << fault["what"];
    ++(unsound ? broken : others);
  }
  EXPECT_GT(broken, 15);
  EXPECT_GT(others, 30);
}

TEST(Machines, there_is_a_fault_for_each_check_and_an_action) {
  std::set<std::string> shown;
  for (const ordered_json& fault : faults()) {
    shown.insert(fault["finding"]);
    for (const Finding& each :
         look(topology_from_json(recording(fault["machine"]).patch(json::parse(fault["edits"].dump()))))) {
      EXPECT_FALSE(each.action.empty()) << each.id;
      EXPECT_THAT(each.evidence, ::testing::Not(::testing::HasSubstr("()"))) << each.id;
    }
  }
  for (const Check& check : checks()) EXPECT_TRUE(shown.contains(check.id)) << check.id;
  for (const std::string& id : shown)
    EXPECT_TRUE(std::ranges::count(checks(), id, &Check::id) +
                std::ranges::count(setting_findings(), id, &FindingKind::id))
        << id << " is in no list";
}

// FAILURES.md has a row for each finding, and no row of a removed one.
TEST(Failures, have_a_row_each_in_the_page) {
  std::set<std::string> wanted{"settings.proto_injected", "settings.differ"}, there;
  for (const Check& check : checks()) wanted.insert(check.id);
  for (const auto& kinds : {log_findings(), watch_kinds()})
    for (const FindingKind& kind : kinds) wanted.insert(kind.id);
  std::ifstream page(std::string(P5BENCH_SOURCE_FOLDER) + "/topo/FAILURES.md");
  for (std::string line; std::getline(page, line);)
    if (line.starts_with("| `")) there.insert(line.substr(3, line.find('`', 3) - 3));
  EXPECT_EQ(there, wanted);
}

// Unreadable facts are no faults: a host that provides only its name and its NICs has no findings.
TEST(Machines, that_tell_nothing_give_no_finding) {
  for (const std::string& machine : machines) {
    json silent = recording(machine);
    for (json& host : silent["hosts"]) {
      for (const char* fact : {"numa", "bridges", "nvswitches", "virtual_machine", "container", "iommu", "modules",
                               "fabric_manager_running", "versions", "net_plugins", "libfabric", "placement", "limits"})
        host.erase(fact);
      for (json& nic : host["nics"])
        for (const char* fact :
             {"pci", "pcie", "gdr", "verbs", "verbs_usable", "counters", "addresses", "rate_gb_per_s"})
          nic.erase(fact);
      json gpus = json::array();
      for (const json& gpu : host["gpu_devices"])
        gpus.push_back({{"uuid", gpu["uuid"]},
                        {"name", gpu["name"]},
                        {"architecture", gpu["architecture"]},
                        {"numa_node", gpu["numa_node"]}});
      host["gpu_devices"] = gpus;
    }
    EXPECT_EQ(found(silent), ordered_json::array()) << machine;
  }
}

}  // namespace
}  // namespace p5::topo
