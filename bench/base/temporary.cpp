#include "bench/base/temporary.hpp"

#include <system_error>

namespace p5 {

void TemporaryFolders::add(const std::filesystem::path& folder) {
  const std::lock_guard lock(mutex_);
  folders_.insert(folder);
}

void TemporaryFolders::remove(const std::filesystem::path& folder) {
  const std::lock_guard lock(mutex_);
  std::error_code problem;
  std::filesystem::remove_all(folder, problem);
  folders_.erase(folder);
}

void TemporaryFolders::remove_all() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;  // a removal that does not return must not keep the process
  std::error_code problem;
  for (const std::filesystem::path& folder : folders_) std::filesystem::remove_all(folder, problem);
}

}  // namespace p5
