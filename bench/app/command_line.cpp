// The command line: CLI11 splits it; this file declares commands and converts their options.
#include "bench/app/command_line.hpp"

#include <array>
#include <tuple>

#include "bench/app/declarations.hpp"
#include "bench/base/embedded.hpp"
#include "bench/base/error.hpp"
#include "bench/base/input.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/units.hpp"
#include "bench/model/backends.hpp"
#include "bench/model/collective.hpp"
#include "bench/model/traffic.hpp"
#include "reports/writer.hpp"

namespace p5 {

namespace {

const std::vector<std::string> list_kinds{"collectives", "platforms", "knobs",        "backends", "formats",
                                          "findings",    "traffic",   "communicator", "beside"};
const std::vector<std::string> import_kinds{"nccl-tests", "job"};
const std::vector<std::string> description_kinds{"man", "bash"};

Take into(std::string& value) {
  return [&value](const std::string& text) { value = text; };
}

Take onto(std::vector<std::string>& values) {
  return [&values](const std::string& text) { values.push_back(text); };
}

void add_compare(CLI::App& app, Declarations& all, Options& o, std::vector<std::string>& sides) {
  CLI::App* compare =
      app.add_subcommand("compare", "compare two reports, or two sets of them: did anything get slower?");
  all.add(*compare, {.name = "REPORTS",
                     .shown = "",
                     .help = "BASE NEW: a report.json or a folder of runs each",
                     .take = onto(sides),
                     .several = true});
  for (const auto& [name, help, files] : {std::tuple{"--base", "the reports or folders to compare with", &o.base_files},
                                          {"--new", "the reports or folders that are judged", &o.new_files}})
    all.add(*compare, {.name = name, .shown = "FILE...", .help = help, .take = onto(*files), .several = true});
  all.add(*compare, {.name = "--base-arm",
                     .shown = "NAME",
                     .help = "the arm of BASE, in reports that hold several; default default",
                     .take = into(o.base_arm)});
  all.add(*compare, {.name = "--new-arm", .shown = "NAME", .help = "the arm of NEW", .take = into(o.new_arm)});
  all.add(*compare, {.name = "--history",
                     .shown = "DIR",
                     .help = "a folder of runs: show their course, and compare the newest with those before it",
                     .take = into(o.history)});
  compare->add_flag("--across-hardware", o.across_hardware, "compare even if the hardware differs");
  compare->fallthrough();
}

void add_baseline(CLI::App& app, Declarations& all, Options& o) {
  CLI::App* baseline =
      app.add_subcommand("baseline", "build a baseline from the reports of healthy runs of one machine");
  all.add(*baseline, {.name = "REPORTS",
                      .shown = "",
                      .help = "report.json files or folders of runs",
                      .take = onto(o.baseline_files),
                      .several = true})
      ->required();
  baseline->fallthrough();
}

void check_job_size(const Options& o) {
  if (o.command != "import") return;
  if (o.import_what == "job") {
    for (const char* other : {"--ranks", "--collective", "--started", "--format"})
      if (o.given.contains(other))
        throw UsageError(fmt::format("{} has no meaning for import job; leave it out", other));
    return;
  }
  if (o.import_files.size() > 1)
    throw UsageError(fmt::format("unexpected argument '{}': import nccl-tests reads one file", o.import_files[1]));
  if (o.given.contains("--platform")) throw UsageError("--platform is for import job; leave it out");
  if ((o.import_ranks > 0) != (o.import_hosts > 0)) throw UsageError("--ranks and --hosts go together");
  if (o.import_hosts > o.import_ranks)
    throw UsageError(fmt::format("--hosts {} is more than --ranks {}", o.import_hosts, o.import_ranks));
}

void add_import(CLI::App& app, Declarations& all, Options& o) {
  CLI::App* import =
      app.add_subcommand("import",
                         "convert the output of another benchmark into a report, or the recordings of a job into "
                         "weights, traffic and a replay");
  all.add(*import,
          {.name = "WHAT",
           .shown = "",
           .help = "nccl-tests: its table (versions 2.0 to 2.20) or its JSON (-J); job: NCCL Inspector's JSON, "
                   "NCCL's log (INIT, COLL), PyTorch's flight recorder (JSON) or its profiler's traces, of one "
                   "rank or of many",
           .take = [&](const std::string& t) { o.import_what = one_of("kind of import", t, import_kinds); },
           .values = import_kinds})
      ->required();
  all.add(*import, {.name = "FILES",
                    .shown = "",
                    .help = "nccl-tests: one file, or - for stdin; job: files of all ranks, or folders that hold them",
                    .take = onto(o.import_files),
                    .several = true})
      ->required();
  all.add(*import, {.name = "--collective",
                    .shown = "NAME",
                    .help = "nccl-tests: the collective that was measured, if the file does not name the program",
                    .take = [&](const std::string& t) { o.import_collective = find_collective(t).name; },
                    .values = collective_names()});
  constexpr int most = 1'000'000;
  all.add(*import, {.name = "--ranks",
                    .shown = "N",
                    .help = "nccl-tests: number of ranks, if the file does not list them; needs --hosts",
                    .take = [&](const std::string& t) { o.import_ranks = whole_number<int>(t, 1, most); },
                    .check = check_job_size});
  all.add(*import, {.name = "--hosts",
                    .shown = "N",
                    .help = "number of hosts that the ranks were on; for nccl-tests it needs --ranks",
                    .take = [&](const std::string& t) { o.import_hosts = whole_number<int>(t, 1, most); },
                    .check = check_job_size});
  all.add(*import, {.name = "--started",
                    .shown = "TIME",
                    .help = "nccl-tests: when it was started, in UTC like 2026-11-20T12:00:00Z, if the file does not "
                            "say it, or says it in local time; compare --history orders runs by it",
                    .take =
                        [&](const std::string& t) {
                          if (!parse_utc(t))
                            throw UsageError(fmt::format("{} is no time like 2026-11-20T12:00:00Z", in_quotes(t)));
                          o.import_started = t;
                        },
                    .check = check_job_size});
  import->fallthrough();
}

// Accepts "BASE NEW" or two lists.
void take_sides(Options& o, const std::vector<std::string>& sides) {
  if (!o.history.empty()) {
    if (sides.empty() && o.base_files.empty() && o.new_files.empty()) return;
    throw UsageError("--history finds both sides itself; leave the others out");
  }
  if (sides.empty() && !o.base_files.empty() && !o.new_files.empty()) return;
  if (sides.size() != 2 || !o.base_files.empty() || !o.new_files.empty())
    throw UsageError(
        "compare needs two sides: compare BASE NEW, or compare --base FILE... --new FILE..., or compare "
        "--history DIR");
  o.base_files = {sides[0]};
  o.new_files = {sides[1]};
}

// Defaults of a check: one large message, the largest of these that fits, because links show there and reference rates
// of healthy machines are known (run/preparing.cpp).
void set_defaults_of_check(Options& o) {
  o.backend = "nccl";  // a node that lost its GPUs must not pass as a host-only node
  o.collectives = {"p2p", "all_reduce"};
  o.min = MiB(2);
  o.max = MiB(512);
  o.group = "node";
  o.within_nodes = true;
  o.tune = "off";
  o.out = "";
  o.formats = {"console"};
}

// Derives budget and timeout from the limit of a check.
void derive_check_limits(Options& o) {
  if (!o.checks()) return;
  if (o.backend == "auto") o.backend = defaults_of("check").backend;
  o.budget = o.limit;
  if (!o.given.contains("--timeout")) o.timeout = {o.limit.count / 4};
}

void add_check(CLI::App& app, Declarations& all, Options& o) {
  CLI::App* check = app.add_subcommand(
      "check",
      "decide whether this node, or each node of an mpirun or srun job, is fit: one line per node within 20 s, and no "
      "files unless --out names a folder. Without a launcher it uses all idle GPUs of this node. For Slurm's Prolog "
      "and "
      "similar: exit codes 10, 11 and 12 mean unfit");
  all.add(
      *check,
      {.name = "--limit",
       .shown = "TIME",
       .help = "time for the whole check; parts that have not answered by then are named; default 20s, at least 15s",
       .take = [&](const std::string& t) {
         constexpr Seconds least{15};  // 5 s to start and measure, 5 s for GPUs alone, 5 s to report
         o.limit = parse_duration(t);
         if (o.limit.count < least.count)
           throw UsageError(
               fmt::format("'{}' is too little to start workers on GPUs, to measure and to end them; give "
                           "{} or more",
                           t, to_text(least)));
       }});
  all.add(*check,
          {.name = "--burn",
           .shown = "TIME",
           .help = "afterwards run matrix products on all GPUs for this long, such as 10min, half of it while messages "
                   "pass, compare results, and print a table of TFLOP/s",
           .take = [&](const std::string& t) { o.burn = parse_duration(t); }});
  all.add_check([](const Options& options) {
    const BackendInfo* const asked = requested_backend(options.backend);
    if (options.checks() && options.burn.count > 0 && asked && asked->parts != BackendInfo::Parts::gpus)
      throw UsageError(
          fmt::format("--burn runs matrix products on GPUs, and --backend {} uses none; leave one out", asked->name));
    if (!options.checks() || !options.out.empty()) return;
    for (const std::string& format : options.formats)
      if (format != "console" && format != "json")
        throw UsageError(
            fmt::format("check writes {} into a folder only: give --out DIR too, or --format json", format));
    if (options.formats.size() != 1)
      throw UsageError("check prints one format: --format console or --format json; give --out DIR for both");
  });
  check->fallthrough();
}

// Sets the defaults that differ between commands.
void set_defaults(const std::string& command, Options& o) {
  if (command == "check") set_defaults_of_check(o);
  if (command == "explain") o.formats = {o.explain_json ? "json" : "console"};
  if (command != "ab") return;
  o.collectives = {"all_reduce", "all_gather"};
  o.min = {16};
  o.max = GiB(1);
  o.factor = 4;
  o.budget = {180};
  o.launches = 7;
}

// The unknown option, or else the first excess word; CLI11 returns them in reverse order. The value of an unknown
// option is an excess word too, but not the mistake.
std::string find_culprit(const std::vector<std::string>& extras) {
  const auto option =
      std::find_if(extras.rbegin(), extras.rend(), [](const std::string& word) { return word.starts_with("-"); });
  const std::string& word = option == extras.rend() ? extras.back() : *option;
  return word.substr(0, word.starts_with("-") ? word.find('=') : std::string::npos);
}

const CLI::Option* find_option(const CLI::App& app, const std::string& name) {
  if (const CLI::Option* option = app.get_option_no_throw(name)) return option;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    if (const CLI::Option* option = sub->get_option_no_throw(name)) return option;
  return nullptr;
}

// Replaces CLI11's message if a nearest name helps.
UsageError explain(const CLI::App& app, const CLI::ParseError& error) {
  // CLI11's error name would be the program's name.
  const std::vector<std::string> extras = app.remaining(true);
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  if (!dynamic_cast<const CLI::ExtrasError*>(&error) || extras.empty()) {
    if (chosen.empty()) return UsageError(fmt::format("{}. Run `p5bench --help` for the options", error.what()));
    const std::string command = chosen.front()->get_name();
    return UsageError(fmt::format("{}: {}. Run `p5bench {} --help` for what it takes", command, error.what(), command));
  }
  const std::string culprit = find_culprit(extras);
  std::vector<std::string> known;
  if (culprit.starts_with("-")) {
    for (const CLI::App* each : {&app, chosen.empty() ? &app : chosen.front()})
      for (const CLI::Option* option : each->get_options()) known.push_back(option->get_name());
    std::erase_if(known, [](const std::string& name) { return !name.starts_with("--"); });
    std::ranges::sort(known);
    known.erase(std::unique(known.begin(), known.end()), known.end());
    return UsageError(unknown_name("option", culprit, known));
  }
  if (!chosen.empty())
    return UsageError(fmt::format("unexpected argument '{}' after {}; give one command, and its options with --",
                                  culprit, chosen.front()->get_name()));
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(sub->get_name());
  const bool option = culprit.size() > 1 && find_option(app, "--" + culprit) != nullptr;  // "help"
  return UsageError(unknown_name("command", culprit, known, option ? "--" + culprit : nearest(culprit, known)));
}

const CLI::Option* option_of_word(const CLI::App& app, const std::string& word) {
  return word.starts_with("--") ? find_option(app, word.substr(0, word.find('='))) : nullptr;
}

// Splits "--out=" into the option and an empty value, like "--out ''"; CLI11 would take the next word as its value.
// Refuses an option in the place of another one's value, for which CLI11 would blame a later word.
std::vector<std::string> split_empty_values(const CLI::App& app, const Declarations& all,
                                            const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const std::size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
    const CLI::Option* const named = option_of_word(app, word);
    const CLI::Option* const option = equals == std::string::npos ? nullptr : named;
    if (named && !option && named->get_items_expected_min() > 0 && i + 1 < arguments.size() &&
        option_of_word(app, arguments[i + 1]))
      throw UsageError(fmt::format("{} has no value: '{}' stands where it should be", word, arguments[i + 1]));
    if (option && option->get_items_expected_max() == 0)
      throw UsageError(fmt::format("{} takes no value; leave '{}' out", option->get_name(), word.substr(equals)));
    if (option && equals + 1 == word.size()) {
      all.refuse_empty(*option);  // before later words are reported as mistakes
      words.push_back(word.substr(0, equals));
      words.emplace_back();
    } else {
      words.push_back(word);
    }
  }
  return words;
}

void check_topo(const Options& o) {
  if (o.command != "topo") return;
  const BackendInfo* const asked = requested_backend(o.backend);
  const bool sim = asked && asked->simulated();
  if (asked && !sim)
    throw UsageError(fmt::format("topo measures nothing: --backend {} has no meaning; only sim has one", o.backend));
  if (sim && o.platform.empty())
    throw UsageError("--backend sim needs --platform NAME, such as p5.48xlarge (see `p5bench list platforms`)");
  if (sim && !o.load_file.empty())
    throw UsageError("--load and --backend sim are two different machines; leave one out");
  if (o.nodes != 1 && !sim)
    throw UsageError("--nodes is for --backend sim; real nodes are counted from the ranks that mpirun started");
  if (o.formats != Options{}.formats && o.formats != std::vector<std::string>{"json"} &&
      o.formats != std::vector<std::string>{"console"})
    throw UsageError("topo prints one format: --format json or --format console");
}

// Without --format, these commands print only.
void check_out(const Options& o) {
  if ((o.command == "compare" || o.command == "report") && o.given.contains("--out") && !o.given.contains("--format"))
    throw UsageError(fmt::format(
        "{} writes files into --out only in the formats of --format, such as --format html,json", o.command));
}

void check_report(const Options& o) {
  if (!o.report_as.empty() && (o.given.contains("--format") || !o.baseline.empty() || o.given.contains("--out")))
    throw UsageError("--as prints the report in one format; leave out --format, --baseline and --out");
}

void add_topo(CLI::App& app, Declarations& all, Options& o) {
  CLI::App* topo = app.add_subcommand(
      "topo", "show the machine and mark what is wrong with it; alone or under mpirun, one rank per host");
  all.add(*topo, {.name = "--load",
                  .shown = "FILE",
                  .help = "show this machine instead: a recording, topology.json, report.json, XML of hwloc or of NCCL "
                          "(NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE), or a folder of a run or with copies of /proc and "
                          "/sys",
                  .take = into(o.load_file)});
  all.add(*topo, {.name = "--record",
                  .shown = "FILE",
                  .help = "write everything that was found to this file",
                  .take = into(o.record_file)});
  all.add(*topo, {.name = "--rankfile",
                  .shown = "FILE",
                  .help = "write a rank file for Open MPI: each rank on cores near its GPU",
                  .take = into(o.rank_file)});
  topo->fallthrough();
  all.add_check(check_topo);
}

void check_explain(const Options& o) {
  if (o.command != "explain") return;
  if (std::ranges::count(o.explain_files, "-") > 1)
    throw UsageError("- is stdin, which can be read once; give it once");
  if (o.formats.size() != 1 || (o.formats.front() != "json" && o.formats.front() != "console"))
    throw UsageError("explain prints one format: --format json or --format console");
}

void add_explain(CLI::App& app, Declarations& all, Options& o) {
  CLI::App* explain = app.add_subcommand(
      "explain", "find known problems in a log of NCCL or in a job's output, with their remedies; measures nothing");
  all.add(*explain,
          {.name = "LOG",
           .shown = "",
           .help = "files with lines of NCCL (NCCL_DEBUG=INFO) or of the kernel among any other text; - for stdin",
           .take = onto(o.explain_files),
           .several = true})
      ->required();
  explain->add_flag_callback(
      "--json", [&o] { o.explain_json = true; }, "the same as --format json");
  explain->fallthrough();
  all.add_check(check_explain);
}

constexpr std::array<End, 7> ends{{{0, "good, or host memory that is not slow"},
                                   {2, "usage"},
                                   {10, "not sound or a regression"},
                                   {11, "wrong data"},
                                   {12, "unfinished"},
                                   {13, "environment"},
                                   {14, "cannot tell"}}};

constexpr std::string_view about =
    "Measures collective communication of a GPU cluster, judges it against what the hardware can do, and reports.\n"
    "Start it with mpirun or srun, one rank per GPU:  mpirun -np 32 p5bench\n"
    "Without GPUs it measures host memory over MPI; --backend sim needs neither hardware nor mpirun.\n"
    "Sizes are total message bytes: 64K = 64KiB = 65536, 64kB = 64000. Rates are decimal GB/s.";

std::string about_with_ends() {
  std::vector<std::string> words;
  for (const auto& [code, meaning] : ends) words.push_back(fmt::format("{} {}", code, meaning));
  return fmt::format("{}\nExit: {}.", about, join(words));
}

void add_describe(CLI::App& app, Declarations& all, std::string& what) {
  CLI::App* describe = app.add_subcommand(
      "describe", "print p5bench's manual page (man) or its command line completion (bash, for zsh too)");
  all.add(*describe, {.name = "WHAT",
                      .shown = "",
                      .help = "one of: " + join(description_kinds),
                      .take = [&](const std::string& t) { what = one_of("description", t, description_kinds); },
                      .values = description_kinds})
      ->required();
  describe->fallthrough();
}

}  // namespace

