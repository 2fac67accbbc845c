// Protocol between a supervisor and its worker over a socket pair: one order down, one reply up, in turn. A worker is a
// program of its own (NCCL, libfabric), so that a hang, a crash or a setting that is read only once affects one
// process.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/backends/shared_page.hpp"
#include "bench/base/units.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"
#include "bench/model/job.hpp"

namespace p5::protocol {

inline constexpr std::uint32_t version = 1;

// A message: a header of four 32-bit words in native byte order (magic, version, epoch, length), then `length` bytes of
// JSON. The epoch is the abort epoch of the worker that is addressed; messages of another epoch are dropped.
struct Message {
  std::uint32_t epoch = 0;
  nlohmann::json body;
};

// Sends, blocking. Throws CaseError if the other side has closed the connection.
void send(int descriptor, const Message& message);
// Without a message: the other side closed the connection, or no complete one arrived within `timeout_ms` (-1: no
// limit).
struct Received {
  std::optional<Message> message;
  bool closed = false;
};
// Limit for the rest of a message after its first byte: senders write a message at once, however long the order takes.
inline constexpr std::chrono::seconds rest_limit{3};
// Receives messages, and keeps the part of the next one that has arrived, so that an incomplete message is waited for
// no longer than a missing one.
class Inbox {
 public:
  // Waits up to `timeout_ms` for a message or the rest of one; -1: no limit for its first byte. Throws CaseError on an
  // invalid message, LostError if the rest does not arrive in time.
  Received receive(int descriptor, int timeout_ms);

 private:
  // True if input is available before the deadline; nullopt: no deadline.
  bool wait(int descriptor, std::optional<Clock::time_point> deadline) const;

  std::string bytes_;
  Clock::time_point began_{};  // arrival of its first byte
};

// ---- orders: {"order": NAME, ...}; replies: {"ok": true, ...}, or {"error": TEXT, "elsewhere": bool} with "elsewhere"
// set if the library blames another rank; after an abort request {"gave_up": true, "at_rest": bool, "waits_for": TEXT}:
// "at_rest" if the device was idle after the library was aborted, "waits_for" with the unfinished operations.

// "identify" {LocalRank}: the worker chooses and binds its device; the reply is its Identity.
struct LocalRank {
  int local_rank = 0, local_ranks = 1;       // among the ranks of its host
  std::vector<std::string> interfaces = {};  // that lead to other hosts; empty: unknown
  std::string provider = {};                 // libfabric provider of the host's devices, which must be used; "": any
  // The host's NICs by device name, in an order in which equal indices of all hosts are like NICs; "" where the host
  // lacks a NIC that others have; empty: unknown.
  std::vector<std::string> nics = {};
  // Place of the data that NICs transfer: "host"; "gpu", copied through host memory if NICs cannot access GPU memory;
  // "auto": GPU memory if NICs can access it, else host memory.
  std::string memory = "host";
};
struct Identity {
  std::string device_uuid, device_name, pci_address;
  std::vector<std::string> devices = {};  // names of the NICs that can be used singly; "": one that this host lacks
  std::uint64_t free_memory = 0, total_memory = 0;  // bytes of device memory
  int visible_devices = 0;                          // that the worker's process may use
  std::string library;                              // "NCCL 2.28.9"
  std::string library_path;
  std::string driver, runtime;  // "13.0"
  std::string address = {};     // address for messages to it, without a port; "": none of its own
  // For NICs: the place of their data, such as "GPU memory"; the reason why no NIC accesses GPU memory, "" if one does
  // or GPU memory was not requested; the GPUs that the worker may use, by PCI address, in the order of Case::gpu.
  std::string memory = {}, why_no_gpu = {};
  std::vector<std::string> gpus = {};
  std::vector<int> gpu_beside = {};  // by device: index of the nearest one in `gpus`; empty if data is not in GPUs
};

// "unique_id" {}: {"id": HEX}, the identifier that other ranks connect with; only rank 0 is queried if one id suffices
// for all. "join" {"ids": [HEX], "rank": int, "ranks": int}: {"environment": {NAME: VALUE}}, those variables after the
// library's initialization. "open" {"case": ..., "round": int, "group": [rank...] or null, "form": STRING}: one round
// of a case and the group of this rank in it; "communicator": [rank...], the larger group in whose communicator it is,
// if that is not its own. Form "groups": first these groups get communicators of their own, on all ranks ("alone": it
// is one group, "pauses": some rank of the job is in none), "job": groups of earlier rounds are destroyed, "":
// communicators stay as they are. "beside": [{"work": name_of(Work)}], or, of collectives, [{"case",
// "group": this rank's or null, "groups": name of all, "bytes"}]: works that run at the same time as the case's
// operation; communicators of a work's group are formed once, on all ranks. With "replay": {"name", "operations":
// [[work, SECONDS]]} these are the operations of a step, with the gap before each. Reply {"slots": int, "unavailable":
// TEXT}. "warm_up" {"operations", "setting"}; "sample" {SampleRequest}: {"seconds": [..]}, null for a sample of a rank
// that pauses; "sample_concurrently" {ConcurrentRequest}: {"seconds": [[..]]}, of each sample the time of each work, or
// null. "verify" {}: {Verification}; "selection" {}: {Selection or null}; "host_time" {}: {"seconds": NUMBER or null};
// "communicator_costs" {}: {"costs": {NAME: NUMBER}}; "cost_table" {}: {"cost_table": [Offer]}; "probe_nics"
// {"limit_s": SECONDS}: {"nics": [TEXT]}; "close" {}; "check_locally" {"burn_s": SECONDS}: {"figures": {NAME: NUMBER},
// "compute": {ComputeCheck}}; "check_host_copies" {}: {"figures": {NAME: NUMBER}}; "quit" {}: no reply. An absent
// "setting" means none.

// A case as a worker needs it: the operation and its data, without what reports need.
nlohmann::json to_json(const Case& c, int round);
Case case_from_json(const nlohmann::json& j);  // collective by name; rounds left empty
nlohmann::json to_json(const SampleRequest& request);
SampleRequest request_from_json(const nlohmann::json& j);
nlohmann::json to_json(const ConcurrentRequest& request);
ConcurrentRequest concurrent_request_from_json(const nlohmann::json& j);
// `group`: this rank's in the planned case, numbered as the worker's ranks.
nlohmann::json to_json(const Work& work, const std::optional<Group>& group);
// The planned case, of a collective, has one round with this rank's group, or an empty one if it takes no part.
Work work_from_json(const nlohmann::json& j);
nlohmann::json to_json(const Replay& replay);  // without its works
Replay replay_from_json(const nlohmann::json& j, std::vector<Work> works);
nlohmann::json to_json(const Verification& v);
Verification verification_from_json(const nlohmann::json& j);
nlohmann::json to_json(const std::optional<Selection>& selection);
std::optional<Selection> selection_from_json(const nlohmann::json& j);
nlohmann::json to_json(const std::vector<Offer>& offers);
std::vector<Offer> cost_table_from_json(const nlohmann::json& j);
nlohmann::json to_json(const Identity& identity);
Identity identity_from_json(const nlohmann::json& j);

}  // namespace p5::protocol
