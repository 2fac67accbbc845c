#include "tuner/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string_view>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/units.hpp"

namespace p5::tuner {

namespace {

// ---- quoting

bool printable(char c) { return c >= ' ' && c <= '~'; }
bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool digit(char c) { return c >= '0' && c <= '9'; }

// Removes one UTF-8 character from the beginning of the text; null where it begins with none.
std::optional<std::uint32_t> take_code_point(std::string_view& text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::size_t length = byte(0) < 0x80 ? 1 : byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (length > text.size() || (byte(0) >= 0x80 && byte(0) < 0xc2) || byte(0) > 0xf4) return std::nullopt;
  std::uint32_t point = length == 1 ? byte(0) : byte(0) & (0xff >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return std::nullopt;
    point = point << 6 | (byte(i) & 0x3f);
  }
  const bool too_long = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
  if (too_long || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return std::nullopt;
  text.remove_prefix(length);
  return point;
}

// One line of printable ASCII. Other characters become '?', because a reader could take one for the end of the line,
// and the rest for content.
std::string comment_text(std::string_view text) {
  std::string result(text);
  std::ranges::replace_if(
      result, [](char c) { return !printable(c); }, '?');
  return result;
}

// True where the value needs no quotes in a KEY=VALUE line, neither for readers that know no quotes (docker --env-file)
// nor for a shell.
bool is_plain(std::string_view value) {
  return !value.empty() && std::ranges::all_of(value, [](char c) {
    return letter(c) || digit(c) || std::string_view("_./:,+@%=-").find(c) != std::string_view::npos;
  });
}

// True where NCCL's configuration file can hold the value: printable, shorter than 1024, without a space at the end,
// which is easily lost.
bool fits_nccl_conf(std::string_view value) {
  return value.size() < 1024 && std::ranges::all_of(value, printable) && !value.ends_with(' ');
}

// ---- the files

constexpr const char* table_name = "nccl-tuner.csv";
constexpr const char* sets_nothing = "Nothing here beats the default: this file sets nothing.";
constexpr const char* undecided = "Undecided: this file sets nothing.";

bool uses_plugin(const TuningResult& result) {
  return !result.table.rows.empty() && !result.folder.empty() && !result.plugin.empty();
}

bool decides_registered_calls(const TuningResult& result) { return rows_decide_registered_calls(result.environment); }

bool sets_anything(const TuningResult& result) { return !result.environment.empty() || uses_plugin(result); }

std::string path_in(const std::string& folder, const std::string& name) {
  return folder.empty() || folder.ends_with('/') ? folder + name : folder + "/" + name;
}

std::string interval_text(const Gain& gain) {
  return fmt::format("{:.1f} to {:.1f} %", 100 * gain.interval.low, 100 * gain.interval.high);
}

void add_step(std::vector<std::string>& lines, const TuningResult& result) {
  if (!result.step) return;
  const Gain& gain = result.step->gain;
  lines.push_back("");
  lines.push_back(fmt::format("The step of {}, replayed in fresh processes: {:.3f} -> {:.3f} ms  {:.1f} % saved ({})",
                              result.step->job, 1e3 * gain.standard_s, 1e3 * gain.tuned_s, 100 * gain.share,
                              interval_text(gain)));
}

void add_gains(std::vector<std::string>& lines, const TuningResult& result) {
  if (result.gains.empty()) return;
  lines.push_back("");
  lines.push_back(fmt::format("Time saved{} against the default, confirmed in fresh processes (95 % interval):",
                              result.beside.empty() ? "" : " until the operation and the work beside it are done,"));
  for (const GainLine& line : result.gains) {
    lines.push_back(fmt::format("  {:<14} {:>10}  {:<24} {:.2f} -> {:.2f} us  {:.1f} % ({})", line.collective,
                                to_text(Bytes{line.bytes}), line.setting, 1e6 * line.gain.standard_s,
                                1e6 * line.gain.tuned_s, 100 * line.gain.share, interval_text(line.gain)));
    if (line.alone)
      lines.back() +=
          fmt::format("; alone {:.2f} -> {:.2f} us", 1e6 * line.alone->standard_s, 1e6 * line.alone->tuned_s);
  }
  lines.push_back(
      fmt::format("Found among {} candidates at {} size points; each was measured again with these files alone, in "
                  "fresh processes.",
                  result.candidates_tried, result.size_points));
}

void add_speedup(std::vector<std::string>& lines, const TuningResult& result) {
  if (result.environment.empty() || !result.environment_speedup) return;
  const Objective& faster = *result.environment_speedup;
  lines.push_back("");
  lines.push_back(fmt::format(
      "{:.3f} times as fast as the default{} in fresh processes (95 % interval {:.3f} to {:.3f}){}.", faster.speedup,
      result.beside.empty() ? ", by the device's own time," : ", until the operation and the work beside it are done,",
      faster.interval.low, faster.interval.high,
      result.environment_speedup_alone
          ? fmt::format("; operations alone {:.3f} times", result.environment_speedup_alone->speedup)
          : ""));
  std::map<std::string, std::vector<std::string>> sizes;
  for (const SizePoint& point : result.environment_judged_at)
    sizes[point.collective].push_back(to_text(Bytes{point.bytes}));
  for (const std::string& risk : risks_of(result.environment)) lines.push_back("Risk, which was not measured: " + risk);
  if (sizes.empty()) return;
  lines.push_back("It acts on all operations of a job, and was judged by these alone:");
  for (const auto& [collective, at] : sizes) lines.push_back(fmt::format("  {:<14} {}", collective, join(at)));
}

bool is_replaced(const Table& kept, const TuningResult& result) {
  return find_table({kept}, result.table.nccl_version, static_cast<std::uint64_t>(result.table.ranks),
                    static_cast<std::uint64_t>(result.table.nodes)) != nullptr;
}

// Tables of earlier tunings for other communicators. A result that sets nothing keeps none, because it does not replace
// the earlier file.
std::vector<Table> kept_tables(const TuningResult& result) {
  std::vector<Table> kept = uses_plugin(result) ? result.kept : std::vector<Table>();
  std::erase_if(kept, [&](const Table& each) { return is_replaced(each, result); });
  return kept;
}

constexpr std::string_view by_p5bench = " by p5bench ", before_works = "  operations beside ",
                           after_works = "; alone none is slower",
                           title_of_conditions = "Valid for:", end_of_conditions = "Measure again";

std::string condition_line(std::string_view what, std::string_view value) {
  return fmt::format("  {} {}", what, value);
}

// "4 nodes", or "2 NVLink domains (36 hosts)".
std::string places_of(const TuningResult& result) {
  if (result.hosts == 0) return fmt::format("{} nodes", result.table.nodes);
  return fmt::format("{} NVLink domain{} ({} hosts)", result.table.nodes, result.table.nodes == 1 ? "" : "s",
                     result.hosts);
}

// The first lines of every file, without comment marks, in printable ASCII. `kept`: the earlier tables in it.
std::vector<std::string> header_lines(const TuningResult& result, const std::string& name,
                                      const std::vector<Table>& kept) {
  std::vector<std::string> lines{
      fmt::format("{}{}{}, {}, cluster {}", name, by_p5bench, result.version, result.date, result.cluster)};
  if (!sets_anything(result)) {
    lines.push_back(result.decided ? sets_nothing : undecided);
    if (!result.no_settings_reason.empty()) lines.push_back(result.no_settings_reason);
  }
  lines.push_back("");
  lines.emplace_back(title_of_conditions);
  if (result.table.ranks > 0)
    lines.push_back(fmt::format("  communicators of {} ranks on {}", result.table.ranks, places_of(result)));
  for (const auto& [what, value] : result.valid_for) lines.push_back(condition_line(what, value));
  for (const auto& [variable, value] : result.outside)
    lines.push_back(fmt::format("  jobs with {}={}, as it was set here", variable, value));
  if (!result.beside.empty())
    lines.push_back(fmt::format("{}{}{} by more than {:g} %", before_works, join(result.beside, " and "), after_works,
                                100 * result.alone_loss));
  for (const Table& each : kept)
    lines.push_back(fmt::format("and for communicators of {} ranks on {} nodes, NCCL {}, tuned before", each.ranks,
                                each.nodes, version_text(each.nccl_version)));
  if (!kept.empty() && !result.kept_conditions.empty()) {
    lines.push_back("Tables that were tuned before are from files that say they are valid for:");
    for (const std::string& condition : result.kept_conditions) lines.push_back("  " + condition);
  }
  lines.push_back(fmt::format("{} (p5bench tune) when any of these changes.", end_of_conditions));
  if (uses_plugin(result)) {
    lines.push_back("");
    if (decides_registered_calls(result)) {
      lines.push_back(
          "The settings for sizes are also for calls on buffers that are registered with NCCL, and in CUDA graphs");
      lines.push_back(
          "(P5BENCH_TUNER_REGISTERED=rows, as it was set here), though they were measured on other buffers.");
    } else {
      lines.push_back(
          "The settings for sizes are for calls on buffers that are not registered with NCCL, and outside of");
      lines.push_back(
          "CUDA graphs, except of broadcast and reduce. NCCL before 2.24 does not tell such calls apart. A");
      lines.push_back(
          "program that groups calls (ncclGroupStart) on registered buffers, at other places in their regions");
      lines.push_back("on each rank, needs P5BENCH_TUNER_REGISTERED=rows on all ranks: else it can hang. With");
      lines.push_back(
          "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK=1, which has to be the same on all ranks, they hold");
      lines.push_back("for broadcast and reduce alone.");
    }
  }
  if (sets_anything(result)) {
    add_step(lines, result);
    add_speedup(lines, result);
    add_gains(lines, result);
  }
  for (std::string& line : lines) line = comment_text(line);
  return lines;
}

std::vector<std::string> header_lines(const TuningResult& result, const std::string& name) {
  return header_lines(result, name, kept_tables(result));
}

// The head of a file that loads the settings: also the files that it names.
std::vector<std::string> loading_lines(const TuningResult& result, const std::string& name) {
  std::vector<std::string> lines = header_lines(result, name);
  const bool plugin = uses_plugin(result);
  // The variable of a tuner that is not ours, which decides all calls without a row.
  const char* const variable = plugin ? chain_variable : "NCCL_TUNER_PLUGIN";
  const std::string other = value_or_empty(result.environment, variable);
  if (!plugin && other.empty()) return lines;
  lines.push_back("");
  if (plugin)
    lines.push_back(comment_text(fmt::format(
        "All hosts need {} and {}, containers and pods too: a rank without the plugin decides otherwise than "
        "the others, and hangs them.",
        path_in(result.folder, table_name), result.plugin)));
  const std::string needs = plugin ? fmt::format("They also need {}, whose tuner decides all other calls", other)
                                   : fmt::format(
                                         "All hosts need {}, whose tuner decides all calls, containers and pods "
                                         "too",
                                         other);
  if (!other.empty())
    lines.push_back(comment_text(fmt::format(
        "{}: where containers have it elsewhere, set {} to its path there, on all ranks.", needs, variable)));
  return lines;
}

// A folder that a container sees at the same path.
std::string docker_mount(const std::string& folder) {
  const auto field = [](std::string text) {  // docker reads the option as a line of CSV
    if (text.find_first_of("\",") == std::string::npos) return text;
    for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, 1, '"');
    return "\"" + text + "\"";
  };
  return " --mount " +
         shell_word("type=bind," + field("source=" + folder) + "," + field("target=" + folder) + ",readonly");
}

std::string commented(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line.empty() ? "#\n" : "# " + line + "\n";
  return text + "\n";
}

// The plugin's path, its table's path, the hash without which it accepts any table, the tuner that it would displace,
// and what it does with calls on registered buffers. A job that has some of them without the others does not start, or
// runs what was never confirmed.
bool is_plugin_variable(const std::string& name) {
  return name == "NCCL_TUNER_PLUGIN" || name == "NCCL_TUNER_CONFIG_FILE" || name == "P5BENCH_TUNER_HASH" ||
         name == chain_variable || name == registered_variable;
}

// KEY=VALUE lines of the values that the format can hold; the plugin's variables are written together or not at all.
template <class Fits>
std::string plain_lines(const TuningResult& result, Fits fits) {
  const Environment variables = variables_of(result);
  const bool plugin_fits = std::ranges::all_of(
      variables, [&](const auto& each) { return !is_plugin_variable(each.first) || fits(each.second); });
  std::string text;
  for (const auto& [name, value] : variables)
    if (is_plugin_variable(name) && !plugin_fits)
      text += fmt::format(
          "# {} is in nccl.env.sh only: a path of the plugin, its table or the chained tuner needs quotes\n", name);
    else
      text += fits(value) ? fmt::format("{}={}\n", name, value)
                          : fmt::format("# {} is in nccl.env.sh only: its value needs quotes\n", name);
  return text;
}

std::string shell_file(const TuningResult& result) {
  std::vector<std::string> lines = loading_lines(result, "nccl.env.sh");
  if (sets_anything(result)) {
    if (!uses_plugin(result)) lines.push_back("");
    lines.push_back("To load it:");
    for (const LoadCommand& loading : load_commands(result))
      lines.push_back(fmt::format("  {:<10} {}", loading.launcher, comment_text(loading.line)));
  }
  std::string text = commented(lines);
  for (const auto& [name, value] : variables_of(result)) text += fmt::format("export {}={}\n", name, shell_word(value));
  return text;
}

// ---- the table of NCCL's example plugin

std::string example_name(Function function) {
  std::string name(name_of(function));
  std::erase(name, '_');
  return name;
}

// The last two columns are numPipeOps and regBuff; -1 is any.
std::string example_line(const Row& row, const Table& table, bool only_unregistered) {
  return fmt::format("{},{},{},{},{},{},{},{},-1,{}\n", example_name(row.function), row.from, row.to,
                     name_of(row.setting.algorithm), name_of(row.setting.protocol), row.setting.channels, table.nodes,
                     table.ranks, only_unregistered ? 0 : -1);
}

// The rows of one function within a range, extended until they cover it; neighbours of equal settings are merged.
std::vector<Row> cover_range(Function function, const std::vector<Row>& known, std::uint64_t from, std::uint64_t to) {
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

// The rows, split where `taken` has the channel counts that they leave open.
std::vector<Row> add_channels(const std::vector<Row>& rows, const std::vector<Row>& taken) {
  std::vector<Row> all;
  for (const Row& row : rows) {
    std::vector<Row> pieces;
    for (const Row& piece : taken)
      if (same_kind(piece.setting, row.setting)) pieces.push_back(piece);
    if (row.setting.channels == 0) pieces = cover_range(row.function, pieces, row.from, row.to);
    if (row.setting.channels > 0 || pieces.empty()) pieces = {row};
    std::ranges::move(pieces, std::back_inserter(all));
  }
  return all;
}

}  // namespace

std::string beside_value(const std::vector<std::string>& works) { return join(works, "+"); }

std::vector<TableHead> heads_of_tables(std::string_view csv) {
  std::vector<TableHead> heads;
  for (const std::string& line : split(std::string(csv), '\n')) {
    if (!line.starts_with("# ")) continue;
    const std::string text = line.substr(std::string_view("# ").size());
    if (text.starts_with(std::string(table_name) + std::string(by_p5bench))) heads.emplace_back();
    if (heads.empty()) continue;
    if (const std::size_t end = text.find(after_works); text.starts_with(before_works) && end != std::string::npos)
      heads.back().works = text.substr(before_works.size(), end - before_works.size());
    if (text == condition_line(registered_variable, rows_for_registered)) heads.back().registered = true;
  }
  return heads;
}

std::vector<std::string> conditions_of_tables(std::string_view csv) {
  constexpr std::string_view mark = "# ";
  std::vector<std::string> conditions;
  bool within = false;
  for (const std::string& line : split(std::string(csv), '\n')) {
    const std::string text = line.starts_with(mark) ? line.substr(mark.size()) : "";
    if (text.empty() || text.starts_with(end_of_conditions)) within = false;
    if (within) conditions.push_back(text);
    if (text == title_of_conditions) within = true;
  }
  return conditions;
}

NamedFile table_file(const TuningResult& result) {
  Table table = result.table;
  // The format requires a communicator, even where nothing was tuned.
  if (table.rows.empty())
    table = {std::max(1, table.nccl_version), std::max(1, table.ranks), std::max(1, table.nodes), {}};
  std::string text = to_csv(table, join(header_lines(result, table_name), "\n"));
  for (const Table& each : kept_tables(result)) text += to_csv(each, "\nTuned before:");
  return {table_name, text};
}

Environment variables_of(const TuningResult& result) {
  Environment variables = result.environment;
  if (uses_plugin(result)) {
    variables["NCCL_TUNER_PLUGIN"] = result.plugin;
    variables["NCCL_TUNER_CONFIG_FILE"] = path_in(result.folder, table_name);
    variables["P5BENCH_TUNER_HASH"] = fingerprint(table_file(result).text);
  }
  if (sets_anything(result) && !result.beside.empty()) variables[beside_variable] = beside_value(result.beside);
  for (const auto& [name, value] : variables) {
    if (!is_variable_name(name)) throw std::invalid_argument("'" + comment_text(name) + "' is no name of a variable");
    if (value.find('\0') != std::string::npos) throw std::invalid_argument("the value of " + name + " holds a NUL");
  }
  return variables;
}

std::vector<NamedFile> tuning_files(const TuningResult& result) {
  return {{"nccl.env", commented(loading_lines(result, "nccl.env")) + plain_lines(result, is_plain)},
          {"nccl.env.sh", shell_file(result)},
          {"nccl.conf", commented(loading_lines(result, "nccl.conf")) + plain_lines(result, fits_nccl_conf)},
          table_file(result)};
}

std::vector<LoadCommand> load_commands(const TuningResult& result) {
  // docker can use nccl.env only if it has all variables.
  const Environment variables = variables_of(result);
  const bool all_in_env = std::ranges::all_of(variables, [](const auto& each) { return is_plain(each.second); });
  const std::string source = ". " + shell_word(path_in(result.folder, "nccl.env.sh"));
  std::string names;
  for (const auto& [name, value] : variables) names += " -x " + name;
  std::string mounts;
  if (uses_plugin(result)) {
    const std::string of_plugin = std::filesystem::path(result.plugin).parent_path().string();
    mounts = docker_mount(result.folder);
    if (of_plugin != result.folder) mounts += docker_mount(of_plugin);
  }
  std::vector<LoadCommand> lines{
      {"mpirun", source + " && mpirun" + names + " ..."},
      // srun's --export=NAME=VALUE would end a value at its first comma.
      {"srun", source + " && srun --export=ALL ..."},
      {"torchrun", source + " && torchrun ...   (on every node)"},
      {"docker", "docker run --env-file " + shell_word(path_in(result.folder, "nccl.env")) + mounts + " ..."}};
  if (!all_in_env) {
    std::string passed = source + " && docker run";
    for (const auto& [name, value] : variables) passed += " -e " + name;
    lines.back().line = passed + mounts + " ...";
  }
  return lines;
}

LoadCommand copy_command(const TuningResult& result, const std::vector<NamedFile>& files,
                         const std::vector<std::string>& hosts) {
  std::string line = "for host in";
  for (const std::string& host : hosts) line += " " + (is_plain(host) ? host : shell_word(host));
  line += "; do tar -cPf -";  // absolute names in the archive, so that the other host's shell parses no path
  for (const NamedFile& file : files) line += " " + shell_word(path_in(result.folder, file.name));
  return {"ssh", line + " | ssh \"$host\" tar -xPf -; done"};
}

std::optional<std::string> yaml_text(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const std::optional<std::uint32_t> point = take_code_point(text);
    if (!point) return std::nullopt;
    const char c = *point < 0x80 ? static_cast<char>(*point) : '\0';
    if (c == '"' || c == '\\')
      result += std::string("\\") + c;
    else if (printable(c))
      result += c;
    else
      result += fmt::format("\\U{:08x}", *point);
  }
  return result + "\"";
}

std::string config_map(const TuningResult& result) {
  std::string text = commented(loading_lines(result, "nccl-configmap.yaml"));
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
  const auto has_channels = [](const Row& row) { return row.setting.channels > 0; };
  if (result.table.rows.empty()) return "There is nothing to hand to NCCL's example plugin: nothing beats the default.";
  const std::vector<Row> tuned = add_channels(result.table.rows, taken);
  if (!std::ranges::all_of(tuned, has_channels) || !std::ranges::all_of(standard, has_channels))
    return "NCCL's example plugin takes one channel where a row leaves the number open, and for some rows it is not "
           "known.";
  std::vector<std::string> lines = header_lines(result, "nccl-tuner-example.conf", {});
  lines.push_back("");
  lines.push_back(
      "For plugins/tuner/example of NCCL's sources. It gives ONE channel to every call that has no row here:");
  lines.push_back(
      fmt::format("use it only where all communicators have {} ranks on {}.", result.table.ranks, places_of(result)));
  lines.push_back(
      "Prefer libnccl-tuner-p5bench.so with nccl-tuner.csv, which leaves such calls alone. The gains above");
  lines.push_back(
      "were confirmed with that one, not with the example plugin. Not for jobs that reduce float8 among more");
  lines.push_back("than 8 ranks: NCCL avoids rings for it, which lose precision, and rows of this file force them.");
  const bool decides_registered = decides_registered_calls(result);
  if (!decides_registered) {
    lines.push_back(
        "Not where PyTorch's allocator registers buffers (TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK): NCCL");
    lines.push_back("may tell ranks different things of one call there, and they hang.");
  }
  // The plugin reads lines of 256 bytes, and the rest of a longer line as a line of its own.
  for (std::string& line : lines) line.resize(std::min<std::size_t>(line.size(), 200));
  std::string text = commented(lines);
  for (const Row& row : tuned)  // the first that matches wins
    text += example_line(row, result.table, !decides_registered && has_both_buffers_everywhere(row.function));
  for (const Function function : all_functions) {
    const std::vector<Row> rows = cover_range(function, standard, 0, ~std::uint64_t{0});
    if (rows.empty())
      return fmt::format(
          "NCCL's example plugin would run every {} with one channel: what NCCL chooses for it was not measured.",
          name_of(function));
    for (const Row& row : rows) text += example_line(row, result.table, false);
  }
  return NamedFile{"nccl-tuner-example.conf", text};
}

// ---- settings for single calls

namespace {

constexpr const char* calls_name = "nccl-tuned-calls.h";
// The first release in which ncclCollConfig_t has algSelection; 2.31.0a16 lacks it.
constexpr int first_with_selections = 23102;

// The enumerators of p5bench_function below, in the order of Function.
constexpr std::array names_in_header{"P5BENCH_BROADCAST", "P5BENCH_REDUCE", "P5BENCH_ALL_GATHER",
                                     "P5BENCH_REDUCE_SCATTER", "P5BENCH_ALL_REDUCE"};

// C99 and C++11; @SINCE@ and @ROWS@ are replaced. The function returns 0 with another NCCL than the tuned one; with
// headers before @SINCE@ it does not exist.
constexpr std::string_view calls_text = R"(#ifndef P5BENCH_NCCL_TUNED_CALLS_H
#define P5BENCH_NCCL_TUNED_CALLS_H

#include <nccl.h>
#include <stddef.h>

#if NCCL_VERSION_CODE >= @SINCE@
/* 1: p5bench_tuned_call() is there; 0: this NCCL has no settings for single calls. */
#define P5BENCH_NCCL_TUNED_CALLS 1

typedef enum {
  P5BENCH_BROADCAST,
  P5BENCH_REDUCE,
  P5BENCH_ALL_GATHER,
  P5BENCH_REDUCE_SCATTER,
  P5BENCH_ALL_REDUCE
} p5bench_function;

typedef struct {
  int nccl, ranks, nodes;
  p5bench_function function;
  unsigned long long from, to; /* bytes, both included */
  const char* algorithms;
  int channels; /* 0: NCCL's own number */
} p5bench_tuned_row;

/* Fills `config` for one call and returns 1, or leaves it alone and returns 0: then call as before.
 * nccl: of ncclGetVersion(); ranks: of ncclCommCount().
 * nodes: on how many NVLink domains they are, as NCCL counts nodes; a host that shares NVLinks with no other is one.
 * bytes: of all_gather the whole output, of reduce_scatter the whole input, else one rank's buffer.
 * All ranks of a communicator have to ask alike. `config` has to be NCCL_COLLCONFIG_INITIALIZER before. */
static inline int p5bench_tuned_call(int nccl, int ranks, int nodes, p5bench_function function, size_t bytes,
                                     ncclCollConfig_t* config) {
  static const p5bench_tuned_row rows[] = {
@ROWS@  };
  size_t i;
  for (i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    const p5bench_tuned_row* const row = &rows[i];
    if (row->nccl != nccl || row->ranks != ranks || row->nodes != nodes || row->function != function ||
        bytes < row->from || bytes > row->to)
      continue;
    config->algSelection = row->algorithms;
    config->forceAlgSelection = 0; /* where NCCL cannot run it so, it takes its own choice */
    if (row->channels > 0) config->minCTAs = config->maxCTAs = row->channels;
    return 1;
  }
  return 0;
}

#else
#define P5BENCH_NCCL_TUNED_CALLS 0
#endif

#endif
)";

std::string substituted(std::string text, std::string_view place, std::string_view value) {
  for (std::size_t at = text.find(place); at != std::string::npos; at = text.find(place, at + value.size()))
    text.replace(at, place.size(), value);
  return text;
}

// The rows that ncclCollConfig_t can express: without a chunk size, with a kernel that NCCL has.
std::string row_lines(const Table& table) {
  std::string lines;
  if (table.nccl_version < first_with_selections) return lines;
  for (const Row& row : table.rows)
    if (const std::string selection = alg_selection(row.setting); !selection.empty() && row.setting.chunk == 0)
      lines += fmt::format("      {{{}, {}, {}, {}, {}ull, {}ull, \"{}\", {}}},\n", table.nccl_version, table.ranks,
                           table.nodes, names_in_header.at(static_cast<std::size_t>(row.function)), row.from, row.to,
                           selection, row.setting.channels);
  return lines;
}

}  // namespace

