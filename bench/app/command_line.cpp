// The command line: CLI11 splits it, this file says what the words mean.
#include "bench/app/command_line.hpp"

#include "bench/app/declarations.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/version.hpp"
#include "bench/model/backends.hpp"
#include "bench/model/collective.hpp"

namespace p5 {

namespace {

const std::vector<std::string> list_kinds{"collectives", "platforms", "knobs", "backends", "formats", "findings"};

void add_compare(CLI::App& app, Declarations& all, Options& o, std::vector<std::string>& sides) {
  CLI::App* compare = app.add_subcommand("compare", "two reports, or two sets of them: did anything get slower?");
  compare->add_option("REPORTS", sides, "BASE NEW: a report.json or a folder of runs each")->type_name("");
  compare->add_option("--base", o.base_files, "the reports or folders to compare with")->type_name("FILE...");
  compare->add_option("--new", o.new_files, "the reports or folders in question")->type_name("FILE...");
  all.add(*compare, {.name = "--base-arm",
                     .shown = "NAME",
                     .help = "the arm of BASE, in reports that hold several; default default",
                     .take = [&](const std::string& t) { o.base_arm = t; }});
  all.add(*compare, {.name = "--new-arm", .shown = "NAME", .help = "the arm of NEW", .take = [&](const std::string& t) {
                       o.new_arm = t;
                     }});
  all.add(*compare, {.name = "--history",
                     .shown = "DIR",
                     .help = "a folder of runs: how they went, and the newest against those before",
                     .take = [&](const std::string& t) { o.history = t; }});
  compare->add_flag("--across-hardware", o.across_hardware, "compare although the hardware is not the same");
  compare->fallthrough();
}

void add_baseline(CLI::App& app, Options& o) {
  CLI::App* baseline =
      app.add_subcommand("baseline", "build a baseline from the reports of healthy runs of one machine");
  baseline->add_option("REPORTS", o.baseline_files, "report.json files or folders of runs")->required()->type_name("");
  baseline->fallthrough();
}

void add_import(CLI::App& app, Declarations& all, Options& o) {
  CLI::App* import = app.add_subcommand("import", "turn what another benchmark printed into a report");
  import->add_option("WHAT", o.import_what, "nccl-tests: its table (versions 2.0 to 2.20) or its JSON (-J)")
      ->required()
      ->type_name("");
  import->add_option("LOG", o.import_file, "the file")->required()->type_name("");
  all.add(*import, {.name = "--collective",
                    .shown = "NAME",
                    .help = "what was measured, where the file does not name the program",
                    .take = [&](const std::string& t) { o.import_collective = find_collective(t).name; }});
  import->fallthrough();
}

// "BASE NEW", or the two lists.
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

// Where they differ between commands.
void set_defaults(const std::string& command, Options& o) {
  if (command != "ab") return;
  o.collectives = {"all_reduce", "all_gather"};
  o.min = {16};
  o.max = GiB(1);
  o.factor = 4;
  o.budget = {180};
  o.launches = 7;
}

// The option that is none, or else the first word too many; CLI11 hands them back last first. An unknown option's value
// is a word too many as well, but not the mistake.
std::string culprit_of(const std::vector<std::string>& extras) {
  const auto option =
      std::find_if(extras.rbegin(), extras.rend(), [](const std::string& word) { return word.starts_with("-"); });
  const std::string& word = option == extras.rend() ? extras.back() : *option;
  return word.substr(0, word.starts_with("-") ? word.find('=') : std::string::npos);
}

// Ours instead of CLI11's words where a nearest name helps.
UsageError explain(const CLI::App& app, const CLI::ParseError& error) {
  // Not by its name: that is the name of the program.
  const std::vector<std::string> extras = app.remaining(true);
  if (!dynamic_cast<const CLI::ExtrasError*>(&error) || extras.empty())
    return UsageError(fmt::format("{}. Run `p5bench --help` for the options", error.what()));
  const std::string culprit = culprit_of(extras);
  std::vector<std::string> known;
  if (culprit.starts_with("-")) {
    for (const CLI::Option* option : app.get_options()) known.push_back(option->get_name());
    std::erase_if(known, [](const std::string& name) { return !name.starts_with("--"); });
    return UsageError(unknown_name("option", culprit, known));
  }
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(sub->get_name());
  return UsageError(unknown_name("command", culprit, known));
}

void check_topo(const Options& o) {
  if (o.command != "topo") return;
  const BackendInfo* const asked = asked_backend(o.backend);
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

void add_topo(CLI::App& app, Declarations& all, Options& o) {
  CLI::App* topo = app.add_subcommand(
      "topo", "what the machine is, with what is wrong marked; alone or under mpirun, a rank a host");
  topo->add_option("--load", o.load_file,
                   "instead of this machine: a recording, topology.json, report.json, hwloc's XML, or a folder with "
                   "copies of /proc and /sys")
      ->type_name("FILE");
  topo->add_option("--record", o.record_file, "write everything that was found to this file")->type_name("FILE");
  topo->add_option("--rankfile", o.rank_file, "write a rank file for Open MPI: each rank on cores near its GPU")
      ->type_name("FILE");
  topo->fallthrough();
  all.add_check(check_topo);
}

constexpr std::string_view about =
    "Measures collective communication of a GPU cluster, judges it against what the hardware can do, and reports.\n"
    "Start it with mpirun or srun, one rank per GPU:  mpirun -np 32 p5bench\n"
    "Without GPUs it measures host memory over MPI; --backend sim needs neither hardware nor mpirun.\n"
    "Sizes are total message bytes: 64K = 64KiB = 65536, 64kB = 64000. Rates are decimal GB/s.\n"
    "Exit: 0 good or not judged, 2 usage, 10 slow or a regression, 11 wrong data, 12 unfinished, 13 environment, "
    "14 inconclusive.";

}  // namespace

bool measures(const std::string& command) {
  return command == "run" || command == "tune" || command == "ab" || command == "plan";
}

Options defaults_of(const std::string& command) {
  Options o;
  set_defaults(command, o);
  return o;
}

Parsed parse_options(const std::vector<std::string>& arguments) {
  Parsed parsed;
  Options& o = parsed.options;
  CLI::App app{std::string(about), "p5bench"};
  app.set_help_flag("-h,--help", "this text");
  app.set_version_flag("--version", fmt::format("p5bench {}", version()));
  app.require_subcommand(0, 1);
  app.option_defaults()->always_capture_default(false);
  Declarations all;
  app.add_subcommand("run", "measure, judge and report (the default)")->fallthrough();
  app.add_subcommand("tune", "search for faster NCCL settings, with proof; measures nothing else")->fallthrough();
  CLI::App* ab = app.add_subcommand(
      "ab",
      "two arms, A and B, of variables and library paths, in turns of fresh processes: is B slower? By default "
      "all_reduce and all_gather from 16 B to 1 GiB by factor 4, 7 launches an arm, within 3min. The options of a run "
      "hold too");
  ab->fallthrough();
  declare_ab_options(all, *ab, o);
  declare_run_options(all, app, o);
  app.add_subcommand("plan", "what a run would do: cases, memory, time; measures nothing")->fallthrough();
  CLI::App* list = app.add_subcommand("list", "what there is: " + join(list_kinds));
  all.add(*list, {.name = "WHAT",
                  .shown = "",
                  .help = "one of: " + join(list_kinds),
                  .take = [&](const std::string& t) { o.list_what = one_of("list", t, list_kinds); }})
      ->required();
  CLI::App* report = app.add_subcommand("report", "render a report.json again");
  report->add_option("FILE", o.report_file, "the report.json")->required();
  report->fallthrough();
  std::vector<std::string> sides;
  add_compare(app, all, o, sides);
  add_baseline(app, o);
  add_import(app, all, o);
  add_topo(app, all, o);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    const bool own = !chosen.empty() && (!measures(chosen.front()->get_name()) || chosen.front()->get_name() == "ab");
    parsed.early = EarlyText{own ? chosen.front()->help() : app.help()};
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
  if (o.command == "compare") take_sides(o, sides);
  all.check_all(o);
  if (o.command == "import") one_of("benchmark", o.import_what, {"nccl-tests"});
  return parsed;
}

}  // namespace p5
