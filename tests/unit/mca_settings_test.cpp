// Sources of Open MPI's parameters, and the names of unreachable ranks in messages.
#include "bench/control/launcher.hpp"

#include <gtest/gtest.h>

#include "bench/control/control_planes.hpp"

namespace p5 {
namespace {

using Files = std::map<std::string, std::string>;

McaSettings settings(const Environment& environment, const Files& files, const std::string& library = "/opt/mpi/lib") {
  return mca_files(environment, library, [&](const std::string& path) -> std::optional<std::string> {
    const auto found = files.find(path);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(McaSettings, variables_are_what_mpirun_makes_of_its_options) {
  EXPECT_EQ(mca_variables({{"OMPI_MCA_btl", "tcp,self"}, {"HOME", "/root"}}), (McaSettings{{"btl", "tcp,self"}}));
}

TEST(McaSettings, the_users_file_counts_before_the_installations) {
  const Files files{
      {"/home/u/.openmpi/mca-params.conf", "# mine\nbtl_tcp_if_include = eth1 # that one\n\n"},
      {"/opt/mpi/etc/openmpi-mca-params.conf", "btl_tcp_if_include=eth0\n  pml = ^ucx\nno equals sign\n"}};
  EXPECT_EQ(settings({{"HOME", "/home/u"}}, files), (McaSettings{{"btl_tcp_if_include", "eth1"}, {"pml", "^ucx"}}));
}

TEST(McaSettings, the_installation_is_where_the_library_is_or_the_distribution_puts_it) {
  const Files debian{{"/etc/openmpi/openmpi-mca-params.conf", "pml = ^ucx"}};
  EXPECT_EQ(settings({}, debian, "/usr/lib/x86_64-linux-gnu").at("pml"), "^ucx");
  const Files both{{"/etc/openmpi/openmpi-mca-params.conf", "pml = ^ucx"},
                   {"/opt/mpi/etc/openmpi-mca-params.conf", "btl = ^uct"}};
  EXPECT_EQ(settings({}, both), (McaSettings{{"btl", "^uct"}}));
  const Files moved{{"/moved/etc/openmpi-mca-params.conf", "btl = self"},
                    {"/opt/mpi/etc/openmpi-mca-params.conf", "btl = ^uct"}};
  EXPECT_EQ(settings({{"OPAL_PREFIX", "/moved"}}, moved).at("btl"), "self");
}

TEST(McaSettings, other_files_may_be_named_instead) {
  const Files files{
      {"/site/a.conf", "x = 1"}, {"/site/b.conf", "x = 2\ny = 2"}, {"/opt/mpi/etc/openmpi-mca-params.conf", "z = 3"}};
  EXPECT_EQ(settings({{"OMPI_MCA_mca_base_param_files", "/site/a.conf:/site/b.conf"}}, files),
            (McaSettings{{"x", "1"}, {"y", "2"}}));
}

TEST(McaSettings, files_given_to_mpirun_count_before_the_usual_ones) {
  const Files files{{"/job/tuned.conf", "-x FOO=1 --mca btl_tcp_if_exclude lo,docker0 -mca pml ob1"},
                    {"/job/sets.conf", "pml = cm\nbtl = self"},
                    {"/opt/mpi/etc/openmpi-mca-params.conf", "btl = ^uct"}};
  EXPECT_EQ(settings({{"OMPI_MCA_mca_base_envar_file_prefix", "tuned.conf"},
                      {"OMPI_MCA_mca_base_param_file_prefix", "/job/sets.conf"},
                      {"OMPI_MCA_initial_wdir", "/job"}},
                     files),
            (McaSettings{{"btl_tcp_if_exclude", "lo,docker0"}, {"pml", "ob1"}, {"btl", "self"}}));
}

TEST(McaSettings, the_installation_may_overrule_all) {
  const Files files{{"/opt/mpi/etc/openmpi-mca-params.conf", ""},
                    {"/opt/mpi/etc/openmpi-mca-params-override.conf", "btl_tcp_if_include = eth7"},
                    {"/home/u/.openmpi/mca-params.conf", "btl_tcp_if_include = eth1"}};
  EXPECT_EQ(settings({{"HOME", "/home/u"}}, files).at("btl_tcp_if_include"), "eth7");
}

TEST(McaSettings, a_choice_stands_and_an_exclusion_is_kept) {
  EXPECT_EQ(restrict_to_choice("tcp,vader,self", ""), "tcp,vader,self");
  EXPECT_EQ(restrict_to_choice("tcp,vader,self", "tcp,self"), "tcp,self");
  EXPECT_EQ(restrict_to_choice("tcp,vader,self", "^uct,openib,ofi"), "tcp,vader,self");
  EXPECT_EQ(restrict_to_choice("tcp,vader,self", "^vader"), "tcp,self");
  EXPECT_EQ(restrict_to_choice("ob1", "^ob1"), "");
}

TEST(McaSettings, this_process_has_an_mpi_library_somewhere) { EXPECT_FALSE(mpi_library_folder().empty()); }

TEST(Meeting, ranks_that_were_not_heard_of_are_named_by_their_hosts) {
  EXPECT_EQ(describe({{2, "h2"}, {3, "h2"}, {4, "h3"}}), "h2 (ranks 2, 3), h3 (rank 4)");
  EXPECT_EQ(describe({{5, ""}, {6, ""}}), "ranks 5, 6");
}

TEST(Meeting, of_many_hosts_some_are_named) {
  std::vector<UnreachableRank> unreachable;
  for (int rank = 1; rank <= 20; ++rank) unreachable.push_back({rank, "h" + std::to_string(rank)});
  const std::string text = describe(unreachable);
  EXPECT_NE(text.find("h16 (rank 16)"), std::string::npos) << text;
  EXPECT_EQ(text.find("h17"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("and 4 more")) << text;
}

}  // namespace
}  // namespace p5
