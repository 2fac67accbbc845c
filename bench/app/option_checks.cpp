// Options that are each well-formed and together make no sense.
#include <algorithm>

#include <fmt/format.h>

#include "bench/app/command_line.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/model/backends.hpp"
#include "bench/model/collective.hpp"

namespace p5 {

namespace {

// The backend that was asked for, where it cannot be started anew.
bool stays_in_job(const Options& o) {
  const BackendInfo* const asked = asked_backend(o.backend);
  return asked && !asked->relaunches();
}

void check_ab(const Options& o) {
  if (!o.b_given)
    throw UsageError(
        "ab compares two arms: give the second as --b KEY=VALUE,... (and the first as --a, if not the default)");
  if (stays_in_job(o))
    throw UsageError(
        fmt::format("ab needs worker processes for its arms: --backend {} measures within the processes of this job, "
                    "whose MPI has read its variables; make two runs and compare their reports",
                    o.backend));
  if (!o.tune.empty()) throw UsageError("ab tunes nothing; leave --tune out");
}

void check_soak(const Options& o) {
  if (o.soak.count == 0) return;
  if (o.command != "run" && o.command != "plan")
    throw UsageError(fmt::format("--soak is for run: {} has an end of its own", o.command));
  if (o.launches != 1) throw UsageError("--soak makes as many launches as fit; leave --launches out");
  if (stays_in_job(o)) throw UsageError(no_launches(o.backend, 0));
}

void check_resume(const Options& o) {
  if (!o.resume) return;
  if (o.command != "run") throw UsageError(fmt::format("--resume is for run: {} has nothing to go on with", o.command));
  if (o.launches != 1 || o.soak.count > 0)
    throw UsageError("--resume goes on with a run of one launch; leave --launches and --soak out");
  if (o.seed) throw UsageError("--resume takes the seed of the run that it goes on with; leave --seed out");
}

void check_launches(const Options& o) {
  if (o.launches == 1) return;
  if (o.command == "tune")
    throw UsageError("--launches is for run and ab: tune chooses its own number of launches for its proof");
  if (stays_in_job(o)) throw UsageError(no_launches(o.backend, o.launches));
}

void check_measuring(const Options& o) {
  const BackendInfo* const asked = asked_backend(o.backend);
  const bool sim = asked && asked->simulated();
  for (const std::string& format : o.formats)
    if ((format == "markdown" || format == "junit") && o.command != "ab" && o.baseline.empty())
      throw UsageError(fmt::format("--format {} is for comparisons, not for a run", format));
  if (o.command == "ab") check_ab(o);
  check_launches(o);
  check_soak(o);
  check_resume(o);
  if (o.asks_for_tuning() && asked && !asked->tunable)
    throw UsageError(fmt::format("tuning finds settings for NCCL: --backend {} has none", o.backend));
  if (o.command == "tune" && o.tune == "off") throw UsageError("tune with --tune off does nothing; leave one out");
  if (!o.faults.empty() && !sim) throw UsageError("--fault simulates: it needs --backend sim");
  if (o.nodes != 1 && !sim)
    throw UsageError(fmt::format(
        "--nodes {} is for --backend sim; real nodes are counted from the ranks that mpirun started", o.nodes));
  if (sim && o.platform.empty())
    throw UsageError("--backend sim needs --platform NAME, such as p5.48xlarge (see `p5bench list platforms`)");
  const Options defaults = defaults_of(o.command);
  if (!o.sizes.empty() && (o.max_given || o.min != defaults.min || o.factor != defaults.factor))
    throw UsageError("--sizes stands instead of --min, --max and --factor; leave one or the other out");
  if (o.sizes.empty() && o.max_given && o.min > o.max)
    throw UsageError(fmt::format("--min {} is above --max {}", to_text(o.min), to_text(o.max)));
  const bool reduces =
      std::ranges::any_of(o.collectives, [](const std::string& name) { return find_collective(name).reduces; });
  if (!reduces && o.ops != defaults.ops)
    throw UsageError(fmt::format("--op has no meaning for {}: none of them reduces", join(o.collectives)));
  if (o.in_place) {
    for (const std::string& name : o.collectives)
      if (!find_collective(name).in_place_offset && o.collectives != defaults.collectives)
        throw UsageError(
            fmt::format("{} has no in-place form; leave it out of --collectives or drop --in-place", name));
  }
}

void check_topo(const Options& o) {
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

}  // namespace

void refuse_contradictions(const Options& o) {
  if (measures(o.command)) check_measuring(o);
  if (o.command == "topo") check_topo(o);
  if (!o.baseline.empty() && o.command != "run" && o.command != "report")
    throw UsageError(fmt::format("--baseline is for run and report, not for {}", o.command));
}

}  // namespace p5
