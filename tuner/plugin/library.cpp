// The policy of libnccl-tuner-p5bench.so: the table for a communicator, from the file that NCCL_TUNER_CONFIG_FILE
// names, which is read once. Where the file has no table for this NCCL or this communicator, NCCL decides, and one
// warning says so. Where the file is missing or malformed, or has another hash than P5BENCH_TUNER_HASH, no communicator
// starts: other ranks may have the right file, and ranks that decide differently hang without a message.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "tuner/plugin/policy.hpp"

namespace p5::tuner {

namespace {

constexpr const char* file_variable = "NCCL_TUNER_CONFIG_FILE";
constexpr const char* hash_variable = "P5BENCH_TUNER_HASH";

struct File {
  std::vector<Table> tables;
  std::string name;
  std::string problem;                 // reason why there are no tables
  abi::Result refusal = abi::success;  // error with which no communicator starts
};

std::optional<std::string> content_of(const std::string& name) try {
  // Reading a pipe could block, and a device has no end.
  constexpr std::uintmax_t largest = 16 << 20;
  std::error_code problem;
  if (!std::filesystem::is_regular_file(name, problem) || std::filesystem::file_size(name, problem) > largest)
    return std::nullopt;
  std::ifstream stream(name, std::ios::binary);
  if (!stream) return std::nullopt;
  return std::string{std::istreambuf_iterator<char>(stream), {}};
} catch (const std::exception&) {  // e.g. a folder
  return std::nullopt;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

File read_file() {
  const std::string expected = variable(hash_variable);
  File file{.tables = {}, .name = variable(file_variable), .problem = ""};
  if (file.name.empty()) {
    file.problem = std::string(file_variable) + " names no file";
    if (!expected.empty()) file.refusal = abi::invalid_usage;
    return file;
  }
  const std::optional<std::string> text = content_of(file.name);
  if (!text) {
    file.problem = file.name + " cannot be read";
    file.refusal = abi::system_error;
    return file;
  }
  if (const std::string found = fingerprint(*text); !expected.empty() && found != expected) {
    file.problem =
        file.name + " is another file than " + hash_variable + " tells of: its hash is " + found + ", not " + expected;
    file.refusal = abi::invalid_usage;
    return file;
  }
  auto parsed = parse_csv(*text);
  if (auto* const problem = std::get_if<std::string>(&parsed)) {
    file.problem = file.name + ", " + *problem;
    file.refusal = abi::invalid_usage;
  } else {
    file.tables = std::get<std::vector<Table>>(std::move(parsed));
  }
  return file;
}

using GetVersion = abi::Result (*)(int*);

struct Nccl {
  int version = 0;   // 0: unknown
  std::string path;  // the file that contains it: its library, or a program with NCCL linked in
};

// Finds the NCCL that loaded this plugin by the address of its logger, since its symbols may not be global. A process
// may contain several NCCLs, so a version of another file than the logger's does not count.
Nccl nccl_of(abi::Logger logger) {
  Nccl found;
  Dl_info caller{};
  if (!logger || !dladdr(reinterpret_cast<const void*>(logger), &caller) || !caller.dli_fname) return found;
  found.path = caller.dli_fname;
  void* const library = dlopen(caller.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  // A program cannot be opened by its name.
  void* const get = dlsym(library ? library : RTLD_DEFAULT, "ncclGetVersion");
  Dl_info its{};
  if (get && dladdr(get, &its) && its.dli_fbase == caller.dli_fbase &&
      reinterpret_cast<GetVersion>(get)(&found.version) != abi::success)
    found.version = 0;
  if (library) dlclose(library);
  return found;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string communicator_text(std::uint64_t ranks, std::uint64_t nodes) {
  return std::to_string(ranks) + " ranks on " + std::to_string(nodes) + " nodes";
}

// The reason for which the file has no table for this NCCL version; empty when it has one.
std::string describe_other_nccl(const File& file, const Nccl& nccl) {
  std::vector<std::string> versions;
  for (const Table& table : file.tables) {
    if (table.nccl_version == nccl.version) return "";
    const std::string text = version_text(table.nccl_version);
    if (std::ranges::find(versions, text) == versions.end()) versions.push_back(text);
  }
  if (nccl.version == 0)
    return file.name + " is for NCCL " + joined(versions) + ", and this job's NCCL" +
           (nccl.path.empty() ? "" : " (" + nccl.path + ")") + " tells no version; NCCL's own choices stay";
  const std::filesystem::path path(nccl.path);
  const std::string folder =
      path.filename().string().starts_with("libnccl.so") ? path.parent_path().string() : "the folder of that NCCL";
  return file.name + " is for NCCL " + joined(versions) + ", this job runs NCCL " + version_text(nccl.version) +
         (nccl.path.empty() ? "" : " (" + nccl.path + ")") +
         "; NCCL's own choices stay. To tune for it: p5bench tune with LD_LIBRARY_PATH=" + folder;
}

// The reason for which the file has no table for this communicator.
std::string describe_other_communicators(const File& file, const Job& job, int version) {
  if (!file.problem.empty()) return file.problem;
  std::vector<std::string> communicators;
  for (const Table& table : file.tables)
    if (table.nccl_version == version)
      communicators.push_back(
          communicator_text(static_cast<std::uint64_t>(table.ranks), static_cast<std::uint64_t>(table.nodes)));
  return file.name + " is for " + joined(communicators) + ", this communicator has " +
         communicator_text(job.ranks, job.nodes);
}

// True also where no launcher numbers the ranks.
bool is_rank_0() {
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"})
    if (const char* const rank = std::getenv(name)) return std::string_view(rank) == "0";
  return true;
}

// Warns on stderr too, because few jobs enable NCCL's warnings, and refuses the communicator.
[[noreturn]] void refuse(const File& file, const Log& log) {
  static std::atomic_flag printed;
  const std::string text =
      "on " + host_name() + ": " + file.problem +
      ". Ranks with different tables would run different algorithms and hang, so this communicator does not start. Put "
      "the table that was tuned at the same path on all hosts, or unset NCCL_TUNER_PLUGIN, " +
      file_variable + " and " + hash_variable + " on all ranks";
  log.warn(text);
  if (!printed.test_and_set()) std::fprintf(stderr, "libnccl-tuner-p5bench.so: %s\n", text.c_str());
  throw Refusal{file.refusal};
}

// Rows were measured on buffers that are not registered.
enum class RegisteredCalls {
  left,          // to NCCL, which says which calls these are
  tuned,         // rows decide all calls
  all_are_left,  // NCCL may tell ranks different things of one call, so all calls that could be registered are left
};

bool allocator_registers_buffers() {
  return std::ranges::any_of(allocator_hooks, [](const char* hook) { return is_on(variable(hook)); });
}

// NCCL asks of calls that it joins in a group whether the address of one, with the bytes of all, is within one
// registered region. Buffers that an application registers as a whole are, on all ranks alike. A segment of PyTorch's
// allocator holds several tensors, at places that differ between ranks: ranks would choose differently and hang.
RegisteredCalls registered_calls(bool told_by_nccl, const Log& log) {
  static std::atomic_flag warned;
  const std::string value = variable(registered_variable);
  if (!value.empty() && value != rows_for_registered)
    log.warn_once(warned, std::string(registered_variable) + "=" + value + " is not 'rows' and changes nothing");
  if (value == rows_for_registered || !told_by_nccl) return RegisteredCalls::tuned;
  return allocator_registers_buffers() ? RegisteredCalls::all_are_left : RegisteredCalls::left;
}

class TablePolicy final : public Policy {
 public:
  TablePolicy(const Table& table, RegisteredCalls registered) : table_(table), registered_(registered) {}

  std::optional<Override> override_of(const Asked& call) override {
    const bool leaves =
        registered_ == RegisteredCalls::all_are_left || (registered_ == RegisteredCalls::left && call.registered);
    if (leaves && has_both_buffers_everywhere(call.function)) return std::nullopt;
    const Row* const row = find_row(table_, call.function, call.bytes);
    if (!row) return std::nullopt;
    return Override{row->setting, row->microseconds};
  }

 private:
  const Table& table_;
  const RegisteredCalls registered_;
};

std::string describe(RegisteredCalls registered, bool told_by_nccl) {
  switch (registered) {
    case RegisteredCalls::left:
      return "not for calls on registered buffers or in CUDA graphs, except broadcast and reduce";
    case RegisteredCalls::all_are_left:
      return std::string(
                 "for broadcast and reduce alone: PyTorch's allocator registers all buffers, and ranks could ") +
             "be told differently which are; " + registered_variable + "=rows on all ranks lets rows decide all calls";
    case RegisteredCalls::tuned:
      break;
  }
  return std::string("also for calls on registered buffers and in CUDA graphs") +
         (told_by_nccl ? "" : ", of which this NCCL tells a tuner nothing");
}

// Set after the first communicator: a table is used, or one warning was printed. Later communicators may be splits, for
// which no table is expected.
std::atomic_flag& reported() {
  static std::atomic_flag the;
  return the;
}

}  // namespace

std::unique_ptr<Policy> make_policy(const Job& job, const Log& log) {
  static const File file = read_file();
  if (file.refusal != abi::success) refuse(file, log);
  const Nccl nccl = nccl_of(log.logger());
  if (const Table* const table = find_table(file.tables, nccl.version, job.ranks, job.nodes)) {
    reported().test_and_set();
    const RegisteredCalls registered = registered_calls(job.registration_known, log);
    log.inform(file.name + ": " + std::to_string(table->rows.size()) + " rows for this communicator, " +
               describe(registered, job.registration_known));
    return std::make_unique<TablePolicy>(*table, registered);
  }
  const std::string other = file.problem.empty() ? describe_other_nccl(file, nccl) : "";
  if (other.empty()) {
    log.warn_once(reported(), describe_other_communicators(file, job, nccl.version) + "; NCCL's own choices stay");
  } else if (!reported().test_and_set()) {
    log.warn(other);
    // Few jobs enable NCCL's warnings.
    if (is_rank_0()) std::fprintf(stderr, "libnccl-tuner-p5bench.so: %s\n", other.c_str());
  }
  return nullptr;
}

}  // namespace p5::tuner
