// Temporary folders, which are removed wherever their process ends in its own code: at a signal too, when no
// destructor runs. Only SIGKILL leaves them.
#pragma once

#include <filesystem>
#include <mutex>
#include <set>

namespace p5 {

class TemporaryFolders {
 public:
  void add(const std::filesystem::path& folder);
  void remove(const std::filesystem::path& folder);
  void remove_all();  // from any thread; what cannot be removed stays

 private:
  std::mutex mutex_;
  std::set<std::filesystem::path> folders_;
};

}  // namespace p5
