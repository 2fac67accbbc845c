#include "bench/commands/commands.hpp"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "bench/worlds/worlds.hpp"

namespace p5 {

namespace {

const std::array<Command, 4> table{{
    {"run", run_command},
    {"plan", plan_command},
    {"list", list_command},
    {"report", report_command},
}};

}  // namespace

const Command& find_command(const std::string& name) { return *std::ranges::find(table, name, &Command::name); }

bool measures_over_mpi(const std::vector<std::string>& arguments) {
  try {
    const Parsed parsed = parse_options(arguments);
    return !parsed.early && parsed.options.command == "run" && parsed.options.backend != "sim";
  } catch (const UsageError&) {
    return false;  // it will be refused, by rank 0 alone where there are several
  }
}

bool needs_mpi(const std::vector<std::string>& arguments) { return started_by_launcher() || measures_over_mpi(arguments); }

std::vector<std::string> share_arguments(World& world, const std::vector<std::string>& arguments) {
  return nlohmann::json::parse(world.broadcast(nlohmann::json(arguments).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)));
}

}  // namespace p5
