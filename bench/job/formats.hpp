// The formats of traces. Each reader adds what one file records to a Trace and throws UsageError with file and line
// where it is broken.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "bench/job/trace.hpp"
#include "bench/job/trace_file.hpp"

namespace p5::job {

// A format, its versions that are known, and how to record it.
struct Format {
  std::string_view name;
  std::string_view made_by;
  // True for a file that begins so, without white space in front.
  bool (*recognizes)(std::string_view beginning) = nullptr;
  void (*read)(TraceFile& file, Trace& trace) = nullptr;
};
std::span<const Format> formats();

// Reads a file of any format; returns the one it has. Throws UsageError that says what can be read if it is none.
const Format& read_trace(TraceFile& file, Trace& trace);

// NCCL Inspector, output v4.0 of NCCL 2.28 on: a line of JSON for each call of a process.
bool is_inspector(std::string_view beginning);
void read_inspector(TraceFile& file, Trace& trace);

// NCCL's own log with NCCL_DEBUG=INFO and the subsystems INIT and COLL, or a job's output that holds it.
bool is_nccl_log(std::string_view beginning);
void read_nccl_log(TraceFile& file, Trace& trace);

// PyTorch's flight recorder (dump version 2.x) as JSON, and Kineto's traces.
bool is_pytorch(std::string_view beginning);
void read_pytorch(TraceFile& file, Trace& trace);

// The exchange that messages between all members of a communicator amount to, instead of them: libraries perform
// all_to_all by sends and receives, which is what NCCL records. Messages of nothing are not recorded, so that an
// exchange with gaps stays as messages. Messages of a rank to itself are left out.
void join_messages(Trace& trace);

}  // namespace p5::job
