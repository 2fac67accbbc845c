#include "bench/app/describing.hpp"

#include "bench/base/embedded.hpp"

namespace p5 {

namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  std::vector<const CLI::App*> commands;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) commands.push_back(each);
  return commands;
}

bool is_word(const CLI::Option& option) { return option.get_lnames().empty(); }

// ---- man

std::string in_roff(std::string_view text) {
  std::string escaped = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  for (const char c : text) {
    if (c == '\\')
      escaped += "\\e";
    else if (c == '-')
      escaped += "\\-";
    else
      escaped += c;
  }
  return escaped;
}

std::string heading_in_roff(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back(in_roff("-" + name));
  // The others are aliases.
  if (!option.get_lnames().empty()) names.push_back(in_roff("--" + option.get_lnames().front()));
  if (names.empty()) return fmt::format("\\fI{}\\fR", in_roff(option.get_name(true)));
  const std::string bold = fmt::format("\\fB{}\\fR", fmt::join(names, "\\fR, \\fB"));
  const std::string value = option.get_items_expected_max() == 0 ? "" : option.get_type_name();
  return value.empty() ? bold : fmt::format("{} \\fI{}\\fR", bold, in_roff(value));
}

// What --help leaves to a refusal: which commands an option of the whole is for, where that is not those that measure.
std::string commands_in_roff(const Declaration* declared) {
  if (!declared || declared->commands.empty()) return "";
  std::vector<std::string> others;
  for (const std::string& command : declared->commands)
    if (std::ranges::find(measuring_commands, command) == measuring_commands.end()) others.push_back(command);
  const bool measuring = std::ranges::all_of(measuring_commands, [&](const std::string& command) {
    return std::ranges::find(declared->commands, command) != declared->commands.end();
  });
  if (!measuring) return fmt::format(" (For {} only.)", join(declared->commands));
  return others.empty() ? "" : fmt::format(" (Also for {}.)", join(others));
}

std::string option_in_roff(const CLI::Option& option, const Declarations& all) {
  return fmt::format(".TP\n{}\n{}{}\n", heading_in_roff(option), in_roff(option.get_description()),
                     in_roff(commands_in_roff(all.find(option))));
}

std::string command_in_roff(const CLI::App& command, const Declarations& all) {
  std::string words = fmt::format("\\fB{}\\fR", in_roff(command.get_name()));
  std::string options;
  for (const CLI::Option* option : command.get_options()) {
    if (option == command.get_help_ptr()) continue;
    if (is_word(*option)) words += fmt::format(" \\fI{}\\fR", in_roff(option->get_name(true)));
    options += option_in_roff(*option, all);
  }
  const std::string text = fmt::format(".TP\n{}\n{}\n", words, in_roff(command.get_description()));
  return options.empty() ? text : fmt::format("{}.RS\n{}.RE\n", text, options);
}

// ---- bash

std::string names_of(const std::vector<const CLI::Option*>& options) {
  std::string names;
  for (const CLI::Option* option : options) names += "--" + option->get_lnames().front() + " ";
  if (!names.empty()) names.pop_back();
  return names;
}

// A line of `case`, or nothing where all is possible.
std::string values_in_bash(const std::string& name, const Declaration* declared) {
  if (!declared || declared->values.empty()) return "";
  return fmt::format("    {}) echo '{}{}' ;;\n", name, declared->shown == "LIST" ? ", " : "",
                     fmt::join(declared->values, " "));
}

constexpr std::string_view completing = R"(
_p5bench() {
  local current=${COMP_WORDS[COMP_CWORD]} option= command= words=0 lead= choices i word
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word == = ]]; then
      continue
    elif [[ -n $option ]]; then  # its value
      option=
    elif [[ $word == -* ]]; then
      [[ $word == *=* || " $_p5bench_flags " == *" $word "* ]] || option=$word
    elif [[ -n $command ]]; then
      words=$((words + 1))
    else
      command=$word
    fi
  done
  [[ $current != = ]] || current=
  if [[ -z $option && $current == --*=* ]]; then  # a shell that leaves "=" in the word
    option=${current%%=*}
    lead=$option=
    current=${current#*=}
  fi
  if [[ -n $option ]]; then
    choices=$(_p5bench_values "$option")
  elif [[ $current == -* ]]; then
    choices=$(_p5bench_options "${command:-run}")
  elif [[ -z $command ]]; then
    choices=$_p5bench_commands
  elif [[ $words == 0 ]]; then
    choices=$(_p5bench_values "$command")
  fi
  if [[ $choices == ,* ]]; then  # a list: its last entry
    choices=${choices#,}
    word=${current##*,}
    lead+=${current%"$word"}
    current=$word
    compopt -o nospace 2>/dev/null
  fi
  COMPREPLY=()
  [[ -z $choices ]] || COMPREPLY=($(compgen -P "$lead" -W "$choices" -- "$current"))
}
complete -o default -F _p5bench p5bench
)";

}  // namespace

