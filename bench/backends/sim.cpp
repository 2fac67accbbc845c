// The sim backend, a model of a cluster: latency plus bytes over the rate of the slowest part on the path, and faults
// that make a part slow, silent or wrong (--fault KIND:WHERE:FACTOR[:MODE]). It tests the rest of the program and
// measures nothing.
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "bench/backends/backends.hpp"
#include "bench/backends/host_buffers.hpp"
#include "bench/backends/sim_state.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/model/backends.hpp"
#include "bench/model/communicator_steps.hpp"
#include "bench/model/job.hpp"
#include "bench/model/traffic.hpp"

namespace p5 {

namespace {

using sim::NicUsers;
using sim::Noise;
using sim::Port;
using sim::SampleState;

class SimSession final : public Session {
 public:
  // noise: the seed of its noise.
  SimSession(const SimMachine& machine, const Case& c, int round, std::uint64_t launch, std::uint64_t noise)
      : machine_(machine),
        case_(c),
        number_(round),
        round_((*c.rounds)[static_cast<std::size_t>(round)]),
        noise_(pattern::hash(seed_of(machine, launch), noise, 0)),
        own_noise_(pattern::hash(seed_of(machine, launch), noise, 1)),
        launch_factor_(std::max(0.5, 1 + machine.launch_noise * Noise(seed_of(machine, launch)).normal())),
        users_(users_of(case_, round_)) {}

  int slots() const override { return std::max(16 / case_.calls.aggregate, 1) * case_.calls.aggregate; }
  void warm_up(int, const std::string& setting) override { refuse_setting("sim", setting); }

  Times sample(const SampleRequest& request) override {
    refuse_setting("sim", request.setting);
    Times times(
        static_cast<std::size_t>(machine_.nodes * machine_.gpus),
        std::vector<double>(static_cast<std::size_t>(request.samples), std::numeric_limits<double>::quiet_NaN()));
    std::size_t active = 0;
    for (const Group& group : round_) active += group.size();
    const bool full_load = active + 1 >= times.size();
    std::vector<double> routes;
    for (const Group& group : round_) routes.push_back(route_factor(group));
    for (int s = 0; s < request.samples; ++s) {
      const SampleState state(machine_, full_load, round_.front().size() > 2, noise_);
      refuse_silence(state, full_load);
      for (std::size_t g = 0; g < round_.size(); ++g) {
        const Group& group = round_[g];
        const double blip = noise_.uniform() < machine_.outliers ? 1 + noise_.uniform() : 1;
        const double time = time_of(state, group, full_load) * launch_factor_ * routes[g] * blip *
                            std::max(0.5, 1 + machine_.noise * noise_.normal());
        for (int rank : group)
          times[static_cast<std::size_t>(rank)][static_cast<std::size_t>(s)] = time * (1 - 0.001 * noise_.uniform());
      }
    }
    return times;
  }

  // Assumed values of the order that was measured on two H200s.
  CommunicatorCosts communicator_costs() override {
    if (!step_of(case_)) return {};
    return {{"gpu_memory_bytes", 486e6}, {"host_memory_bytes", 40e6}, {"file_descriptors", 24}, {"connections", 8}};
  }

  // The model shares parts evenly from the start until the first work ends: nothing is left out of a steady time.
  ConcurrentTimes sample_concurrently(const ConcurrentRequest& request) override {
    refuse_setting("sim", request.setting);
    const auto ranks = static_cast<std::size_t>(machine_.nodes * machine_.gpus);
    ConcurrentTimes times(ranks, std::vector<std::vector<double>>(static_cast<std::size_t>(request.samples)));
    for (std::size_t s = 0; s < static_cast<std::size_t>(request.samples); ++s) {
      const SampleState state(machine_, true, true, noise_);
      refuse_silence(state, true);
      const std::vector<std::vector<Demand>> demands = demands_of_ranks(state);
      const double blip = noise_.uniform() < machine_.outliers ? 1 + noise_.uniform() : 1;
      const double noise = launch_factor_ * blip * std::max(0.5, 1 + machine_.noise * noise_.normal());
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const LoadFactors factors = load_factors_on(static_cast<int>(rank));
        times[rank][s] = request.steady ? seconds_beside(demands[rank], request.operations, factors)
                                        : ends_of(demands[rank], request.operations, factors);
        for (double& end : times[rank][s])
          end *= noise * (1 - 0.001 * noise_.uniform()) * std::max(0.5, 1 + machine_.noise * own_noise_.normal());
      }
      wait_for_others(times, s);
    }
    return times;
  }

