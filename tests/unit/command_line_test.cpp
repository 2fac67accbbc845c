// Words of the command line that come from tables elsewhere.
#include "bench/app/command_line.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/app/declarations.hpp"
#include "bench/app/variables.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "reports/writer.hpp"

namespace p5 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

// Parses lines "    NAME) echo 'WORD WORD' ;;" of the completion script: the options of each command, then values.
std::map<std::string, std::vector<std::string>> cases_in(const std::string& completion) {
  std::map<std::string, std::vector<std::string>> cases;
  std::istringstream lines(completion);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t bracket = line.find(") echo '");
    if (!line.starts_with("    ") || bracket == std::string::npos) continue;
    const std::size_t from = bracket + 8;
    std::istringstream words(line.substr(from, line.rfind('\'') - from));
    std::vector<std::string>& values = cases[line.substr(4, bracket - 4)];
    for (std::string word; words >> word;) values.push_back(word);
  }
  return cases;
}

std::string refusal_of(const std::vector<std::string>& arguments) {
  try {
    parse_options(arguments);
  } catch (const UsageError& problem) {
    return problem.what();
  }
  return "";
}

// The command with its required words.
std::vector<std::string> start_of(const std::string& command) {
  if (command == "list") return {command, "knobs"};
  if (command == "report" || command == "baseline" || command == "explain") return {command, "file"};
  if (command == "compare") return {command, "a", "b"};
  if (command == "import") return {command, "nccl-tests", "log"};
  if (command == "describe") return {command, "man"};
  return {command};
}

TEST(CommandLine, completion_offers_to_each_command_what_it_takes_and_nothing_else) {
  const std::string completion = parse_options({"describe", "bash"}).early->text;
  const auto cases = cases_in(completion.substr(0, completion.find("_p5bench_values()")));
  EXPECT_EQ(cases.size(), 13U);
  std::set<std::string> options;
  for (const auto& [command, offered] : cases) options.insert(offered.begin(), offered.end());
  EXPECT_GT(options.size(), 40U);
  const std::string flags = completion.substr(completion.find("_p5bench_flags='"));
  // Options of measuring commands that these refuse whatever their value, with what to do instead.
  const std::set<std::string> refused{"ab --delivery",   "ab --keep-table",   "ab --soak",       "ab --tuning",
                                      "ab --weights",    "plan --keep-table", "plan --resume",   "plan --weights",
                                      "tune --resume",   "tune --launches",   "tune --soak",     "tune --per-rank",
                                      "tune --op",       "tune --root",       "tune --in-place", "tune --cuda-graph",
                                      "tune --register", "tune --aggregate",  "tune --unalign"};
  for (const auto& [command, offered] : cases)
    for (const std::string& option : options) {
      std::vector<std::string> words = start_of(command);
      words.push_back(option);
      if (flags.substr(0, flags.find('\n')).find(option) == std::string::npos) words.push_back("k=v");
      const std::string refusal = refusal_of(words);
      const bool taken = refusal.find("has no meaning for " + command) == std::string::npos &&
                         refusal.find("unknown option") == std::string::npos;
      const bool refused_later = refused.contains(command + " " + option);
      EXPECT_EQ(taken && !refused_later, std::ranges::find(offered, option) != offered.end())
          << command << " " << option << ": " << refusal;
    }
}

TEST(CommandLine, completion_offers_values_that_are_taken) {
  const std::string completion = parse_options({"describe", "bash"}).early->text;
  const auto cases = cases_in(completion.substr(completion.find("_p5bench_values()")));
  EXPECT_THAT(cases, ::testing::IsSupersetOf({::testing::Key("--backend"), ::testing::Key("--platform"),
                                              ::testing::Key("--collectives"), ::testing::Key("--format")}));
  for (const auto& [name, values] : cases)
    for (const std::string& value : values) {
      if (value == ",") continue;
      std::vector<std::string> words{name, value};
      if (name == "import") words.push_back("log");
      if (name == "--as") words = {"report", "file", name, value};
      if (name == "--collective") words = {"import", "nccl-tests", "log", name, value};
      EXPECT_THAT(refusal_of(words), ::testing::Not(HasSubstr("unknown"))) << name << " " << value;
    }
}

TEST(CommandLine, the_manual_page_has_every_command_and_option_and_nothing_that_roff_misreads) {
  const std::string page = parse_options({"describe", "man"}).early->text;
  const std::string completion = parse_options({"describe", "bash"}).early->text;
  for (const auto& [command, offered] : cases_in(completion.substr(0, completion.find("_p5bench_values()")))) {
    EXPECT_THAT(page, HasSubstr("\n\\fB" + command + "\\fR"));
    for (std::string option : offered) {
      for (std::size_t at = 0; (at = option.find('-', at)) != std::string::npos; at += 2) option.insert(at, "\\");
      EXPECT_THAT(page, HasSubstr("\\fB" + option + "\\fR"));
    }
  }
  std::istringstream lines(page);
  const std::set<std::string> requests{".TH", ".SH", ".SS", ".TP", ".RS", ".RE", ".B", ".BR", ".br"};
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(!line.starts_with('.') || requests.contains(line.substr(0, line.find(' ')))) << line;
}

