#include "tuner/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/units.hpp"
#include "tuner/quoting.hpp"

namespace p5::tuner {

namespace {

constexpr const char* table_name = "nccl-tuner.csv";
constexpr const char* sets_nothing = "Nothing here beats the default: this file sets nothing.";

bool with_plugin(const TuningResult& result) {
  return !result.table.rows.empty() && !result.folder.empty() && !result.plugin.empty();
}

bool sets_anything(const TuningResult& result) { return !result.environment.empty() || with_plugin(result); }

std::string path_in(const std::string& folder, const std::string& name) {
  return folder.empty() || folder.ends_with('/') ? folder + name : folder + "/" + name;
}

std::string interval_text(const Gain& gain) {
  return fmt::format("{:.1f} to {:.1f} %", 100 * gain.interval.low, 100 * gain.interval.high);
}

void add_gains(std::vector<std::string>& lines, const TuningResult& result) {
  if (result.gains.empty()) return;
  lines.push_back("");
  lines.push_back("Time saved against the default, confirmed in fresh processes (95 % interval):");
  for (const GainLine& line : result.gains)
    lines.push_back(fmt::format("  {:<14} {:>10}  {:<24} {:.2f} -> {:.2f} us  {:.1f} % ({})", line.collective,
                                to_text(Bytes{line.bytes}), line.setting, 1e6 * line.gain.standard_s,
                                1e6 * line.gain.tuned_s, 100 * line.gain.share, interval_text(line.gain)));
  lines.push_back(
      fmt::format("Found among {} candidates in {} cells; each was measured again with these files alone, in "
                  "fresh processes.",
                  result.candidates_tried, result.size_points));
}

bool replaced(const Table& kept, const TuningResult& result) {
  return find_table({kept}, result.table.nccl_version, static_cast<std::uint64_t>(result.table.ranks),
                    static_cast<std::uint64_t>(result.table.nodes)) != nullptr;
}

std::string commented(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line.empty() ? "#\n" : "# " + line + "\n";
  return text + "\n";
}

// Of the plugin: its path, its table's, and the hash without which it would take any table. One without the others ends
// every job that loads it.
constexpr std::array plugin_variables{"NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE", "P5BENCH_TUNER_HASH"};

bool is_of_plugin(const std::string& name) {
  return std::ranges::find(plugin_variables, name) != plugin_variables.end();
}

// KEY=VALUE lines of those values that the format can hold; what goes together stands there together or not at all.
template <class Fits>
std::string plain_lines(const TuningResult& result, Fits fits) {
  const Environment variables = variables_of(result);
  const bool plugin_fits =
      std::ranges::all_of(variables, [&](const auto& each) { return !is_of_plugin(each.first) || fits(each.second); });
  std::string text;
  for (const auto& [name, value] : variables)
    if (is_of_plugin(name) && !plugin_fits)
      text += fmt::format("# {} is in nccl.env.sh only: a path of the plugin or its table needs quotes\n", name);
    else
      text += fits(value) ? fmt::format("{}={}\n", name, value)
                          : fmt::format("# {} is in nccl.env.sh only: its value needs quotes\n", name);
  return text;
}

std::string shell_file(const TuningResult& result) {
  std::vector<std::string> lines = header_lines(result, "nccl.env.sh");
  if (sets_anything(result)) {
    lines.push_back("");
    if (with_plugin(result))
      lines.push_back(comment_text(fmt::format(
          "All hosts need {} and {}: a rank without the plugin decides otherwise than the others, and hangs them.",
          path_in(result.folder, table_name), result.plugin)));
    lines.push_back("To load it:");
    for (const LoadingLine& loading : loading_lines(result))
      lines.push_back(fmt::format("  {:<10} {}", loading.launcher, comment_text(loading.line)));
  }
  std::string text = commented(lines);
  for (const auto& [name, value] : variables_of(result)) text += fmt::format("export {}={}\n", name, shell_word(value));
  return text;
}

// ---- the example plugin's table

std::string example_name(Function function) {
  std::string name(name_of(function));
  std::erase(name, '_');
  return name;
}

std::string example_line(const Row& row, const Table& table) {
  return fmt::format("{},{},{},{},{},{},{},{},-1,-1\n", example_name(row.function), row.from, row.to,
                     name_of(row.setting.algorithm), name_of(row.setting.protocol), row.setting.channels, table.nodes,
                     table.ranks);
}

// The rows of one function within a range, stretched until they touch each other and both ends; equals are one.
std::vector<Row> covering(Function function, const std::vector<Row>& known, std::uint64_t from, std::uint64_t to) {
  std::vector<Row> rows;
  for (const Row& row : known)
    if (row.function == function && row.from >= from && row.to <= to) rows.push_back(row);
  std::ranges::sort(rows, {}, &Row::from);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].from = i == 0 ? from : rows[i - 1].to + 1;
    rows[i].to = i + 1 == rows.size() ? to : rows[i + 1].from - 1;
  }
  std::vector<Row> merged;
  for (const Row& row : rows) {
    if (!merged.empty() && merged.back().setting == row.setting)
      merged.back().to = row.to;
    else
      merged.push_back(row);
  }
  return merged;
}

