// How many files this process may have open. Each connection is one, and of thousands of ranks the first has one to
// each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace p5 {

// The limit that this process was started with, whatever was raised since.
std::optional<std::uint64_t> open_files_at_start();

// Room for so many connections beside what is open and this program's own files: raises the limit as far as that needs,
// for child processes too, where what may be raised without rights is enough. Else says what is missing and the remedy;
// "": there is room.
std::string make_room_for_connections(std::uint64_t connections);

}  // namespace p5
