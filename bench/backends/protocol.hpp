// What a supervisor and its worker say to each other over a socket pair: an order down, one reply up, in turn. A worker
// is a program of its own (NCCL, libfabric), so that a hang, a crash or a setting that is read once costs one process.
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

namespace p5::protocol {

inline constexpr std::uint32_t version = 1;

// A message: a header of four 32-bit words in the machine's order (magic, version, epoch, length) and so many bytes of
// JSON. The epoch counts the generations of workers: what belongs to another generation is dropped.
struct Message {
  std::uint32_t epoch = 0;
  nlohmann::json body;
};

// Blocking. Throws CaseError when the other side is gone or speaks another version.
void send(int descriptor, const Message& message);
// nullopt: the other side closed the connection, or nothing complete arrived within `timeout_ms` (-1: wait for ever).
struct Received {
  std::optional<Message> message;
  bool closed = false;
};
// A message is written at once: when its first byte is there, the rest has so long, whatever the order may take.
inline constexpr std::chrono::seconds rest_limit{3};
// The part of the next message that has come so far: a message in pieces is waited for no longer than a missing one.
class Inbox {
 public:
  // Waits for a message, or for the rest of one, for so long at most; -1: for ever for its first byte. Throws CaseError
  // where it is none, LostError where the rest does not come.
  Received receive(int descriptor, int timeout_ms);

 private:
  // Whether there is something to read by then; nullopt: for ever.
  bool wait(int descriptor, std::optional<Clock::time_point> deadline) const;

  std::string bytes_;
  Clock::time_point began_{};  // with its first byte
};

// ---- orders: {"order": NAME, ...}; replies: {"ok": true, ...} or
// {"error": TEXT, "elsewhere": bool}, elsewhere when the library says that the cause lies with another rank; told to
// give up, {"gave_up": true, "at_rest": bool, "waits_for": TEXT}: whether the device had nothing left to do once the
// library was aborted, and what it had not finished.

// "identify" {LocalRank}: the worker chooses and binds to its device, and says what it is.
struct LocalRank {
  int local_rank = 0, local_ranks = 1;       // among those of its host
  std::vector<std::string> interfaces = {};  // that lead to other hosts; empty: not known
  std::string provider = {};  // of libfabric, whose devices the host has and which has to be used; "": any
  // Where data is to lie that NICs move: "host"; "gpu", copied through host memory where NICs do not reach it; "auto":
  // GPU memory where NICs reach it, else host memory.
  std::string memory = "host";
};
struct Identity {
  std::string device_uuid, device_name, pci_address;
  std::vector<std::string> devices = {};            // names of all NICs that it can use one by one
  std::uint64_t free_memory = 0, total_memory = 0;  // bytes, of the device
  int visible_devices = 0;                          // that the worker's process may use
  std::string library;                              // "NCCL 2.28.9"
  std::string library_path;
  std::string driver, runtime;  // "13.0"
  std::string address = {};     // where messages to it go, without a port; "": it has none of its own
  // Of NICs: where their data lies, "GPU memory" or the like; why no NIC reaches a GPU's, "" where it does or nobody
  // asked; the GPUs that the worker may use, by PCI address, in the order that Case::gpu counts.
  std::string memory = {}, why_no_gpu = {};
  std::vector<std::string> gpus = {};
  std::vector<int> gpu_beside =
      {};  // by device: the place in `gpus` of the one beside it; empty: their data lies elsewhere
};

// "unique_id" {}: {"id": HEX}, what others need to find this rank; where one for all is enough only rank 0 is asked.
// "join" {"ids": [HEX], "rank": int, "ranks": int}: {"environment": {NAME: VALUE}}, those variables after the library's
// start. "open" {"case": ..., "round": int, "group": [rank...] or null, "form": STRING}: one round of a case and the
// group of this rank in it; form "groups": the groups of the round get communicators of their own first, on all ranks
// ("alone": is it one group, "pauses": does any rank of the job pause?), "job": those of earlier rounds are left, "":
// what is there stays. Reply {"slots": int}. "warm_up" {"operations", "setting"}; "sample" {SampleRequest}:
// {"seconds": [..]}, null for a sample of a rank that pauses. "verify" {}: {Verification}; "selection" {}: {Selection
// or null}; "cost_table" {}: {"cost_table": [Offer]}; "close" {}; "check_locally" {"burn_s": SECONDS}: {"figures":
// {NAME: NUMBER}, "compute": {ComputeCheck}}; "quit" {}: no reply. A "setting" that is left out is none.

// A case as a worker needs it: what moves, not where the figures go.
nlohmann::json to_json(const Case& c);
Case case_from_json(const nlohmann::json& j);  // collective by name; rounds left empty
nlohmann::json to_json(const SampleRequest& request);
SampleRequest request_from_json(const nlohmann::json& j);
nlohmann::json to_json(const Verification& v);
Verification verification_from_json(const nlohmann::json& j);
nlohmann::json to_json(const std::optional<Selection>& selection);
std::optional<Selection> selection_from_json(const nlohmann::json& j);
nlohmann::json to_json(const std::vector<Offer>& offers);
std::vector<Offer> cost_table_from_json(const nlohmann::json& j);
nlohmann::json to_json(const Identity& identity);
Identity identity_from_json(const nlohmann::json& j);

}  // namespace p5::protocol
