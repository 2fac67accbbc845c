#include "reports/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "bench/base/error.hpp"

namespace p5::reports {

namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  bool good() const { return fd_ >= 0; }

  // Some file systems say only now that there is no room.
  bool close() { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

  off_t end() const { return ::lseek(fd_, 0, SEEK_END); }
  void cut(off_t length) const {
    if (::ftruncate(fd_, length) != 0) return;  // then half a line stays, which readers leave out
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

EnvironmentError cannot_write(const fs::path& path) {
  return EnvironmentError(fmt::format("cannot write '{}': {}{}", path.string(), std::strerror(errno),
                                      errno == EFBIG ? ", the limit is ulimit -f" : ""));
}

// Beside the target, so that the rename stays within one file system; the process id keeps two writers apart.
fs::path beside(const fs::path& path) {
  return path.parent_path() / fmt::format(".{}.{}", path.filename().string(), ::getpid());
}

}  // namespace

void make_folder(const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  const fs::path probe = folder / fmt::format(".probe.{}", ::getpid());
  if (!problem && !Descriptor(probe, O_WRONLY | O_CREAT | O_EXCL).good())
    problem = std::error_code(errno, std::generic_category());
  if (problem)
    throw UsageError(fmt::format("the output folder '{}' cannot be written: {}. Name another with --out",
                                 folder.string(), problem.message()));
  fs::remove(probe, problem);
}

void write_atomically(const fs::path& path, const std::string& text) {
  const fs::path temporary = beside(path);
  const bool written = [&] {
    Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    return file.good() && file.write_all(text) && file.close();
  }();
  if (written && std::rename(temporary.c_str(), path.c_str()) == 0) return;
  const EnvironmentError problem = cannot_write(path);
  ::unlink(temporary.c_str());
  throw problem;
}

void append_line(const fs::path& path, const std::string& line) {
  Descriptor file(path, O_WRONLY | O_CREAT | O_APPEND);
  const off_t before = file.good() ? file.end() : 0;
  if (file.good() && file.write_all(line + "\n")) return;
  const EnvironmentError problem = cannot_write(path);
  if (file.good()) file.cut(before);
  throw problem;
}

void point_link(const fs::path& link, const fs::path& target) {
  const fs::path temporary = beside(link);
  std::error_code problem;
  fs::remove(temporary, problem);
  fs::create_symlink(target, temporary, problem);
  if (problem || std::rename(temporary.c_str(), link.c_str()) != 0) throw cannot_write(link);
}

}  // namespace p5::reports
