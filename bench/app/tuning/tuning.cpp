#include "bench/app/tuning/tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "bench/app/machine/files_on_hosts.hpp"
#include "bench/app/machine/workers.hpp"
#include "bench/app/tuning/obstacles.hpp"
#include "bench/app/tuning/stages.hpp"
#include "bench/base/embedded.hpp"
#include "bench/base/environment.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/units.hpp"
#include "bench/measure/trials.hpp"
#include "bench/model/agreement.hpp"
#include "bench/model/job.hpp"
#include "reports/atomic_file.hpp"
#include "tuner/arms.hpp"
#include "tuner/files.hpp"

namespace p5 {

namespace {

// Number of distinct settings other than the default that were tried at a size point, summed over the size points.
int candidates_in(const tuner::SearchResult& found) {
  int candidates = 0;
  for (const tuner::Record& record : found.records) {
    std::set<std::string> tried;
    for (const tuner::Block& block : record.blocks)
      for (const tuner::Candidate& candidate : block.candidates)
        if (!candidate.is_default()) tried.insert(tuner::to_text(candidate));
    candidates += static_cast<int>(tried.size());
  }
  return candidates;
}

// The failure for which nothing may be set; null without one.
const tuner::Failure* failure_of_default(const TuningCourse& course) {
  const auto is_of_default = [](const tuner::Failure& failure) { return failure.candidate.is_default(); };
  const auto fault = std::ranges::find_if(course.search.failures, is_of_default);
  return fault == course.search.failures.end() ? nullptr : &*fault;
}

// Takes the settings for sizes back; what was measured with them says so.
void take_rows_back(TuningCourse& course, tuner::TuningResult& result) {
  result.table.rows.clear();
  result.gains.clear();
  for (tuner::ConfirmedSizePoint& point : course.confirmations) {
    if (!point.setting) continue;
    point.verdict += fmt::format(" with {}, but it is not set", to_text(*point.setting));
    point.setting.reset();
  }
}

constexpr const char* nothing_fits = "No size is measured that fits the memory of two sets of workers on a device.";

// ---- the phase

class Tuning {
 public:
  Tuning(ControlPlane& control, const Options& options, const Machine& machine, const TuningJob& job)
      : control_(control),
        options_(options),
        machine_(machine),
        place_(role_on_host(control, machine.topology)),
        temporary_(job.temporary),
        clock_(job.time_left, [this] { return since(start_).count; }),
        whole_limits_(options.beside.empty() ? limits_of_mode(job.mode)
                                             : limits_beside(limits_of_mode(job.mode), options.alone_loss)),
        tuning_limits_(whole_limits_),
        seed_(job.seed),
        runner_(job.runner),
        environment_(environment_of_nccl(current_environment(), read_file)),
        constraints_(tuner::constraints_of(environment_)),
        weights_(job.weights),
        step_(job.step),
        types_(job.types) {
    course_.mode = job.mode;
    course_.remarks = job.remarks;
    course_.seed = job.seed;
    runner_.on_join = [this](Seconds took) { clock_.joined(took); };
    runner_.together = std::make_shared<OperationsTogether>();
    chain_ = from_leader(control, [&] { return tuner_to_keep(machine.topology, environment_); });
    operator_names_chain_ = agreed(!value_or_empty(environment_, tuner::chain_variable).empty());
    if (!operator_names_chain_ && agreed(lacks_tuner(chain_))) library_without_tuner_ = std::exchange(chain_, "");
    if (operator_names_chain_) course_.of_default = {{"NCCL_TUNER_PLUGIN", chain_}};
    result_.cluster = job.cluster;
    result_.date = utc_now();
    result_.version = version();
    result_.folder = job.folder;
    result_.plugin = plugin();
    result_.table.nccl_version = nccl_version();
    const Placement placement = job_facts(machine, job.seed).placement();
    const std::set<Communicator> communicators = communicator_sizes(options, placement);
    result_.hosts = hosts_of_communicators(options, placement);
    result_.table.ranks = communicators.rbegin()->ranks;
    result_.table.nodes = communicators.rbegin()->nodes;
    one_communicator_size_ = communicators.size() == 1;
    result_.kept = job.kept.tables;
    result_.kept_conditions = job.kept.conditions;
    result_.valid_for = conditions_of_validity(machine.software, machine.topology, options.group);
    if (!options.traffic.empty()) result_.valid_for.emplace_back("--traffic", options.traffic);
    if (options.given.contains("--hidden")) result_.valid_for.emplace_back("--hidden", std::to_string(options.hidden));
    if (tuner::rows_decide_registered_calls(environment_))
      result_.valid_for.emplace_back(tuner::registered_variable, tuner::rows_for_registered);
    result_.outside = tuner::tuning_variables_of(environment_);
    for (const Work& work : options.beside) result_.beside.push_back(name_of(work));
    result_.alone_loss = options.alone_loss;
    if (const std::string calls = describe(options.calls, ", "); !calls.empty())
      course_.remarks.push_back(fmt::format("settings are searched for plain calls, not for these ({})", calls));
  }