std::vector<Row> with_channels(const std::vector<Row>& rows, const std::vector<Row>& taken) {
  std::vector<Row> all;
  for (const Row& row : rows) {
    std::vector<Row> pieces;
    for (const Row& piece : taken)
      if (same_kind(piece.setting, row.setting)) pieces.push_back(piece);
    if (row.setting.channels == 0) pieces = covering(row.function, pieces, row.from, row.to);
    if (row.setting.channels > 0 || pieces.empty()) pieces = {row};
    std::ranges::move(pieces, std::back_inserter(all));
  }
  return all;
}

}  // namespace

// Nothing goes along with a result that sets nothing: the earlier file stands.
std::vector<Table> kept_tables(const TuningResult& result) {
  std::vector<Table> kept = with_plugin(result) ? result.kept : std::vector<Table>();
  std::erase_if(kept, [&](const Table& each) { return replaced(each, result); });
  return kept;
}

std::vector<std::string> header_lines(const TuningResult& result, const std::string& name) {
  std::vector<std::string> lines{
      fmt::format("{} by p5bench {}, {}, cluster {}", name, result.version, result.date, result.cluster)};
  if (!sets_anything(result)) {
    lines.push_back(sets_nothing);
    if (!result.nothing_because.empty()) lines.push_back(result.nothing_because);
  }
  lines.push_back("");
  lines.push_back("Valid for:");
  if (result.table.ranks > 0)
    lines.push_back(fmt::format("  communicators of {} ranks on {} nodes", result.table.ranks, result.table.nodes));
  for (const auto& [what, value] : result.valid_for) lines.push_back(fmt::format("  {} {}", what, value));
  for (const Table& each : kept_tables(result))
    lines.push_back(fmt::format("and for communicators of {} ranks on {} nodes, NCCL {}, tuned before", each.ranks,
                                each.nodes, version_text(each.nccl_version)));
  lines.push_back("Measure again (p5bench tune) when any of these changes.");
  if (sets_anything(result)) add_gains(lines, result);
  for (std::string& line : lines) line = comment_text(line);
  return lines;
}

NamedFile table_file(const TuningResult& result) {
  Table table = result.table;
  // Without ranks nothing was tuned; the format wants a communicator all the same.
  if (table.rows.empty())
    table = {std::max(1, table.nccl_version), std::max(1, table.ranks), std::max(1, table.nodes), {}};
  std::string text = to_csv(table, join(header_lines(result, table_name), "\n"));
  for (const Table& each : kept_tables(result)) text += to_csv(each, "\nTuned before:");
  return {table_name, text};
}

Environment variables_of(const TuningResult& result) {
  Environment variables = result.environment;
  if (with_plugin(result)) {
    variables["NCCL_TUNER_PLUGIN"] = result.plugin;
    variables["NCCL_TUNER_CONFIG_FILE"] = path_in(result.folder, table_name);
    variables["P5BENCH_TUNER_HASH"] = fingerprint(table_file(result).text);
  }
  for (const auto& [name, value] : variables) {
    if (!is_variable_name(name)) throw std::invalid_argument("'" + comment_text(name) + "' is no name of a variable");
    if (value.find('\0') != std::string::npos) throw std::invalid_argument("the value of " + name + " holds a NUL");
  }
  return variables;
}

std::vector<NamedFile> tuning_files(const TuningResult& result) {
  return {{"nccl.env", commented(header_lines(result, "nccl.env")) + plain_lines(result, plain)},
          {"nccl.env.sh", shell_file(result)},
          {"nccl.conf", commented(header_lines(result, "nccl.conf")) + plain_lines(result, fits_nccl_conf)},
          table_file(result)};
}

