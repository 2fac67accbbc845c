#include "bench/app/help.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "bench/app/describing.hpp"

namespace p5 {

namespace {

constexpr std::array all_examples{
    Example{"", "mpirun -np 32 p5bench", "accept four nodes of eight GPUs, one rank a GPU"},
    Example{"", "p5bench check", "is this node fit for a job? 20 s, without mpirun"},
    Example{"", "p5bench compare p5bench-out/old p5bench-out/new", "did anything get slower?"},

    Example{"run", "mpirun -np 32 --host n1:8,n2:8,n3:8,n4:8 p5bench run --budget 20min",
            "the acceptance of four nodes with more time"},
    Example{"run", "mpirun -np 32 p5bench run --tuning off --launches 7 --collectives all_reduce,all_gather",
            "seven launches, for a comparison that proves"},
    Example{"run", "p5bench run --backend sim --platform p5.48xlarge --nodes 4 --fault nic:n1r5:0.5",
            "a simulated cluster with a slow NIC"},

    Example{"tune", "mpirun -np 32 p5bench tune", "the full search, about a minute"},
    Example{"tune", "mpirun -np 32 p5bench tune --tuning quick --collectives all_reduce",
            "some 20 s, for one collective"},
    Example{"tune", "mpirun -np 32 p5bench tune --delivery env", "settings as variables alone, without a tuner plugin"},

    Example{"ab", "mpirun -np 32 p5bench ab --b LD_LIBRARY_PATH=/opt/nccl-new/lib",
            "another NCCL against the one loaded now"},
    Example{"ab", "mpirun -np 32 p5bench ab --b NCCL_PROTO=Simple --collectives all_reduce",
            "one variable against none"},
    Example{"ab", "mpirun -np 16 p5bench ab --a NCCL_ALGO=Ring --b NCCL_ALGO=Tree --sizes 64MiB,1GiB",
            "two settings at two sizes"},

    Example{"check", "p5bench check", "this node, on all GPUs that nobody uses"},
    Example{"check", "srun --mpi=pmix -N 4 --ntasks-per-node=8 p5bench check --limit 30s", "four nodes, a line each"},
    Example{"check", "p5bench check --quiet --format json", "for a program that reads the answer"},

    Example{"plan", "mpirun -np 32 p5bench plan", "what the acceptance would measure and take"},
    Example{"plan", "p5bench plan --backend sim --platform p5.48xlarge --nodes 16", "the same of a cluster to come"},
    Example{"plan", "mpirun -np 8 p5bench plan --sizes 1GiB --collectives all_to_all", "one size of one collective"},

    Example{"list", "p5bench list collectives", "what can be measured"},
    Example{"list", "p5bench list platforms", "the instance types that are known"},
    Example{"list", "p5bench list findings", "what is looked for besides speed"},

    Example{"report", "p5bench report p5bench-out/p5.48xlarge-4n/latest", "the table of a run again"},
    Example{"report", "p5bench report report.json --format html,markdown --out again", "its page and a summary"},
    Example{"report", "p5bench report report.json --as nccl-tests", "as nccl-tests prints it, with its command"},

    Example{"compare", "p5bench compare old/report.json new/report.json", "two runs"},
    Example{"compare", "p5bench compare --base old/ --new new/ --format console,junit --out ci",
            "two sets of runs, for CI"},
    Example{"compare", "p5bench compare --history p5bench-out/p5.48xlarge-4n", "how runs went, and the newest of them"},

    Example{"baseline", "p5bench baseline p5bench-out/p5.48xlarge-4n", "all runs of a cluster together"},
    Example{"baseline", "p5bench baseline monday/ tuesday/ wednesday/ --cluster lab", "three runs, under another name"},
    Example{"baseline", "p5bench baseline runs/ --out baselines", "into another folder"},

    Example{"import", "p5bench import nccl-tests all_reduce.log", "a table of nccl-tests as a report"},
    Example{"import", "p5bench import nccl-tests out.json --cluster lab", "what its -J left"},
    Example{"import", "p5bench import nccl-tests table.txt --collective all_gather",
            "a table without its program's name"},

    Example{"explain", "p5bench explain job.out", "why a job hung, failed or was slow"},
    Example{"explain", "kubectl logs --prefix -l job-name=train | p5bench explain -", "of all pods"},
    Example{"explain", "p5bench explain node*.log --platform p5.48xlarge --format json", "several logs, for a program"},

    Example{"topo", "p5bench topo", "this machine as a tree, with what is wrong"},
    Example{"topo", "mpirun -np 4 -N 1 p5bench topo --record machine.json", "four hosts, kept in a file"},
    Example{"topo", "p5bench topo --load machine.json --format json", "a recorded machine elsewhere"},

    Example{"describe", "p5bench describe man > p5bench.1", "the manual page"},
    Example{"describe", "p5bench describe bash > /etc/bash_completion.d/p5bench", "completion for all users"},
    Example{"describe", "source <(p5bench describe bash)", "completion in this shell"},
};

// Words of a text in lines of so many columns, all but the first indented.
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

// A name to the left, what it means to the right; below each other where the name is long.
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

// Meanings stand beside the names where there is room for all.
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
  text +=
      "\n" + wrapped("The options of a command: p5bench COMMAND --help. Without a command it is `run`.", 0, columns);
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
  std::vector<std::string> headings;  // the command's own first
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
