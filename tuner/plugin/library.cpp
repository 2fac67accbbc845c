// libnccl-tuner-p5bench.so: what it wants is in the file that NCCL_TUNER_CONFIG_FILE names, read once; of its tables it
// takes the one that is for a communicator. Where that file is not for this NCCL or for none of the job's communicators
// it wants nothing, and says so once. Where it is missing, or not the one that
// P5BENCH_TUNER_HASH tells of, no communicator starts: other ranks may have it, and a rank that decides otherwise than
// they do hangs them all without a word.
#include <dlfcn.h>
#include <unistd.h>

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
  std::string problem;                 // why there are none
  abi::Result refusal = abi::success;  // why no communicator may start with it
};

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this host";
}

std::optional<std::string> content_of(const std::string& name) try {
  // Neither waits for a pipe nor reads a device.
  constexpr std::uintmax_t largest = 16 << 20;
  std::error_code problem;
  if (!std::filesystem::is_regular_file(name, problem) || std::filesystem::file_size(name, problem) > largest)
    return std::nullopt;
  std::ifstream stream(name, std::ios::binary);
  if (!stream) return std::nullopt;
  return std::string{std::istreambuf_iterator<char>(stream), {}};
} catch (const std::exception&) {  // of a folder, for one
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
  if (auto* const problem = std::get_if<std::string>(&parsed))
    file.problem = file.name + ", " + *problem;
  else
    file.tables = std::get<std::vector<Table>>(std::move(parsed));
  return file;
}

using GetVersion = abi::Result (*)(int*);

struct Nccl {
  int version = 0;   // 0: it cannot be found
  std::string path;  // of the file that it was loaded from, its own or that of a program with NCCL inside
};

// The library that calls us, which other libraries need not see.
Nccl nccl_of(abi::Logger logger) {
  GetVersion get = nullptr;
  void* library = nullptr;
  Nccl found;
  if (Dl_info caller{}; logger && dladdr(reinterpret_cast<const void*>(logger), &caller) && caller.dli_fname) {
    found.path = caller.dli_fname;
    library = dlopen(caller.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  }
  if (library) get = reinterpret_cast<GetVersion>(dlsym(library, "ncclGetVersion"));
  if (!get) get = reinterpret_cast<GetVersion>(dlsym(RTLD_DEFAULT, "ncclGetVersion"));
  if (get && get(&found.version) != abi::success) found.version = 0;
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

// Why the file has nothing for this NCCL; empty when it has.
std::string other_nccl(const File& file, const Nccl& nccl) {
  std::vector<std::string> versions;
  for (const Table& table : file.tables) {
    if (nccl.version == 0 || table.nccl_version == nccl.version) return "";
    const std::string text = version_text(table.nccl_version);
    if (std::ranges::find(versions, text) == versions.end()) versions.push_back(text);
  }
  const std::filesystem::path path(nccl.path);
  const std::string folder =
      path.filename().string().starts_with("libnccl.so") ? path.parent_path().string() : "the folder of that NCCL";
  return file.name + " is for NCCL " + joined(versions) + ", this job runs NCCL " + version_text(nccl.version) +
         (nccl.path.empty() ? "" : " (" + nccl.path + ")") +
         "; NCCL's own choices stay. To tune for it: p5bench tune with LD_LIBRARY_PATH=" + folder;
}

// Why the file says nothing about this communicator.
std::string objection(const File& file, const Job& job, int version) {
  if (!file.problem.empty()) return file.problem;
  std::vector<std::string> communicators;
  for (const Table& table : file.tables)
    if (version == 0 || table.nccl_version == version)
      communicators.push_back(
          communicator_text(static_cast<std::uint64_t>(table.ranks), static_cast<std::uint64_t>(table.nodes)));
  return file.name + " is for " + joined(communicators) + ", this communicator has " +
         communicator_text(job.ranks, job.nodes);
}

// Of a job whose launcher numbers its ranks, the first.
bool speaks_for_the_job() {
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"})
    if (const char* const rank = std::getenv(name)) return std::string_view(rank) == "0";
  return true;
}

// On stderr too: few jobs let NCCL say its warnings.
[[noreturn]] void refuse(const File& file, const Log& log) {
  static std::atomic_flag said;
  const std::string text =
      "on " + host_name() + ": " + file.problem +
      ". Ranks with different tables would run different algorithms and hang, so this communicator does not start. Put "
      "the table that was tuned at the same path on all hosts, or unset NCCL_TUNER_PLUGIN, " +
      file_variable + " and " + hash_variable + " on all ranks";
  log.warn(text);
  if (!said.test_and_set()) std::fprintf(stderr, "libnccl-tuner-p5bench.so: %s\n", text.c_str());
  throw Refusal{file.refusal};
}

class TablePolicy final : public Policy {
 public:
  explicit TablePolicy(const Table& table) : table_(table) {}

  std::optional<Override> override_of(Function function, std::uint64_t bytes) override {
    const Row* const row = find_row(table_, function, bytes);
    if (!row) return std::nullopt;
    return Override{row->setting, row->microseconds};
  }

 private:
  const Table& table_;
};

// Either that a table is used or why none is: splits of a job that uses one are no surprise.
std::atomic_flag& said() {
  static std::atomic_flag the;
  return the;
}

}  // namespace

std::unique_ptr<Policy> make_policy(const Job& job, const Log& log) {
  static const File file = read_file();
  if (file.refusal != abi::success) refuse(file, log);
  const Nccl nccl = nccl_of(log.logger());
  if (const Table* const table = find_table(file.tables, nccl.version, job.ranks, job.nodes)) {
    said().test_and_set();
    log.inform(file.name + ": " + std::to_string(table->rows.size()) + " rows for this communicator");
    return std::make_unique<TablePolicy>(*table);
  }
  const std::string other = file.problem.empty() ? other_nccl(file, nccl) : "";
  if (other.empty()) {
    log.warn_once(said(), objection(file, job, nccl.version) + "; NCCL's own choices stay");
  } else if (!said().test_and_set()) {
    log.warn(other);
    // Few jobs let NCCL say its warnings.
    if (speaks_for_the_job()) std::fprintf(stderr, "libnccl-tuner-p5bench.so: %s\n", other.c_str());
  }
  return nullptr;
}

}  // namespace p5::tuner