  // Plants one wrong element into the expected output of each group with a lying part, and checks it like any other
  // backend.
  Verification verify() override {
    Verification v;
    const auto plant_all = [&](const Case& c, const Round& round, const std::string& work) {
      const bool first = !v.first;
      for (const Group& group : round)
        for (const Fault& fault : machine_.faults)
          if (fault.mode == Fault::Mode::lies) plant(c, fault, group, v);
      if (first && v.first) v.first->work = work;
    };
    if (!case_.replay) plant_all(case_, round_, "");
    for (const Work& work : works_of(case_))
      if (work.planned) plant_all(*work.planned, work.planned->rounds->front(), name_of(work));
    return v;
  }

 private:
  static std::uint64_t seed_of(const SimMachine& machine, std::uint64_t launch) {
    return launch == 0 ? machine.seed : pattern::hash(machine.seed, 1, launch);
  }

  // Permanent factor of a pair of ranks, in both directions.
  double route_factor(const Group& group) const {
    if (group.size() != 2) return 1;
    const auto [low, high] = std::minmax(group[0], group[1]);
    Noise own(
        pattern::hash(machine_.seed, 7, (static_cast<std::uint64_t>(low) << 32) + static_cast<std::uint64_t>(high)));
    return std::max(0.5, 1 + machine_.route_spread * own.normal());
  }

  Port port(int rank) const { return {rank / machine_.gpus, rank % machine_.gpus}; }

  // The slowest member decides.
  double time_of_step(const CommunicatorStep& step, const Group& group) const {
    double left = 1;
    for (const int rank : group) {
      double its = 1;
      for (const Fault& fault : machine_.faults)
        if (fault.mode == Fault::Mode::communicators && fault.node == port(rank).node &&
            (fault.kind != Fault::Kind::gpu || fault.part == port(rank).gpu))
          its *= fault.factor;
      left = std::min(left, its);
    }
    return model_of(step, static_cast<int>(group.size())).count / left;
  }

  // The demand of one operation on a rank while it runs alone: its time, and the share that it uses of the rank's link,
  // NICs, host link and processors. Concurrent operations that together demand more than all of one of these share it
  // in proportion to their demands.
  struct Demand {
    double seconds = 0;
    double link = 0, nic = 0, host_link = 0, processors = 0;
  };

  double time_of(const SampleState& state, const Group& group, bool full_load) const {
    if (const CommunicatorStep* const step = step_of(case_)) return time_of_step(*step, group);
    if (case_.replay) return time_of_replay(*case_.replay, state);
    return demand_of(case_, state, group, full_load, users_).seconds;
  }

  // Ranks use NICs where their group is in several domains; in a ring of messages those whose next rank is in another.
  // Pairs share as many as a node has in all rounds alike.
  NicUsers users_of(const Case& c, const Round& round) const {
    if (machine_.nics >= machine_.gpus || c.collective->pairwise) return {};
    NicUsers users(static_cast<std::size_t>(machine_.nodes * machine_.nics));
    for (const Group& group : round) {
      if (!leaves_domain(group)) continue;
      for (std::size_t i = 0; i < group.size(); ++i) {
        const Port p = port(group[i]), next = port(group[(i + 1) % group.size()]);
        if (c.collective->route != Route::point_to_point || machine_.domain_of(p.node) != machine_.domain_of(next.node))
          ++users[static_cast<std::size_t>(p.node * machine_.nics + p.gpu * machine_.nics / machine_.gpus)];
      }
    }
    return users;
  }

