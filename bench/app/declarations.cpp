#include "bench/app/declarations.hpp"

#include "bench/app/command_line.hpp"

namespace p5 {

CLI::Option* Declarations::add(CLI::App& app, Declaration declaration) {
  auto slot = std::make_unique<std::vector<std::string>>();
  CLI::Option* option = app.add_option(declaration.name, *slot, declaration.help)
                            ->type_name(declaration.shown)
                            ->expected(1)
                            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  entries_.push_back({std::move(declaration.name), std::move(slot), std::move(declaration.take)});
  if (declaration.check) add_check(std::move(declaration.check));
  return option;
}

void Declarations::take_all(Options& options) const {
  for (const Entry& entry : entries_) {
    for (const std::string& text : *entry.texts) {
      try {
        entry.take(text);
      } catch (const UsageError& problem) {
        throw UsageError(fmt::format("{}: {}", entry.name, problem.what()));
      }
      options.given.insert(entry.name);
    }
  }
}

void Declarations::check_all(const Options& options) const {
  for (const Check& check : checks_) check(options);
}

void Declaring::operator()(Declaration declaration) {
  add_check(std::exchange(declaration.check, nullptr));
  all_.add(app_, std::move(declaration))->group(heading_);
}

void Declaring::flag(const std::string& name, bool& value, const std::string& help, Check check) {
  add_check(std::move(check));
  app_.add_flag(name, value, help)->group(heading_);
}

void Declaring::add_check(Check check) {
  if (!check) return;
  all_.add_check([check](const Options& options) {
    if (measures(options.command)) check(options);
  });
}

}  // namespace p5
