// The files of a tuning result, read by their consumers: a shell, YAML, our own plugin's parser.
#include "tests/unit/tuner_setting.hpp"
#include "tuner/files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/base/text.hpp"
#include "tests/unit/in_folder.hpp"

namespace p5::tuner {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

TuningResult tuned() {
  TuningResult result;
  result.cluster = "lab";
  result.date = "2026-11-20T12:00:00Z";
  result.version = "0.1.0";
  result.valid_for = {{"NCCL", "2.28.3"}, {"driver", "580.95"}};
  result.environment = {{"NCCL_BUFFSIZE", "8388608"}};
  result.table = {22803, 8, 1, {{Function::all_gather, 1 << 20, 1 << 23, setting("ring/ll128/32"), 35.7}}};
  Gain gain;
  gain.standard_s = 44.6e-6;
  gain.tuned_s = 35.7e-6;
  gain.share = 0.2;
  gain.interval = Interval{0.19, 0.21};
  result.gains = {{"all_gather", 1 << 23, "ring/ll128/32", gain}};
  result.size_points = 60;
  result.candidates_tried = 400;
  result.folder = "/shared/out";
  result.plugin = "/opt/lib/libnccl-tuner-p5bench.so";
  return result;
}

std::string file(const TuningResult& result, const std::string& name) {
  for (const NamedFile& each : tuning_files(result))
    if (each.name == name) return each.text;
  ADD_FAILURE() << "no " << name;
  return "";
}

// Lines that are neither comments nor empty.
std::string content(const std::string& text) {
  std::istringstream lines(text);
  std::string line, result;
  while (std::getline(lines, line))
    if (!line.empty() && line[0] != '#') result += line + "\n";
  return result;
}

// The hash includes the comments.
std::string without_hash(const std::string& text) {
  std::istringstream lines(text);
  std::string line, result;
  while (std::getline(lines, line))
    if (line.find("P5BENCH_TUNER_HASH") == std::string::npos) result += line + "\n";
  return result;
}

// Names that users or machines could have.
const std::vector<std::string> hostile{"it's",
                                       "\"",
                                       "a\nb",
                                       "a\rb",
                                       "$(touch gone)",
                                       "`touch gone`",
                                       "; touch gone",
                                       "# no comment",
                                       "a\ttab",
                                       "\x1b[31m",
                                       "\x7f",
                                       "a b",
                                       "\\",
                                       "*",
                                       "' ; touch gone ; '",
                                       "a\n  evil: 1",
                                       "\xc2\x85x",
                                       "\xe2\x80\xa8x",
                                       "\xff",
                                       "| touch gone",
                                       "${HOME}",
                                       "!event",
                                       "\ntouch gone\n",
                                       "- a",
                                       "~",
                                       "a: b",
                                       "%41"};

class TuningFiles : public InFolder {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name, std::ios::binary) << text;
  }

  struct Ran {
    int status = -1;
    std::string output;
  };
  // `script` in a bash of its own, in the folder.
  Ran bash(const std::string& script) const {
    write("script", "cd " + shell_word(folder.string()) + "\n" + script);
    FILE* pipe = popen(("bash " + shell_word((folder / "script").string()) + " 2>&1").c_str(), "r");
    if (!pipe) return {};
    Ran ran;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) ran.output += static_cast<char>(c);
    ran.status = WEXITSTATUS(pclose(pipe));
    return ran;
  }
  bool touched() const { return fs::exists(folder / "gone"); }
};

TEST_F(TuningFiles, set_the_variables_and_load_the_plugin) {
  const TuningResult result = tuned();
  EXPECT_EQ(content(file(result, "nccl.env")),
            "NCCL_BUFFSIZE=8388608\nNCCL_TUNER_CONFIG_FILE=/shared/out/nccl-tuner.csv\nNCCL_TUNER_PLUGIN=/opt/lib/"
            "libnccl-tuner-p5bench.so\nP5BENCH_TUNER_HASH=" +
                fingerprint(file(result, "nccl-tuner.csv")) + "\n");
  EXPECT_EQ(content(file(result, "nccl.conf")), content(file(result, "nccl.env")));
  EXPECT_THAT(content(file(result, "nccl.env.sh")), HasSubstr("export NCCL_BUFFSIZE='8388608'\n"));
  const auto table = parse_csv(file(result, "nccl-tuner.csv"));
  ASSERT_TRUE(std::holds_alternative<std::vector<Table>>(table)) << std::get<std::string>(table);
  EXPECT_EQ(std::get<std::vector<Table>>(table), std::vector{result.table});
}

