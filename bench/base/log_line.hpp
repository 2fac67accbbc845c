// Lines of logs as launchers and terminals leave them: coloured, with other text in front of what NCCL wrote.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace p5 {

// The line without escape sequences, and without what a carriage return within it lets later text overwrite. ESC may be
// a byte or written as in JSON ("\u001b"), by `cat -v` ("^[") or by rsyslog ("#033"); \" becomes ".
std::string plain_line(std::string_view line);

// The process that wrote a line of NCCL's: "HOST:PID:TID [DEVICE] ".
struct NcclOrigin {
  std::string_view host;
  std::string_view process;  // "HOST:PID"
  std::string_view before;   // what stands in front of it
};
// `before`: the line as far as "NCCL INFO". Of several such origins the last one counts. What a launcher writes in
// front of it is no part of the host's name, with or without a blank between: "[1,3]<stdout>:", "[rank3]:", "3: ".
std::optional<NcclOrigin> nccl_origin(std::string_view before);

}  // namespace p5
