// The command line: CLI11 splits it, this file says what the words mean.
#include "bench/app/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <functional>
#include <memory>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/version.hpp"
#include "bench/model/arm.hpp"
#include "bench/model/backends.hpp"
#include "bench/model/collective.hpp"

namespace p5 {

namespace {

const std::vector<std::string> list_kinds{"collectives", "platforms", "knobs", "backends", "formats", "findings"};
const std::vector<std::string> format_kinds{"json", "html", "console", "markdown", "junit", "gbench"};

// An option whose text is turned into a value by `take`, which throws UsageError. CLI11 would wrap the error in its own
// words; keeping the text and taking it after the parse leaves ours as they are.
class Texts {
 public:
  CLI::Option* add(CLI::App& app, const std::string& name, const std::string& help, const std::string& shown,
                   std::function<void(const std::string&)> take) {
    auto slot = std::make_unique<std::vector<std::string>>();
    CLI::Option* option = app.add_option(name, *slot, help)
                              ->type_name(shown)
                              ->expected(1)
                              ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    entries_.push_back({name, std::move(slot), std::move(take)});
    return option;
  }

  void take_all() const {
    for (const Entry& entry : entries_) {
      for (const std::string& text : *entry.texts) {
        try {
          entry.take(text);
        } catch (const UsageError& problem) {
          throw UsageError(fmt::format("{}: {}", entry.name, problem.what()));
        }
      }
    }
  }