TEST_F(TuningFiles, keep_the_tables_of_other_communicators) {
  TuningResult result = tuned();
  Table job = result.table;
  job.ranks = 32;
  job.nodes = 4;
  result.kept = {job, result.table};  // the second is for the same communicators, and the new table replaces it
  result.kept[1].rows.clear();
  const auto tables = parse_csv(file(result, "nccl-tuner.csv"));
  ASSERT_TRUE(std::holds_alternative<std::vector<Table>>(tables)) << std::get<std::string>(tables);
  EXPECT_EQ(std::get<std::vector<Table>>(tables), (std::vector{result.table, job}));
  EXPECT_THAT(file(result, "nccl.env"), HasSubstr(fingerprint(file(result, "nccl-tuner.csv"))));
  for (const NamedFile& each : tuning_files(result))
    EXPECT_THAT(each.text, HasSubstr("communicators of 32 ranks on 4 nodes, NCCL 2.28.3, tuned before")) << each.name;
}

TEST_F(TuningFiles, say_that_nodes_are_nvlink_domains_where_hosts_share_them) {
  TuningResult result = tuned();
  EXPECT_THAT(file(result, "nccl.env"), HasSubstr("communicators of 8 ranks on 1 nodes\n"));
  result.table.ranks = 72;
  result.table.nccl_version = 23102;
  result.hosts = 18;
  for (const NamedFile& each : tuning_files(result))
    EXPECT_THAT(each.text, HasSubstr("communicators of 72 ranks on 1 NVLink domain (18 hosts)\n")) << each.name;
  const auto header = calls_header(result);
  ASSERT_TRUE(std::holds_alternative<NamedFile>(header)) << std::get<std::string>(header);
  EXPECT_THAT(std::get<NamedFile>(header).text, HasSubstr("nodes: on how many NVLink domains they are"));
}

TEST_F(TuningFiles, keep_the_conditions_of_tables_that_were_tuned_before) {
  TuningResult before = tuned();
  before.table.ranks = 4;
  before.outside = {{"NCCL_MAX_CTAS", "4"}};
  TuningResult result = tuned();
  result.kept = {before.table};
  result.kept_conditions = conditions_of_tables(file(before, "nccl-tuner.csv"));
  EXPECT_THAT(result.kept_conditions,
              ElementsAre("  communicators of 4 ranks on 1 nodes", "  NCCL 2.28.3", "  driver 580.95",
                          "  jobs with NCCL_MAX_CTAS=4, as it was set here"));
  for (const NamedFile& each : tuning_files(result))
    EXPECT_THAT(each.text, HasSubstr("#     jobs with NCCL_MAX_CTAS=4, as it was set here\n")) << each.name;
  EXPECT_THAT(conditions_of_tables(file(result, "nccl-tuner.csv")),
              Contains("    jobs with NCCL_MAX_CTAS=4, as it was set here"))
      << "they are kept once more";
}

TEST_F(TuningFiles, say_what_they_are_valid_for_and_what_they_gain) {
  for (const NamedFile& each : tuning_files(tuned()))
    for (const char* text : {"2.28.3", "580.95", "8 ranks on 1 nodes", "20.0 %", "19.0 to 21.0 %", "44.60 -> 35.70 us",
                             "400 candidates", "Measure again", "cluster lab"})
      EXPECT_THAT(each.text, HasSubstr(text)) << each.name;
}

TEST_F(TuningFiles, say_for_which_buffers_their_rows_are) {
  constexpr const char* text = "# The settings for sizes are for calls on buffers that are not registered with NCCL";
  for (const NamedFile& each : tuning_files(tuned())) EXPECT_THAT(each.text, HasSubstr(text)) << each.name;
  TuningResult variables = tuned();
  variables.table.rows.clear();
  for (const NamedFile& each : tuning_files(variables)) EXPECT_THAT(each.text, Not(HasSubstr(text))) << each.name;
}