  reports::Tuning run() {
    if (machine_.backend->joined()) machine_.backend->abandon();  // with its memory
    machine_.backend->share_memory(backends_at_once);
    if (from_leader(control_, [&] { return !has_a_tuner() && fits(); })) run_stages();
    machine_.backend->share_memory(1);
    course_.wall_s = clock_.wall();
    return deliver();
  }

 private:
  bool agreed(bool leaders) { return shared_by_leader(control_, leaders); }

  // At the leader: true if a tuner is set. NCCL loads a single one, and variables that are faster with it may not be
  // without it.
  bool has_a_tuner() {
    for (const char* const name : {"NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE"}) {
      if (constraints_.allows_variable(name)) continue;
      skip_tuning(
          fmt::format("{} is set{}, so NCCL's tuner is not p5bench's to choose; unset it to tune{}.", name,
                      value_or_empty(current_environment(), name).empty() ? " in a configuration file of NCCL" : "",
                      how_to_keep_tuner(value_or_empty(environment_, "NCCL_TUNER_PLUGIN"))));
      return true;
    }
    return false;
  }

  // At the leader: true if tuning fits the budget and one table, where there will be one, fits all groups.
  bool fits() {
    const std::string objection =
        one_communicator_size_ || options_.delivery == "env"
            ? clock_.objection()
            : fmt::format("The groups of --group {} are not all of as many ranks and nodes: no table fits them all.",
                          options_.group);
    if (!objection.empty()) skip_tuning(objection);
    return objection.empty();
  }

  // At the leader: adds failures, once for each size, candidate and outcome. The default's are the machine's.
  void add_failures(const std::vector<tuner::Failure>& failures) {
    for (const tuner::Failure& failure : failures)
      if (std::ranges::none_of(course_.search.failures, [&](const tuner::Failure& known) {
            return known.point == failure.point && known.candidate == failure.candidate &&
                   known.outcome == failure.outcome;
          }))
        course_.search.failures.push_back(failure);
  }

  // Ends the tuning without a setting: no gain can be measured.
  void skip_tuning(const std::string& why) {
    course_.skipped = true;
    result_.no_settings_reason = why;
    take_rows_back(course_, result_);
    if (!result_.environment.empty()) course_.remarks.push_back(why);
  }

  // Collective: true where nothing will be set, whatever is measured.
  bool is_over() { return agreed(course_.skipped || failure_of_default(course_)); }