TEST(CommandLine, takes_the_older_name_of_tuning) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--tuning", "off"}, {"--tuning=off"}, {"--tune=off"}, {"--tune", "off"}}) {
    const Options o = parse_options(words).options;
    EXPECT_EQ(o.tune, "off");
    EXPECT_TRUE(o.given.contains("--tuning"));
  }
  EXPECT_THAT(parse_options({"run", "--help"}).early->text,
              AllOf(HasSubstr("--tuning WHAT"), Not(HasSubstr("--tune "))));
  EXPECT_THAT([] { parse_options({"--tune=of"}); }, ThrowsMessage<UsageError>(HasSubstr("did you mean 'off'?")));
}

std::vector<std::string> command_names() {
  const std::string completion = parse_options({"describe", "bash"}).early->text;
  const std::string name = "_p5bench_commands='";
  const std::size_t from = completion.find(name) + name.size();
  return split(completion.substr(from, completion.find('\'', from) - from), ' ');
}

// The words after a shell split them, behind mpirun and other launchers.
std::vector<std::string> words_for_p5bench(std::string_view line) {
  std::vector<std::string> words = split(line.substr(0, line.find(" > ")), ' ');
  const auto program = std::ranges::find_if(words, [](const std::string& word) { return word.ends_with("p5bench"); });
  EXPECT_NE(program, words.end()) << line;
  words.erase(words.begin(), program + 1);
  if (!words.empty() && words.back().ends_with(')')) words.back().pop_back();
  return words;
}

TEST(Help, has_three_examples_of_each_command_and_all_of_them_are_taken) {
  std::map<std::string_view, int> counts;
  for (const Example& each : examples()) {
    ++counts[each.command];
    const std::vector<std::string> words = words_for_p5bench(each.line);
    EXPECT_NO_THROW(parse_options(words)) << each.line;
    if (!each.command.empty()) {
      EXPECT_EQ(words.front(), each.command) << each.line;
    }
  }
  for (const std::string& each : command_names()) EXPECT_EQ(counts[each], 3) << each;
  EXPECT_EQ(counts[""], 3);
}

TEST(Help, fits_the_terminal) {
  for (const std::size_t columns : {80u, 120u}) {
    setenv("COLUMNS", std::to_string(columns).c_str(), 1);
    std::vector<std::vector<std::string>> asked{{"--help"}};
    for (const std::string& each : command_names()) asked.push_back({each, "--help"});
    for (const std::vector<std::string>& words : asked)
      for (const std::string& line : split(parse_options(words).early->text, '\n')) {
        const bool of_example =
            std::ranges::any_of(examples(), [&](const Example& each) { return line == "  " + std::string(each.line); });
        EXPECT_TRUE(line.size() <= columns || of_example) << words.front() << ": " << line;
      }
  }
  unsetenv("COLUMNS");
}

TEST(Variables, take_off_only_where_it_has_a_meaning) {
  for (const char* const name : {"P5BENCH_START_LIMIT", "P5BENCH_PROBE_LIMIT", "P5BENCH_JOIN_LIMIT",
                                 "P5BENCH_QUICK_LIMIT", "P5BENCH_REACH_LIMIT"}) {
    const bool may_be_off = std::string_view(name) == "P5BENCH_REACH_LIMIT";
    setenv(name, "off", 1);
    EXPECT_EQ(duration_variable(name), may_be_off ? std::optional(Seconds{0}) : std::nullopt) << name;
    if (may_be_off)
      EXPECT_NO_THROW(refuse_wrong_variables());
    else
      EXPECT_THROW(refuse_wrong_variables(), UsageError) << name;
    setenv(name, "3s", 1);
    EXPECT_EQ(duration_variable(name), Seconds{3});
    unsetenv(name);
  }
}

TEST(Help, lists_options_under_the_commands_that_have_them) {
  const auto help = [](const std::string& command) { return parse_options({command, "--help"}).early->text; };
  for (const char* command : {"run", "tune", "ab", "plan"})
    EXPECT_THAT(help(command), HasSubstr("\n  --collectives LIST"));
  for (const char* command : {"compare", "baseline", "import", "report", "list", "topo", "check"})
    EXPECT_THAT(help(command), Not(HasSubstr("--collectives LIST"))) << command;
  EXPECT_THAT(help("compare"),
              AllOf(HasSubstr("\n  --history DIR"), HasSubstr("\n  --quiet"), HasSubstr("\n  --format LIST")));
  EXPECT_THAT(help("tune"), Not(HasSubstr("--baseline")));
  const std::string whole = parse_options({"--help"}).early->text;
  EXPECT_THAT(whole, Not(HasSubstr("--collectives LIST")));
  for (const std::string& each : command_names()) EXPECT_THAT(whole, HasSubstr("\n  " + each + " ")) << each;
}

