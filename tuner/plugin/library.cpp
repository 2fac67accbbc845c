// libnccl-tuner-p5bench.so: what it wants is in the file that NCCL_TUNER_CONFIG_FILE names, read once. Where that file
// is not for this NCCL and this job it wants nothing, and says so once. Where it is missing, or not the one that
// P5BENCH_TUNER_HASH tells of, no communicator starts: other ranks may have it, and a rank that decides otherwise than
// they do hangs them all without a word.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "tuner/plugin/policy.hpp"

namespace p5::tuner {

namespace {

constexpr const char* file_variable = "NCCL_TUNER_CONFIG_FILE";
constexpr const char* hash_variable = "P5BENCH_TUNER_HASH";

struct File {
  Table table;
  std::string name;
  std::string problem;                 // why the table is none
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
  File file{.table = {}, .name = variable(file_variable), .problem = ""};
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
    file.table = std::get<Table>(std::move(parsed));
  return file;
}

using GetVersion = abi::Result (*)(int*);

// Of the library that calls us, which other libraries need not see; 0 where it cannot be found.
int nccl_version(abi::Logger logger) {
  GetVersion get = nullptr;
  void* library = nullptr;
  if (Dl_info caller{}; logger && dladdr(reinterpret_cast<const void*>(logger), &caller) && caller.dli_fname)
    library = dlopen(caller.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library) get = reinterpret_cast<GetVersion>(dlsym(library, "ncclGetVersion"));
  if (!get) get = reinterpret_cast<GetVersion>(dlsym(RTLD_DEFAULT, "ncclGetVersion"));
  int version = 0;
  if (get && get(&version) != abi::success) version = 0;
  if (library) dlclose(library);
  return version;
}

// Why the file says nothing about this job; empty when it does.
std::string objection(const File& file, const Job& job, int version) {
  const auto text = [](const auto&... parts) {
    const auto as_text = [](const auto& part) {
      if constexpr (std::is_integral_v<std::decay_t<decltype(part)>>)
        return std::to_string(part);
      else
        return std::string(part);
    };
    return (as_text(parts) + ...);
  };
  if (!file.problem.empty()) return file.problem;
  const Table& table = file.table;
  if (version != 0 && version != table.nccl_version)
    return text(file.name, " is for NCCL version ", table.nccl_version, ", this is ", version);
  if (job.ranks != static_cast<std::uint64_t>(table.ranks) || job.nodes != static_cast<std::uint64_t>(table.nodes))
    return text(file.name, " is for ", table.ranks, " ranks on ", table.nodes, " nodes, this communicator has ",
                job.ranks, " on ", job.nodes);
  return "";
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

  std::optional<Wish> wish(Function function, std::uint64_t bytes) override {
    const Row* const row = find_row(table_, function, bytes);
    if (!row) return std::nullopt;
    return Wish{row->setting, row->microseconds};
  }

 private:
  const Table& table_;
};

}  // namespace

std::unique_ptr<Policy> make_policy(const Job& job, const Log& log) {
  static const File file = read_file();
  if (file.refusal != abi::success) refuse(file, log);
  static std::atomic_flag said;  // either that it is used or why not: splits of a job that uses it are no surprise
  if (const std::string against = objection(file, job, nccl_version(log.logger())); !against.empty()) {
    log.warn_once(said, against + "; NCCL's own choices stay");
    return nullptr;
  }
  said.test_and_set();
  log.inform(file.name + ": " + std::to_string(file.table.rows.size()) + " rows for this communicator");
  return std::make_unique<TablePolicy>(file.table);
}

}  // namespace p5::tuner