  void run_stages() {
    if (step_) time_step();
    if (is_over()) return;
    tuning_limits_ = scale_limits(whole_limits_, {clock_.budget_left()});
    if (tuning_limits_.end < whole_limits_.end)
      course_.remarks.push_back(fmt::format("--budget leaves {} for tuning, less than the {} that it may take",
                                            to_text(tuning_limits_.end), to_text(whole_limits_.end)));
    if (options_.delivery != "env") search();
    if (is_over()) return;
    if (course_.mode != "quick" || options_.delivery == "env") {
      search_environments();
      end_stage("variables");
      if (is_over()) return;
    } else if (!options_.weights.empty()) {
      course_.remarks.push_back(
          "--weights chooses among variables, which a quick tuning tries with --delivery=env only, so it was not used");
    }
    if (course_.mode == "full") {
      measure_call_modes();
      end_stage("ways of calling");
      if (is_over()) return;
    }
    if (agreed(!result_.table.rows.empty())) {
      confirm();
      end_stage("confirmation");
    }
    if (control_.is_leader()) choose_variables(course_, result_, variables_, judged_at_);
    const bool sets = !result_.table.rows.empty() || !result_.environment.empty();
    if (step_ && agreed(sets && !failure_of_default(course_))) {
      confirm_step();
      end_stage("job's step");
    }
  }

  // Puts the files on all hosts where jobs will look for them, and reports how to load them or, on failure, how to copy
  // them.
  reports::Tuning deliver() {
    if (control_.is_leader()) set_nothing_on_a_faulty_machine(course_, result_);
    const bool sets = agreed(!result_.table.rows.empty() || !result_.environment.empty());
    std::vector<tuner::NamedFile> files;
    if (control_.is_leader()) files = make_files(sets);
    std::vector<HostProblem> problems;
    if (sets)
      problems = put_on_hosts(control_, place_, result_.folder, files);
    else
      for (const tuner::NamedFile& file : files)
        reports::write_atomically(std::filesystem::path(result_.folder) / file.name, file.text);
    if (!control_.is_leader()) return {};
    if (!problems.empty())
      course_.remarks.push_back(fmt::format(
          "the files could not be put on every host ({}); copy them there before any job loads them (nccl.env.sh says "
          "how it does)",
          to_text(problems)));
    reports::Tuning report = tuning_report(course_, result_, files);
    if (!sets) return report;
    std::vector<tuner::LoadCommand> lines = tuner::load_commands(result_);
    if (!problems.empty()) {
      std::vector<std::string> hosts;
      for (const HostProblem& each : problems) hosts.push_back(each.host);
      lines = {tuner::copy_command(result_, files, hosts)};
    }
    for (const tuner::LoadCommand& line : lines) report.loading.emplace_back(line.launcher, line.line);
    return report;
  }

  std::vector<tuner::NamedFile> make_files(bool sets) {
    result_.decided = is_decided(course_);
    if (!too_large_.empty() && !options_.sizes.empty())
      course_.remarks.push_back(
          fmt::format("left out of the tuning, where two sets of workers share the devices' memory: {}",
                      join(std::vector<std::string>(too_large_.begin(), too_large_.end()))));
    if (sets && !result_.outside.empty()) course_.remarks.push_back(outside_text());
    const bool with_table = !result_.table.rows.empty();
    if (!sets && operator_names_chain_)
      course_.remarks.push_back(
          fmt::format("nothing is set, and {} loads no tuner by itself: jobs that load {} keep NCCL_TUNER_PLUGIN",
                      tuner::chain_variable, printable(chain_)));
    if (with_table) result_.environment.merge(beside_table());
    if (copied_plugin_ && with_table)
      result_.plugin = (std::filesystem::path(result_.folder) / copied_plugin_->name).string();
    std::vector<tuner::NamedFile> files = tuner::tuning_files(result_);
    if (sets) files.push_back({"nccl-configmap.yaml", tuner::config_map(result_)});
    const auto add = [&](const std::variant<tuner::NamedFile, std::string>& made) {
      if (const auto* file = std::get_if<tuner::NamedFile>(&made)) files.push_back(*file);
      if (const auto* why = std::get_if<std::string>(&made)) course_.remarks.push_back(*why);
    };
    if (options_.delivery == "nvidia") add(tuner::example_plugin_csv(result_, standard_, taken_));
    if (options_.delivery == "calls") add(tuner::calls_header(result_));
    if (!result_.kept.empty() && !with_table)
      course_.remarks.push_back(
          fmt::format("{} stays as it is: there is nothing to add to it", printable(options_.keep_table)));
    if (copied_plugin_ && with_table) files.push_back(*copied_plugin_);
    return files;
  }

