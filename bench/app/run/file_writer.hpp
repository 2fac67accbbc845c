// Writes files on a thread of its own: a file system that takes its time holds up neither the leader nor the ranks that
// wait for it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "bench/base/units.hpp"

namespace p5 {

// What goes wrong with a file is an EnvironmentError that names it, once, from the next call of any kind; the files
// after it are tried all the same.
class FileWriter {
 public:
  FileWriter();
  // What is not written by then is lost.
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // The whole file. Of several texts for a file that wait, the last.
  void write(const std::filesystem::path& path, std::string text);
  // One more line.
  void append(const std::filesystem::path& path, std::string line);
  // Until all of it is written. Throws EnvironmentError also when that takes longer than `patience`.
  void flush(Seconds patience);
  void check();

 private:
  struct State;
  std::shared_ptr<State> state_;  // the thread's as well: nobody can end one that hangs in a file system
};

}  // namespace p5