 private:
  struct Entry {
    std::string name;
    std::unique_ptr<std::vector<std::string>> texts;
    std::function<void(const std::string&)> take;
  };
  std::vector<Entry> entries_;
};

template <class Number>
Number whole_number(const std::string& text, Number least, Number most) {
  Number number{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size() || number < least || number > most)
    throw UsageError(fmt::format("'{}' is not a whole number from {} to {}", text, least, most));
  return number;
}

std::string one_of(const std::string& kind, const std::string& text, const std::vector<std::string>& names) {
  if (std::ranges::find(names, text) == names.end()) throw UsageError(unknown_name(kind, text, names));
  return text;
}

template <class Value>
std::vector<Value> list_of(const std::string& text, const std::function<Value(const std::string&)>& parse) {
  std::vector<Value> values;
  for (const std::string& part : split(text)) {
    if (part.empty()) throw UsageError(fmt::format("'{}' has an empty entry; write a list like a,b,c", text));
    Value value = parse(part);
    if (std::ranges::find(values, value) == values.end()) values.push_back(std::move(value));
  }
  return values;
}

// "all", or a list of names.
template <class Enum>
std::vector<Enum> enums_of(const std::string& text, std::span<const std::string> names,
                           Enum (*parse)(std::string_view)) {
  if (text == "all") {
    std::vector<Enum> all;
    for (const std::string& name : names) all.push_back(parse(name));
    return all;
  }
  return list_of<Enum>(text, [&](const std::string& part) { return parse(part); });
}

void add_what(CLI::App& app, Texts& texts, Options& o) {
  const std::string group = "What to measure";
  texts
      .add(app, "--backend",
           "what moves the data; auto: nccl where every rank has a GPU, else mpi (see `list backends`)", "NAME",
           [&](const std::string& t) {
             std::vector<std::string> names = backend_names();
             names.insert(names.begin(), "auto");
             o.backend = one_of("backend", t, names);
           })
      ->group(group);
  texts
      .add(app, "--collectives", "which ones (see `list collectives`); default p2p,all_reduce,all_gather", "LIST",
           [&](const std::string& t) {
             o.collectives = list_of<std::string>(
                 t, [](const std::string& part) { return std::string(find_collective(part).name); });
           })
      ->group(group);
  texts.add(app, "--min", "smallest message; default 8", "SIZE", [&](const std::string& t) { o.min = parse_bytes(t); })
      ->group(group);
  texts
      .add(app, "--max", "largest message; default 4GiB, 64MiB of host memory (mpi, ofi), lowered to what fits", "SIZE",
           [&](const std::string& t) { o.max = parse_bytes(t), o.max_given = true; })
      ->group(group);
  texts
      .add(app, "--factor", "from one size to the next; default 2", "N",
           [&](const std::string& t) { o.factor = whole_number<int>(t, 2, 1 << 30); })
      ->group(group);
  texts
      .add(app, "--sizes", "these sizes instead: a list", "LIST",
           [&](const std::string& t) {
             o.sizes = list_of<Bytes>(t, [](const std::string& part) { return parse_bytes(part); });
           })
      ->group(group);
  app.add_flag("--per-rank", o.per_rank, "sizes count one rank's bytes, not those of all ranks")->group(group);
  texts
      .add(app, "--type", "element types: a list, or all; default float32", "LIST",
           [&](const std::string& t) { o.types = enums_of<DataType>(t, data_type_names(), parse_data_type); })
      ->group(group);
  texts
      .add(app, "--op", "reductions: a list of sum,prod,min,max,avg, or all; default sum", "LIST",
           [&](const std::string& t) { o.ops = enums_of<ReduceOp>(t, reduce_op_names(), parse_reduce_op); })
      ->group(group);
  texts
      .add(app, "--root", "of collectives that have one; default 0", "RANK",
           [&](const std::string& t) { o.root = whole_number<int>(t, 0, 1 << 30); })
      ->group(group);
  app.add_flag("--in-place", o.in_place, "input and output in the same buffer")->group(group);
  app.add_flag("--cuda-graph", o.cuda_graph, "launch the operations as CUDA graphs (nccl only)")->group(group);
  texts
      .add(
          app, "--register",
          "buffers that NCCL knows beforehand (nccl only): none, local (ncclCommRegister) or symmetric (windows of all "
          "ranks, NCCL 2.27); default none",
          "HOW",
          [&](const std::string& t) {
            o.registration = one_of("registration", t, {"none", "local", "symmetric"});
          })
      ->group(group);
  texts
      .add(app, "--group", "who performs a collective together: world, node, rail or stride:N; default world", "GROUP",
           [&](const std::string& t) { o.group = t; })
      ->group(group);
}

void add_how(CLI::App& app, Texts& texts, Options& o) {
  const std::string group = "How long and how";
  texts
      .add(app, "--budget", "wall time for the run; default 10min, in ab 3min", "TIME",
           [&](const std::string& t) { o.budget = parse_duration(t); })
      ->group(group);
  texts
      .add(app, "--launches",
           "fresh processes and communicators that each case is measured in, sharing the budget; default 1, in ab 7 an "
           "arm",
           "N", [&](const std::string& t) { o.launches = whole_number<int>(t, 1, 1000); })
      ->group(group);
  texts
      .add(app, "--soak",
           "go on with fresh launches until so much time is over, each within the budget, and tell which were slower",
           "TIME", [&](const std::string& t) { o.soak = parse_duration(t); })
      ->group(group);
  texts
      .add(app, "--timeout", "without progress before a case counts as hung; default 30s", "TIME",
           [&](const std::string& t) { o.timeout = parse_duration(t); })
      ->group(group);
  texts
      .add(app, "--seed", "of the order of cases and of drawn pairs; default random, recorded", "N",
           [&](const std::string& t) { o.seed = whole_number<std::uint64_t>(t, 0, ~std::uint64_t{0}); })
      ->group(group);
  app.add_flag("--resume", o.resume,
               "go on with the newest run in --out, which something ended: what it measured stands")
      ->group(group);
  texts
      .add(app, "--tune",
           "search for faster NCCL settings after the run: off, quick (some 20 s), full (some 3 min) or exhaustive "
           "(everything that NCCL offers, to judge the search by); default quick, on GPUs only",
           "WHAT",
           [&](const std::string& t) {
             o.tune = one_of("tuning", t, {"off", "quick", "full", "exhaustive"});
           })
      ->group(group);
  texts
      .add(
          app, "--delivery",
          "what the settings may need: plugin (NCCL's tuner plugin, a setting for each size), env (variables alone, "
          "which no band of sizes may lose by) or nvidia (as plugin, and beside it the table for the example plugin of "
          "NCCL's sources, see tuner/README.md); default plugin",
          "HOW",
          [&](const std::string& t) {
            o.delivery = one_of("delivery", t, {"plugin", "env", "nvidia"});
          })
      ->group(group);
  texts
      .add(app, "--weights",
           "file with what a job's traffic is made of, for choosing variables: lines of collective, bytes, share",
           "FILE", [&](const std::string& t) { o.weights = t; })
      ->group(group);
}

void add_where(CLI::App& app, Texts& texts, Options& o) {
  const std::string group = "The machine";
  texts
      .add(app, "--platform", "instance type (see `list platforms`); default: detected", "NAME",
           [&](const std::string& t) { o.platform = t; })
      ->group(group);
  app.add_flag("--allow-shared-gpu", o.allow_shared_gpu,
               "several ranks on one GPU: right data, figures not to be judged")
      ->group(group);
  texts
      .add(app, "--env",
           "whose NCCL_*, FI_*, OFI_NCCL_*, P5BENCH_TUNER_* and LD_LIBRARY_PATH workers get: rank0 or local; default "
           "rank0",
           "WHOSE",
           [&](const std::string& t) {
             o.environment_of_rank0 = one_of("choice", t, {"rank0", "local"}) == "rank0";
           })
      ->group(group);
  texts
      .add(app, "--nodes", "number of nodes (sim only); default 1", "N",
           [&](const std::string& t) { o.nodes = whole_number<int>(t, 1, 65536); })
      ->group(group);
  texts
      .add(app, "--fault",
           "a fault to simulate (sim only), repeatable: gpu|nic|node|link : n3g2|n3r5|n3|n3-n5 : share of speed left, "
           "0 is "
           "silent [ : always | P% of samples | all-rails | lies ]",
           "KIND:WHERE:FACTOR[:MODE]", [&](const std::string& t) { o.faults.push_back(t); })
      ->group(group);
}

void add_output(CLI::App& app, Texts& texts, Options& o) {
  const std::string group = "Output";
  texts
      .add(app, "--out", "folder for reports; default p5bench-out", "DIR",
           [&](const std::string& t) {
             if (t.empty()) throw UsageError("it is empty");
             o.out = t;
           })
      ->group(group);
  texts
      .add(app, "--cluster", "name of the cluster in reports; default: the scheduler's, else platform and node count",
           "NAME",
           [&](const std::string& t) {
             if (const std::string objection = objection_to_folder_name(t); !objection.empty())
               throw UsageError(objection);
             o.cluster = t;
           })
      ->group(group);
  texts
      .add(app, "--baseline", "a baseline, or a folder of runs, that run and report compare theirs with", "FILE|DIR",
           [&](const std::string& t) {
             if (t.empty()) throw UsageError("it is empty");
             o.baseline = t;
           })
      ->group(group);
  texts
      .add(app, "--format", "what to write: a list (see `list formats`); default json,html,console", "LIST",
           [&](const std::string& t) {
             o.formats_given = true;
             o.formats =
                 list_of<std::string>(t, [](const std::string& part) { return one_of("format", part, format_kinds); });
           })
      ->group(group);
  app.add_flag("--quiet", o.quiet, "print no progress and no table, only the verdict")->group(group);
}

void add_compare(CLI::App& app, Texts& texts, Options& o, std::vector<std::string>& sides) {
  CLI::App* compare = app.add_subcommand("compare", "two reports, or two sets of them: did anything get slower?");
  compare->add_option("REPORTS", sides, "BASE NEW: a report.json or a folder of runs each")->type_name("");
  compare->add_option("--base", o.base_files, "the reports or folders to compare with")->type_name("FILE...");
  compare->add_option("--new", o.new_files, "the reports or folders in question")->type_name("FILE...");
  texts.add(*compare, "--base-arm", "the arm of BASE, in reports that hold several; default default", "NAME",
            [&](const std::string& t) { o.base_arm = t; });
  texts.add(*compare, "--new-arm", "the arm of NEW", "NAME", [&](const std::string& t) { o.new_arm = t; });
  texts.add(*compare, "--history", "a folder of runs: how they went, and the newest against those before", "DIR",
            [&](const std::string& t) { o.history = t; });
  compare->add_flag("--across-hardware", o.across_hardware, "compare although the hardware is not the same");
  compare->fallthrough();
}

void add_baseline(CLI::App& app, Options& o) {
  CLI::App* baseline =
      app.add_subcommand("baseline", "build a baseline from the reports of healthy runs of one machine");
  baseline->add_option("REPORTS", o.baseline_files, "report.json files or folders of runs")->required()->type_name("");
  baseline->fallthrough();
}

void add_import(CLI::App& app, Texts& texts, Options& o) {
  CLI::App* import = app.add_subcommand("import", "turn what another benchmark printed into a report");
  import->add_option("WHAT", o.import_what, "nccl-tests: its table (versions 2.0 to 2.20) or its JSON (-J)")
      ->required()
      ->type_name("");
  import->add_option("LOG", o.import_file, "the file")->required()->type_name("");
  texts.add(*import, "--collective", "what was measured, where the file does not name the program", "NAME",
            [&](const std::string& t) { o.import_collective = find_collective(t).name; });
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

// Those that differ between commands.
void take_defaults(const Options& defaults, Options& o) {
  o.collectives = defaults.collectives;
  o.min = defaults.min;
  o.max = defaults.max;
  o.factor = defaults.factor;
  o.budget = defaults.budget;
  o.launches = defaults.launches;
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

void add_topo(CLI::App& app, Options& o) {
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
  if (command != "ab") return o;
  o.collectives = {"all_reduce", "all_gather"};
  o.min = {16};
  o.max = GiB(1);
  o.factor = 4;
  o.budget = {180};
  o.launches = 7;
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
  Texts texts;
  add_what(app, texts, o);
  add_how(app, texts, o);
  add_where(app, texts, o);
  add_output(app, texts, o);
  app.add_subcommand("run", "measure, judge and report (the default)")->fallthrough();
  app.add_subcommand("tune", "search for faster NCCL settings, with proof; measures nothing else")->fallthrough();
  CLI::App* ab = app.add_subcommand(
      "ab",
      "two arms, A and B, of variables and library paths, in turns of fresh processes: is B slower? By default "
      "all_reduce and all_gather from 16 B to 1 GiB by factor 4, 7 launches an arm, within 3min. The options of a run "
      "hold too");
  ab->fallthrough();
  const auto add_arm = [&](const std::string& name, const std::string& help,
                           std::function<void(const std::string&)> take) {
    texts.add(*ab, name, help, "KEY=VALUE,...", std::move(take));
  };
  add_arm("--a",
          "variables of A's processes over yours; default none; LD_LIBRARY_PATH=DIR puts DIR first, an empty "
          "value removes a variable",
          [&](const std::string& t) { o.a = parse_arm(t); });
  add_arm("--b", "the same of B", [&](const std::string& t) { o.b = parse_arm(t), o.b_given = true; });
  app.add_subcommand("plan", "what a run would do: cases, memory, time; measures nothing")->fallthrough();
  CLI::App* list = app.add_subcommand("list", "what there is: " + join(list_kinds));
  texts
      .add(*list, "WHAT", "one of: " + join(list_kinds), "",
           [&](const std::string& t) { o.list_what = one_of("list", t, list_kinds); })
      ->required();
  CLI::App* report = app.add_subcommand("report", "render a report.json again");
  report->add_option("FILE", o.report_file, "the report.json")->required();
  report->fallthrough();
  std::vector<std::string> sides;
  add_compare(app, texts, o, sides);
  add_baseline(app, o);
  add_import(app, texts, o);
  add_topo(app, o);
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
  take_defaults(defaults_of(o.command), o);
  texts.take_all();
  if (o.command == "compare") take_sides(o, sides);
  refuse_contradictions(o);
  if (o.command == "import") one_of("benchmark", o.import_what, {"nccl-tests"});
  return parsed;
}

}  // namespace p5
