// What the processes of a job recorded of their communication: calls on communicators, with times where the record has
// them. Readers of the formats fill it, each process by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/base/units.hpp"
#include "bench/model/collective.hpp"
#include "bench/model/data_type.hpp"
#include "bench/model/job.hpp"

namespace p5::job {

// The arguments of a call. Members are ranks within the communicator.
struct Call {
  const Collective* collective = nullptr;  // p2p: one message
  Bytes bytes;                             // as Case::bytes; of an uneven exchange what this rank moves
  std::optional<DataType> type = {};       // null: not recorded, or none of ours
  std::optional<ReduceOp> op = {};
  int source = -1;  // member: of p2p the sender, else the root; -1: none
  int target = -1;  // member: of p2p the receiver; -1: none
  friend bool operator==(const Call&, const Call&) = default;
};

// The kind by which calls are numbered: even and uneven exchanges are the same to a record.
const Collective* counted_kind(const Collective* kind);

// Calls that are numbered together: those of a kind on a communicator, messages by sender and receiver.
using Stream = std::tuple<std::uint32_t, const Collective*, int, int>;

// One call of a process.
struct Execution {
  std::uint32_t communicator = 0, call = 0;  // indices in the trace
  std::int64_t number = -1;                  // how many of the same collective came before; -1: counted here
  double start = std::numeric_limits<double>::quiet_NaN();  // seconds, of the process's own clock
  float seconds = std::numeric_limits<float>::quiet_NaN();  // how long it took; NaN: not recorded
  // Part of `seconds` in which the process's GPU ran kernels that are not NCCL's; NaN: not recorded.
  float computed = std::numeric_limits<float>::quiet_NaN();
  float computed_alone = std::numeric_limits<float>::quiet_NaN();  // time that these kernels take without communication
  std::uint32_t sent = 0;  // of all_to_allv: 1 + index in the trace's `sent`; 0: not known
};

struct Process {
  std::string name;  // "rank 3", "host:4711"
  std::string host;  // "": unknown
  int rank = -1;     // in the job; set by finish() where the record does not say it
  std::vector<Execution> executions;
  std::uint32_t file = 0;  // of the newest of them, by number
  std::size_t place = 0;   // of the newest of them, counted over all processes
  std::string gpu = {};    // its name on the host, whichever process names it; "": unknown
};

struct Communicator {
  std::string name;  // as the record has it
  int size = 0;
  std::vector<int> ranks;      // in the job, by member; -1: no record says which
  std::vector<int> processes;  // by member, index of the process; -1: without a record
};

// Far more than a replay needs; all of them take less than half a GiB.
inline constexpr std::size_t most_executions = 12'000'000;
inline constexpr int most_ranks = 1 << 20;
inline constexpr std::size_t most_members = 16'000'000;  // of all communicators together, 128 MB
inline constexpr double shortest_call = 1e-9, longest_call = longest_time_of_job;  // seconds
inline constexpr std::uint64_t most_bytes = std::uint64_t{1} << 50;                // of a message
// Calls of one kind in a launch; the first one of NCCL's opCount has the number opCount * most_in_launch.
inline constexpr std::int64_t most_in_launch = 4096;

class Trace {
 public:
  // Calls that are added from here on are of another file.
  void begin_file() { ++file_; }
  // Index of a process, made where it is new; those of several devices are processes of their own, with one name.
  std::uint32_t process(const std::string& name, const std::string& host, int rank = -1, std::string_view device = "");
  // Index of a communicator. Throws UsageError if its size contradicts earlier records.
  std::uint32_t communicator(const std::string& name, int size);
  // The ranks of a communicator in the job, by member. `group`: its name on the processes that are in it.
  void set_ranks(std::uint32_t communicator, const std::vector<int>& ranks, const std::string& group);
  // The number of ranks that a record states for the job. Throws UsageError if it contradicts earlier records.
  void set_size(int size);
  // A process is a member of a communicator. Throws UsageError if another process is it already, or if the process is
  // another member.
  void set_member(std::uint32_t communicator, int member, std::uint32_t process);
  std::uint32_t call(const Call& call);
  // Bytes that a rank sends each member; the value for Execution::sent, 0 if there were too many already.
  std::uint32_t sent_bytes(std::vector<std::uint64_t> bytes);
  void add(std::uint32_t process, const Execution& execution);
  // A fact that the reader of the result should know; each once, with the number of times.
  void remark(const std::string& text);

