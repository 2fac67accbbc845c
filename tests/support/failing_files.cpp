// Preloaded into programs by tests: file operations fail from a certain call on. Each process counts its own calls of
// the kinds in P5BENCH_FAIL_ON on files and folders below P5BENCH_FAIL_BELOW.
//
//   P5BENCH_FAIL_BELOW  the folder; without it nothing is counted and nothing fails
//   P5BENCH_FAIL_NAME   the name of the only files there that are counted and fail; default all
//   P5BENCH_FAIL_FROM   the number of the first call that fails, with all that follow (default 1). Or a path with its
//                       slash: calls fail while there is such a file
//   P5BENCH_FAIL_WITH   ENOSPC, EROFS, EIO (default), ENOENT, EACCES or EDQUOT: calls do nothing and return that error;
//                       or delay:SECONDS: calls wait before they run, so delay:0 changes nothing
//   P5BENCH_FAIL_ON     a subset of open,write,rename,mkdir,fsync,symlink (default all these) and close. open is one
//                       for writing, and close one of a file opened so, which is closed although it fails; a temporary
//                       file counts by its folder, and a rename by either of its names
//   P5BENCH_FAIL_RANK   the OMPI_COMM_WORLD_RANK of the only process in which calls fail; default all
//   P5BENCH_FAIL_LOG    a file, not below the folder, that gets a line "KIND PATH" for each call that failed or waited:
//                       it proves to a test that a call was affected
//
// A variable with an invalid value ends the program at once with a message, because a mistyped test must not pass.
// Writes through C's FILE stay within the C library and are not counted; those of std::ofstream are.
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string>
#include <string_view>

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 7> kinds = {"open", "write", "rename", "mkdir", "fsync", "symlink", "close"};
constexpr std::array<std::pair<std::string_view, int>, 6> errors = {
    {{"ENOSPC", ENOSPC}, {"EROFS", EROFS}, {"EIO", EIO}, {"ENOENT", ENOENT}, {"EACCES", EACCES}, {"EDQUOT", EDQUOT}}};

[[noreturn]] void refuse(const char* variable, const std::string& value) {
  std::fprintf(stderr, "failing_files: %s cannot be '%s'\n", variable, value.c_str());
  std::_Exit(99);
}

std::string value_of(const char* variable, const char* otherwise) {
  const char* const value = std::getenv(variable);
  return value ? value : otherwise;
}

double number_of(const char* variable, const std::string& value, const std::string& digits) {
  char* end = nullptr;
  const double number = std::strtod(digits.c_str(), &end);
  if (digits.empty() || *end != '\0' || !std::isfinite(number) || number < 0) refuse(variable, value);
  return number;
}

struct Plan {
  std::string below = value_of("P5BENCH_FAIL_BELOW", "");
  std::string only = value_of("P5BENCH_FAIL_NAME", "");
  std::string log = value_of("P5BENCH_FAIL_LOG", "");
  long from = 1;
  std::string while_there;  // instead of the real call
  int error = 0;
  double delay_s = 0;
  std::string on;
  bool here = true;

  Plan() {
    if (below.empty()) return;
    std::error_code problem;
    below = fs::weakly_canonical(below, problem).string();
    const std::string first = value_of("P5BENCH_FAIL_FROM", "1");
    if (first.front() == '/')
      while_there = first;
    else
      from = static_cast<long>(number_of("P5BENCH_FAIL_FROM", first, first));
    const std::string with = value_of("P5BENCH_FAIL_WITH", "EIO");
    for (const auto& [name, number] : errors)
      if (with == name) error = number;
    if (error == 0) {
      if (with.rfind("delay:", 0) != 0) refuse("P5BENCH_FAIL_WITH", with);
      delay_s = number_of("P5BENCH_FAIL_WITH", with, with.substr(6));
    }
    on = "," + value_of("P5BENCH_FAIL_ON", "open,write,rename,mkdir,fsync,symlink") + ",";
    for (std::size_t at = 1; at < on.size(); at = on.find(',', at) + 1) {
      const std::string kind = on.substr(at, on.find(',', at) - at);
      bool known = false;
      for (const std::string_view each : kinds) known = known || each == kind;
      if (!known) refuse("P5BENCH_FAIL_ON", kind);
    }
    const std::string rank = value_of("P5BENCH_FAIL_RANK", "");
    here = rank.empty() || rank == value_of("OMPI_COMM_WORLD_RANK", "");
  }

  bool counts(const char* kind) const {
    return !below.empty() && here && on.find("," + std::string(kind) + ",") != std::string::npos;
  }
  bool is_below(std::string_view path) const {
    if (!only.empty() && path.substr(path.rfind('/') + 1) != only) return false;
    return path.substr(0, below.size()) == below && (path.size() == below.size() || path[below.size()] == '/');
  }
};

const Plan& plan() {
  static const Plan made;
  return made;
}

// Earlier calls are made by other libraries as they start, such as a sanitizer; no memory can be allocated then.
bool started = false;
[[gnu::constructor]] void start() { started = true; }

std::string path_of(int folder, const char* name) {
  std::error_code problem;
  fs::path path = name;
  if (path.is_relative() && folder != AT_FDCWD)
    path = fs::read_symlink("/proc/self/fd/" + std::to_string(folder), problem) / path;
  const fs::path whole = fs::weakly_canonical(path, problem);
  return problem ? path.string() : whole.string();
}