  std::string outside_text() const {
    std::vector<std::string> set;
    for (const auto& [name, value] : result_.outside) set.push_back(fmt::format("{}={}", name, value));
    return fmt::format("found with {} set: jobs that load the settings need the same", printable(join(set)));
  }

  void end_stage(std::string name) {
    const double now = clock_.wall();
    course_.stages.push_back({std::move(name), now - stage_began_});
    stage_began_ = now;
  }

  // Keeps time for the confirmation.
  tuner::TimeLeft until(Seconds end) const { return clock_.until(end, clock_.confirmation(tuning_limits_)); }

  static std::string plugin() { return file_of_ours(tuner::plugin_file_name); }
  int nccl_version() const {
    const auto found = machine_.software.find("nccl");
    if (found == machine_.software.end()) return 0;
    return tuner::parse_nccl_version(found->second.substr(found->second.find(' ') + 1));
  }

  void search() {
    const std::vector<std::string> collectives = tunable(options_, course_.mode);
    const std::vector<Bytes> sizes = sizes_of(options_, tuning_limits_);
    const std::vector<HostProblem> other_chains = hosts_without(control_, place_, chain_);
    const auto reason = [&] {
      std::string why = reason_for_no_rows(environment_, result_.table.nccl_version, collectives);
      if (why.empty())
        why = reason_for_no_tuner(machine_.topology, environment_, chain_, library_without_tuner_, other_chains);
      return why.empty() ? reason_for_no_plugin(plugin()) : why;
    };
    if (const std::string why = from_leader(control_, reason); !why.empty()) {
      result_.no_settings_reason = why;
      return;
    }
    if (collectives.empty()) {
      result_.no_settings_reason = "NCCL queries no tuner for any of the measured collectives.";
      return;
    }
    const std::string left_out = sizes_left_out(sizes);
    if (sizes.empty()) {
      result_.no_settings_reason = left_out.empty() ? "No size is measured that can be tuned." : left_out + ".";
      return;
    }
    if (!left_out.empty()) course_.remarks.push_back(left_out);
    const std::vector<Case> cases = fitting_cases(collectives, sizes);
    if (cases.empty()) {
      result_.no_settings_reason = nothing_fits;
      return;
    }
    const std::unique_ptr<Backend> workers =
        machine_.backend->arm({{"NCCL_TUNER_PLUGIN", "STATIC_PLUGIN"}, {tuner::chain_variable, chain_}});
    Trials trials(control_, {workers.get()}, cases, runner_);
    run_on_leader(control_, trials, [&] {
      course_.remarks.insert(course_.remarks.end(), constraints_.remarks.begin(), constraints_.remarks.end());
      if (!chain_.empty())
        course_.remarks.push_back(
            fmt::format("{} may have a tuner of its own, which still decides all calls that get no setting here. This "
                        "combination has not been tried on EFA yet.",
                        chain_));
      if (!library_without_tuner_.empty())
        course_.remarks.push_back(fmt::format(
            "{} has no tuner, so none is kept: one that jobs load with NCCL_TUNER_PLUGIN has to be named with {}",
            printable(library_without_tuner_), tuner::chain_variable));
      std::vector<tuner::Failure> failures;
      const std::vector<tuner::Task> tasks = find_tasks(trials, failures);
      if (failures.empty() && !fits()) return;  // checked again: the join time is known now
      if (failures.empty() && !tasks.empty()) burn_in(trials, tuning_limits_, failures);
      add_failures(failures);
      end_stage("preparation");
      if (!failures.empty()) return;
      course_.search =
          search_with(trials, tasks, tuning_limits_, constraints_, seed_, until(tuning_limits_.search_end));
      failures = std::exchange(course_.search.failures, {});
      add_failures(failures);
      end_stage("search");
      result_.size_points = static_cast<int>(course_.search.records.size());
      result_.candidates_tried = candidates_in(course_.search);
      result_.table.rows = tuner::make_rows(course_.search);
      if (tasks.empty()) result_.no_settings_reason = reason_for_no_tasks(trials);
      if (options_.delivery == "nvidia") read_channels(trials);
    });
    workers->abandon();
  }