  // An operation begins when the last rank of its group is ready; the step ends when the last rank is done. Products
  // and operations do not slow each other here.
  double time_of_replay(const Replay& replay, const SampleState& state) const {
    struct OfRank {
      double communicated = 0, computed = 0;  // until then
      bool overlaps = false;                  // its last operation
    };
    std::map<std::pair<int, std::size_t>, double> known;  // by work and group
    std::map<int, NicUsers> users;                        // by work
    std::vector<OfRank> ranks(static_cast<std::size_t>(machine_.nodes * machine_.gpus));
    for (const ReplayedOperation& each : replay.operations) {
      const Case& c = *replay.works[static_cast<std::size_t>(each.work)].planned;
      const Round& groups = c.rounds->front();
      if (!users.contains(each.work)) users[each.work] = users_of(c, groups);
      for (std::size_t i = 0; i < groups.size(); ++i) {
        const auto [place, is_new] = known.try_emplace({each.work, i}, 0);
        if (is_new) place->second = demand_of(c, state, groups[i], true, users[each.work]).seconds;
        double start = 0;
        for (const int rank : groups[i]) {
          OfRank& its = ranks[static_cast<std::size_t>(rank)];
          if (!its.overlaps) its.computed = std::max(its.computed, its.communicated);
          its.computed += each.gap.count;
          start = std::max({start, its.communicated, its.computed});
          its.computed += each.computed.count;
        }
        for (const int rank : groups[i]) {
          OfRank& its = ranks[static_cast<std::size_t>(rank)];
          its.communicated = start + place->second;
          its.overlaps = each.overlaps;
        }
      }
    }
    double end = 0;
    for (const OfRank& each : ranks) end = std::max({end, each.communicated, each.computed});
    return end;
  }

  Demand demand_of(const Case& c, const SampleState& state, const Group& group, bool full_load,
                   const NicUsers& users) const {
    std::vector<Port> members;
    for (int rank : group) members.push_back(port(rank));
    const double rate =
        c.nic ? state.through_nics(members[0], *nic_of(c, group, group[0]), members[1], *nic_of(c, group, group[1]))
        : c.collective->pairwise ? state.between(members[0], members[1], full_load ? machine_.gpus : 1)
        : c.shape.traffic
            ? state.of_traffic(members, c.shape.traffic->matrix, users)
            : state.of_group(members, c.collective->route, static_cast<std::size_t>(root_in(c, number_)), users);
    if (!(rate > 0)) return {.seconds = std::numeric_limits<double>::infinity()};
    const int ranks = static_cast<int>(group.size());
    // The latency is at most that of a binary tree, up and down.
    const int tree = 2 * static_cast<int>(std::ceil(std::log2(std::max(ranks, 2))));
    const double hops = std::min(c.collective->steps(ranks), tree);
    const bool over_nics = c.nic || leaves_domain(group);
    const double latency = (over_nics ? machine_.nic_latency : machine_.link_latency).count * std::max(hops, 1.0);
    const double bytes =
        static_cast<double>(c.bytes.count) * c.collective->bus_factor(c.collective->pairwise ? 2 : ranks);
    const double moving = bytes / (rate * 1e9);
    // A group has one latency, and so have the messages over a single NIC that are under way at the same time.
    const double seconds = latency / (c.nic ? messages_of_nic : c.calls.aggregate) + moving;
    return {.seconds = seconds,
            .link = moving / seconds * std::min(1.0, rate / machine_.link.count),
            .nic = over_nics ? moving / seconds : 0,
            .processors = collective_processors};
  }

  // Messages of 1 MiB that the libfabric worker keeps under way over a single NIC.
  static constexpr int messages_of_nic = 32;

  // Processors that a collective's kernel holds: 24 of the 132 of an H100.
  static constexpr double collective_processors = 24.0 / 132;

  double compute_left_to(Port p) const {
    double left = 1;
    for (const Fault& fault : machine_.faults)
      if (fault.mode == Fault::Mode::compute && fault.node == p.node && fault.part == p.gpu) left *= fault.factor;
    return left;
  }

