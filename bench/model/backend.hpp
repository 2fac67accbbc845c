// The thing under test. A Backend opens a Session for one round of a case; the Session runs and times operations with
// its own clock. All participants call the same functions with the same arguments in the same order.
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
#include "bench/model/cost.hpp"

namespace p5 {

// latency: ranks aligned, one operation. throughput: a burst of operations back to back, divided by their number.
// device: as throughput, but of few operations, all queued before the first one runs, so that what the host needs to
// launch them is not in the time; where nothing is queued the same as throughput.
enum class Quantity { latency, throughput, device };
// What a device's burst has at most: libraries have room for so many operations that wait.
inline constexpr int most_queued = 8;

struct SampleRequest {
  Quantity quantity = Quantity::throughput;
  int operations = 1;  // per sample; latency: 1, device: most_queued. Never more than slots()
  int samples = 1;
  // Fill outputs with poison before the last sample, whose results verify() then checks.
  bool poison_last = false;
  // How the library is to run the operations, as a tuner writes it; empty: as the library chooses. The warm-up ran with
  // the same.
  std::string setting = {};
};

// Seconds per operation, [hosted rank][sample]; NaN for a hosted rank that is in no group of the round.
using Times = std::vector<std::vector<double>>;

// The first wrong element that a rank found. Values as text: a data type's own.
struct WrongElement {
  int rank = 0;
  std::uint64_t offset = 0;  // element in the rank's output
  std::string wanted, got;
  bool guard = false;  // not an element but memory beside the buffer was overwritten; offset is in bytes
};

struct Verification {
  std::uint64_t wrong_elements = 0;
  std::optional<WrongElement> first;
  std::vector<int> wrong_ranks = {};  // ranks that hold wrong elements, where a participant hosts several
};

// What the library chose for a case, where that is known.
struct Selection {
  std::string algorithm, protocol;
  int channels = 0;
  std::string source;
  friend bool operator==(const Selection&, const Selection&) = default;
};

// The data went through NICs in packets that processors copied; the devices themselves moved none of it.
inline constexpr std::string_view protocol_of_packets = "packets";

// A way to run a case's operations that its library offers.
struct Offer {
  std::string setting = {};
  double microseconds = 0;  // as the library predicts; its own model, not a measurement
  bool chosen = false;      // what the library takes when nobody asks for another
};

class Session {
 public:
  virtual ~Session() = default;
  // Distinct buffers that operations rotate through: a rule of the case's bytes alone, never of the sweep.
  virtual int slots() const = 0;
  // Runs `operations` untimed, at least one, with a setting as in SampleRequest. Throws CaseError where the library
  // does not offer that.
  virtual void warm_up(int operations, const std::string& setting) = 0;
  virtual Times sample(const SampleRequest& request) = 0;
  // Checks all elements of the outputs of the hosted ranks: of the last sample's operations out of place; of one more
  // operation on refilled buffers in place.
  virtual Verification verify() = 0;
  virtual std::optional<Selection> selection() { return std::nullopt; }
  // What the library offers for the case: runs one operation untimed, as the library chooses. Known at the first rank
  // of the group, empty elsewhere and where the library tells nothing. Before the samples that are to be verified.
  virtual std::vector<Offer> cost_table() { return {}; }
};

// Figures of one rank's device alone, by name with the unit: "launch_us".
using LocalFigures = std::map<std::string, double>;

// Whether a device computes and stores right.
struct ComputeCheck {
  // Hashes of the result of one seeded matrix product, by type of its operands ("bf16"): alike on all devices of a model
  // with the same version of the library.
  std::map<std::string, std::string> digests = {};
  std::string library = {};  // "cuBLASLt 13.1.0"; "" where there were no products
  // The first wrong result or wrong memory, in a sentence with place and bits; "" if all was right.
  std::string corruption = {};
  // Why there were no matrix products; "" if there were.
  std::string not_measured = {};
  friend bool operator==(const ComputeCheck&, const ComputeCheck&) = default;
};

struct LocalChecks {
  LocalFigures figures = {};  // empty where there is no device
  ComputeCheck compute = {};
};

// Ranks that come together, each group by itself, in the time that they have for it; nullopt: what the backend gives
// a whole job. Ranks in no group stay alone.
struct RendezvousGroups {
  Round groups;
  std::optional<Seconds> limit = {};
};

// What tells why a case failed beyond the error: lines, the newest last.
struct FailureContext {
  std::vector<std::string> log = {};             // of the process under test
  std::vector<std::string> library_status = {};  // what the library knows of all its processes, where it hung
  friend bool operator==(const FailureContext&, const FailureContext&) = default;
};

class Backend {
 public:
  virtual ~Backend() = default;
  // The groups of the round get communicators of their own, unless those of the last session were the same groups:
  // what a library gives a communicator may depend on all of its ranks. Only one round's are in use at a time, beside
  // the job's.
  virtual std::unique_ptr<Session> open(const Case& c, int round) = 0;
  // How long open() may take at most where such groups have to come together; 0: no longer than any other call.
  virtual Seconds forming_limit() const { return {0}; }
  // Memory that one rank needs for a case: at least one slot of input and output.
  virtual Bytes memory_per_rank(const Case& c) const = 0;
  virtual CostModel cost() const = 0;
  // Whether there is such an operation here at all.
  virtual bool performs(const Collective& /*collective*/) const { return true; }
  // Whether ranks come back when one of them fails inside warm_up, sample or verify. If not, a failure there ends the
  // job.
  virtual bool recovers() const = 0;
  // What the times stand for: "measured" or "simulated".
  virtual std::string_view provenance() const { return "measured"; }

