// The main of all targets where libFuzzer is not: gives the one that is named first each file of the folders.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz.hpp"

struct Target {
  std::string_view name;
  int (*run)(const std::uint8_t* data, std::size_t size);
};

#include "targets.hpp"  // CMakeLists.txt writes it: all targets, and a table of them

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  const auto target = std::ranges::find(targets, argc < 2 ? "" : argv[1], &Target::name);
  if (target == std::end(targets)) return 2;
  std::vector<fs::path> files;
  for (const std::string& folder : std::vector<std::string>(argv + 2, argv + argc))
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);  // before what may crash
    target->run(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }
  std::printf("%zu inputs\n", files.size());
  return files.empty() ? 1 : 0;
}
