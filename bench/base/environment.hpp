// Environment variables: those of this process, and the form in which reports keep them.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace p5 {

using Environment = std::map<std::string, std::string>;

Environment current_environment();

// The value of a name; "" where it is missing.
std::string value_or_empty(const Environment& variables, const std::string& name);
// The variables with these set; in a worker's changes an empty value unsets a variable.
Environment with_changes(Environment variables, const Environment& changes);

// Letters, digits, '_', no digit first.
bool is_variable_name(std::string_view name);

// True for names with SECRET, TOKEN, PASSWORD, PASSWD, KEY or AUTH among the words between underscores: their values
// are not recorded.
bool is_secret(std::string_view name);
// True for variables that a launcher sets anew for each job. They explain no difference between runs, and Open MPI's
// contain the job's transport key.
bool is_job_specific(std::string_view name);

// The value as a report records it; a placeholder for a secret.
std::string recorded_value(std::string_view name, const std::string& value);
// The same for a command-line argument, which may contain KEY=VALUE,...
std::string recorded_argument(const std::string& word);
// The same for all variables, without the job-specific ones.
Environment recorded(const Environment& variables);

}  // namespace p5