bool measures(const std::string& command) {
  return command == "run" || command == "tune" || command == "ab" || command == "check" || command == "plan";
}

Options defaults_of(const std::string& command) {
  Options o;
  set_defaults(command, o);
  return o;
}

Parsed parse_options(const std::vector<std::string>& arguments) {
  Parsed parsed;
  Options& o = parsed.options;
  CLI::App app{about_with_ends(), "p5bench"};
  app.set_help_flag("-h,--help", "this text");
  app.set_version_flag("--version", fmt::format("p5bench {}", version()), "which version this is");
  app.require_subcommand(0, 1);
  app.option_defaults()->always_capture_default(false);
  Declarations all;
  app.add_subcommand("run", "measure, judge and report (the default)")->fallthrough();
  app.add_subcommand("tune",
                     "search for faster NCCL settings and confirm them in fresh processes; measures nothing else")
      ->fallthrough();
  CLI::App* ab = app.add_subcommand(
      "ab",
      "compare two arms, A and B, that differ in variables or library paths, in alternating fresh processes: is B "
      "slower? By default all_reduce and all_gather from 16 B to 1 GiB by factor 4, 7 launches per arm, within 3min");
  ab->fallthrough();
  declare_ab_options(all, *ab, o);
  declare_run_options(all, app, o);
  add_check(app, all, o);
  app.add_subcommand("plan", "show what a run would do: cases, memory, time; measures nothing")->fallthrough();
  CLI::App* list = app.add_subcommand("list", "list what p5bench knows: " + join(list_kinds));
  all.add(*list, {.name = "WHAT",
                  .shown = "",
                  .help = "one of: " + join(list_kinds),
                  .take = [&](const std::string& t) { o.list_what = one_of("list", t, list_kinds); },
                  .values = list_kinds})
      ->required();
  list->fallthrough();
  CLI::App* report = app.add_subcommand("report", "render a report.json again");
  all.add(*report, {.name = "FILE",
                    .shown = "",
                    .help = "the report.json, or the folder of its run",
                    .take = into(o.report_file)})
      ->required();
  all.add(*report, {.name = "--as",
                    .shown = "FORMAT",
                    .help = "print it in this format, such as nccl-tests (see `list formats`)",
                    .take = into(o.report_as),
                    .values = reports::format_names()});
  all.add_check(check_report);
  all.add_check(check_out);
  report->fallthrough();
  std::vector<std::string> sides;
  add_compare(app, all, o, sides);
  add_baseline(app, all, o);
  add_import(app, all, o);
  add_explain(app, all, o);
  add_topo(app, all, o);
  std::string description;
  add_describe(app, all, description);
  try {
    std::vector<std::string> words = split_empty_values(app, all, arguments);
    std::ranges::reverse(words);  // CLI11 takes them in reverse
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    parsed.early = EarlyText{chosen.empty() ? help_of_program(app, about_with_ends(), help_columns())
                                            : help_of_command(app, *chosen.front(), all, help_columns())};
    return parsed;
  } catch (const CLI::CallForVersion&) {
    parsed.early = EarlyText{fmt::format("p5bench {}\n", version())};
    return parsed;
  } catch (const CLI::ParseError& error) {
    throw explain(app, error);
  }
  for (const CLI::App* chosen : app.get_subcommands()) o.command = chosen->get_name();
  set_defaults(o.command, o);
  all.take_all(o);
  if (!description.empty()) {
    app.description(std::string(about));  // exit codes are a section of their own
    parsed.early = EarlyText{description == "man" ? manual_page(app, all, ends) : bash_completion(app, all)};
    return parsed;
  }
  derive_check_limits(o);
  if (o.command == "compare") take_sides(o, sides);
  all.check_all(o);
  return parsed;
}

std::string read_job_file(const Options& options) {
  if (options.job.empty()) return "";
  try {
    return read_input(options.job, largest_json, "name the job.json of `p5bench import job`");
  } catch (const UsageError& problem) {
    throw UsageError(fmt::format("--job: {}", problem.what()));
  }
}

std::string read_traffic_file(const Options& options) {
  if (options.traffic.empty() || is_generated(options.traffic)) return "";
  constexpr Bytes largest_file = MiB(32);
  std::vector<std::string> forms;
  for (const TrafficGenerator& each : traffic_generators()) forms.emplace_back(each.form);
  const std::string remedy = fmt::format("name a CSV file or one of: {}", join(forms, "; "));
  std::string text;
  try {
    text = read_input(options.traffic, largest_file, remedy);
  } catch (const UsageError& problem) {
    throw UsageError(fmt::format("--traffic: {}", problem.what()));
  }
  if (!is_utf8(text))
    throw UsageError(fmt::format("--traffic: {} is no text in UTF-8; {}", in_quotes(options.traffic), remedy));
  return text;
}

}  // namespace p5