  // Factors (at most 1) of the rates of a rank's products, links and NICs while a fault under load is active.
  struct LoadFactors {
    double products = 1, links = 1, nics = 1;
  };
  LoadFactors load_factors_on(int rank) const {
    const Port p = port(rank);
    LoadFactors factors;
    for (const Fault& fault : machine_.faults) {
      if (fault.mode != Fault::Mode::under_load || fault.node != p.node) continue;
      if (fault.kind == Fault::Kind::nic) {
        if (is_nic_of(case_.nic, fault.part, p)) factors.nics *= fault.factor;
      } else if (fault.kind == Fault::Kind::node || fault.part == p.gpu) {
        factors.products *= fault.factor;
        factors.links *= fault.factor;
        if (fault.kind == Fault::Kind::node) factors.nics *= fault.factor;
      }
    }
    return factors;
  }

  // A collective ends on all ranks of its group when it ends on the last one.
  void wait_for_others(ConcurrentTimes& times, std::size_t sample) const {
    const auto wait = [&](std::size_t at, const Round& round) {
      for (const Group& group : round) {
        double last = 0;
        for (const int rank : group)
          if (const double end = times[static_cast<std::size_t>(rank)][sample][at]; end > last) last = end;
        for (const int rank : group)
          if (double& end = times[static_cast<std::size_t>(rank)][sample][at]; !std::isnan(end)) end = last;
      }
    };
    wait(0, round_);
    for (std::size_t i = 0; i < case_.beside.size(); ++i)
      if (const auto& planned = case_.beside[i].planned) wait(i + 1, planned->rounds->front());
  }

  // Figures of no particular GPU model: 700 TFLOP/s in bf16, twice that in fp8, 55 GB/s to the host.
  static Demand demand_of(const Work& work) {
    if (work.kind == Work::Kind::d2h) return {.seconds = static_cast<double>(d2h_bytes.count) / 55e9, .host_link = 1};
    const double operations = 2.0 * work.n * work.n * work.k;
    return {.seconds = operations / (work.type == "fp8" ? 1400e12 : 700e12), .processors = 1};
  }

  // Factors by which a rank's works that have something left take longer: each by the total demand of the most
  // contended resource that it uses, and while products and transfers overlap also by its load factor.
  static std::vector<double> slowdowns(const std::vector<Demand>& demands, const std::vector<double>& left,
                                       const LoadFactors& factors) {
    const auto computes = [](const Demand& demand) { return demand.processors == 1; };
    constexpr std::array parts{&Demand::link, &Demand::nic, &Demand::host_link, &Demand::processors};
    std::vector<double> slowed(demands.size(), 1);
    for (const auto part : parts) {
      double wanted = 0;
      for (std::size_t i = 0; i < demands.size(); ++i)
        if (left[i] > 0) wanted += demands[i].*part;
      for (std::size_t i = 0; i < demands.size(); ++i)
        if (demands[i].*part > 0) slowed[i] = std::max(slowed[i], wanted);
    }
    bool products = false, transfers = false;
    for (std::size_t i = 0; i < demands.size(); ++i)
      if (left[i] > 0) (computes(demands[i]) ? products : transfers) = true;
    for (std::size_t i = 0; i < demands.size(); ++i)
      if (products && transfers && left[i] > 0)
        slowed[i] /= computes(demands[i]) ? factors.products : demands[i].nic > 0 ? factors.nics : factors.links;
    return slowed;
  }

  static std::vector<double> alone_of(const std::vector<Demand>& demands, const std::vector<int>& operations) {
    std::vector<double> all;
    for (std::size_t i = 0; i < demands.size(); ++i) all.push_back(demands[i].seconds * operations[i]);
    return all;
  }

  // Seconds of an operation of each of a rank's works while all run.
  static std::vector<double> seconds_beside(const std::vector<Demand>& demands, const std::vector<int>& operations,
                                            const LoadFactors& factors) {
    const std::vector<double> left = alone_of(demands, operations), slowed = slowdowns(demands, left, factors);
    std::vector<double> each(demands.size(), std::numeric_limits<double>::quiet_NaN());
    for (std::size_t i = 0; i < demands.size(); ++i)
      if (left[i] > 0) each[i] = demands[i].seconds * slowed[i];
    return each;
  }

