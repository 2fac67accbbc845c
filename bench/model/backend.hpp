// The interface to the library under test. A Backend opens a Session for one round of a case; the Session runs and
// times operations with its own clock. All participants call the same functions with the same arguments in the same
// order.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/environment.hpp"
#include "bench/base/units.hpp"
#include "bench/model/case.hpp"
#include "bench/model/control_plane.hpp"

namespace p5 {

// latency: ranks aligned, one operation, or one group of them. throughput: a burst of operations back to back, divided
// by their number. device: as throughput, but of few operations, all queued before the first one runs, so that the
// host's launch overhead is not in the time; the same as throughput where nothing is queued. together: operations and
// the works beside them, from a common start until all are done, divided by the number of the case's own operations;
// sample_concurrently() measures it, not sample().
enum class Quantity { latency, throughput, device, together };
// Largest burst of Quantity::device: libraries queue this many operations.
inline constexpr int most_queued = 8;

struct SampleRequest {
  Quantity quantity = Quantity::throughput;
  // Per sample, a multiple of CallOptions::aggregate; latency: one group, device: most_queued. At most slots()
  int operations = 1;
  int samples = 1;
  // Fill outputs with poison before the last sample, whose results verify() then checks.
  bool poison_last = false;
  // Setting for the library, in the tuner's form; empty: the library's choice. The warm-up used the same.
  std::string setting = {};
};

// Seconds per operation, [hosted rank][sample]; NaN for a hosted rank in no group of the round.
using Times = std::vector<std::vector<double>>;

// Operations that run at the same time: of the case, then of each of Case::beside; 0: this one does not run. All start
// together, once all ranks are ready. Buffers are reused where there are more operations than slots.
struct ConcurrentRequest {
  std::vector<int> operations;
  int samples = 1;
  bool poison_last = false;  // as in SampleRequest, of all works
  // Wanted are the seconds of an operation of each work while all run, as in a job that does not pause, instead of
  // ends: from a third of the time until the first work has ended, to that end. What a device does at first depends on
  // which work found its multiprocessors free.
  bool steady = false;
  std::string setting = {};  // as in SampleRequest, for the case's own operations; works have the library's choice
};

// [hosted rank][sample][work], as in the request: seconds from the start until all operations of this work are done on
// this rank, or seconds of an operation where they are wanted (`steady`); NaN for a work that does not run, or in which
// the rank takes no part.
using ConcurrentTimes = std::vector<std::vector<std::vector<double>>>;

// The first wrong element of a rank. Values are text because their type is the case's.
struct WrongElement {
  int rank = 0;
  std::uint64_t offset = 0;  // element in the rank's output
  std::string wanted, got;
  bool guard = false;     // memory beside the buffer was overwritten; offset is in bytes
  std::string work = {};  // of the work beside the case, by name; "": of the case itself
};

struct Verification {
  std::uint64_t wrong_elements = 0;
  std::optional<WrongElement> first;
  std::vector<int> wrong_ranks = {};  // ranks with wrong elements, where a participant hosts several
};

// The algorithm that the library chose for a case, where known.
struct Selection {
  std::string algorithm, protocol;
  int channels = 0;
  std::string source;
  std::string memory = {};  // where the data lies, "GPU memory" or the like; "": as the backend says
  friend bool operator==(const Selection&, const Selection&) = default;
};

// Selection::protocol for data that went through NICs in packets copied by processors, without the devices' own
// transfers.
inline constexpr std::string_view packets_protocol = "packets";
// Selection::memory if the NICs themselves reach GPU memory.
inline constexpr std::string_view memory_of_gpus = "GPU memory";

// An entry of the library's cost table: one setting for a case's operations.
struct Offer {
  std::string setting = {};
  double microseconds = 0;  // predicted by the library's own model
  bool chosen = false;      // the library's default choice
};

// What a rank's communicator took besides time, by name with the unit: "gpu_memory_bytes", "host_memory_bytes",
// "file_descriptors", "connections" (sockets), and "init_bootstrap_s" and the like, the parts that the library tells.
using CommunicatorCosts = std::map<std::string, double>;

// Result of Session::probe_nics() for a NIC through which no message passed, where the library reported no error.
inline constexpr std::string_view nothing_heard = "nothing";
// The same for a NIC that this rank lacks, and for one whose like the peer lacks: nothing was tried through it.
inline constexpr std::string_view nic_absent = "absent", nic_unmatched = "unmatched";

class Session {
 public:
  virtual ~Session() = default;
  // Why the library cannot perform the case on this rank, which then is skipped; "": it can.
  virtual std::string unavailable() const { return ""; }
  // Number of distinct buffers that operations rotate through. It depends on the case's bytes alone, never on the
  // sweep.
  virtual int slots() const = 0;
  // Runs `operations` untimed, at least one, with a setting as in SampleRequest. Throws CaseError where the library
  // does not support it.
  virtual void warm_up(int operations, const std::string& setting) = 0;
  virtual Times sample(const SampleRequest& request) = 0;
  // Only for a case with works beside it.
  virtual ConcurrentTimes sample_concurrently(const ConcurrentRequest& /*request*/);
  // Checks all elements of the outputs of the hosted ranks: out of place those of the last sample's operations; in
  // place those of one more operation on refilled buffers. Also those of the works that ran in the last sample.
  virtual Verification verify() = 0;
  virtual std::optional<Selection> selection() { return std::nullopt; }
  // Time that the calls that queue an operation take on this participant's host, per operation: the median of the
  // samples of Quantity::throughput with the last number of operations; null where calls last until the operation ends.
  virtual std::optional<double> host_time() { return std::nullopt; }
  // Costs in the last sample, the largest over this participant's ranks; empty unless the case is of a communicator.
  virtual CommunicatorCosts communicator_costs() { return {}; }
  // Sends a small message to the peer of a pair through each NIC at once and receives its messages: by number of the
  // NIC, "" where both passed, else nothing_heard, nic_absent, nic_unmatched or the library's error. `limit` counts
  // only time in which this process ran. Operations may stay in flight, so the session performs nothing afterwards.
  // Empty where the library gives no access to single NICs.
  virtual std::vector<std::string> probe_nics(Seconds /*limit*/) { return {}; }
  // The library's cost table for the case; runs one operation untimed with the library's choice. Known at the first
  // rank of the group; empty elsewhere and where the library has none. Called before the samples to be verified.
  virtual std::vector<Offer> cost_table() { return {}; }
  // Ends the session; only its destruction may follow. A session that is destroyed without it is closed then, and its
  // failure to close is told by the backend's next call.
  virtual void close() {}
};

// Figures of a rank's own device, by name with the unit: "launch_us".
using LocalFigures = std::map<std::string, double>;

// Result of the check that a device computes and stores right.
struct ComputeCheck {
  // Hashes of the result of one seeded matrix product, by type of its operands and size ("bf16 8192"): alike on all
  // devices of a model with the same version of the library. The rates of such products are of this size too, the
  // largest one after several measurements.
  std::map<std::string, std::string> digests = {};
  std::string library = {};  // "cuBLASLt 13.1.0"; "" where there were no products
  // The first wrong result or wrong memory, in a sentence with place and bits; "" if all was right.
  std::string corruption = {};
  // Another rank that may be at fault for it as well: the other end of wrong messages.
  std::optional<int> partner = {};
  bool under_load = false;   // it was found while products and messages were at once
  bool in_messages = false;  // the wrong data came in messages, whose links or NICs may be at fault as well
  // Why there were no matrix products; "" if there were.
  std::string not_measured = {};
  // Why the library has no products in float8, which the device has; "" if there were, or none of both.
  std::string fp8_not_measured = {};
  friend bool operator==(const ComputeCheck&, const ComputeCheck&) = default;
};

struct LocalChecks {
  LocalFigures figures = {};  // empty where there is no device
  ComputeCheck compute = {};
};

// Ranks that join, each group by itself, within `limit`; null: the backend's limit for a whole job. Ranks in no group
// stay alone. `start` limits the start of fresh workers in its place, which may take longer.
struct RendezvousGroups {
  Round groups;
  std::optional<Seconds> limit = {}, start = {};
};

// Context of a failure beyond the error: lines, the newest last.
struct FailureContext {
  std::vector<std::string> log = {};             // log lines of the process under test
  std::vector<std::string> library_status = {};  // the library's status of all its processes, after a hang
  friend bool operator==(const FailureContext&, const FailureContext&) = default;
};

class Backend {
 public:
  virtual ~Backend() = default;
  // The groups of the round get communicators of their own, reused if the last session had the same groups: a
  // communicator's resources may depend on all of its ranks. Only one round's communicators exist at a time, besides
  // the job's.
  virtual std::unique_ptr<Session> open(const Case& c, int round) = 0;
  // Limit of open() where such groups have to join; 0: the limit of any other call.
  virtual Seconds rendezvous_limit() const { return {0}; }
  // Memory of one rank for a case: at least one slot of input and output.
  virtual Bytes memory_per_rank(const Case& c) const = 0;
  virtual CostModel cost() const = 0;
  // True if the backend implements the collective.
  virtual bool performs(const Collective& /*collective*/) const { return true; }
  // True if ranks recover after one of them fails inside warm_up, sample or verify. If not, such a failure ends the
  // job.
  virtual bool recovers() const = 0;
  // "measured" or "simulated".
  virtual std::string_view provenance() const { return "measured"; }