  // The user's or the job's sizes for which no settings are searched; "" without any.
  std::string sizes_left_out(const std::vector<Bytes>& searched) const {
    std::vector<std::string> left_out;
    for (const Bytes size : options_.sizes)
      if (std::ranges::find(searched, size) == searched.end()) left_out.push_back(to_text(size));
    if (left_out.empty()) return "";
    return fmt::format("no settings are searched for {}: {} tuning takes sizes of {} to {}", join(left_out),
                       course_.mode, to_text(tuning_limits_.beside ? Bytes{1} : tuning_limits_.min),
                       to_text(tuning_limits_.max));
  }

  // Reads the channel counts that the table of the example plugin needs.
  void read_channels(Trials& trials) {
    for (std::size_t at = 0; at < trials.cases().size(); ++at) {
      const tuner::SizePoint point = point_of(trials.cases()[at]);
      const std::optional<tuner::Function> function = tuner::parse_function(point.collective);
      const auto see = [&](const std::string& setting, std::vector<tuner::Row>& rows) {
        std::string problem;
        const std::optional<Selection> seen = trials.selection({0, at}, setting, problem);
        if (!problem.empty() && setting.empty())
          add_failures({{point, {}, Trial::Outcome::failed, problem}});
        else if (!problem.empty())
          course_.remarks.push_back(std::move(problem));
        if (!seen) return;
        const auto whole =
            tuner::parse_setting(fmt::format("{}/{}/{}", seen->algorithm, seen->protocol, seen->channels));
        if (whole) rows.push_back({*function, point.bytes, point.bytes, *whole, 0});
      };
      if (!function) continue;
      see("", standard_);
      for (const tuner::Row& row : result_.table.rows)
        if (row.function == *function && row.from <= point.bytes && point.bytes <= row.to && row.setting.channels == 0)
          see(to_text(row.setting), taken_);
    }
  }

  // The user's sizes, or those of `sizes` within the limits.
  std::vector<Bytes> sizes_among(std::vector<Bytes> sizes) const {
    if (!options_.sizes.empty()) return options_.sizes;
    std::erase_if(sizes, [&](Bytes size) { return size > tuning_limits_.max; });
    return sizes;
  }

  std::vector<Case> fitting_cases(const std::vector<std::string>& collectives, const std::vector<Bytes>& sizes) {
    std::vector<Case> cases = make_cases(options_, machine_, seed_, types_, collectives, sizes);
    too_large_.merge(leave_out_large(cases, machine_));
    return cases;
  }