  // The end of each of a rank's works if all start together.
  static std::vector<double> ends_of(const std::vector<Demand>& demands, const std::vector<int>& operations,
                                     const LoadFactors& factors) {
    std::vector<double> left = alone_of(demands, operations),
                        ends(demands.size(), std::numeric_limits<double>::quiet_NaN());
    for (double now = 0;;) {
      const std::vector<double> slowed = slowdowns(demands, left, factors);
      double step = std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < demands.size(); ++i)
        if (left[i] > 0) step = std::min(step, left[i] * slowed[i]);
      if (std::isinf(step)) return ends;
      now += step;
      for (std::size_t i = 0; i < demands.size(); ++i) {
        if (left[i] <= 0) continue;
        const double rest = left[i] - step / slowed[i];
        // The operation that ends in this step may have a remainder from rounding.
        left[i] = rest > 1e-12 * demands[i].seconds * operations[i] ? rest : 0;
        if (left[i] == 0) ends[i] = now;
      }
    }
  }

  // [rank][work], the case's own first; nothing where a rank takes no part.
  std::vector<std::vector<Demand>> demands_of_ranks(const SampleState& state) const {
    std::vector<std::vector<Demand>> all(static_cast<std::size_t>(machine_.nodes * machine_.gpus),
                                         std::vector<Demand>(case_.beside.size() + 1));
    const auto add = [&](std::size_t at, const Case& c, const Round& round) {
      const NicUsers users = users_of(c, round);
      for (const Group& group : round) {
        const Demand demand = demand_of(c, state, group, true, users);
        for (const int rank : group) all[static_cast<std::size_t>(rank)][at] = demand;
      }
    };
    add(0, case_, round_);
    for (std::size_t i = 0; i < case_.beside.size(); ++i) {
      const Work& work = case_.beside[i];
      if (work.planned) {
        add(i + 1, *work.planned, work.planned->rounds->front());
      } else {
        for (std::size_t rank = 0; rank < all.size(); ++rank) {
          all[rank][i + 1] = demand_of(work);
          if (work.kind == Work::Kind::gemm) all[rank][i + 1].seconds /= compute_left_to(port(static_cast<int>(rank)));
        }
      }
    }
    return all;
  }

  // Throws for groups with a silent part on their path, which never end.
  void refuse_silence(const SampleState& state, bool full_load) const {
    if (!state.silences()) return;
    std::vector<int> stalled;
    for (const Group& group : round_)
      if (std::isinf(time_of(state, group, full_load))) stalled.insert(stalled.end(), group.begin(), group.end());
    if (stalled.empty()) return;
    StalledError problem(fmt::format("no progress in {}: a part on its path is silent", describe(case_)));
    problem.ranks = std::move(stalled);
    throw problem;
  }

  // True if this GPU's messages go through the NIC; where they use one of its NICs alone, if it is that one.
  bool is_nic_of(std::optional<int> alone, int number, Port p) const {
    const int first = p.gpu * machine_.nics / machine_.gpus;
    if (alone) return number == first + *alone;
    return first <= number && number < std::max(first + 1, (p.gpu + 1) * machine_.nics / machine_.gpus);
  }