  // Rendezvous of backends whose ranks have to join first, and again after a failure: each rank advertises its address,
  // the leader negotiates terms from all offers in the order of participants, each rank joins on these terms.
  // advertise() does not wait for other ranks. `joiners` are the same in all three calls; the last two may exclude
  // groups that failed.
  virtual bool joined() const { return true; }
  // Starts slow local work for advertise() without waiting for it; advertise() does the same itself. Called on all
  // participants or on none.
  virtual void prepare() {}
  virtual std::string advertise(const RendezvousGroups& /*joiners*/) { return ""; }
  virtual std::string negotiate(const RendezvousGroups& /*joiners*/, const std::vector<std::string>& offers) {
    return offers.front();
  }
  virtual void join(const RendezvousGroups& /*joiners*/, const std::string& /*terms*/) {}
  // Longest time that this rank waited for the start of its process and device; 0: not known.
  virtual Seconds longest_start() const { return {0}; }
  // Starts abandon() without waiting for processes to end.
  virtual void stop() {}
  // Called on all ranks after a phase failed on any: destroys what cannot be used further. joined() is false from then
  // on.
  virtual void abandon() {}

  // Share of its time that the process which measures on this rank waited for a processor core; nullopt: not known.
  virtual std::optional<double> share_of_waiting() const { return std::nullopt; }