std::string path_of(int descriptor) {
  std::array<char, PATH_MAX> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  return {path.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

// The kernel's calls are used directly, because ours would be counted.
void tell(const char* kind, const std::string& path) {
  if (plan().log.empty()) return;
  const std::string line = std::string(kind) + " " + path + "\n";
  const long file =
      ::syscall(SYS_openat, AT_FDCWD, plan().log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0 || ::syscall(SYS_write, file, line.data(), line.size()) < 0) refuse("P5BENCH_FAIL_LOG", plan().log);
  ::syscall(SYS_close, file);
}

// The error that this call shall return; 0: it shall be done.
int error_of(const char* kind, const std::string& path) {
  static std::atomic<long> calls = 0;
  if (plan().while_there.empty() ? ++calls < plan().from : ::access(plan().while_there.c_str(), F_OK) != 0) return 0;
  tell(kind, path);
  const auto whole = static_cast<time_t>(plan().delay_s);
  timespec left = {whole, static_cast<long>((plan().delay_s - static_cast<double>(whole)) * 1e9)};
  while (::nanosleep(&left, &left) != 0 && errno == EINTR) continue;
  return plan().error;
}

template <class... Paths>
bool fails(const char* kind, const Paths&... paths) {
  const int before = errno;
  int error = 0;
  if (started && plan().counts(kind)) {
    std::string counted;
    for (const std::string& path : {paths()...})
      if (plan().is_below(path)) counted = path;
    if (!counted.empty()) error = error_of(kind, counted);
  }
  errno = error == 0 ? before : error;
  return error != 0;
}

// The action of the call by that name.
template <class Call>
Call* truth(const char* name) {
  return reinterpret_cast<Call*>(dlsym(RTLD_NEXT, name));
}

auto at(int folder, const char* name) {
  return [=] { return path_of(folder, name); };
}
auto at(int descriptor) {
  return [=] { return path_of(descriptor); };
}

bool may_write(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT) != 0; }
bool may_write(const char* mode) { return std::strpbrk(mode, "wa+") != nullptr; }

int open_at(const char* name, int folder, const char* path, int flags, mode_t mode) {
  if (may_write(flags) && fails("open", at(folder, path))) return -1;
  return truth<int(int, const char*, int, ...)>(name)(folder, path, flags, mode);
}

FILE* open_file(const char* name, const char* path, const char* mode) {
  if (may_write(mode) && fails("open", at(AT_FDCWD, path))) return nullptr;
  return truth<FILE*(const char*, const char*)>(name)(path, mode);
}

mode_t mode_in(int flags, va_list more) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0;
}

int sync(const char* name, int descriptor) {
  return fails("fsync", at(descriptor)) ? -1 : truth<int(int)>(name)(descriptor);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_in(flags, more);
  va_end(more);
  return open_at("openat", AT_FDCWD, path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_in(flags, more);
  va_end(more);
  return open_at("openat64", AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_in(flags, more);
  va_end(more);
  return open_at("openat", folder, path, flags, mode);
}

int openat64(int folder, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_in(flags, more);
  va_end(more);
  return open_at("openat64", folder, path, flags, mode);
}

int creat(const char* path, mode_t mode) {
  return open_at("openat", AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

FILE* fopen(const char* path, const char* mode) { return open_file("fopen", path, mode); }
FILE* fopen64(const char* path, const char* mode) { return open_file("fopen64", path, mode); }

ssize_t write(int descriptor, const void* data, size_t bytes) {
  static const auto call = truth<ssize_t(int, const void*, size_t)>("write");
  return fails("write", at(descriptor)) ? -1 : call(descriptor, data, bytes);
}

ssize_t writev(int descriptor, const iovec* parts, int count) {
  static const auto call = truth<ssize_t(int, const iovec*, int)>("writev");
  return fails("write", at(descriptor)) ? -1 : call(descriptor, parts, count);
}

int rename(const char* from, const char* to) {
  return fails("rename", at(AT_FDCWD, from), at(AT_FDCWD, to))
             ? -1
             : truth<int(const char*, const char*)>("rename")(from, to);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  if (fails("rename", at(from_folder, from), at(to_folder, to))) return -1;
  return truth<int(int, const char*, int, const char*)>("renameat")(from_folder, from, to_folder, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  if (fails("rename", at(from_folder, from), at(to_folder, to))) return -1;
  return truth<int(int, const char*, int, const char*, unsigned)>("renameat2")(from_folder, from, to_folder, to, flags);
}

int mkdir(const char* path, mode_t mode) {
  return fails("mkdir", at(AT_FDCWD, path)) ? -1 : truth<int(const char*, mode_t)>("mkdir")(path, mode);
}

int mkdirat(int folder, const char* path, mode_t mode) {
  return fails("mkdir", at(folder, path)) ? -1 : truth<int(int, const char*, mode_t)>("mkdirat")(folder, path, mode);
}

int symlink(const char* target, const char* path) {
  return fails("symlink", at(AT_FDCWD, path)) ? -1 : truth<int(const char*, const char*)>("symlink")(target, path);
}

int symlinkat(const char* target, int folder, const char* path) {
  if (fails("symlink", at(folder, path))) return -1;
  return truth<int(const char*, int, const char*)>("symlinkat")(target, folder, path);
}

int close(int descriptor) {
  static const auto call = truth<int(int)>("close");
  const int mode = started && plan().counts("close") ? ::fcntl(descriptor, F_GETFL) : -1;
  const bool failing = mode >= 0 && (mode & O_ACCMODE) != O_RDONLY && fails("close", at(descriptor));
  const int error = errno;
  const int result = call(descriptor);
  if (!failing) return result;
  errno = error;
  return -1;
}

int fsync(int descriptor) { return sync("fsync", descriptor); }
int fdatasync(int descriptor) { return sync("fdatasync", descriptor); }

}  // extern "C"
