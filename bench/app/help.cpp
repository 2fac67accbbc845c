#include "bench/app/declarations.hpp"

#include <sys/ioctl.h>
#include <unistd.h>
#include <array>
#include <cstdlib>

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
  // Further names are aliases.
  if (!option.get_lnames().empty()) names.push_back(in_roff("--" + option.get_lnames().front()));
  if (names.empty()) return fmt::format("\\fI{}\\fR", in_roff(option.get_name(true)));
  const std::string bold = fmt::format("\\fB{}\\fR", fmt::join(names, "\\fR, \\fB"));
  const std::string value = option.get_items_expected_max() == 0 ? "" : option.get_type_name();
  return value.empty() ? bold : fmt::format("{} \\fI{}\\fR", bold, in_roff(value));
}

// Names the commands that take a global option, if those are not exactly the measuring ones.
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

// A branch of `case`, or "" if any value is possible.
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
    const auto has = [&](const std::vector<std::string>& commands) {
      return std::ranges::find(commands, command.get_name()) != commands.end();
    };
    if (!declared || ((declared->commands.empty() || has(declared->commands)) && !has(declared->refused_by)))
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
  text += ". An option that further commands take names them.\n";
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

namespace {

constexpr std::array all_examples{
    Example{"", "mpirun -np 32 p5bench", "accept four nodes of eight GPUs, one rank per GPU"},
    Example{"", "p5bench check", "is this node fit for a job? 20 s, without mpirun"},
    Example{"", "p5bench compare p5bench-out/old p5bench-out/new", "did anything get slower?"},

    Example{"run", "mpirun -np 32 --host n1:8,n2:8,n3:8,n4:8 p5bench run --budget 20min",
            "the acceptance of four nodes with more time"},
    Example{"run", "mpirun -np 32 p5bench run --tuning off --launches 7 --collectives all_reduce,all_gather",
            "seven launches, enough for a comparison"},
    Example{"run", "p5bench run --backend sim --platform p5.48xlarge --nodes 4 --fault nic:n1r5:0.5",
            "a simulated cluster with a slow NIC"},

    Example{"tune", "mpirun -np 32 p5bench tune", "the full search, 1 to 3 min"},
    Example{"tune", "mpirun -np 32 p5bench tune --job job.json",
            "settings that shorten a step of your job (import job)"},
    Example{"tune", "mpirun -np 32 p5bench tune --beside gemm --sizes 64MiB,256MiB",
            "settings for operations that run while the GPUs compute"},

    Example{"ab", "mpirun -np 32 p5bench ab --b LD_LIBRARY_PATH=/opt/nccl-new/lib",
            "another NCCL against the current one"},
    Example{"ab", "mpirun -np 32 p5bench ab --job job.json --b LD_LIBRARY_PATH=/opt/nccl-new/lib",
            "the same for a step of your job (import job)"},
    Example{"ab", "mpirun -np 32 p5bench ab --b NCCL_PROTO=Simple --collectives all_reduce",
            "one variable against the default"},

    Example{"check", "p5bench check", "this node, on all its idle GPUs"},
    Example{"check", "srun --mpi=pmix -N 4 --ntasks-per-node=8 p5bench check --limit 30s", "four nodes, a line each"},
    Example{"check", "p5bench check --quiet --format json", "JSON, for a program"},

    Example{"plan", "mpirun -np 32 p5bench plan", "the cases of the acceptance run, and their time"},
    Example{"plan", "p5bench plan --backend sim --platform p5.48xlarge --nodes 16",
            "the same for a cluster that does not exist yet"},
    Example{"plan", "mpirun -np 32 p5bench plan --format json", "its figures, for a program"},

    Example{"list", "p5bench list collectives", "what can be measured"},
    Example{"list", "p5bench list platforms", "the instance types that are known"},
    Example{"list", "p5bench list findings", "all findings that can be reported"},

    Example{"report", "p5bench report p5bench-out/p5.48xlarge-4n/latest", "print the table of a run again"},
    Example{"report", "p5bench report report.json --format html,markdown --out again", "write its page and a summary"},
    Example{"report", "p5bench report report.json --as nccl-tests", "as nccl-tests prints it, with its command"},

    Example{"compare", "p5bench compare old/report.json new/report.json", "two runs"},
    Example{"compare", "p5bench compare --base old/ --new new/ --format console,junit --out ci",
            "two sets of runs, for CI"},
    Example{"compare", "p5bench compare --history p5bench-out/p5.48xlarge-4n",
            "the course of all runs, and the newest against the earlier ones"},

    Example{"baseline", "p5bench baseline p5bench-out/p5.48xlarge-4n", "all runs of a cluster together"},
    Example{"baseline", "p5bench baseline monday/ tuesday/ wednesday/ --cluster lab", "three runs, under another name"},
    Example{"baseline", "p5bench baseline runs/ --out baselines", "into another folder"},

    Example{"import", "p5bench import nccl-tests all_reduce.log", "a table of nccl-tests as a report"},
    Example{"import", "p5bench import nccl-tests table.txt --collective all_gather",
            "a table without its program's name"},
    Example{"import", "p5bench import job logs/", "traffic and step of a job, from the recordings of its ranks"},

    Example{"explain", "p5bench explain job.out", "why a job hung, failed or was slow"},
    Example{"explain", "kubectl logs --prefix -l job-name=train | p5bench explain -",
            "the same, from the logs of all pods"},
    Example{"explain", "p5bench explain node*.log --platform p5.48xlarge --format json", "several logs, for a program"},

    Example{"topo", "p5bench topo", "this machine as a tree, with what is wrong marked"},
    Example{"topo", "mpirun -np 4 -N 1 p5bench topo --record machine.json", "record four hosts in a file"},
    Example{"topo", "p5bench topo --load machine.json --format json", "read a recording on another machine"},

    Example{"describe", "p5bench describe man > p5bench.1", "the manual page"},
    Example{"describe", "p5bench describe bash > /etc/bash_completion.d/p5bench", "completion for all users"},
    Example{"describe", "source <(p5bench describe bash)", "completion in this shell"},
};

// Wraps text at `columns`; all lines but the first are indented.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t columns) {
  std::string lines;
  std::size_t used = indent;
  for (const std::string& word : split(text, ' ')) {
    if (word.empty()) continue;
    if (used > indent && used + 1 + word.size() > columns) {
      lines += "\n" + std::string(indent, ' ');
      used = indent;
    }
    if (used > indent) {
      lines += ' ';
      ++used;
    }
    lines += word;
    used += word.size();
  }
  return lines;
}