TEST_F(TuningFiles, set_what_they_were_confirmed_with_for_calls_on_registered_buffers) {
  TuningResult result = tuned();
  result.environment = {{registered_variable, "rows"}};
  for (const char* const name : {"nccl.env", "nccl.env.sh", "nccl.conf"})
    EXPECT_THAT(content(file(result, name)), HasSubstr("P5BENCH_TUNER_REGISTERED=")) << name;
  EXPECT_THAT(load_commands(result).front().line, HasSubstr(" -x P5BENCH_TUNER_REGISTERED "));
  for (const NamedFile& each : tuning_files(result)) {
    EXPECT_THAT(each.text, HasSubstr("# The settings for sizes are also for calls on buffers that are registered"));
    EXPECT_THAT(each.text, Not(HasSubstr("for broadcast and reduce alone"))) << each.name;
  }
  result.folder = "/with blank";
  EXPECT_EQ(content(file(result, "nccl.env")), "") << "a plugin's variable, which needs the others";
}

TEST_F(TuningFiles, say_which_variables_jobs_need_and_where_nothing_was_decided) {
  TuningResult result = tuned();
  result.outside = tuning_variables_of({{"NCCL_MAX_CTAS", "4"},
                                        {"FI_PROVIDER", "efa"},
                                        {"NCCL_DEBUG", "INFO"},
                                        {"NCCL_HOSTID", "a"},
                                        {"NCCL_TUNER_PLUGIN", "x"},
                                        {"HOME", "/"}});
  EXPECT_THAT(result.outside, SizeIs(2));
  for (const NamedFile& each : tuning_files(result))
    EXPECT_THAT(each.text, HasSubstr("#   jobs with FI_PROVIDER=efa, as it was set here\n"
                                     "#   jobs with NCCL_MAX_CTAS=4, as it was set here\n"))
        << each.name;
  result.environment.clear();
  result.table.rows.clear();
  for (const bool decided : {true, false}) {
    result.decided = decided;
    for (const NamedFile& each : tuning_files(result))
      EXPECT_THAT(each.text, HasSubstr(decided ? "# Nothing here beats the default" : "# Undecided")) << each.name;
  }
}

TEST_F(TuningFiles, say_by_how_much_variables_are_faster) {
  TuningResult result = tuned();
  result.table.rows.clear();
  result.gains.clear();
  result.environment_speedup = Objective{1.121, {1.093, 1.149}};
  EXPECT_THAT(
      file(result, "nccl.env"),
      HasSubstr("# 1.121 times as fast as the default, by the device's own time, in fresh processes (95 % interval "
                "1.093 to 1.149).\n"));
  EXPECT_THAT(file(result, "nccl.env"), Not(HasSubstr("judged")));
  EXPECT_THAT(file(result, "nccl.env"),
              HasSubstr("1.149).\n# Risk, which was not measured: NCCL_BUFFSIZE: memory: of "));
  result.environment_judged_at = {{"all_reduce", 8}, {"all_reduce", 1 << 20}, {"send_recv", 1024}};
  EXPECT_THAT(file(result, "nccl.env"),
              HasSubstr("in each communicator\n# It acts on all operations of a job, and was judged by these alone:\n"
                        "#   all_reduce     8 B, 1 MiB\n#   send_recv      1 KiB\n"));
  result.beside = {"gemm:8192,8192,bf16"};
  result.environment_speedup_alone = Objective{1.052, {1.05, 1.06}};
  EXPECT_THAT(file(result, "nccl.env"),
              HasSubstr("# 1.121 times as fast as the default, until the operation and the work beside it are done, in "
                        "fresh processes (95 % interval 1.093 to 1.149); operations alone 1.052 times.\n"));
}

TEST_F(TuningFiles, set_nothing_where_nothing_beats_the_default) {
  TuningResult result = tuned();
  result.environment.clear();
  result.table.rows.clear();
  result.no_settings_reason = "The default changed by 7 %.";
  for (const NamedFile& each : tuning_files(result)) {
    EXPECT_THAT(each.text, HasSubstr("sets nothing")) << each.name;
    EXPECT_THAT(each.text, HasSubstr("changed by 7 %")) << each.name;
    if (each.name == "nccl-tuner.csv") continue;
    EXPECT_EQ(content(each.text), "") << each.name;
  }
  const auto table = parse_csv(file(result, "nccl-tuner.csv"));
  ASSERT_TRUE(std::holds_alternative<std::vector<Table>>(table)) << std::get<std::string>(table);
  EXPECT_TRUE(std::get<std::vector<Table>>(table).at(0).rows.empty());
  EXPECT_THAT(config_map(result), HasSubstr("data: {}"));
  write("nccl.env.sh", file(result, "nccl.env.sh"));
  EXPECT_EQ(bash("before=$(export -p); . ./nccl.env.sh; [ \"$before\" = \"$(export -p)\" ]").status, 0);
  EXPECT_TRUE(std::holds_alternative<std::string>(example_plugin_csv(result, {}, {})));
}