  // The member of a group whose output a fault corrupts, if any.
  std::optional<std::size_t> victim(const Case& c, const Fault& fault, const Group& group) const {
    for (std::size_t i = 0; i < group.size(); ++i) {
      const Port p = port(group[i]);
      // Single-NIC messages are host memory, so a GPU's fault does not affect them.
      const bool touched = fault.kind == Fault::Kind::gpu   ? p.node == fault.node && p.gpu == fault.part && !c.nic
                           : fault.kind == Fault::Kind::nic ? p.node == fault.node && (c.nic || leaves_domain(group)) &&
                                                                  is_nic_of(nic_of(c, group, group[i]), fault.part, p)
                           : fault.kind == Fault::Kind::domain ? machine_.domain_of(p.node) == fault.node
                           : fault.kind == Fault::Kind::node   ? p.node == fault.node
                                                               : p.node == fault.node && reaches(group, fault.part);
      if (!touched) continue;
      return has_output(c, group, i) ? i : receiver(c, group);
    }
    return std::nullopt;
  }
  // The member that receives what a rank without output corrupted.
  std::size_t receiver(const Case& c, const Group& group) const {
    std::size_t i = 0;
    while (!has_output(c, group, i)) ++i;
    return i;
  }
  bool has_output(const Case& c, const Group& group, std::size_t i) const {
    return !c.collective->result(c.shape, member(c, group, i), c.pattern).empty();
  }
  Member member(const Case& c, const Group& group, std::size_t i) const {
    return {static_cast<int>(i), static_cast<int>(group.size()), root_in(c, number_)};
  }
  bool leaves_domain(const Group& group) const {
    const auto domain = [&](int rank) { return machine_.domain_of(port(rank).node); };
    return std::ranges::any_of(group, [&](int rank) { return domain(rank) != domain(group.front()); });
  }
  bool reaches(const Group& group, int node) const {
    return std::ranges::any_of(group, [&](int rank) { return port(rank).node == node; });
  }

  void plant(const Case& c, const Fault& fault, const Group& group, Verification& v) {
    const std::optional<std::size_t> hit = victim(c, fault, group);
    if (!hit) return;
    v.wrong_ranks.push_back(group[*hit]);
    const RankInGroup place{group, member(c, group, *hit)};
    const Pattern pattern = pattern_for(c, place, number_, 0, 1);
    const std::uint64_t window = std::min<std::uint64_t>(c.shape.output_elements, 256);
    const std::uint64_t first =
        static_cast<std::uint64_t>(noise_.uniform() * static_cast<double>(c.shape.output_elements - window + 1));
    std::vector<std::byte> data(window * size_of(c.type));
    write_expected(c, place, pattern, data.data(), first, window);
    // A high bit, beyond the tolerance of an average too.
    const auto element = static_cast<std::uint64_t>(noise_.uniform() * static_cast<double>(window));
    data[element * size_of(c.type) + size_of(c.type) - 1] ^= std::byte{0x20};
    check_output(c, place, pattern, data.data(), first, window, v);
  }

  const SimMachine& machine_;
  Case case_;
  int number_ = 0;
  const Round& round_;  // points into `case_`
  Noise noise_;
  Noise own_noise_;  // of single ranks, where several operations run at the same time
  double launch_factor_;
  NicUsers users_;  // of round_
};

constexpr const char* nvlink_variable = "NCCL_MNNVL_ENABLE";  // 0: no NVLink between nodes

class SimBackend final : public Backend {
 public:
  explicit SimBackend(const SimMachine& machine) : machine_(machine) {}
  std::unique_ptr<Session> open(const Case& c, int round) override {
    const std::uint64_t operation =
        pattern::hash(std::hash<std::string>{}(describe(c)), c.bytes.count, static_cast<std::uint64_t>(round));
    // Each repetition has noise of its own; else repetitions and retests of a round would have the same samples.
    return std::make_unique<SimSession>(machine_, c, round, launch_,
                                        pattern::hash(operation, 0, ++repetitions_[operation]));
  }
  Bytes memory_per_rank(const Case& c) const override {
    return {(c.shape.input_elements + c.shape.output_elements) * size_of(c.type) *
            static_cast<std::uint64_t>(c.calls.aggregate)};
  }
  // The cost of computing the model, not of the simulated machine.
  CostModel cost() const override {
    return {.latency = {1e-9}, .bandwidth = {1e6}, .burst = {1e-3}, .repetition = {1e-4}, .communicator = {0}};
  }
  bool recovers() const override { return true; }
  std::string_view provenance() const override { return "simulated"; }
  bool relaunches() const override { return true; }
  void abandon() override { launch_ = ++*launches_; }

  // Figures of no model in particular.
  std::vector<LocalChecks> check_locally(Seconds burn) override {
    std::vector<LocalChecks> all;
    for (int node = 0; node < machine_.nodes; ++node)
      for (int gpu = 0; gpu < machine_.gpus; ++gpu) all.push_back(check_of(node, gpu, burn));
    return all;
  }