std::vector<const CLI::Option*> options_for(const CLI::App& app, const CLI::App& command, const Declarations& all) {
  std::vector<const CLI::Option*> options;
  const auto add = [&](const CLI::Option* option) {
    const auto same = [&](const CLI::Option* other) { return other->get_lnames() == option->get_lnames(); };
    if (!is_word(*option) && std::ranges::none_of(options, same)) options.push_back(option);
  };
  for (const CLI::Option* option : command.get_options()) add(option);
  for (const CLI::Option* option : app.get_options()) {
    const Declaration* declared = all.find(*option);
    if (!declared || declared->commands.empty() ||
        std::ranges::find(declared->commands, command.get_name()) != declared->commands.end())
      add(option);
  }
  return options;
}

std::string manual_page(const CLI::App& app, const Declarations& all, std::span<const End> ends) {
  std::string text = fmt::format(
      ".TH P5BENCH 1 \"\" \"p5bench {}\" \"User Commands\"\n"
      ".SH NAME\np5bench \\- is a GPU cluster sound? Benchmark and acceptance test\n"
      ".SH SYNOPSIS\n.B p5bench\n[\\fICOMMAND\\fR] [\\fIOPTION\\fR]...\n.SH DESCRIPTION\n",
      version());
  for (const std::string& line : split(app.get_description(), '\n')) text += in_roff(line) + "\n.br\n";
  text += ".SH COMMANDS\n";
  for (const CLI::App* command : commands_of(app)) text += command_in_roff(*command, all);
  text += ".SH OPTIONS\nThose of commands that measure:";
  for (const std::string& command : measuring_commands) text += " " + command;
  text += ". What else they are for is said of each.\n";
  for (const std::string& group : app.get_groups()) {
    text += fmt::format(".SS {}\n", in_roff(group));
    for (const CLI::Option* option : app.get_options())
      if (option->get_group() == group) text += option_in_roff(*option, all);
  }
  text += ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : ends) text += fmt::format(".TP\n{}\n{}\n", code, in_roff(meaning));
  return text + ".SH SEE ALSO\n.BR mpirun (1),\n.BR srun (1)\n";
}

std::string bash_completion(const CLI::App& app, const Declarations& all) {
  std::vector<std::string> names, flags;
  std::string options, values;
  const auto note = [&](const CLI::Option& option, const std::string& command) {
    if (is_word(option)) {  // the first word of a command
      if (values.find("    " + command + ") ") == std::string::npos)
        values += values_in_bash(command, all.find(option));
      return;
    }
    const std::string name = "--" + option.get_lnames().front();
    if (option.get_items_expected_max() == 0 && std::ranges::find(flags, name) == flags.end()) flags.push_back(name);
    values += values_in_bash(name, all.find(option));
  };
  for (const CLI::Option* option : app.get_options()) note(*option, "");
  for (const CLI::App* command : commands_of(app)) {
    names.push_back(command->get_name());
    for (const CLI::Option* option : command->get_options()) note(*option, command->get_name());
    options += fmt::format("    {}) echo '{}' ;;\n", command->get_name(), names_of(options_for(app, *command, all)));
  }
  return fmt::format(
             "# Completion of p5bench {} for bash, as `p5bench describe bash` prints it; for zsh after\n"
             "# `autoload -Uz bashcompinit && bashcompinit`.\n"
             "_p5bench_commands='{}'\n"
             "_p5bench_flags='-h {}'  # without a value\n"
             "\n_p5bench_options() {{  # COMMAND\n  case $1 in\n{}  esac\n}}\n"
             "\n# What an option or the word behind a command may be; a comma before those of lists.\n"
             "_p5bench_values() {{  # OPTION|COMMAND\n  case $1 in\n{}  esac\n}}\n",
             version(), fmt::join(names, " "), fmt::join(flags, " "), options, values) +
         std::string(completing);
}

}  // namespace p5