TEST_F(TuningFiles, leave_the_plugin_out_without_rows_or_without_a_place) {
  TuningResult result = tuned();
  result.plugin = "";
  EXPECT_EQ(content(file(result, "nccl.env")), "NCCL_BUFFSIZE=8388608\n");
  result = tuned();
  result.table.rows.clear();
  EXPECT_EQ(content(file(result, "nccl.env")), "NCCL_BUFFSIZE=8388608\n");
}

TEST_F(TuningFiles, give_a_shell_every_value_as_it_is) {
  for (const std::string& value : hostile) {
    TuningResult result = tuned();
    result.environment = {{"X", value}};
    result.folder = folder.string() + "/" + value;
    result.cluster = value;
    result.valid_for = {{value, value}};
    result.gains[0].setting = value;
    write("nccl.env.sh", file(result, "nccl.env.sh"));
    const Ran ran = bash("bash -n nccl.env.sh && . ./nccl.env.sh; printf '%s|%s|' \"$X\" \"$NCCL_TUNER_CONFIG_FILE\"");
    EXPECT_EQ(ran.output, value + "|" + result.folder + "/nccl-tuner.csv|");
    EXPECT_FALSE(touched()) << value;
  }
}

TEST_F(TuningFiles, of_plain_lines_do_no_harm_to_a_shell_either) {
  for (const std::string& value : hostile) {
    TuningResult result = tuned();
    result.environment = {{"X", value}};
    result.cluster = value;
    const std::string text = file(result, "nccl.env");
    write("nccl.env", text);
    EXPECT_EQ(bash(". ./nccl.env").output, "") << value;
    EXPECT_FALSE(touched()) << value;
    const bool holds = content(text).find("X=" + value + "\n") != std::string::npos;
    const bool says = text.find("# X is in nccl.env.sh only") != std::string::npos;
    EXPECT_TRUE(holds || says) << text;
  }
}

// A plugin without its table, or a table without its hash, ends every job that loads it.
TEST_F(TuningFiles, hold_all_that_the_plugin_needs_or_nothing_of_it) {
  const std::array needed{"NCCL_TUNER_PLUGIN=", "NCCL_TUNER_CONFIG_FILE=", "P5BENCH_TUNER_HASH="};
  std::vector<std::string> folders(hostile.begin(), hostile.end());
  folders.insert(folders.end(), {"/plain", "/with blank", "/quo'te", "/dol$lar", "/line\nend", "/end ", "/\xe9"});
  for (const std::string& place : folders)
    for (const bool of_plugin : {false, true}) {
      TuningResult result = tuned();
      (of_plugin ? result.plugin : result.folder) = place;
      if (place.empty()) continue;  // no plugin at all
      for (const char* const name : {"nccl.env", "nccl.conf"}) {
        const std::string text = file(result, name), lines = content(text);
        const auto there =
            std::ranges::count_if(needed, [&](const char* each) { return lines.find(each) != std::string::npos; });
        EXPECT_TRUE(there == 0 || there == std::ssize(needed)) << name << ": " << text;
        EXPECT_EQ(text.find("# NCCL_TUNER_CONFIG_FILE is in nccl.env.sh only") != std::string::npos, there == 0);
      }
      const bool whole = content(file(result, "nccl.env")).find(needed[0]) != std::string::npos;
      EXPECT_EQ(load_commands(result).back().line.find("--env-file") != std::string::npos, whole) << place;
    }
}

TEST_F(TuningFiles, load_no_plugin_without_the_tuner_that_it_would_displace) {
  TuningResult result = tuned();
  result.environment = {{chain_variable, "/my libs/libnccl-net-ofi.so"}};
  EXPECT_EQ(content(file(result, "nccl.env")), "");
  for (const char* const name :
       {"NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE", "P5BENCH_TUNER_HASH", "P5BENCH_TUNER_CHAIN"}) {
    EXPECT_THAT(file(result, "nccl.env"), HasSubstr(std::string("# ") + name + " is in nccl.env.sh only"));
    EXPECT_THAT(content(file(result, "nccl.conf")), HasSubstr(std::string(name) + "="));
  }
}

