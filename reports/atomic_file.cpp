#include "reports/atomic_file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/text.hpp"

namespace p5::reports {

namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  bool good() const { return fd_ >= 0; }

  // True also where the file system cannot do it.
  bool sync() const { return ::fdatasync(fd_) == 0 || errno == EINVAL || errno == ENOTSUP; }

  // Some file systems report a full disk only on close.
  bool close() { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

  struct stat status() const {
    struct stat found {};
    (void)::fstat(fd_, &found);  // all zeros on failure, which is no file type
    return found;
  }
  void set_blocking() const { (void)::fcntl(fd_, F_SETFL, 0); }

  // Adopts owner and permissions of the replaced file, as far as permitted.
  void adopt_attributes(const struct stat& old) const {
    (void)!::fchown(fd_, old.st_uid, old.st_gid);
    (void)::fchmod(fd_, old.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO));
  }

  off_t end() const { return ::lseek(fd_, 0, SEEK_END); }
  void truncate(off_t length) const {
    if (::ftruncate(fd_, length) != 0) return;  // on failure an incomplete line remains, which readers skip
  }

  bool write_all(const std::string& text) const {
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t written = ::write(fd_, text.data() + done, text.size() - done);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      done += static_cast<std::size_t>(written);
    }
    return true;
  }

 private:
  int fd_;
};

// The cause precedes the path, behind which a long sentence is cut.
EnvironmentError cannot_write(const fs::path& path) {
  return EnvironmentError(fmt::format("{}{}: cannot write '{}'", std::strerror(errno),
                                      errno == EFBIG ? ", the limit is ulimit -f" : "", path.string()));
}

// Temporary name beside the target, so that the rename stays within one file system.
fs::path temporary_path(const fs::path& path) { return path.parent_path() / fmt::format(".p5bench.{}", random_name()); }

std::mutex& unfinished_mutex() {
  static std::mutex& mutex = *new std::mutex;  // also while the process ends
  return mutex;
}
std::set<fs::path>& unfinished_files() {
  static std::set<fs::path>& files = *new std::set<fs::path>;
  return files;
}

// A temporary name that is to be renamed or removed.
class Unfinished {
 public:
  explicit Unfinished(const fs::path& target) : path_(temporary_path(target)) {
    const std::lock_guard lock(unfinished_mutex());
    unfinished_files().insert(path_);
  }
  ~Unfinished() {
    const std::lock_guard lock(unfinished_mutex());
    unfinished_files().erase(path_);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  const fs::path& path() const { return path_; }
  const char* c_str() const { return path_.c_str(); }

 private:
  fs::path path_;
};

UsageError refusal(const fs::path& path, const std::string& why) {
  return UsageError(fmt::format("'{}' cannot be written: {}; name another file", printable(path.string()), why));
}

// Status of the path itself, without following links; null if it does not exist.
std::optional<struct stat> status_of(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? std::optional(status) : std::nullopt;
}

// Checks the permission bits too because root passes faccessat() for read-only files.
void refuse_read_only(const fs::path& path, mode_t mode) {
  constexpr mode_t anybody_writes = S_IWUSR | S_IWGRP | S_IWOTH;
  if ((mode & anybody_writes) == 0) throw refusal(path, "it is read-only");
  if (::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) throw refusal(path, std::strerror(errno));
}

void refuse_non_file(const fs::path& path, mode_t mode) {
  if (S_ISDIR(mode)) throw refusal(path, "it is a folder");
  if (S_ISBLK(mode)) throw refusal(path, "it is a block device");
  if (S_ISSOCK(mode)) throw refusal(path, "it is a socket");
}

// Opens the target of a link, a pipe with a reader, or a character device.
Descriptor open_through(const fs::path& path) {
  Descriptor file(path, O_WRONLY | O_NONBLOCK | O_NOCTTY);
  if (!file.good()) throw refusal(path, errno == ENXIO ? "it is a pipe that nobody reads" : std::strerror(errno));
  const mode_t mode = file.status().st_mode;
  refuse_non_file(path, mode);
  return file;
}

void write_through(const fs::path& path, const std::string& text) {
  Descriptor file = open_through(path);
  file.set_blocking();
  if (S_ISREG(file.status().st_mode)) file.truncate(0);
  if (!file.write_all(text) || !file.close()) throw cannot_write(path);
}

}  // namespace

void remove_unfinished_files() {
  unfinished_mutex().lock();  // for good
  for (const fs::path& each : unfinished_files()) ::unlink(each.c_str());
}

std::string random_name() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number)
    throw EnvironmentError("the system has no random numbers");
  return fmt::format("{:016x}", number);
}

void make_folder(const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  const Unfinished probe(folder / "probe");
  if (!problem && !Descriptor(probe.path(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW).good())
    problem = std::error_code(errno, std::generic_category());
  if (problem)
    throw UsageError(fmt::format("the output folder '{}' cannot be written: {}. Name another with --out",
                                 printable(folder.string()), problem.message()));
  fs::remove(probe.path(), problem);
}

void write_atomically(const fs::path& path, const std::string& text) {
  const std::optional<struct stat> old = status_of(path);
  if (old) {
    refuse_non_file(path, old->st_mode);
    if (!S_ISREG(old->st_mode)) return write_through(path, text);
  }
  const Unfinished temporary(path);
  bool made = false;
  const bool written = [&] {
    Descriptor file(temporary.path(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    made = file.good();
    if (made && old) file.adopt_attributes(*old);
    // The old text stays until the new one is on the disk, also where the node loses its power.
    return made && file.write_all(text) && (!old || file.sync()) && file.close();
  }();
  if (written && std::rename(temporary.c_str(), path.c_str()) == 0) return;
  const EnvironmentError problem = cannot_write(path);
  if (made) ::unlink(temporary.c_str());
  throw problem;
}

void check_writable(const fs::path& path) {
  std::error_code problem;
  const fs::path folder = fs::absolute(path, problem).parent_path();
  if (!fs::is_directory(folder, problem) || path.filename().empty())
    throw UsageError(
        fmt::format("'{}' cannot be written: name a file in a folder that exists", printable(path.string())));
  const std::optional<struct stat> old = status_of(path);
  if (!old) {
    if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) throw refusal(path, std::strerror(errno));
    return;
  }
  refuse_non_file(path, old->st_mode);
  if (S_ISREG(old->st_mode))
    refuse_read_only(path, old->st_mode);
  else if (!S_ISFIFO(old->st_mode))  // opening a pipe would show its reader an end of file
    if (const mode_t mode = open_through(path).status().st_mode; S_ISREG(mode)) refuse_read_only(path, mode);
}

void append_line(const fs::path& path, const std::string& line) {
  Descriptor file(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK);
  const bool regular = file.good() && S_ISREG(file.status().st_mode);
  if (file.good() && !regular) throw EnvironmentError(fmt::format("'{}' is no regular file", path.string()));
  const off_t before = file.good() ? file.end() : 0;
  if (file.good() && file.write_all(line + "\n") && file.close()) return;
  const EnvironmentError problem = cannot_write(path);
  if (file.good())
    file.truncate(before);
  else if (regular)  // closed, and some of the line may be there
    Descriptor(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK).truncate(before);
  throw problem;
}

void replace_link(const fs::path& link, const fs::path& target) {
  const Unfinished temporary(link);
  std::error_code problem;
  fs::create_symlink(target, temporary.path(), problem);
  if (problem) throw cannot_write(link);
  if (std::rename(temporary.c_str(), link.c_str()) == 0) return;
  const EnvironmentError refused = cannot_write(link);
  ::unlink(temporary.c_str());
  throw refused;
}

}  // namespace p5::reports
