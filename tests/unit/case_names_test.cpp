// Cases of one description, of which only ranks and nodes differ: no format gives two of them one name.
#include "reports/case_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/nccl_tests.hpp"
#include "reports/writer.hpp"

namespace p5::reports {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Case of_two_ranks(int nodes, Bytes bytes) {
  Case c;
  c.backend = "nccl";
  c.collective = &all_reduce;
  c.op = ReduceOp::sum;
  c.bytes = bytes;
  c.ranks = 2;
  c.nodes = nodes;
  return c;
}

// Two ranks on one node, and two on two nodes, which have wrong data.
Report of_two_jobs() {
  Report report;
  report.provenance = "imported";
  report.run.ranks = 4;
  report.run.nodes = 2;
  report.topology.hosts.resize(2);
  report.topology.hosts[0].name = "a";
  report.topology.hosts[1].name = "b";
  report.topology.host_of_rank = {0, 0, 1, 1};
  for (const int nodes : {1, 2})
    for (const Bytes bytes : {MiB(1), MiB(4)}) {
      Result& result = report.results.emplace_back();
      Measurement& m = result.measurement;
      m.measured_case = of_two_ranks(nodes, bytes);
      m.throughput = Series{};
      m.throughput->summary.median = static_cast<double>(bytes.count) / 1e11;
      if (nodes == 1) continue;
      m.wrong_elements = 7;
      result.verdict.grade = Grade::wrong;
      result.verdict.because = "7 wrong elements";
    }
  return report;
}

TEST(CaseNames, have_ranks_and_nodes_where_cases_differ_in_these_only) {
  Report report = of_two_jobs();
  const Case c = of_two_ranks(2, MiB(1));
  EXPECT_EQ(CaseNames(report).of(c), "all_reduce 1 MiB float32 sum, 2 ranks on 2 nodes");
  report.results[0].measurement.measured_case.for_parts = true;
  EXPECT_EQ(CaseNames(report).of(c), "all_reduce 1 MiB float32 sum");
  Comparison comparison;
  for (const int nodes : {1, 2}) comparison.sizes.emplace_back().measured_case = of_two_ranks(nodes, MiB(1));
  EXPECT_EQ(CaseNames(comparison).of(c), "all_reduce 1 MiB float32 sum, 2 ranks on 2 nodes");
  EXPECT_EQ(CaseNames(comparison).of(of_two_ranks(1, MiB(4))), "all_reduce 4 MiB float32 sum");
}

TEST(CaseNames, are_in_junit_xml_markdown_and_on_the_console) {
  const Report report = of_two_jobs();
  const std::string junit = render_junit(report);
  for (const char* const place : {"1 node", "2 nodes"})
    EXPECT_THAT(junit, HasSubstr(std::string("name=\"all_reduce 1 MiB float32 sum, 2 ranks on ") + place + "\""));
  EXPECT_THAT(junit, Not(HasSubstr("(2)")));
  EXPECT_THAT(render_markdown(report), HasSubstr("1 MiB float32 sum, 2 ranks on 2 nodes: 7 wrong elements"));
  EXPECT_THAT(render_console(report), HasSubstr("4 MiB float32 sum, 2 ranks on 2 nodes: 7 wrong elements"));
}

TEST(CaseNames, of_google_benchmark_have_ranks_and_nodes) {
  const nlohmann::json written = nlohmann::json::parse(render_gbench(of_two_jobs()));
  std::vector<std::string> names;
  for (const nlohmann::json& row : written.at("benchmarks")) names.push_back(row.at("name").get<std::string>());
  EXPECT_THAT(names, ElementsAre("all_reduce/throughput/float32/sum/ranks:2/nodes:1/1048576",
                                 "all_reduce/throughput/float32/sum/ranks:2/nodes:1/4194304",
                                 "all_reduce/throughput/float32/sum/ranks:2/nodes:2/1048576",
                                 "all_reduce/throughput/float32/sum/ranks:2/nodes:2/4194304"));
}

TEST(CaseNames, of_imports_tell_which_job_has_wrong_data) {
  const Report read = nccl_tests::import(render_nccl_tests(of_two_jobs()), "", "lab").report;
  ASSERT_EQ(read.results.size(), 4u);
  EXPECT_EQ(read.run.remarks.at(0),
            "wrong data: all_reduce out of place of 2 ranks on 2 nodes has wrong elements at 2 sizes: 7 of 1 MiB, 7 of "
            "4 MiB");
}

}  // namespace
}  // namespace p5::reports