  // Leaves out all but one run of the job, and gives each process its rank, each communicator its members and each
  // execution its number; calls that a record lacks or has twice become as in those of other ranks. Throws UsageError
  // if no process has any communication.
  void finish();

  std::vector<Process> processes;
  std::vector<Communicator> communicators;
  std::vector<Call> calls;
  std::vector<std::vector<std::uint64_t>> sent;
  int ranks = 0;  // of the job; set by readers and finish()
  // Calls have NCCL's opCount as their number: finish() keeps it where it numbers the calls of the job.
  bool are_numbers_of_launches = false;

  Stream stream_of(const Execution& each) const;

  // "remark", "remark (n times)"
  std::vector<std::string> remarks() const;
  // All calls that were added.
  std::size_t calls_added() const { return executions_; }

 private:
  struct Record;
  // A call that a record lacks between others.
  struct Missing {
    std::uint32_t process = 0;
    const Execution* next = nullptr;
    Execution execution;
  };

  void keep_one_run();
  void give_ranks();
  void settle_numbers_of_launches();
  const Collective* kind_of(const Execution& each) const;
  std::vector<Record> records_of(const std::function<bool(const Execution&)>& is_in, bool by_number);
  static void take_kinds(std::vector<Record>& left,
                         const std::function<void(const Record&, std::ptrdiff_t, const Record&)>& use);
  void number_collectives();
  void mend_records(bool are_numbered);
  void fill_in(const Record& its, const Record& reference, const std::vector<std::size_t>& places, bool are_numbered);
  void leave_out(const Record& its, const std::vector<std::size_t>& places);
  std::map<std::uint32_t, std::size_t> disagreements_on(const std::set<std::uint32_t>& some) const;
  void apply_mends();
  void leave_out_numbers_that_are_there_twice();
  void number_executions();

  std::map<std::string, std::uint32_t, std::less<>> process_of_name_;
  std::unordered_map<std::string, std::uint32_t> communicator_of_name_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> member_of_;  // by process and communicator
  std::map<std::tuple<const Collective*, std::uint64_t, int, int, int, int>, std::uint32_t> index_of_call_;
  std::vector<std::pair<std::string, int>> remarks_;
  std::unordered_map<std::string, std::unordered_map<int, std::uint32_t>> communicator_of_rank_;  // by name of group
  std::size_t executions_ = 0, sent_values_ = 0, members_ = 0;
  int stated_size_ = 0;
  std::uint32_t file_ = 0;
  std::vector<Missing> missing_;         // while calls are numbered
  std::set<const Execution*> copies_{};  // of calls; while they are numbered
};

// "a, b, c, d and 3 more"
std::string some_of(std::vector<std::string> names);

// PyTorch's and NCCL's element types: bytes of an element, and our type if we have it. Null: unknown name.
struct ElementType {
  std::size_t bytes = 1;
  std::optional<DataType> type;
};
std::optional<ElementType> element_type_of_pytorch(std::string_view name);
std::optional<ElementType> element_type_of_nccl(int code);

// PyTorch's name of an operation ("nccl:_all_gather_base", "allreduce"). Null: none that moves data.
const Collective* collective_of_pytorch(std::string_view name);
// NCCL's ("AllReduce"). Null: none of ours; "Send" and "Recv" are p2p.
const Collective* collective_of_nccl(std::string_view name);

}  // namespace p5::job