  std::unique_ptr<Backend> arm(const Environment& changes) const override {
    auto other = std::make_unique<SimBackend>(machine_);
    for (const auto& [name, value] : changes) {
      if (name == nvlink_variable && (value.empty() || value == "0" || value == "1")) {
        if (value == "0") other->machine_.nodes_per_domain = 1;
        continue;
      }
      if (name != sim_fault_variable)
        throw UsageError(
            fmt::format("the sim backend has no library that reads {}; a simulated arm differs by {}=FAULT, "
                        "such as {}=nic:n0r0:0.5, or by {}=0",
                        name, sim_fault_variable, sim_fault_variable, nvlink_variable));
      if (value.empty()) continue;  // the variable is removed
      for (const std::string& text : split(value)) other->add_fault(text);
    }
    other->launches_ = launches_;
    other->launch_ = ++*launches_;
    return other;
  }

  Environment context() const override {
    return {
        {"model", fmt::format("times vary by {:.1f} %, launches by {:.1f} %, healthy parts by up to {:.1f} %, ways by "
                              "{:.1f} %; {:.1f} % of times are up to twice as long",
                              100 * machine_.noise, 100 * machine_.launch_noise, 100 * machine_.part_spread,
                              100 * machine_.route_spread, 100 * machine_.outliers)}};
  }

 private:
  double left_alone(Fault::Mode mode, int node, int gpu) const {
    double left = 1;
    for (const Fault& fault : machine_.faults)
      if (fault.mode == mode && fault.node == node && fault.part == gpu) left *= fault.factor;
    return left;
  }

  LocalChecks check_of(int node, int gpu, Seconds burn) const {
    const auto rank = static_cast<std::uint64_t>(node * machine_.gpus + gpu);
    Noise own(pattern::hash(machine_.seed, 11, rank)), noise(pattern::hash(machine_.seed ^ launch_, 12, rank));
    const double part = 1 - machine_.part_spread * own.uniform();
    const auto figure = [&](double of_model) { return of_model * part * (1 + machine_.noise * noise.normal()); };
    const double compute = left_alone(Fault::Mode::compute, node, gpu);
    LocalChecks checks;
    checks.figures = {{"device_copy_gb_per_s", figure(2700)},
                      {"host_to_device_gb_per_s", figure(55)},
                      {"device_to_host_gb_per_s", figure(55)},
                      {"host_both_ways_gb_per_s", figure(100)},
                      {"launch_us", figure(3.5)},
                      {"memory_read_gb_per_s", figure(3000)},
                      {"slowest_slice_share", figure(0.99) * left_alone(Fault::Mode::memory, node, gpu)},
                      {"bf16_tflop_per_s", figure(700) * compute},
                      {"fp8_tflop_per_s", figure(1300) * compute}};
    if (burn.count > 0)
      for (const char* name : {"burn_first_tflop_per_s", "burn_last_tflop_per_s", "burn_least_tflop_per_s"})
        checks.figures[name] = figure(680) * compute;
    checks.compute = {.digests = {{"bf16 8192", "5"}, {"fp8 8192", "6"}}, .library = "simulated"};
    const bool wrong = std::ranges::any_of(machine_.faults, [&](const Fault& fault) {
      return fault.mode == Fault::Mode::miscompute && fault.node == node && fault.part == gpu;
    });
    if (wrong) checks.compute.corruption = "a simulated bf16 matrix product is wrong";
    return checks;
  }

  void add_fault(const std::string& text) {
    try {
      machine_.faults.push_back(parse_fault(text, machine_));
    } catch (const UsageError& problem) {
      throw UsageError(fmt::format("{}, as {}", sim_fault_variable, problem.what()));
    }
  }

  SimMachine machine_;
  std::shared_ptr<std::uint64_t> launches_ = std::make_shared<std::uint64_t>(0);
  std::uint64_t launch_ = 0;
  std::map<std::uint64_t, std::uint64_t> repetitions_;  // sessions of each operation and round so far
};

}  // namespace

std::unique_ptr<Backend> make_sim_backend(const SimMachine& machine) { return std::make_unique<SimBackend>(machine); }

}  // namespace p5
