#include "bench/app/declarations.hpp"

#include "bench/app/command_line.hpp"

namespace p5 {

CLI::Option* Declarations::add(CLI::App& app, Declaration declaration) {
  auto slot = std::make_unique<std::vector<std::string>>();
  CLI::Option* option =
      app.add_option(declaration.alias.empty() ? declaration.name : declaration.name + "," + declaration.alias, *slot,
                     declaration.help)
          ->type_name(declaration.shown)
          ->expected(declaration.several ? -1 : 1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->allow_extra_args(declaration.several);
  if (declaration.check) add_check(std::exchange(declaration.check, nullptr));
  entries_.push_back({std::move(declaration), option, std::move(slot)});
  return option;
}

CLI::Option* Declarations::add_flag(CLI::App& app, Declaration declaration, bool& value) {
  CLI::Option* option = app.add_flag(declaration.name, value, declaration.help);
  entries_.push_back({std::move(declaration), option, nullptr});
  return option;
}

const Declaration* Declarations::find(const CLI::Option& option) const {
  const auto found = std::ranges::find(entries_, &option, &Entry::option);
  return found == entries_.end() ? nullptr : &found->declared;
}

void Declarations::refuse_empty(const CLI::Option& option) const {
  for (const Entry& each : entries_)
    if (each.option == &option && !each.declared.may_be_empty)
      throw UsageError(fmt::format("{}: '' is empty; give a value, or leave it out", each.declared.name));
}

void Declarations::take_all(Options& options) const {
  for (const auto& [declared, option, texts] : entries_) {
    if (option->count() == 0) continue;
    const std::vector<std::string>& commands = declared.commands;
    if (!commands.empty() && std::ranges::find(commands, options.command) == commands.end())
      throw UsageError(
          fmt::format("{} has no meaning for {}; it is for {}", declared.name, options.command, join(commands)));
    options.given.insert(declared.name);
    if (!texts) continue;
    for (const std::string& text : *texts) {
      if (text.empty()) refuse_empty(*option);
      try {
        declared.take(text);
      } catch (const UsageError& problem) {
        throw UsageError(fmt::format("{}: {}", declared.name, problem.what()));
      }
    }
  }
}

void Declarations::check_all(const Options& options) const {
  for (const Check& check : checks_) check(options);
}

void Declaring::operator()(Declaration declaration) {
  add_check(std::exchange(declaration.check, nullptr));
  declaration.commands.insert(declaration.commands.begin(), measuring_commands.begin(), measuring_commands.end());
  all_.add(app_, std::move(declaration))->group(heading_);
}

void Declaring::flag(const std::string& name, bool& value, const std::string& help, Check check,
                     std::vector<std::string> commands) {
  add_check(std::move(check));
  commands.insert(commands.begin(), measuring_commands.begin(), measuring_commands.end());
  all_.add_flag(app_, {.name = name, .shown = "", .help = help, .take = nullptr, .commands = std::move(commands)},
                value)
      ->group(heading_);
}

void Declaring::add_check(Check check) {
  if (!check) return;
  all_.add_check([check = std::move(check)](const Options& options) {
    if (measures(options.command)) check(options);
  });
}

}  // namespace p5