TEST_F(TuningFiles, of_NCCL_have_one_line_a_variable) {
  for (const std::string& value : hostile) {
    TuningResult result = tuned();
    result.environment = {{"X", value}};
    result.table.rows.clear();
    result.cluster = value;
    const std::string lines = content(file(result, "nccl.conf"));
    EXPECT_TRUE(lines.empty() || lines == "X=" + value + "\n") << lines;
  }
  TuningResult result = tuned();
  result.environment = {{"NCCL_ALGO", "allreduce:tree;allgather:ring"}};
  EXPECT_THAT(file(result, "nccl.conf"), HasSubstr("\nNCCL_ALGO=allreduce:tree;allgather:ring\n"));
  EXPECT_THAT(content(file(result, "nccl.env")), Not(HasSubstr("NCCL_ALGO"))) << "a shell would end the value at ;";
}

TEST_F(TuningFiles, have_comments_of_printable_ASCII_on_one_line) {
  for (const std::string& value : hostile) {
    TuningResult result = tuned();
    result.cluster = result.version = result.date = value;
    result.valid_for = {{value, value}};
    for (const NamedFile& each : tuning_files(result)) {
      EXPECT_EQ(without_hash(content(each.text)), without_hash(content(file(tuned(), each.name))))
          << each.name << ": " << value;
      for (const char c : each.text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << each.name;
    }
  }
}

TEST_F(TuningFiles, have_loading_lines_that_a_shell_takes) {
  for (const std::string& value : hostile) {
    TuningResult result = tuned();
    result.environment = {{"X", value}};
    result.folder = folder.string() + "/" + value.substr(0, value.find('/'));
    std::string lines;
    for (const LoadCommand& loading : load_commands(result))
      lines += loading.line.substr(0, loading.line.find("   (")) + " || true\n";
    write("lines", lines);
    // The launchers are stubs here.
    EXPECT_THAT(bash("bash -n lines && { mpirun() { :; }; srun() { :; }; torchrun() { :; }; docker() { :; }; . "
                     "./lines; echo whole; }")
                    .output,
                EndsWith("whole\n"))
        << lines;
    EXPECT_FALSE(touched()) << lines;
  }
  EXPECT_THAT(
      load_commands(tuned())[0].line,
      HasSubstr("mpirun -x NCCL_BUFFSIZE -x NCCL_TUNER_CONFIG_FILE -x NCCL_TUNER_PLUGIN -x P5BENCH_TUNER_HASH"));
  EXPECT_THAT(load_commands(tuned())[1].line, HasSubstr("srun --export=ALL"));
}

TEST_F(TuningFiles, are_copied_by_a_line_that_a_shell_reads) {
  TuningResult result = tuned();
  result.folder = (folder / "it's here").string();
  fs::create_directory(result.folder);
  std::vector<NamedFile> files = tuning_files(result);
  for (const NamedFile& each : files) write("it's here/" + each.name, each.text);
  const LoadCommand line = copy_command(result, files, {"alpha", "be$ta"});
  EXPECT_EQ(line.launcher, "ssh");
  // The stub of ssh HOST tar -xPf - only stores its input.
  const Ran ran = bash("ssh() { cat > \"$1.tar\"; shift; echo \"$@\"; }\n" + line.line +
                       "\ntar -tPf alpha.tar; cmp alpha.tar 'be$ta.tar'");
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_THAT(ran.output, StartsWith("tar -xPf -\ntar -xPf -\n"));
  for (const NamedFile& each : files) EXPECT_THAT(ran.output, HasSubstr("\n" + result.folder + "/" + each.name + "\n"));
}

TEST_F(TuningFiles, tell_which_files_every_host_needs) {
  constexpr const char* needed = "All hosts need /shared/out/nccl-tuner.csv and /opt/lib/libnccl-tuner-p5bench.so";
  for (const char* const name : {"nccl.env", "nccl.env.sh", "nccl.conf"})
    EXPECT_THAT(file(tuned(), name), HasSubstr(needed)) << name;
  EXPECT_THAT(config_map(tuned()), HasSubstr(needed)) << "pods do not have these paths by themselves";
  constexpr const char* chained = "They also need /opt/ofi/lib/libnccl-net-ofi.so, whose tuner decides all other calls";
  EXPECT_THAT(file(tuned(), "nccl.env"), Not(HasSubstr("They also need")));
  TuningResult result = tuned();
  result.environment[chain_variable] = "/opt/ofi/lib/libnccl-net-ofi.so";
  for (const std::string& text : {file(result, "nccl.env"), file(result, "nccl.env.sh"), config_map(result)}) {
    EXPECT_THAT(text, HasSubstr(chained));
    EXPECT_THAT(text, HasSubstr("set P5BENCH_TUNER_CHAIN to its path there, on all ranks"));
  }
  result = tuned();
  result.table.rows.clear();
  EXPECT_THAT(file(result, "nccl.env"), Not(HasSubstr("hosts need"))) << "variables that name no file";
  result.environment["NCCL_TUNER_PLUGIN"] = "/opt/acme/libnccl-tuner-acme.so";
  for (const std::string& text :
       {file(result, "nccl.env"), file(result, "nccl.env.sh"), file(result, "nccl.conf"), config_map(result)}) {
    EXPECT_THAT(text, HasSubstr("All hosts need /opt/acme/libnccl-tuner-acme.so, whose tuner decides all calls, "
                                "containers and pods too: where"))
        << "the tuner beside which the variables were measured";
    EXPECT_THAT(text, HasSubstr("set NCCL_TUNER_PLUGIN to its path there, on all ranks"));
  }
}

TEST_F(TuningFiles, are_in_a_container_that_loads_them) {
  const auto arguments = [&](const TuningResult& result) {
    return bash("docker() { printf '%s|' \"$@\"; }\n" + load_commands(result).back().line).output;
  };
  TuningResult result = tuned();
  EXPECT_EQ(arguments(result),
            "run|--env-file|/shared/out/nccl.env|--mount|type=bind,source=/shared/out,target=/shared/out,readonly|"
            "--mount|type=bind,source=/opt/lib,target=/opt/lib,readonly|...|");
  result.plugin = "/shared/out/libnccl-tuner-p5bench.so";
  EXPECT_EQ(
      arguments(result),
      "run|--env-file|/shared/out/nccl.env|--mount|type=bind,source=/shared/out,target=/shared/out,readonly|...|");
  result.folder = "/a,\"b";
  EXPECT_THAT(load_commands(result).back().line,
              HasSubstr(" --mount 'type=bind,\"source=/a,\"\"b\",\"target=/a,\"\"b\",readonly' "));
  result = tuned();
  result.table.rows.clear();
  EXPECT_EQ(arguments(result), "run|--env-file|/shared/out/nccl.env|...|") << "no file is needed";
}

TEST_F(TuningFiles, for_Kubernetes_hold_every_value_as_it_is) {
  if (std::system("'" P5BENCH_PYTHON "' -c 'import yaml' 2>/dev/null") != 0)
    GTEST_SKIP() << "Python's yaml is not there";
  for (std::size_t i = 0; i < hostile.size(); ++i) {
    TuningResult result = tuned();
    result.environment = {{"X", hostile[i]}};
    result.cluster = hostile[i];
    write("map" + std::to_string(i), config_map(result));
    write("value" + std::to_string(i), hostile[i]);
  }
  const Ran ran = bash("'" P5BENCH_PYTHON "' - " + std::to_string(hostile.size()) + R"py( << 'END'
import sys, yaml
for i in range(int(sys.argv[1])):
    data = yaml.safe_load(open(f"map{i}"))["data"]
    wanted = open(f"value{i}", "rb").read()
    try:
        wanted.decode()
    except UnicodeDecodeError:
        assert "X" not in data
    else:
        assert data["X"].encode() == wanted, (data["X"], wanted)
    assert sorted(set(data) - {"X"}) == ["NCCL_TUNER_CONFIG_FILE", "NCCL_TUNER_PLUGIN", "P5BENCH_TUNER_HASH"], data
    assert data["NCCL_TUNER_PLUGIN"] == "/opt/lib/libnccl-tuner-p5bench.so"
END)py");
  EXPECT_EQ(ran.status, 0) << ran.output;
}

TEST_F(TuningFiles, refuse_names_that_are_none) {
  for (const char* name : {"", "A B", "A=B", "1A", "A;touch gone", "A\n"}) {
    TuningResult result = tuned();
    result.environment = {{name, "1"}};
    EXPECT_THROW(tuning_files(result), std::invalid_argument) << name;
  }
}

TEST_F(TuningFiles, say_beside_which_work_they_hold) {
  TuningResult result = tuned();
  EXPECT_THAT(file(result, "nccl.env"), Not(HasSubstr("beside")));
  result.beside = {"gemm:8192,8192,bf16", "all_gather@node:64MiB"};
  result.alone_loss = 0.025;
  result.gains[0].alone = Gain{40e-6, 40.5e-6, -0.0125, Interval{-0.02, -0.01}};
  for (const char* const name : {"nccl.env", "nccl.env.sh", "nccl.conf", "nccl-tuner.csv"}) {
    const std::string text = file(result, name);
    EXPECT_THAT(text, HasSubstr("#   operations beside gemm:8192,8192,bf16 and all_gather@node:64MiB; alone none is "
                                "slower by more than 2.5 %\n"))
        << name;
    EXPECT_THAT(text, HasSubstr("Time saved until the operation and the work beside it are done, against")) << name;
    EXPECT_THAT(text, HasSubstr("20.0 % (19.0 to 21.0 %); alone 40.00 -> 40.50 us\n")) << name;
  }
  EXPECT_EQ(variables_of(result).at(beside_variable), "gemm:8192,8192,bf16+all_gather@node:64MiB");
  EXPECT_THAT(content(file(result, "nccl.env")),
              HasSubstr("P5BENCH_TUNER_BESIDE=gemm:8192,8192,bf16+all_gather@node:64MiB\n"));
  result.environment.clear();
  result.table.rows.clear();
  EXPECT_TRUE(variables_of(result).empty()) << "what sets nothing is beside nothing";
}

TEST_F(TuningFiles, tell_beside_which_work_their_tables_were_found) {
  TuningResult alone = tuned(), beside = tuned();
  beside.beside = {"gemm:8192,8192,bf16", "d2h"};
  const std::string works = "gemm:8192,8192,bf16 and d2h";
  const auto found_beside = [](const std::string& csv) {
    std::vector<std::string> all;
    for (const TableHead& head : heads_of_tables(csv)) all.push_back(head.works);
    return all;
  };
  EXPECT_THAT(found_beside(table_file(alone).text), ElementsAre(""));
  EXPECT_THAT(found_beside(table_file(beside).text), ElementsAre(works));
  beside.kept = {beside.table};
  beside.kept[0].ranks = 4;
  EXPECT_THAT(found_beside(table_file(beside).text), ElementsAre(works)) << "tables that it kept";
  EXPECT_THAT(found_beside(table_file(beside).text + table_file(alone).text), ElementsAre(works, ""));
  EXPECT_TRUE(found_beside("format,1\n").empty()) << "nothing says so";
}

// The variable is one for all tables of a file.
TEST(Tables, say_whether_they_are_for_registered_buffers_too) {
  TuningResult alone = tuned(), rows = tuned();
  rows.valid_for.emplace_back(registered_variable, rows_for_registered);
  rows.environment[registered_variable] = rows_for_registered;
  const auto rules = [](const std::string& csv) {
    std::vector<bool> all;
    for (const TableHead& head : heads_of_tables(csv)) all.push_back(head.registered);
    return all;
  };
  EXPECT_THAT(rules(table_file(alone).text + table_file(rows).text), ElementsAre(false, true));
  EXPECT_THAT(conditions_of_tables(table_file(rows).text), Contains("  P5BENCH_TUNER_REGISTERED rows"));
  rows.table.rows.clear();
  rows.environment.clear();
  EXPECT_THAT(rules(table_file(rows).text), ElementsAre(true)) << "nothing was found for them";
  alone.kept = {rows.table};
  alone.kept_conditions = conditions_of_tables(table_file(rows).text);
  EXPECT_THAT(rules(table_file(alone).text), ElementsAre(false)) << "conditions of others";
}

TEST(Quoting, escapes_YAML_to_ASCII) {
  EXPECT_EQ(yaml_text("a\"\\\n"), "\"a\\\"\\\\\\U0000000a\"");
  EXPECT_EQ(yaml_text("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), "\"\\U000000e9\\U000020ac\\U0001f600\"");
  for (const char* text : {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe0\x80\x80", "\x80"})
    EXPECT_FALSE(yaml_text(text)) << text;
}

// ---- the example plugin of NCCL's sources

std::vector<Row> all_defaults() {
  std::vector<Row> rows;
  for (int i = 0; i <= static_cast<int>(Function::all_reduce); ++i) {
    rows.push_back({static_cast<Function>(i), 8, 1024, setting("ring/ll/4"), 1});
    rows.push_back({static_cast<Function>(i), 4096, 8192, setting("ring/simple/24"), 1});
  }
  return rows;
}

TEST(ExamplePluginCsv, covers_every_call_with_channels) {
  const auto made = example_plugin_csv(tuned(), all_defaults(), {});
  ASSERT_TRUE(std::holds_alternative<NamedFile>(made)) << std::get<std::string>(made);
  const std::string text = std::get<NamedFile>(made).text;
  EXPECT_THAT(content(text), StartsWith("allgather,1048576,8388608,ring,ll128,32,1,8,-1,0\n"))
      << "the first that matches wins, for buffers that are not registered";
  for (const char* name : {"broadcast", "reduce", "allgather", "reducescatter", "allreduce"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + name + ",0,4095,ring,ll,4,1,8,-1,-1\n"));
    EXPECT_THAT(text, HasSubstr(std::string("\n") + name + ",4096,18446744073709551615,ring,simple,24,1,8,-1,-1\n"));
  }
  EXPECT_THAT(text, HasSubstr("ONE channel"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LT(line.size(), 250u);
}

TEST(ExamplePluginCsv, has_rows_for_all_buffers_where_ranks_would_be_told_of_different_ones) {
  TuningResult result = tuned();
  for (const Function function : {Function::broadcast, Function::reduce}) {
    result.table.rows[0].function = function;
    const auto made = example_plugin_csv(result, all_defaults(), {});
    ASSERT_TRUE(std::holds_alternative<NamedFile>(made)) << std::get<std::string>(made);
    EXPECT_THAT(content(std::get<NamedFile>(made).text),
                StartsWith(std::string(name_of(function)) + ",1048576,8388608,ring,ll128,32,1,8,-1,-1\n"));
  }
}

TEST(ExamplePluginCsv, has_rows_for_all_buffers_where_the_settings_were_confirmed_for_them) {
  TuningResult result = tuned();
  result.environment[registered_variable] = "rows";
  const auto made = example_plugin_csv(result, all_defaults(), {});
  ASSERT_TRUE(std::holds_alternative<NamedFile>(made)) << std::get<std::string>(made);
  const std::string text = std::get<NamedFile>(made).text;
  EXPECT_THAT(content(text), StartsWith("allgather,1048576,8388608,ring,ll128,32,1,8,-1,-1\n"));
  EXPECT_THAT(text, Not(HasSubstr("Not where PyTorch's allocator registers buffers")));
}

TEST(ExamplePluginCsv, names_no_tables_that_it_does_not_hold) {
  TuningResult result = tuned();
  result.kept = {result.table};
  result.kept[0].ranks = 4;
  EXPECT_THAT(file(result, "nccl-tuner.csv"), HasSubstr("and for communicators of 4 ranks on 1 nodes"));
  const auto made = example_plugin_csv(result, all_defaults(), {});
  EXPECT_THAT(std::get<NamedFile>(made).text, Not(HasSubstr("and for communicators of 4")));
}

TEST(ExamplePluginCsv, splits_a_row_without_channels_by_what_nccl_takes) {
  TuningResult result = tuned();
  result.table.rows[0].setting.channels = 0;
  const auto at = [&](std::uint64_t bytes, int channels) {
    Row row = result.table.rows[0];
    row.from = row.to = bytes;
    row.setting.channels = channels;
    return row;
  };
  const auto made = example_plugin_csv(result, all_defaults(), {at(1048576, 8), at(2097152, 16), at(16777216, 24)});
  ASSERT_TRUE(std::holds_alternative<NamedFile>(made)) << std::get<std::string>(made);
  EXPECT_THAT(content(std::get<NamedFile>(made).text),
              StartsWith("allgather,1048576,2097151,ring,ll128,8,1,8,-1,0\n"
                         "allgather,2097152,8388608,ring,ll128,16,1,8,-1,0\n"));
}

TEST(ExamplePluginCsv, is_refused_where_something_is_not_known) {
  const auto refusal = [](const TuningResult& result, const std::vector<Row>& standard) {
    const auto made = example_plugin_csv(result, standard, {});
    return std::holds_alternative<std::string>(made) ? std::get<std::string>(made) : "";
  };
  std::vector<Row> some = all_defaults();
  std::erase_if(some, [](const Row& row) { return row.function == Function::reduce; });
  EXPECT_THAT(refusal(tuned(), some), HasSubstr("every reduce with one channel"));
  TuningResult open = tuned();
  open.table.rows[0].setting.channels = 0;
  EXPECT_THAT(refusal(open, all_defaults()), HasSubstr("one channel"));
  std::vector<Row> unknown = all_defaults();
  unknown[3].setting.channels = 0;
  EXPECT_THAT(refusal(tuned(), unknown), HasSubstr("one channel"));
}

}  // namespace
}  // namespace p5::tuner
