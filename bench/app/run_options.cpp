// Options of the measuring commands with their conflicts.
#include "bench/app/declarations.hpp"

#include <algorithm>

#include "bench/app/command_line.hpp"
#include "bench/app/machine/backends.hpp"
#include "bench/base/text.hpp"
#include "bench/model/backends.hpp"
#include "bench/model/collective.hpp"
#include "bench/model/job.hpp"
#include "bench/model/options.hpp"
#include "bench/model/traffic.hpp"
#include "reports/writer.hpp"
#include "topo/platform.hpp"

namespace p5 {

// ---- how options are declared

CLI::Option* Declarations::add(CLI::App& app, Declaration declaration) {
  auto slot = std::make_unique<std::vector<std::string>>();
  CLI::Option* option =
      app.add_option(declaration.alias.empty() ? declaration.name : declaration.name + "," + declaration.alias, *slot,
                     declaration.help)
          ->type_name(declaration.shown)
          ->expected(declaration.several ? -1 : 1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->allow_extra_args(declaration.several);
  if (declaration.check) add_check(std::exchange(declaration.check, nullptr));
  entries_.push_back({std::move(declaration), option, std::move(slot)});
  return option;
}

CLI::Option* Declarations::add_flag(CLI::App& app, Declaration declaration, bool& value) {
  CLI::Option* option = app.add_flag(declaration.name, value, declaration.help);
  entries_.push_back({std::move(declaration), option, nullptr});
  return option;
}

const Declaration* Declarations::find(const CLI::Option& option) const {
  const auto found = std::ranges::find(entries_, &option, &Entry::option);
  return found == entries_.end() ? nullptr : &found->declared;
}

void Declarations::refuse_empty(const CLI::Option& option) const {
  for (const Entry& each : entries_)
    if (each.option == &option && !each.declared.may_be_empty)
      throw UsageError(fmt::format("{}: '' is empty; give a value, or leave it out", each.declared.name));
}

void Declarations::take_all(Options& options) const {
  for (const auto& [declared, option, texts] : entries_) {
    if (option->count() == 0) continue;
    const std::vector<std::string>& commands = declared.commands;
    if (!commands.empty() && std::ranges::find(commands, options.command) == commands.end())
      throw UsageError(
          fmt::format("{} has no meaning for {}; it is for {}", declared.name, options.command, join(commands)));
    options.given.insert(declared.name);
    if (!texts) continue;
    for (const std::string& text : *texts) {
      if (text.empty()) refuse_empty(*option);
      try {
        declared.take(text);
      } catch (const UsageError& problem) {
        throw UsageError(fmt::format("{}: {}", declared.name, problem.what()));
      }
    }
  }
}

void Declarations::check_all(const Options& options) const {
  for (const Check& check : checks_) check(options);
}

void Declaring::operator()(Declaration declaration) {
  add_check(std::exchange(declaration.check, nullptr));
  declaration.commands.insert(declaration.commands.begin(), measuring_commands.begin(), measuring_commands.end());
  all_.add(app_, std::move(declaration))->group(heading_);
}

void Declaring::flag(const std::string& name, bool& value, const std::string& help, Check check,
                     std::vector<std::string> commands, std::vector<std::string> refused_by) {
  add_check(std::move(check));
  commands.insert(commands.begin(), measuring_commands.begin(), measuring_commands.end());
  all_.add_flag(app_,
                {.name = name,
                 .shown = "",
                 .help = help,
                 .take = nullptr,
                 .commands = std::move(commands),
                 .refused_by = std::move(refused_by)},
                value)
      ->group(heading_);
}

void Declaring::add_check(Check check) {
  if (!check) return;
  all_.add_check([check = std::move(check)](const Options& options) {
    if (measures(options.command)) check(options);
  });
}

namespace {

// Maximum of simulated nodes: planning for eight GPUs on each takes seconds, for sixteen times as many a minute and 19
// GB.
constexpr int most_nodes = 4096;

const std::vector<std::string> tunings{"off", "quick", "full"};
const std::vector<std::string> deliveries{"plugin", "env", "nvidia", "calls"};
const std::vector<std::string> environments{"rank0", "local"};
const std::vector<std::string> memories{"auto", "gpu", "host"};

std::vector<std::string> texts(std::span<const std::string_view> names) { return {names.begin(), names.end()}; }

std::vector<std::string> with(const std::string& first, std::span<const std::string> names) {
  std::vector<std::string> all{first};
  all.insert(all.end(), names.begin(), names.end());
  return all;
}

std::vector<std::string> platform_names() {
  std::vector<std::string> names;
  for (const topo::Platform& each : topo::platforms()) names.push_back(each.name);
  return names;
}

// The requested backend, if it cannot be relaunched.
bool stays_in_job(const Options& o) {
  const BackendInfo* const asked = requested_backend(o.backend);
  return asked && !asked->relaunches();
}

// ---- what to measure

void check_max(const Options& o) {
  if (!o.sizes.empty() || !o.max_given || o.min <= o.max) return;
  if (o.given.contains("--min"))
    throw UsageError(fmt::format("--min {} is above --max {}", to_text(o.min), to_text(o.max)));
  throw UsageError(fmt::format("--max {} is below the smallest message, which is {} unless --min says otherwise",
                               to_text(o.max), to_text(o.min)));
}

void check_sizes(const Options& o) {
  if (o.sizes.empty()) return;
  for (const char* other : {"--min", "--max", "--factor"})
    if (o.given.contains(other))
      throw UsageError(fmt::format("--sizes replaces --min, --max and --factor; leave it or {} out", other));
}

void check_op(const Options& o) {
  const bool reduces =
      std::ranges::any_of(o.collectives, [](const std::string& name) { return find_collective(name).reduces; });
  if (!reduces && o.ops != Options{}.ops)
    throw UsageError(fmt::format("--op has no meaning for {}: none of them reduces", join(o.collectives)));
}

void check_root(const Options& o) {
  if (o.every_root &&
      std::ranges::none_of(o.collectives, [](const std::string& name) { return find_collective(name).rooted; }))
    throw UsageError(fmt::format("--root all has no meaning for {}: none of them has a root", join(o.collectives)));
}

void check_in_place(const Options& o) {
  if (!o.in_place || o.collectives == defaults_of(o.command).collectives) return;
  for (const std::string& name : o.collectives)
    if (!find_collective(name).in_place_offset)
      throw UsageError(fmt::format("{} has no in-place form; leave it out of --collectives or drop --in-place", name));
}

void check_aggregate(const Options& o) {
  if (o.calls.aggregate == 1) return;
  for (const std::string& name : o.collectives)
    if (!find_collective(name).fits_a_group())
      throw UsageError(fmt::format(
          "several operations {} cannot be one group; leave it out of --collectives or --aggregate out", name));
}

void check_traffic(const Options& o) {
  if (o.traffic.empty()) return;
  for (const std::string& name : o.collectives)
    if (find_collective(name).of_tokens && !routes_tokens(o.traffic))
      throw UsageError(fmt::format("--traffic {}: {} moves tokens to experts; give expert:TOKENS,EXPERTS,TOP_K",
                                   in_quotes(o.traffic), name));
  const auto takes = [](const std::string& name) { return find_collective(name).by_traffic != nullptr; };
  if (std::ranges::any_of(o.collectives, takes)) return;
  std::vector<std::string> known;
  for (const Collective* each : collectives())
    if (each->by_traffic) known.emplace_back(each->name);
  throw UsageError(
      fmt::format("--traffic has no meaning for {}; add --collectives {}", join(o.collectives), join(known)));
}

std::string traffic_help() {
  std::string text =
      "bytes from each rank to each, of all_to_allv (dispatch and combine: expert alone): a CSV file or a generator:";
  for (const TrafficGenerator& each : traffic_generators()) text += fmt::format(" {};", each.form);
  return text + " @N behind it: another draw";
}

// Options of a measurement that a search for settings has no use for; a replayed step takes the type.
void check_tuned(const Options& o) {
  if (o.command != "tune") return;
  const Options usual;
  for (const auto& [option, differs] :
       {std::pair("--per-rank", o.per_rank), std::pair("--type", o.job.empty() && o.types != usual.types),
        std::pair("--op", o.ops != usual.ops), std::pair("--root", o.every_root || o.root != usual.root),
        std::pair("--in-place", o.in_place), std::pair("--cuda-graph", o.calls.cuda_graph),
        std::pair("--register", o.calls.registration != usual.calls.registration),
        std::pair("--aggregate", o.calls.aggregate != usual.calls.aggregate),
        std::pair("--unalign", o.calls.unalign != usual.calls.unalign)})
    if (differs)
      throw UsageError(
          fmt::format("{}: tune searches settings for plain operations on float32; leave it out, or compare settings "
                      "with it: p5bench ab --b NCCL_PROTO=Simple {} ...",
                      option, option));
}

void check_cta_policy(const Options& o) {
  if (o.calls.cta_policy != "default" && o.requests_tuning())
    throw UsageError(
        fmt::format("--cta-policy {}: NCCL ignores a policy where a tuner is loaded, as for tuning; leave one out",
                    o.calls.cta_policy));
}

void check_device_initiated(const Options& o) {
  const auto found = std::ranges::find_if(o.collectives, is_device_initiated);
  if (found == o.collectives.end()) return;
  if (o.requests_tuning())
    throw UsageError(fmt::format(
        "{} cannot be tuned: its kernels are p5bench's, which no setting of NCCL reaches; leave it or tuning out",
        *found));
  for (const char* option : {"--register", "--cta-policy"})
    if (o.given.contains(option))
      throw UsageError(fmt::format(
          "{} is for NCCL's own operations, and the kernels of {} are p5bench's; leave one out", option, *found));
}

void check_hidden(const Options& o) {
  if (!o.given.contains("--hidden")) return;
  if (std::ranges::none_of(o.collectives, [](const std::string& name) { return find_collective(name).of_tokens; }))
    throw UsageError(fmt::format("--hidden has no meaning for {}: none of them moves tokens", join(o.collectives)));
  if (o.gives_sizes()) throw UsageError("tokens have the elements of --hidden or what the sizes ask; leave one out");
}

void check_beside(const Options& o) {
  if (o.beside.empty()) return;
  constexpr std::size_t most_works = 4;  // the number of combinations grows with its square
  if (o.beside.size() > most_works)
    throw UsageError(
        fmt::format("--beside {} times: at most {} works run beside a collective", o.beside.size(), most_works));
  const std::string name = name_of(o.beside.front());
  if (o.command != "tune" && !o.tune.empty() && o.tune != "off")
    throw UsageError(
        fmt::format("--beside {}: a run that measures beside other work tunes nothing; leave --tuning {} out, and use "
                    "p5bench tune --beside, which searches settings for that",
                    name, o.tune));
  if (o.every_root) throw UsageError(fmt::format("--beside {} runs beside one root; give --root N", name));
  for (const auto& [option, given] :
       {std::pair("--cuda-graph", o.calls.cuda_graph), std::pair("--aggregate", o.calls.aggregate > 1)})
    if (given)
      throw UsageError(fmt::format("--beside {} launches its operations one by one; leave {} out", name, option));
  const BackendInfo* const asked = requested_backend(o.backend);
  if (asked && !asked->runs_beside) throw UsageError(beside_error(*asked, name));
  if (o.given.contains("--collectives") && std::ranges::none_of(o.collectives, [](const std::string& each) {
        return runs_with_work(find_collective(each));
      }))
    throw UsageError(fmt::format("--beside {}: nothing runs beside {}; name other --collectives, such as send_recv",
                                 name, join(o.collectives)));
}

void check_alone_loss(const Options& o) {
  if (o.given.contains("--alone-loss") && o.beside.empty())
    throw UsageError(
        "--alone-loss limits what settings for operations beside other work cost alone: give --beside WORK");
}

// The share that "2", "2%" or "0.5 %" is.
double parse_percentage(const std::string& text) {
  const double percent = as_number<double>(text.substr(0, text.find_last_not_of("% ") + 1)).value_or(-1);
  if (!(percent >= 0 && percent <= 100))
    throw UsageError(fmt::format("{} is not a percentage from 0 to 100, such as 2%", in_quotes(text)));
  return percent / 100;
}

// The job's file says what a step does.
void check_job(const Options& o) {
  if (o.job.empty()) return;
  for (const char* option : {"--collectives", "--min", "--max", "--factor", "--sizes", "--per-rank", "--op", "--root",
                             "--traffic", "--hidden", "--weights", "--in-place", "--cuda-graph", "--register",
                             "--aggregate", "--cta-policy", "--unalign", "--group", "--beside"})
    if (o.given.contains(option))
      throw UsageError(fmt::format("--job replays the operations of {}; leave {} out", o.job, option));
  const BackendInfo* const asked = requested_backend(o.backend);
  if (asked && !asked->runs_beside) throw UsageError(job_error(*asked));
}

void check_gaps(const Options& o) {
  if (o.given.contains("--gaps") && o.job.empty())
    throw UsageError("--gaps is for the gaps of a job's step: add --job FILE, or leave --gaps out");
}

void add_what(Declarations& all, CLI::App& app, Options& o) {
  Declaring declare(all, app, "What to measure");
  declare({.name = "--backend",
           .shown = "NAME",
           .help =
               "library that moves the data (see `list backends`); default auto: nccl where the hosts have GPUs, mpi "
               "where none has; in check nccl",
           .take = [&](const std::string& t) { o.backend = one_of("backend", t, with("auto", backend_names())); },
           .commands = {"topo", "check"},
           .values = with("auto", backend_names())});
  declare({.name = "--collectives",
           .shown = "LIST",
           .help =
               "collectives to measure (see `list collectives`), or communicator for what communicators cost; default "
               "p2p,all_reduce,all_gather, in ab all_reduce,all_gather",
           .take =
               [&](const std::string& t) {
                 o.collectives = list_of<std::string>(t, [](const std::string& part) {
                   const Collective& found = find_collective(part);
                   if (found.replays) throw UsageError(fmt::format("{} is measured by --job FILE", found.name));
                   return std::string(found.name);
                 });
               },
           .check = check_device_initiated,
           .values = collective_names()});
  declare({.name = "--min", .shown = "SIZE", .help = "smallest message; default 8", .take = [&](const std::string& t) {
             o.min = parse_bytes(t);
           }});
  declare({.name = "--max",
           .shown = "SIZE",
           .help = "largest message; default 4GiB (64MiB with mpi and ofi), lowered if memory is too small",
           .take = [&](const std::string& t) { o.max = parse_bytes(t), o.max_given = true; },
           .check = check_max});
  declare({.name = "--factor",
           .shown = "N",
           .help = "ratio of each size to the one before; default 2",
           .take = [&](const std::string& t) { o.factor = whole_number<int>(t, 2, 1 << 30); }});
  declare({.name = "--sizes",
           .shown = "LIST",
           .help = "a list of sizes, instead of --min, --max and --factor",
           .take =
               [&](const std::string& t) {
                 o.sizes = list_of<Bytes>(t, [](const std::string& part) { return parse_bytes(part); });
               },
           .check = check_sizes});
  declare.flag("--per-rank", o.per_rank, "sizes count one rank's bytes, not those of all ranks", check_tuned, {},
               {"tune"});
  declare({.name = "--type",
           .shown = "LIST",
           .help = "element types: a list, or all; default float32",
           .take = [&](const std::string& t) { o.types = enums_of<DataType>(t, data_type_names(), parse_data_type); },
           .values = with("all", data_type_names())});
  declare({.name = "--op",
           .shown = "LIST",
           .help = "reductions: a list of sum,prod,min,max,avg,mulsum, or all; default sum",
           .take = [&](const std::string& t) { o.ops = enums_of<ReduceOp>(t, reduce_op_names(), parse_reduce_op); },
           .check = check_op,
           .refused_by = {"tune"},
           .values = with("all", reduce_op_names())});
  declare({.name = "--root",
           .shown = "RANK|all",
           .help = "root of the collectives that have one; all: each rank in turn, the slowest is named; default 0",
           .take =
               [&](const std::string& t) {
                 o.every_root = t == "all";
                 o.root = o.every_root ? 0 : whole_number<int>(t, 0, 1 << 30);
               },
           .check = check_root,
           .refused_by = {"tune"}});
  declare({.name = "--traffic",
           .shown = "WHAT",
           .help = traffic_help(),
           .take =
               [&](const std::string& t) {
                 check_generator(t);
                 o.traffic = t;
               },
           .check = check_traffic});
  declare({.name = "--hidden",
           .shown = "N",
           .help = fmt::format("elements of a token of dispatch and combine; default {}", usual_hidden),
           .take = [&](const std::string& t) { o.hidden = whole_number<int>(t, 1, most_hidden); },
           .check = check_hidden});
  declare.flag("--in-place", o.in_place, "input and output in the same buffer", check_in_place, {}, {"tune"});
  declare.flag("--cuda-graph", o.calls.cuda_graph, "launch the operations as CUDA graphs (nccl only)", nullptr, {},
               {"tune"});
  declare(
      {.name = "--register",
       .shown = "HOW",
       .help = "register the buffers with NCCL (nccl only): none, local (ncclCommRegister) or symmetric "
               "(ncclCommWindowRegister, NCCL 2.27 or later); default none",
       .take =
           [&](const std::string& t) { o.calls.registration = one_of("registration", t, texts(registration_kinds)); },
       .refused_by = {"tune"},
       .values = texts(registration_kinds)});
  declare({.name = "--aggregate",
           .shown = "N",
           .help =
               "operations in one group (ncclGroupStart and ncclGroupEnd), up to 32; times are per operation (nccl, "
               "sim); default 1",
           .take = [&](const std::string& t) { o.calls.aggregate = whole_number<int>(t, 1, most_aggregate); },
           .check = check_aggregate,
           .refused_by = {"tune"}});
  declare({.name = "--cta-policy",
           .shown = "POLICY",
           .help = "CTA policy of the communicators (nccl only): default, efficiency (NCCL 2.27) or zero (2.28: copy "
                   "engines where NCCL can use them)",
           .take = [&](const std::string& t) { o.calls.cta_policy = one_of("CTA policy", t, texts(cta_policies)); },
           .check = check_cta_policy,
           .values = texts(cta_policies)});
  declare({.name = "--unalign",
           .shown = "N",
           .help = "buffers begin N elements after an aligned address, up to 63 (nccl, mpi); default 0",
           .take = [&](const std::string& t) { o.calls.unalign = whole_number<int>(t, 0, most_unalign); },
           .refused_by = {"tune"}});
  declare({.name = "--group",
           .shown = "GROUP",
           .help =
               "ranks that perform a collective together, and are tuned: world, node (each node), domain (nodes that "
               "share NVLinks), rail (the i-th ranks of all nodes) or stride:N (ranks with equal remainder modulo "
               "N); default world",
           .take = [&](const std::string& t) { o.group = t; },
           .values = {"world", "node", "domain", "rail"}});
  declare({.name = "--beside",
           .shown = "WORK",
           .help = "what runs at the same time as each collective, as in a job: gemm[:N,K,type], d2h or "
                   "COLLECTIVE[@GROUP]:SIZE (see `list beside`); repeatable; tune searches settings with which all of "
                   "it is done sooner",
           .take = [&](const std::string& t) { o.beside.push_back(parse_work(t)); },
           .check = check_beside,
           .values = {"gemm", "d2h"}});
  declare(
      {.name = "--job",
       .shown = "FILE",
       .help =
           "measure a job's step instead: job.json of `p5bench import job`, replayed with its groups, order and gaps",
       .take = [&](const std::string& t) { o.job = t; },
       .check = check_job});
  declare({.name = "--gaps",
           .shown = "WHAT",
           .help =
               "what fills the gaps of --job: wait (default), or gemm[:N,K,type], matrix products that last as long "
               "as the gap (default 2048,2048,bf16), and run beside operations beside which the job computed",
           .take = [&](const std::string& t) { o.gaps = parse_gaps(t); },
           .check = check_gaps,
           .values = {"wait", "gemm"}});
}

// ---- how long and how

void check_launches(const Options& o) {
  if (o.launches == 1) return;
  if (o.command == "tune")
    throw UsageError("--launches is for run and ab: tune chooses its own number of launches for its proof");
  if (stays_in_job(o)) throw UsageError(launches_error(o.backend, o.launches));
}

void check_soak(const Options& o) {
  if (o.soak.count == 0) return;
  if (o.command != "run" && o.command != "plan")
    throw UsageError(fmt::format("--soak is for run: {} has an end of its own", o.command));
  if (o.launches != 1) throw UsageError("--soak makes as many launches as fit; leave --launches out");
  if (stays_in_job(o)) throw UsageError(launches_error(o.backend, 0));
}

void check_resume(const Options& o) {
  if (!o.resume) return;
  if (o.command != "run" && o.command != "ab")
    throw UsageError(fmt::format("--resume is for run and ab: {} has nothing to go on with", o.command));
  if (o.soak.count > 0) throw UsageError("--resume goes on to the end of a plan, which --soak has not; leave one out");
  if (o.seed) throw UsageError("--resume takes the seed of the run that it continues; leave --seed out");
}

void check_tune(const Options& o) {
  for (const char* option : {"--tuning", "--delivery", "--weights", "--keep-table"})
    if (o.command == "ab" && o.given.contains(option))
      throw UsageError(fmt::format("ab tunes nothing; leave {} out", option));
  for (const char* option : {"--weights", "--keep-table"})
    if (o.command == "plan" && o.given.contains(option))
      throw UsageError(fmt::format("plan reads no files for tuning; leave {} out", option));
  for (const char* option : {"--delivery", "--weights", "--keep-table"})
    if (o.command != "tune" && o.tune == "off" && o.given.contains(option))
      throw UsageError(fmt::format("--tuning off tunes nothing; leave {} out", option));
  const BackendInfo* const asked = requested_backend(o.backend);
  const bool stands_for_gpus = o.command == "plan" && simulates(o);
  if (o.requests_tuning() && asked && !asked->tunable && !stands_for_gpus)
    throw UsageError(fmt::format("tuning finds settings for NCCL: --backend {} has none", o.backend));
  if (o.command == "tune" && o.tune == "off") throw UsageError("tune with --tuning off does nothing; leave one out");
}

void add_how(Declarations& all, CLI::App& app, Options& o) {
  Declaring declare(all, app, "How long and how");
  declare({.name = "--budget",
           .shown = "TIME",
           .help = "wall time for the run; default 10min, in ab 3min",
           .take = [&](const std::string& t) { o.budget = parse_duration(t); }});
  declare(
      {.name = "--launches",
       .shown = "N",
       .help =
           "measure each case in N sets of fresh processes and communicators, which share the budget; default 1, in ab "
           "7 per arm",
       .take = [&](const std::string& t) { o.launches = whole_number<int>(t, 1, 1000); },
       .check = check_launches,
       .refused_by = {"tune"}});
  declare(
      {.name = "--soak",
       .shown = "TIME",
       .help = "repeat the run in fresh launches for this long, each within the budget, and report which were slower",
       .take = [&](const std::string& t) { o.soak = parse_duration(t); },
       .check = check_soak,
       .refused_by = {"ab", "tune"}});
  declare(
      {.name = "--timeout",
       .shown = "TIME",
       .help =
           "time without progress after which a case counts as hung, or ten times what a request is predicted to take "
           "where that is longer; default 30s, in check a quarter of --limit; if given, it also limits the start and "
           "joining of ranks (at least 10s)",
       .take = [&](const std::string& t) { o.timeout = parse_duration(t); },
       .commands = {"check"}});
  declare({.name = "--seed",
           .shown = "N",
           .help = "seed of all random choices, such as the order of cases; default: random, recorded in the report",
           .take = [&](const std::string& t) { o.seed = whole_number<std::uint64_t>(t, 0, ~std::uint64_t{0}); },
           .commands = {"report", "compare"}});
  declare.flag("--resume", o.resume,
               "continue the newest run in --out with these options, which was interrupted, and keep what it measured",
               check_resume, {}, {"tune", "plan"});
  declare({.name = "--tuning",
           .shown = "WHAT",
           .help = "search for faster NCCL settings after the run: off, quick (some 20 s) or full (1 to 3 min); "
                   "default quick, on GPUs only",
           .take =
               [&](const std::string& t) {
                 // exhaustive: everything that the library offers, as a reference for the search
                 o.tune = t == "exhaustive" ? t : one_of("tuning", t, tunings);
               },
           .check = check_tune,
           .alias = "--tune",  // mpirun has an option of this name
           .refused_by = {"ab"},
           .values = tunings});
  declare(
      {.name = "--delivery",
       .shown = "HOW",
       .help =
           "form of the settings: plugin (p5bench's tuner plugin for NCCL, a setting for each size), env (variables "
           "alone, if they make no band of sizes slower), nvidia (plugin, and a table for the example tuner plugin in "
           "NCCL's sources) or calls (plugin, and a C header for programs that call NCCL 2.31.2 or later themselves), "
           "see tuner/README.md; default plugin",
       .take = [&](const std::string& t) { o.delivery = one_of("delivery", t, deliveries); },
       .refused_by = {"ab"},
       .values = deliveries});
  declare({.name = "--weights",
           .shown = "FILE",
           .help = "a job's traffic, by which variables are chosen: lines of collective, bytes, share",
           .take = [&](const std::string& t) { o.weights = t; },
           .refused_by = {"ab", "plan"}});
  all.add(app, {.name = "--alone-loss",
                .shown = "PERCENT",
                .help = "with --beside: how much slower a setting may make the operation alone; default 2%",
                .take = [&](const std::string& t) { o.alone_loss = parse_percentage(t); },
                .check = check_alone_loss,
                .commands = {"tune"}})
      ->group("How long and how");
  declare({.name = "--keep-table",
           .shown = "FILE",
           .help = "an earlier nccl-tuner.csv, whose tables for other communicators are copied into the new one",
           .take = [&](const std::string& t) { o.keep_table = t; },
           .refused_by = {"ab", "plan"}});
}

// ---- the machine

void check_fault(const Options& o) {
  if (!o.faults.empty() && !simulates(o)) throw UsageError("--fault simulates: it needs --backend sim");
}

void check_nodes(const Options& o) {
  if (o.nodes != 1 && !simulates(o))
    throw UsageError(fmt::format(
        "--nodes {} is for --backend sim; real nodes are counted from the ranks that mpirun started", o.nodes));
}

void check_platform(const Options& o) {
  if (simulates(o) && o.platform.empty())
    throw UsageError("--backend sim needs --platform NAME, such as p5.48xlarge (see `p5bench list platforms`)");
}

void check_memory(const Options& o) {
  const BackendInfo* const asked = requested_backend(o.backend);
  const bool moves = !asked || asked->ranks == BackendInfo::Ranks::workers;
  if (o.memory != "auto" && !moves)
    throw UsageError(
        fmt::format("--memory {}: the {} backend moves nothing through NICs of its own; it needs --backend ofi or nccl",
                    o.memory, o.backend));
}

void add_where(Declarations& all, CLI::App& app, Options& o) {
  Declaring declare(all, app, "The machine");
  declare({.name = "--platform",
           .shown = "NAME",
           .help = "instance type (see `list platforms`); default: detected; import has it only for job",
           .take = [&](const std::string& t) { o.platform = t; },
           .check = check_platform,
           .commands = {"topo", "check", "explain", "import"},
           .values = platform_names()});
  declare({.name = "--memory",
           .shown = "WHERE",
           .help =
               "memory of the data when NICs are measured without NCCL: auto (GPU memory if NICs can access it, else "
               "host memory), gpu (copied through host memory if they cannot) or host; default auto",
           .take = [&](const std::string& t) { o.memory = one_of("memory", t, memories); },
           .check = check_memory,
           .commands = {"check"},
           .values = memories});
  declare.flag("--allow-shared-gpu", o.allow_shared_gpu,
               "allow several ranks on one GPU: data is verified, performance is not judged", nullptr, {"check"});
  declare({.name = "--env",
           .shown = "WHOSE",
           .help = "source of NCCL_*, FI_*, OFI_NCCL_*, P5BENCH_TUNER_*, LD_LIBRARY_PATH and PyTorch's allocator hook "
                   "of the workers: rank0 (the same for all) or local (each rank's own); default rank0",
           .take = [&](const std::string& t) { o.environment_of_rank0 = one_of("choice", t, environments) == "rank0"; },
           .commands = {"check"},
           .values = environments});
  declare({.name = "--nodes",
           .shown = "N",
           .help = "number of nodes (sim only), at most 4096; default 1",
           .take = [&](const std::string& t) { o.nodes = whole_number<int>(t, 1, most_nodes); },
           .check = check_nodes,
           .commands = {"topo", "check"}});
  declare(
      {.name = "--fault",
       .shown = "KIND:WHERE:FACTOR[:MODE]",
       .help =
           "a fault to simulate (sim only), repeatable. KIND gpu|nic|node|link|domain, WHERE n3g2|n3r5|n3|n3-n5|d1; "
           "FACTOR: "
           "fraction of the speed that is left, 0 for no progress; MODE: always (the default), P% (of the samples), "
           "all-rails (only while all NICs are busy), at-scale (only with more than two ranks), lies (wrong data), "
           "communicators (only as they are made); for gpu also compute | memory | miscompute (only in the checks of "
           "each GPU alone); gpu, nic and node also under-load (only while a rank computes and exchanges messages); "
           "node also clique (outside its NVLink domain's clique), domain also plane (NVLinks are missing)",
       .take = [&](const std::string& t) { o.faults.push_back(t); },
       .check = check_fault,
       .commands = {"check"}});
}

// ---- output

void check_format(const Options& o) {
  for (const std::string& format : o.formats) reports::find_writer(format);
}

void add_output(Declarations& all, CLI::App& app, Options& o) {
  Declaring declare(all, app, "Output");
  declare({.name = "--out",
           .shown = "DIR",
           .help = "folder for reports; default p5bench-out, in check none",
           .take = [&](const std::string& t) { o.out = t; },
           .commands = {"report", "compare", "baseline", "import", "check"}});
  declare({.name = "--cluster",
           .shown = "NAME",
           .help = "name of the cluster in reports; default: the scheduler's name, else platform and node count",
           .take =
               [&](const std::string& t) {
                 if (const std::string objection = folder_name_error(t); !objection.empty())
                   throw UsageError(objection);
                 o.cluster = t;
               },
           .commands = {"baseline", "import", "check"}});
  all.add(app, {.name = "--baseline",
                .shown = "FILE|DIR",
                .help = "compare the run or report with this baseline, or folder of runs",
                .take = [&](const std::string& t) { o.baseline = t; },
                .commands = {"run", "report"}})
      ->group("Output");
  declare({.name = "--format",
           .shown = "LIST",
           .help =
               "formats to write: a list (see `list formats`); default json,html,console; in check, compare, explain, "
               "report and topo console; import job has none, plan prints JSON if LIST "
               "has json and not console",
           .take =
               [&](const std::string& t) {
                 o.formats =
                     list_of<std::string>(t, [](const std::string& part) { return reports::find_writer(part).name; });
               },
           .check = check_format,
           .commands = {"report", "compare", "import", "explain", "topo", "check"},
           .values = reports::format_names()});
  declare.flag("--quiet", o.quiet, "print no progress and no table, only the decision", nullptr, {"check", "compare"});
  declare.flag("--table", o.table, "print a row for each size on the console, in the columns of nccl-tests", nullptr,
               {"report"});
}

// Each text adds variables to the arm.
Take onto_arm(std::map<std::string, std::string>& arm) {
  return [&arm](const std::string& text) {
    for (const auto& [name, value] : parse_arm(text))
      if (!arm.emplace(name, value).second) throw UsageError(fmt::format("it sets {} twice", name));
  };
}

void check_ab(const Options& o) {
  if (o.command != "ab") return;
  if (!o.given.contains("--b"))
    throw UsageError(
        "ab compares two arms: give the second as --b KEY=VALUE,... (and the first as --a, if not the default)");
  if (stays_in_job(o))
    throw UsageError(
        fmt::format("ab needs worker processes for its arms: --backend {} measures within the processes of this job, "
                    "whose MPI has read its variables; make two runs and compare their reports",
                    o.backend));
}

}  // namespace

void declare_run_options(Declarations& all, CLI::App& app, Options& o) {
  add_what(all, app, o);
  add_how(all, app, o);
  add_where(all, app, o);
  add_output(all, app, o);
}

void declare_ab_options(Declarations& all, CLI::App& ab, Options& o) {
  all.add(
      ab,
      {.name = "--a",
       .shown = "KEY=VALUE,...",
       .help = "variables that A's processes get besides yours, repeatable; default none; LD_LIBRARY_PATH=DIR puts DIR "
               "first, an empty value removes a variable",
       .take = onto_arm(o.a),
       .may_be_empty = true});
  all.add(ab, {.name = "--b",
               .shown = "KEY=VALUE,...",
               .help = "the same for B",
               .take = onto_arm(o.b),
               .check = check_ab,
               .may_be_empty = true});
}

}  // namespace p5