  // Backends whose ranks have to come together first, and again after a failure: each makes its offer, the leader
  // settles on terms from all offers in the order of participants, each joins on these terms. Nobody waits for others
  // in offer(). `joiners` are the same in all three; the last two may leave out groups that failed.
  virtual bool joined() const { return true; }
  // Begins with what takes a while and needs nobody else, without waiting for it; offer() does the same where nobody
  // called this. On all participants or on none.
  virtual void prepare() {}
  virtual std::string advertise(const RendezvousGroups& /*joiners*/) { return ""; }
  virtual std::string negotiate(const RendezvousGroups& /*joiners*/, const std::vector<std::string>& offers) {
    return offers.front();
  }
  virtual void join(const RendezvousGroups& /*joiners*/, const std::string& /*terms*/) {}
  // Begins with abandon(), without waiting for what is to end.
  virtual void stop() {}
  // A phase failed somewhere: on all ranks, leave what cannot be gone on with. joined() is false from then on.
  virtual void abandon() {}

  // What the library under test said while it started, on this rank, where that failed too, and the variables as they
  // were once it had. Empty before that, and where there is no library.
  struct LibraryStart {
    std::string log = {};
    Environment environment = {};
  };
  virtual LibraryStart library_start() const { return {}; }
  // After a phase failed and before abandon(): what there is to tell of it on this rank.
  virtual FailureContext failure_context() const { return {}; }
  // Copies, launches, memory and matrix products of the devices of the hosted ranks, each alone; none where there is no
  // device. Matrix products go on for `burn`, if it is above 0. Ranks have joined.
  virtual std::vector<LocalChecks> check_locally(Seconds /*burn*/) { return {}; }
  // The same thing under test in processes of their own, with variables over those of this backend (an empty value
  // removes one). Null where there are no such processes.
  virtual std::unique_ptr<Backend> arm(const Environment& /*changes*/) const { return nullptr; }
  // Whether what follows abandon() is a new launch: other processes and other communicators.
  virtual bool relaunches() const { return false; }
  // What this participant's processes really run on, once its ranks are together: library, plugins, device, variables
  // after the library's start. Keys as in a report's context.
  virtual Environment context() const { return {}; }
};

}  // namespace p5