TEST(CommandLine, takes_a_folder_only_with_the_formats_that_are_written_into_it) {
  for (std::vector<std::string> words : {std::vector<std::string>{"report", "file"}, {"compare", "a", "b"}}) {
    EXPECT_EQ(refusal_of(words), "");
    words.insert(words.end(), {"--out", "folder"});
    EXPECT_THAT(refusal_of(words), HasSubstr(words.front() + " writes files into --out only in the formats of"));
    words.insert(words.end(), {"--format", "console,json"});
    EXPECT_EQ(refusal_of(words), "");
  }
  EXPECT_THAT(refusal_of({"report", "file", "--as", "json", "--out", "folder"}),
              HasSubstr("leave out --format, --baseline and --out"));
}

TEST(CommandLine, a_plan_for_a_simulated_machine_counts_any_tuning_and_other_commands_refuse_it) {
  const std::vector<std::string> machine{"--backend", "sim", "--platform", "p5.48xlarge"};
  for (const std::string mode : {"quick", "full"})
    for (const std::string command : {"plan", "run"}) {
      std::vector<std::string> words{command, "--tuning", mode};
      words.insert(words.end(), machine.begin(), machine.end());
      EXPECT_EQ(refusal_of(words).empty(), command == "plan") << command << " " << mode;
    }
  EXPECT_THAT(refusal_of({"plan", "--backend", "mpi", "--tuning", "full"}), HasSubstr("--backend mpi has none"));
}

TEST(CommandLine, a_plan_is_json_where_that_is_asked_for_without_the_console) {
  for (const auto& [formats, json] : {std::pair("json", true),
                                      {"json,html", true},
                                      {"csv,json", true},
                                      {"console", false},
                                      {"json,console", false},
                                      {"html", false}})
    EXPECT_EQ(parse_options({"plan", "--format", formats}).options.prints_json(), json) << formats;
  EXPECT_FALSE(parse_options({"plan"}).options.prints_json());
  EXPECT_FALSE(parse_options({"run", "--format", "json"}).options.prints_json());
}

TEST(CommandLine, takes_every_format) {
  for (const reports::Writer& writer : reports::writers()) {
    EXPECT_EQ(parse_options({"compare", "a", "b", "--format", writer.name}).options.formats, std::vector{writer.name});
    EXPECT_EQ(parse_options({"run", "--format", writer.name}).options.formats, std::vector{writer.name});
  }
}

TEST(CommandLine, a_check_takes_a_few_options_of_a_run_and_divides_its_time) {
  const Options o = parse_options({"check"}).options;
  EXPECT_TRUE(o.checks());
  EXPECT_EQ(o.backend, "nccl");
  EXPECT_EQ(o.out, "");
  EXPECT_EQ(o.formats, std::vector<std::string>{"console"});
  EXPECT_EQ(o.limit.count, 20);
  EXPECT_EQ(o.timeout.count, 5);
  const Options sim =
      parse_options({"check",   "--backend",    "sim",       "--platform", "p5.48xlarge", "--nodes", "4",
                     "--fault", "gpu:n1g3:0.5", "--cluster", "c",          "--out",       "o",       "--format",
                     "json",    "--quiet",      "--limit",   "1min",       "--timeout",   "2s"})
          .options;
  EXPECT_EQ(sim.limit.count, 60);
  EXPECT_EQ(sim.timeout.count, 2);
  for (const char* option : {"--tuning", "--sizes", "--max", "--budget", "--launches", "--baseline", "--collectives"})
    EXPECT_THAT(
        [&] {
          parse_options({"check", option, "1"});
        },
        ThrowsMessage<UsageError>(HasSubstr(std::string(option) + " has no meaning for check")));
  EXPECT_THAT([] { parse_options({"check", "--nodes", "2"}); }, ThrowsMessage<UsageError>(HasSubstr("--backend sim")));
  EXPECT_THAT([] { parse_options({"check", "--limit", "14s"}); }, ThrowsMessage<UsageError>(HasSubstr("15 s or more")));
  EXPECT_EQ(parse_options({"check", "--burn", "2h"}).options.limit_with_burn().count, 7220);
  for (const char* const backend : {"mpi", "ofi"})
    EXPECT_THAT(refusal_of({"check", "--burn", "2h", "--backend", backend}),
                HasSubstr("--burn runs matrix products on GPUs"));
  EXPECT_THAT([] { parse_options({"run", "--limit", "30s"}); }, ThrowsMessage<UsageError>(HasSubstr("--limit")));
}

}  // namespace
}  // namespace p5