  // This rank's log of the library's start, also of a failed one, and the variables after it. Empty before the start
  // and where there is no library.
  struct LibraryStart {
    std::string log = {};
    Environment environment = {};
  };
  virtual LibraryStart library_start() const { return {}; }
  // Context of a failure on this rank; called after a phase failed and before abandon().
  virtual FailureContext failure_context() const { return {}; }
  // Copies on the device, launches, memory and matrix products of the devices of the hosted ranks, each alone; none
  // where there is no device. Matrix products go on for `burn`, if it is above 0. Ranks have joined.
  virtual std::vector<LocalChecks> check_locally(Seconds /*burn*/) { return {}; }
  // Copies between host memory and the devices of the hosted ranks, for check_locally(). The ranks of a host share its
  // memory, so that one of them calls it at a time.
  virtual std::vector<LocalFigures> check_host_copies() { return {}; }
  // Extends the backend's limit for all calls together by this time.
  virtual void postpone_limit(Seconds /*time*/) {}
  // The same backend in processes of its own, with variables over those of this backend (an empty value removes one).
  // Null where there are no such processes.
  virtual std::unique_ptr<Backend> arm(const Environment& /*changes*/) const { return nullptr; }
  // True if a join after abandon() is a new launch: other processes and other communicators.
  virtual bool relaunches() const { return false; }
  // Environment in which this participant's joined processes run: library, plugins, device, variables after the
  // library's start. Keys as in a report's context.
  virtual Environment context() const { return {}; }
  // So many of this backend and its arms have processes on the devices at a time, 1 at first: those that join from now
  // on take an equal share of the memory each.
  virtual void share_memory(int /*backends*/) {}
};

}  // namespace p5