std::variant<NamedFile, std::string> calls_header(const TuningResult& result) {
  if (result.table.rows.empty()) return "There is nothing to set for single calls: nothing beats the default.";
  if (result.table.nccl_version < first_with_selections)
    return fmt::format("Settings for single calls need NCCL {}; this is {}.", version_text(first_with_selections),
                       version_text(result.table.nccl_version));
  std::string rows = row_lines(result.table);
  if (rows.empty()) return "None of the settings is one that NCCL takes for single calls.";
  std::vector<Table> kept = kept_tables(result);
  std::erase_if(kept, [](const Table& each) { return row_lines(each).empty(); });
  for (const Table& each : kept) rows += row_lines(each);
  std::vector<std::string> lines = header_lines(result, calls_name, kept);
  lines.push_back("");
  lines.push_back("For programs that call NCCL themselves and do not load the tuner plugin; not for both at once.");
  lines.push_back("The gains above were confirmed with the plugin, not with these calls. Such a call goes out alone:");
  lines.push_back("NCCL does not join it with others of its group. Not for float8 among more than 8 ranks: there NCCL");
  lines.push_back("avoids rings, which lose precision, and a call with settings may get one.");
  lines.push_back("");
  for (const char* const line :
       {"    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;",
        "    p5bench_tuned_call(version, ranks, nodes, P5BENCH_ALL_REDUCE, bytes, &config);",
        "    ncclAllReduceConfig(send, receive, count, type, op, communicator, stream, &config);"})
    lines.emplace_back(line);
  std::string text = "/*\n";
  for (const std::string& line : lines)
    text += line.empty() ? " *\n" : " * " + substituted(substituted(line, "*/", "* /"), "/*", "/ *") + "\n";
  return NamedFile{calls_name, text + " */\n" +
                                   substituted(substituted(std::string(calls_text), "@SINCE@",
                                                           std::to_string(first_with_selections)),
                                               "@ROWS@", rows)};
}

}  // namespace p5::tuner