  // Includes collectives for which NCCL queries no tuner: send_recv, all_to_all.
  void search_environments() {
    const std::vector<std::string> collectives =
        with_variables(options_, {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"});
    if (collectives.empty()) return;
    const std::vector<Bytes> sizes =
        sizes_among(tuning_limits_.beside ? std::vector{MiB(1), MiB(16), MiB(256)}
                                          : std::vector{Bytes{8}, KiB(1), KiB(16), KiB(64), MiB(1), MiB(16), MiB(256)});
    std::vector<Case> cases = fitting_cases(collectives, sizes);
    if (cases.empty()) {
      if (options_.delivery == "env") result_.no_settings_reason = nothing_fits;
      return;
    }
    const ArmTrial trial{.cases = std::move(cases),
                         .runner = runner_,
                         .place = place(collectives),
                         .constraints = constraints_,
                         .weights = weights_,
                         .burst = tuning_limits_.burst,
                         .beside = tuning_limits_.beside,
                         .of_default = course_.of_default};
    ArmSearchResult tried = try_arms(control_, machine_, trial, until(tuning_limits_.arms_end));
    if (!control_.is_leader()) return;
    course_.arms = std::move(tried.judged);
    std::ranges::move(tried.remarks, std::back_inserter(course_.remarks));
    add_failures(tried.failures);
    variables_ = std::move(tried.best);
    for (const Case& c : trial.cases) judged_at_.push_back(point_of(c));
    if (!tried.unavailable.empty() && options_.delivery != "env")
      course_.remarks.push_back("no variables are tried: " + tried.unavailable);
    if (variables_.arm.environment.empty() && options_.delivery == "env")
      result_.no_settings_reason =
          !tried.unavailable.empty() ? tried.unavailable
          : course_.arms.empty()
              ? "No variables were tried."
              : "No variables gained enough to be tried in fresh processes, or they did not hold up there.";
  }

  // Sizes at which call modes differ most: small ones by launch cost, large ones by copies.
  void measure_call_modes() {
    const std::vector<std::string> collectives =
        with_variables(options_, {"all_reduce", "all_gather", "all_to_all", "send_recv"});
    if (collectives.empty()) return;
    const std::vector<Case> cases =
        fitting_cases(collectives, sizes_among(tuning_limits_.beside ? std::vector{MiB(8), MiB(128)}
                                                                     : std::vector{KiB(1), KiB(64), MiB(8), MiB(128)}));
    if (cases.empty()) return;
    std::vector<tuner::Failure> failures;
    course_.call_modes = try_call_modes(control_, *machine_.backend, cases, runner_, result_.table.nccl_version,
                                        tuning_limits_.burst, until(tuning_limits_.call_modes_end), failures);
    add_failures(failures);
  }

  tuner::KnobScope place(const std::vector<std::string>& collectives) const {
    return {.platform = machine_.topology.platform,
            .nodes = result_.table.nodes,
            .nccl_version = result_.table.nccl_version,
            .efa = on_efa(machine_.topology),
            .nvls = may_use_nvls(course_.search.records, constraints_),
            .beside = tuning_limits_.beside.has_value(),
            .collectives = collectives};
  }

  std::vector<Case> cases_to_confirm() {
    const auto sizes_of_collectives = from_leader(control_, [&] {
      std::map<std::string, std::vector<std::uint64_t>> all;
      for (const tuner::SizePoint& point : points_to_confirm(result_.table, course_.search.records))
        all[point.collective].push_back(point.bytes);
      return all;
    });
    std::vector<Case> cases;
    for (const auto& [collective, counts] : sizes_of_collectives) {
      std::vector<Bytes> sizes;
      for (const std::uint64_t count : counts) sizes.push_back({count});
      std::ranges::move(fitting_cases({collective}, sizes), std::back_inserter(cases));
    }
    return cases;
  }

  // Copies the plugin along with the table if hosts do not all have the same file at its path: NCCL continues without a
  // plugin that it does not find.
  void find_plugin() {
    const std::vector<HostProblem> without = hosts_without(control_, place_, result_.plugin);
    if (without.empty()) return;
    if (const auto content = bytes_of(result_.plugin))
      copied_plugin_ = tuner::NamedFile{tuner::plugin_file_name, *content};
  }

  // The variables that decide calls together with the table: the tuner that keeps the others, and what the operator
  // said of registered buffers.
  Environment beside_table() const {
    Environment variables;
    if (!chain_.empty()) variables[tuner::chain_variable] = chain_;
    if (tuner::rows_decide_registered_calls(environment_))
      variables[tuner::registered_variable] = tuner::rows_for_registered;
    return variables;
  }

  // Calls `measure` with the backend of the default and the one whose workers load only the files; it measures them
  // alternately. Then ends the workers of all.
  void with_files(const std::function<void(Backend& standard, Backend& files)>& measure) {
    TemporaryOnHosts there(control_, place_, temporary_);
    find_plugin();
    tuner::TuningResult trial = result_;
    trial.folder = there.folder();
    trial.environment.merge(beside_table());
    std::vector<tuner::NamedFile> needed;
    if (control_.is_leader()) needed = {tuner::table_file(trial)};
    if (copied_plugin_) {
      trial.plugin = (std::filesystem::path(trial.folder) / copied_plugin_->name).string();
      needed.push_back(*copied_plugin_);
    }
    const std::vector<HostProblem> problems = there.put(needed);
    if (agreed(!problems.empty())) {
      if (control_.is_leader())
        skip_tuning(fmt::format(
            "What was found could not be confirmed ({}): set TMPDIR to a folder that can be written on every host.",
            to_text(problems)));
      return;
    }
    // Files without rows load no plugin, so that jobs keep the tuner that they have now.
    const Environment loading = from_leader(control_, [&] { return tuner::variables_of(trial); });
    const std::unique_ptr<Backend> files = machine_.backend->arm(with_changes(course_.of_default, loading));
    std::vector<Backend*> all{machine_.backend.get(), files.get()};
    const std::unique_ptr<Backend> with_tuner =
        course_.of_default.empty() ? nullptr : machine_.backend->arm(course_.of_default);
    if (with_tuner) {
      machine_.backend->abandon();  // else there would be three
      all.push_back(with_tuner.get());
    }
    measure(with_tuner ? *with_tuner : *machine_.backend, *files);
    for (Backend* const each : all) each->stop();
    for (Backend* const each : all) each->abandon();
  }

  // Measures fresh workers that load only the files against the default in fresh workers.
  void confirm() {
    with_files([&](Backend& standard, Backend& files) {
      Trials trials(control_, {&standard, &files}, cases_to_confirm(), runner_);
      run_on_leader(control_, trials, [&] {
        std::vector<tuner::Failure> failures;
        const std::vector<tuner::Confirmation> measured = confirm_with(
            trials, tuning_limits_, result_.table, course_.search, clock_.until(tuning_limits_.end),
            [this] { return clock_.budget_left(); }, failures);
        add_failures(failures);
        tuner::Confirmed confirmed = tuner::confirm(result_.table, measured, result_.alone_loss);
        course_.confirmations = tuner::confirmed_size_points(result_.table, confirmed.table, measured);
        course_.dropped = std::move(confirmed.dropped);
        for (const tuner::Confirmation& size : measured)
          course_.processes = std::max(course_.processes, static_cast<int>(size.device.tuned.size()));
        result_.table = std::move(confirmed.table);
        result_.gains = gain_lines(course_.confirmations);
        if (result_.table.rows.empty())
          result_.no_settings_reason = "No setting held up with the files alone in fresh processes.";
      });
    });
  }

  // Replays the step once with the default, before all else: it decides about all settings, so that time is kept for
  // it, and it has to be known to run.
  void time_step() {
    machine_.backend->share_memory(1);
    const double worked_before = clock_.worked();
    const std::unique_ptr<Backend> standard = machine_.backend->arm(course_.of_default);
    Trials trials(control_, {standard.get()}, {*step_}, runner_);
    run_on_leader(control_, trials, [&] {
      std::vector<tuner::Failure> failures;
      const StepTime found = time_step_with(trials, whole_limits_, failures);
      add_failures(failures);
      clock_.keep_for_step(found.other_samples, worked_before);
      if (!found.failure.empty())
        skip_tuning(step_text({.gain = std::nullopt, .failure = found.failure, .of_default = true}));
      else
        fits();
    });
    standard->stop();
    standard->abandon();
    machine_.backend->share_memory(backends_at_once);
  }

  // Settings whose operations are faster alone may still not shorten a step. They are dropped where they do not.
  void confirm_step() {
    machine_.backend->share_memory(1);  // sides of a step are not there at the same time
    with_files([&](Backend& standard, Backend& files) {
      Trials trials(control_, {&standard, &files}, {*step_}, runner_);
      run_on_leader(control_, trials, [&] {
        std::vector<tuner::Failure> failures;
        const StepConfirmation measured = confirm_step_with(
            trials, tuning_limits_, [this] { return clock_.budget_left_for_step(); }, failures);
        add_failures(failures);
        course_.step = measured.gain;
        if (measured.gain) result_.step = tuner::StepGain{step_->replay->name, *measured.gain};
        if (measured.gain && measured.gain->interval.low > 0) return;
        const std::string why = step_text(measured);
        course_.dropped.push_back(why);
        take_rows_back(course_, result_);
        result_.environment.clear();
        result_.no_settings_reason = why;
      });
    });
  }

  std::string step_text(const StepConfirmation& measured) const {
    if (!measured.gain)
      return fmt::format("The step of {} could not be replayed with{} the settings: {}", step_->replay->name,
                         measured.of_default ? "out" : "", measured.failure);
    const tuner::Gain& gain = *measured.gain;
    return fmt::format(
        "The step of {} takes {:.3f} ms with the settings and {:.3f} ms without: {:.1f} % saved (95 % interval {:.1f} "
        "to {:.1f} %), so it is not certain that anything is saved.",
        step_->replay->name, 1e3 * gain.tuned_s, 1e3 * gain.standard_s, 100 * gain.share, 100 * gain.interval.low,
        100 * gain.interval.high);
  }

  ControlPlane& control_;
  const Options& options_;
  const Machine& machine_;
  const Clock::time_point start_ = Clock::now();
  double stage_began_ = 0;
  HostRole place_;
  TemporaryFolders& temporary_;
  TuningClock clock_;
  TuningLimits whole_limits_, tuning_limits_;  // of the mode, and scaled to the time that is left for the stages
  std::uint64_t seed_;
  RunnerOptions runner_;
  const Environment environment_;  // as NCCL sees it: the files of earlier tunings may be among its configuration
  tuner::Constraints constraints_;
  std::vector<tuner::Weight> weights_;
  std::optional<Case> step_;
  SearchedTypes types_;
  tuner::TuningResult result_;
  bool one_communicator_size_ = true;         // all groups have communicators of the same size
  std::vector<tuner::Row> standard_, taken_;  // arguments of example_plugin_csv()
  TuningCourse course_;
  std::set<std::string> too_large_;                // cases that do not fit twice
  tuner::JudgedArm variables_{};                   // at the leader: those that were faster by themselves
  std::vector<tuner::SizePoint> judged_at_;        // and where they were compared with the default
  std::optional<tuner::NamedFile> copied_plugin_;  // at the leader, if a host lacks it or has another
  std::string chain_;                              // path of the chained tuner, the same on all ranks; "": none
  bool operator_names_chain_ = false;              // by P5BENCH_TUNER_CHAIN
  std::string library_without_tuner_;              // of the network plugin, which would have been chained
};

}  // namespace

Environment with_default(const TuningCourse& course, Environment variables) {
  variables.insert(course.of_default.begin(), course.of_default.end());
  return variables;
}

void choose_variables(TuningCourse& course, tuner::TuningResult& result, const tuner::JudgedArm& variables,
                      const std::vector<tuner::SizePoint>& judged_at) {
  if (variables.arm.environment.empty()) return;
  if (!result.table.rows.empty()) {
    course.remarks.push_back(fmt::format(
        "{} was also faster by itself, but was not measured together with the settings for sizes, so it is not set; "
        "--delivery=env sets it instead of them",
        variables.arm.name));
    return;
  }
  course.skipped = false;
  if (!result.no_settings_reason.empty()) course.remarks.push_back(result.no_settings_reason);
  result.no_settings_reason.clear();
  result.environment = with_default(course, variables.arm.environment);
  // The search chose it as the best of many, so its own figure is biased upwards.
  result.environment_speedup = variables.objective;
  result.environment_speedup_alone = variables.alone;
  result.environment_judged_at = judged_at;
  for (const std::string& risk : tuner::risks_of(result.environment))
    course.remarks.push_back("Risk, which was not measured: " + risk);
}

void set_nothing_on_a_faulty_machine(TuningCourse& course, tuner::TuningResult& result) {
  const tuner::Failure* const fault = failure_of_default(course);
  if (!fault) return;
  course.skipped = true;
  take_rows_back(course, result);
  result.environment.clear();
  result.no_settings_reason = fmt::format("NCCL's own settings {} at {} {}, and nothing is set on a faulty machine.",
                                          fault->outcome == Trial::Outcome::wrong_data ? "gave wrong data" : "failed",
                                          fault->point.collective, to_text(Bytes{fault->point.bytes}));
}

reports::Tuning tune(ControlPlane& control, const Options& options, const Machine& machine, const TuningJob& job) {
  return Tuning(control, options, machine, job).run();
}

}  // namespace p5
