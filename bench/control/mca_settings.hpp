// What the operator told Open MPI, wherever: its parameters (MCA) come from variables, which is what mpirun's --mca
// becomes, and from several files. Read before MPI_Init, so that nothing that was chosen is chosen again.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/base/environment.hpp"

namespace p5 {

using McaSettings = std::map<std::string, std::string>;

// The text of a file, nothing where there is none.
using ReadFile = std::function<std::optional<std::string>(const std::string& path)>;
std::optional<std::string> read_file(const std::string& path);

// The folder of the MPI library that this process has loaded, "" if it cannot be told.
std::string folder_of_mpi();

// Of variables only.
McaSettings mca_variables(const Environment& environment);
// Of parameter files only: the user's, those that mpirun was given (-am, -tune), the installation's, whose place
// follows from the folder of its library. The value that counts of each parameter.
McaSettings mca_files(const Environment& environment, const std::string& library_folder, const ReadFile& read);

// `ours`, names separated by commas, as far as `theirs` leaves it: all of theirs where that is a choice, else ours
// without what theirs excludes ("^ucx,cm").
std::string within_choice(const std::string& ours, const std::string& theirs);

}  // namespace p5
