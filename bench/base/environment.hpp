// This process's variables, and what of variables is kept in reports.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace p5 {

using Environment = std::map<std::string, std::string>;

Environment own_environment();

// Whether a variable's value is nobody's business, by its name: SECRET, TOKEN, PASSWORD, PASSWD, KEY or AUTH is one of
// the words between its underscores.
bool is_secret(std::string_view name);
// What launchers set anew for each job: no reason for anything, and Open MPI's hold the key of the job's transports.
bool is_of_the_job(std::string_view name);

// What a report tells of a variable's value: of a secret only that there is one.
std::string recorded_value(std::string_view name, const std::string& value);
// The same of a word of the command line, which may hold KEY=VALUE,...
std::string recorded_word(const std::string& word);
// The same of all, without what is of the job.
Environment recorded(const Environment& variables);

}  // namespace p5
