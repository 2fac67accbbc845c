// Xids in a recorded machine's log, and their meaning.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/topo_tree.hpp"
#include "topo/checks/families.hpp"
#include "topo/discover.hpp"
#include "topo/tables.hpp"
#include "topo/topology.hpp"

namespace p5::topo {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The machine's boot time, 2023-11-14T22:13:20Z.
struct Started : Tree {
  explicit Started(long at = 1700000000) {
    file("proc/stat", "cpu  1 2 3\nbtime " + std::to_string(at) + "\nprocesses 5");
  }
};

std::string line(const std::string& time, const std::string& text) {
  return time + " n1 kernel: [   12.5] " + text + "\n";
}

TEST(KernelLog, tells_of_xids_since_the_machine_was_started) {
  Started tree;
  tree.file("var/log/kern.log.1",
            line("2023-11-14T21:00:00.5+00:00", "NVRM: Xid (PCI:0000:43:00): 48, pid=1, name=a, DBE") +
                line("2023-11-14T22:30:00.000001+00:00", "NVRM: Xid (PCI:0000:53:00): 31, pid=7, name=a, MMU Fault"));
  tree.file("var/log/kern.log",
            line("2023-11-15T00:00:00+01:00", "NVRM: Xid (PCI:0000:53:00): 31, pid=8, name=b, MMU Fault") +
                line("2023-11-15T00:00:01Z", "NVRM: Xid (0000:C3:00): 79, GPU has fallen off the bus.") +
                line("no time", "NVRM: Xid (PCI:0000:63:00): 79, GPU has fallen off the bus.") +
                line("2023-11-15T00:00:02Z", "eth0: Xid (PCI:0000:63:00): 79"));
  const auto xids = discover_xids(tree.root() + "/");
  ASSERT_TRUE(xids);
  ASSERT_THAT(*xids, SizeIs(2));
  EXPECT_EQ((*xids)[0].pci, "0000:53:00");
  EXPECT_EQ((*xids)[0].code, 31);
  EXPECT_EQ((*xids)[0].count, 2);
  EXPECT_EQ((*xids)[0].text, "pid=8, name=b, MMU Fault");
  EXPECT_EQ((*xids)[1].pci, "0000:c3:00") << "as the kernel writes addresses elsewhere";
  EXPECT_EQ((*xids)[1].text, "GPU has fallen off the bus.");
}

TEST(KernelLog, forgets_what_was_before_the_driver_was_loaded_again) {
  Started tree;
  tree.file("var/log/messages", line("2023-11-14T22:30:00Z", "NVRM: Xid (PCI:0000:53:00): 74, NVLink") +
                                    line("2023-11-14T22:40:00Z", "NVRM: loading NVIDIA UNIX Open Kernel Module") +
                                    line("2023-11-14T22:50:00Z", "NVRM: Xid (PCI:0000:63:00): 63, row"));
  const auto xids = discover_xids(tree.root() + "/");
  ASSERT_TRUE(xids);
  ASSERT_THAT(*xids, SizeIs(1));
  EXPECT_EQ((*xids)[0].code, 63);
}

TEST(KernelLog, tells_of_a_reset_that_the_driver_takes_back) {
  const std::string changed = "NVRM: Xid (PCI:0000:53:00): 154, GPU recovery action changed from ";
  const auto ecc = [](const std::string& time, const std::string& pci) {
    return line(time, "NVRM: Xid (PCI:" + pci + "): 95, pid=7, name=a, Uncontained: LTC TAG");
  };
  const std::string before = ecc("2023-11-14T22:30:00Z", "0000:53:00") + ecc("2023-11-14T22:30:01Z", "0000:63:00") +
                             line("2023-11-14T22:30:02Z", "NVRM: Xid (PCI:0000:53:00): 64, Row Remapper: failed") +
                             line("2023-11-14T22:30:03Z", changed + "0x0 (None) to 0x1 (GPU Reset Required)");
  const std::string reset = line("2023-11-14T22:40:00Z", changed + "0x1 (GPU Reset Required) to 0x0 (None)");
  const auto errors = [](const std::string& log) {
    Started tree;
    tree.file("var/log/kern.log", log);
    Topology topology;
    Host& host = topology.hosts.emplace_back();
    host.name = "n1";
    host.xids = discover_xids(tree.root() + "/");
    std::vector<std::string> found;
    for (const Finding& finding : earlier_xids(topology)) {
      if (finding.severity != Severity::error) continue;
      const std::size_t from = finding.evidence.find("0000:");
      found.push_back(finding.evidence.substr(from, finding.evidence.find(" since") - from));
      EXPECT_EQ(finding.action.find("until the driver is loaded again") != std::string::npos,
                finding.evidence.find("Xid 64") == std::string::npos);
    }
    return found;
  };
  const std::string other = "0000:63:00 on n1: Xid 95", failed = "0000:53:00 on n1: Xid 64";
  EXPECT_THAT(errors(before), ElementsAre("0000:53:00 on n1: Xid 95", other, failed, "0000:53:00 on n1: Xid 154"));
  EXPECT_THAT(errors(before + reset), ElementsAre(other, failed)) << "of another GPU, and what no reset mends";
  EXPECT_THAT(errors(before + reset + line("2023-11-14T22:45:00Z", changed + "0x0 (None) to 0x1 (GPU Reset Required)")),
              ElementsAre(other, failed, "0000:53:00 on n1: Xid 154 (2 times)"));
  EXPECT_THAT(errors(before + reset + ecc("2023-11-14T22:50:00Z", "0000:53:00")),
              ElementsAre(other, failed, "0000:53:00 on n1: Xid 95 (2 times)"));
}

TEST(KernelLog, keeps_a_fatal_error_of_an_nvlink_apart_from_nonfatal_ones) {
  const auto error = [](const std::string& second, const std::string& text) {
    return line("2023-11-14T22:30:0" + second + "Z", "NVRM: Xid (PCI:0000:53:00): 149, NETIR_LINK_EVT " + text);
  };
  const std::string fatal = "Fatal XC0 i0 Link 08", nonfatal = "Nonfatal XC0 i0 Link 03";
  const auto severities = [](const std::string& log) {
    Started tree;
    tree.file("var/log/kern.log", log);
    Topology topology;
    Host& host = topology.hosts.emplace_back();
    host.xids = discover_xids(tree.root() + "/");
    std::vector<std::pair<Severity, bool>> found;
    for (const Finding& finding : earlier_xids(topology))
      found.emplace_back(finding.severity, finding.evidence.find("(2 times)") != std::string::npos);
    return found;
  };
  using testing::Pair;
  EXPECT_THAT(severities(error("1", fatal) + error("2", nonfatal) + error("3", nonfatal)),
              ElementsAre(Pair(Severity::error, false), Pair(Severity::warning, true)));
  EXPECT_THAT(severities(error("1", nonfatal) + error("2", fatal) + error("3", nonfatal)),
              ElementsAre(Pair(Severity::error, false), Pair(Severity::warning, true)));
}

TEST(KernelLog, tells_of_errors_of_nvswitches_by_whether_they_are_fatal) {
  const auto error = [](const std::string& second, const std::string& text) {
    return line("2023-11-14T22:30:0" + second + "Z", "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): " + text);
  };
  Started tree;
  tree.file("var/log/kern.log", error("1", "24007, Fatal, Link 30 sourcetrack timeout error") +
                                    error("2", "24007, Severity 1 Engine instance 30 Sub-engine instance 00") +
                                    error("3", "24007, Data {0x10000000, 0x10000000}") +
                                    error("4", "28006, Non-fatal, Link 29 MC TS crumbstore MCTO") +
                                    error("5", "20034, Fatal, Link 63 LTSSM Fault Up") +
                                    error("6", "20034, Fatal, Link 62 LTSSM Fault Up"));
  Topology topology;
  Host& host = topology.hosts.emplace_back();
  host.name = "n1";
  host.xids = discover_xids(tree.root() + "/");
  std::vector<Finding> found = look(topology);
  std::erase_if(found, [](const Finding& each) { return each.id != "gpu.xid_before"; });
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_TRUE(condemns(found[0]));
  EXPECT_EQ(found[0].about, About::fabric);
  EXPECT_THAT(found[0].evidence, testing::HasSubstr("the NVSwitch at 0000:05:00.0 on n1: SXid 24007 since"));
  EXPECT_THAT(found[0].evidence, testing::HasSubstr("sourcetrack timeout"));
  EXPECT_EQ(found[1].severity, Severity::warning);
  EXPECT_THAT(found[1].evidence, testing::HasSubstr("SXid 28006"));
  EXPECT_EQ(found[2].severity, Severity::warning) << "as a GPU's reset leaves it";
  EXPECT_THAT(found[2].evidence, testing::HasSubstr("SXid 20034 (2 times)"));
}

TEST(KernelLog, has_the_texts_of_errors_that_nvml_counts) {
  const Xid fatal{"0000:53:00", 149, 1, "NETIR_LINK_EVT Fatal XC0"}, older{"0000:53:00", 149, 4, "RLW Nonfatal XC1"},
      newer{"0000:53:00", 149, 6, "RLW Nonfatal XC1"}, other{"0000:63:00", 149, 9, "RLW Fatal XC2"};
  const auto told = [&](const std::vector<Xid>& before, const std::vector<Xid>& now, int count) {
    std::vector<std::pair<std::string, int>> found;
    for (const Xid& each : xids_by_text(before, now, "0000:53:00.0", 149, count))
      found.emplace_back(each.text, each.count);
    return found;
  };
  using testing::Pair;
  EXPECT_THAT(told({older}, {other, fatal, newer}, 3), ElementsAre(Pair(fatal.text, 1), Pair(newer.text, 2)));
  EXPECT_THAT(told({fatal, older}, {fatal, newer}, 2), ElementsAre(Pair(newer.text, 2))) << "the fatal one is old";
  EXPECT_THAT(told({older}, {fatal, newer}, 5), ElementsAre(Pair(fatal.text, 1), Pair(newer.text, 4)));
  EXPECT_THAT(told({newer}, {newer}, 2), ElementsAre(Pair(newer.text, 2))) << "the log does not have them yet";
  EXPECT_THAT(told({newer}, {older}, 2), ElementsAre(Pair(older.text, 2))) << "a log that was cut";
  EXPECT_THAT(told({}, {other}, 2), ElementsAre(Pair("", 2)));
  EXPECT_THAT(xids_by_text({}, {other}, "", 149, 1), SizeIs(1)) << "of an unknown GPU";
}

TEST(KernelLog, times_without_a_year_are_of_the_last_twelve_months) {
  const std::time_t now = std::time(nullptr);
  const auto written = [](std::time_t at) {
    std::tm parts{};
    localtime_r(&at, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%b %e %H:%M:%S", &parts);
    return std::string(text);
  };
  const std::string text = "NVRM: Xid (PCI:0000:53:00): 79, GPU has fallen off the bus.";
  for (const std::time_t day : {10, 300}) {
    const std::time_t then = now - day * 24 * 3600;
    EXPECT_THAT(*discover_xids(Started(then - 3600).file("var/log/syslog", line(written(then), text)).root() + "/"),
                SizeIs(1));
    EXPECT_THAT(*discover_xids(Started(then + 3600).file("var/log/syslog", line(written(then), text)).root() + "/"),
                IsEmpty());
  }
}

TEST(KernelLog, that_cannot_be_read_is_unknown) {
  EXPECT_FALSE(discover_xids(Started().root() + "/"));
  Tree no_start;
  no_start.file("var/log/kern.log", line("2023-11-14T22:30:00Z", "NVRM: Xid (PCI:0000:53:00): 79, bus"));
  EXPECT_FALSE(discover_xids(no_start.root() + "/")) << "nobody knows whether the line is of this start";
  EXPECT_FALSE(discover_host(no_start.root()).xids) << "without GPUs nobody looks";
}

TEST(Xids, are_of_the_class_that_their_code_says) {
  EXPECT_EQ(class_of_xid(54).name, "isolate");
  EXPECT_EQ(class_of_xid(79).name, "reboot");
  EXPECT_EQ(class_of_xid(74).name, "reset");
  EXPECT_EQ(class_of_xid(31).name, "process");
  EXPECT_EQ(class_of_xid(63).name, "monitor");
  EXPECT_EQ(class_of_xid(9999).name, "monitor") << "unknown ones are watched";
  EXPECT_EQ(class_of_xid(79).severity, Severity::error);
  EXPECT_EQ(class_of_xid(63).severity, Severity::warning);
}

TEST(Xids, of_code_154_say_themselves_what_is_needed) {
  const std::string changed = "GPU recovery action changed from ";
  EXPECT_EQ(class_of_xid(154, changed + "0x0 (None) to 0x2 (Node Reboot Required)").name, "reboot");
  EXPECT_EQ(class_of_xid(154, changed + "0x0 (None) to 0x1 (GPU Reset Required)").name, "reset");
  EXPECT_EQ(class_of_xid(154, changed + "0x1 (GPU Reset Required) to 0x0 (None)").name, "none");
  EXPECT_EQ(class_of_xid(154, changed + "0x2 (x) to 0x0 (None)").severity, Severity::info);
  EXPECT_EQ(class_of_xid(154).name, "monitor");
}

TEST(Xids, of_nvlinks_are_fatal_where_their_text_says_so) {
  EXPECT_EQ(class_of_xid(149, "NETIR_LINK_EVT Fatal XC0 i0 Link 08").name, "reboot");
  EXPECT_EQ(class_of_xid(145, "RLW_REMAP Nonfatal XC1 i0 Link 03").name, "monitor");
  EXPECT_EQ(class_of_xid(145).name, "monitor");
}

TEST(Xids, of_memory_errors_tell_a_row_that_could_not_be_remapped_from_one_that_waits) {
  EXPECT_EQ(class_of_xid(64).name, "isolate");
  EXPECT_EQ(class_of_xid(94).name, "restart");
  EXPECT_EQ(class_of_xid(95).name, "reset");
}

}  // namespace
}  // namespace p5::topo
