// Start of the job: the launcher's variables, and Open MPI's parameters (MCA) as the operator set them. Both are read
// before MPI_Init. MPI itself does not report a launcher of another library, with which each process believes to be
// alone; and parameters that the operator chose are not chosen again.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "bench/base/environment.hpp"

namespace p5 {

struct LauncherInfo {
  int processes = 0;  // 0: unknown
  int rank = 0;
  std::string variable;  // source of these values; "": none
  bool by_torchrun = false;

  bool has_peers() const { return processes > 1 || rank > 0; }
};

// Reads the variables of the innermost known launcher: mpirun within srun is mpirun.
LauncherInfo detect_launcher(const Environment& environment);

// Error message with remedy if MPI sees a job of `ranks` ranks that is not the launched one; "" if it is.
std::string job_mismatch(const LauncherInfo& launch, int ranks);

// True if no process manager exists that MPI could query for its job; MPI is then not started to find out, because Open
// MPI would abort a single task of srun.
bool has_no_process_manager(const Environment& environment);

using McaSettings = std::map<std::string, std::string>;

// Content of a file; null where there is none.
using ReadFile = std::function<std::optional<std::string>(const std::string& path)>;
std::optional<std::string> read_file(const std::string& path);

// Folder of the MPI library that this process has loaded; "" if unknown.
std::string mpi_library_folder();

// Parameters from environment variables, which is also the form of mpirun's --mca.
McaSettings mca_variables(const Environment& environment);
// Effective parameters from files: the user's, those given to mpirun (-am, -tune), and the installation's, located
// relative to the library's folder.
McaSettings mca_files(const Environment& environment, const std::string& library_folder, const ReadFile& read);

// Restricts `ours`, names separated by commas, by the operator's `theirs`: all of theirs if that is a selection, else
// ours without what theirs excludes ("^ucx,cm").
std::string restrict_to_choice(const std::string& ours, const std::string& theirs);

}  // namespace p5