// A name and its meaning beside it, or below it if the name is long.
std::string entry(const std::string& name, std::string_view meaning, std::size_t indent, std::size_t columns) {
  std::string text = "  " + name;
  text += text.size() + 2 <= indent ? std::string(indent - text.size(), ' ') : "\n" + std::string(indent, ' ');
  return text + wrapped(meaning, indent, columns) + "\n";
}

std::string name_of(const CLI::Option& option) {
  std::string names = option.get_snames().empty() ? "" : "-" + option.get_snames().front() + ",";
  names += option.get_lnames().empty() ? option.get_name(true) : "--" + option.get_lnames().front();
  const std::string value = option.get_items_expected_max() == 0 ? "" : option.get_type_name();
  return value.empty() ? names : names + " " + value;
}

// Meanings are beside the commands if all fit.
std::string examples_of(std::string_view command, std::size_t columns) {
  std::size_t longest_line = 0, longest_meaning = 0;
  for (const Example& each : all_examples)
    if (each.command == command) {
      longest_line = std::max(longest_line, each.line.size());
      longest_meaning = std::max(longest_meaning, each.meaning.size());
    }
  const bool beside = 2 + longest_line + 3 + longest_meaning <= columns;
  std::string text = "\nExamples:\n";
  for (const Example& each : all_examples)
    if (each.command == command)
      text += beside ? fmt::format("  {:<{}}   {}\n", each.line, longest_line, each.meaning)
                     : fmt::format("  {}\n      {}\n", each.line, wrapped(each.meaning, 6, columns));
  return text;
}

constexpr std::size_t indent_of_options = 26, indent_of_commands = 12;

}  // namespace

std::span<const Example> examples() { return all_examples; }

std::size_t help_columns() {
  constexpr std::size_t least = 60, usual = 80, most = 120;
  std::size_t columns = usual;
  winsize size{};
  if (const char* const variable = std::getenv("COLUMNS"); variable && std::atoi(variable) > 0)
    columns = static_cast<std::size_t>(std::atoi(variable));
  else if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    columns = size.ws_col;
  return std::clamp(columns, least, most);
}

std::string help_of_program(const CLI::App& app, std::string_view about, std::size_t columns) {
  std::string text;
  for (const std::string& paragraph : split(about, '\n')) text += wrapped(paragraph, 0, columns) + "\n";
  text += "\nUsage: p5bench [COMMAND] [OPTION...]\n\nCommands:\n";
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    text += entry(command->get_name(), command->get_description(), indent_of_commands, columns);
  text += "\n" + wrapped("`p5bench COMMAND --help` lists the options of a command. Without a command, `run` is meant.",
                         0, columns);
  text += "\n" + examples_of("", columns) + "\nOptions:\n";
  for (const CLI::Option* option : app.get_options())
    if (option == app.get_help_ptr() || option == app.get_version_ptr())
      text += entry(name_of(*option), option->get_description(), indent_of_options, columns);
  return text;
}

std::string help_of_command(const CLI::App& app, const CLI::App& command, const Declarations& all,
                            std::size_t columns) {
  std::string usage = fmt::format("p5bench {}", command.get_name()), words;
  for (const CLI::Option* option : command.get_options())
    if (option->get_lnames().empty()) {
      usage += " " + option->get_name(true);
      words += entry(option->get_name(true), option->get_description(), indent_of_options, columns);
    }
  std::string text = wrapped(fmt::format("p5bench {}: {}", command.get_name(), command.get_description()), 0, columns);
  text += fmt::format("\n\nUsage: {} [OPTION...]\n", usage);
  if (!words.empty()) text += "\n" + words;
  const auto of_all = [&](const CLI::Option* option) {
    return option == command.get_help_ptr() || option->get_name() == app.get_version_ptr()->get_name();
  };
  std::vector<std::string> headings;  // the command's own come first
  for (const CLI::Option* option : options_for(app, command, all))
    if (!of_all(option) && std::ranges::find(headings, option->get_group()) == headings.end())
      headings.push_back(option->get_group());
  for (const std::string& heading : headings) {
    text += fmt::format("\n{}:\n", heading);
    for (const CLI::Option* option : options_for(app, command, all))
      if (option->get_group() == heading && !of_all(option))
        text += entry(name_of(*option), option->get_description(), indent_of_options, columns);
  }
  text += "\nOther:\n";
  for (const CLI::Option* option : options_for(app, command, all))
    if (of_all(option)) text += entry(name_of(*option), option->get_description(), indent_of_options, columns);
  return text + examples_of(command.get_name(), columns);
}

}  // namespace p5