std::vector<LoadingLine> loading_lines(const TuningResult& result) {
  // What nccl.env leaves out, nobody can load from it.
  const Environment variables = variables_of(result);
  const bool all_in_env = std::ranges::all_of(variables, [](const auto& each) { return plain(each.second); });
  const std::string source = ". " + shell_word(path_in(result.folder, "nccl.env.sh"));
  std::string names;
  for (const auto& [name, value] : variables) names += " -x " + name;
  std::vector<LoadingLine> lines{
      {"mpirun", source + " && mpirun" + names + " ..."},
      // Not --export=NAME=VALUE: srun would end a value at its first comma.
      {"srun", source + " && srun --export=ALL ..."},
      {"torchrun", source + " && torchrun ...   (on every node)"},
      {"docker", "docker run --env-file " + shell_word(path_in(result.folder, "nccl.env")) + " ..."}};
  if (!all_in_env) {
    std::string passed = source + " && docker run";
    for (const auto& [name, value] : variables) passed += " -e " + name;
    lines.back().line = passed + " ...";
  }
  return lines;
}

LoadingLine copying_line(const TuningResult& result, const std::vector<NamedFile>& files,
                         const std::vector<std::string>& hosts) {
  std::string line = "for host in";
  for (const std::string& host : hosts) line += " " + (plain(host) ? host : shell_word(host));
  line += "; do tar -cPf -";  // with absolute names, so that no path goes through the other host's shell
  for (const NamedFile& file : files) line += " " + shell_word(path_in(result.folder, file.name));
  return {"ssh", line + " | ssh \"$host\" tar -xPf -; done"};
}

std::string config_map(const TuningResult& result) {
  std::string text = commented(header_lines(result, "nccl-configmap.yaml"));
  text += "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: p5bench-nccl\n";
  const Environment variables = variables_of(result);
  text += variables.empty() ? "data: {}\n" : "data:\n";
  for (const auto& [name, value] : variables) {
    const std::optional<std::string> quoted = yaml_text(value);
    text += quoted ? fmt::format("  {}: {}\n", name, *quoted)
                   : fmt::format("  # {} is in nccl.env.sh only: its value is not UTF-8\n", name);
  }
  return text;
}

std::variant<NamedFile, std::string> example_plugin_csv(const TuningResult& result, const std::vector<Row>& standard,
                                                        const std::vector<Row>& taken) {
  const auto same_channels = [](const Row& row) { return row.setting.channels > 0; };
  if (result.table.rows.empty()) return "There is nothing to hand to NCCL's example plugin: nothing beats the default.";
  const std::vector<Row> tuned = with_channels(result.table.rows, taken);
  if (!std::ranges::all_of(tuned, same_channels) || !std::ranges::all_of(standard, same_channels))
    return "NCCL's example plugin takes one channel where a row leaves the number open, and for some rows it is not "
           "known.";
  std::vector<std::string> lines = header_lines(result, "nccl-tuner-example.conf");
  lines.push_back("");
  lines.push_back(
      "For plugins/tuner/example of NCCL's sources. It gives ONE channel to every call that has no row here:");
  lines.push_back(fmt::format("use it only where all communicators have {} ranks on {} nodes.", result.table.ranks,
                              result.table.nodes));
  lines.push_back(
      "Prefer libnccl-tuner-p5bench.so with nccl-tuner.csv, which leaves such calls alone. The gains above");
  lines.push_back("were confirmed with that one, not with the example plugin.");
  // The plugin reads lines of 256 bytes and takes the rest of a longer one for a line of its own.
  for (std::string& line : lines) line.resize(std::min<std::size_t>(line.size(), 200));
  std::string text = commented(lines);
  for (const Row& row : tuned) text += example_line(row, result.table);  // the first that matches wins
  for (int i = 0; i <= static_cast<int>(Function::all_reduce); ++i) {
    const std::vector<Row> rows = covering(static_cast<Function>(i), standard, 0, ~std::uint64_t{0});
    if (rows.empty())
      return fmt::format(
          "NCCL's example plugin would run every {} with one channel: what NCCL chooses for it was not measured.",
          name_of(static_cast<Function>(i)));
    for (const Row& row : rows) text += example_line(row, result.table);
  }
  return NamedFile{"nccl-tuner-example.conf", text};
}

}  // namespace p5::tuner
