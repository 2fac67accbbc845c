// libnccl-tuner-p5bench.so: what it wants is in the file that NCCL_TUNER_CONFIG_FILE names, read once. Where that file
// is not for this NCCL and this job it wants nothing, and says so once.
#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <variant>

#include "tuner/plugin/policy.hpp"

namespace p5::tuner {

namespace {

struct File {
  Table table;
  std::string name;
  std::string problem;  // why the table is none
};

File read_file() {
  constexpr const char* variable = "NCCL_TUNER_CONFIG_FILE";
  const char* name = std::getenv(variable);
  File file{.table = {}, .name = name ? name : "", .problem = ""};
  if (file.name.empty()) {
    file.problem = std::string(variable) + " names no file";
    return file;
  }
  std::ifstream stream(file.name, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) {
    file.problem = file.name + " cannot be read";
    return file;
  }
  auto parsed = parse_csv(text);
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
