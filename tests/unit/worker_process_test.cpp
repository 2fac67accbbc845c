// The process of a worker, with scripts in the place of worker programs.
#include "bench/backends/worker_process.hpp"
#include "tests/unit/in_folder.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

namespace p5 {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Workers : public InFolder {
 protected:
  std::string program(const std::string& text) const {
    const fs::path file = folder / "worker";
    std::ofstream(file) << text;
    fs::permissions(file, fs::perms::owner_all);
    return file.string();
  }

  static std::string printed(const WorkerProcess& worker, const std::string& last) {
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(5)))
      if (std::string text = worker.log().text(0, 65536); text.ends_with(last)) return text;
  }
};

// True where the signal is in a set of /proc/PID/status.
bool has(const std::string& status, const std::string& set, int signal) {
  const std::string hex = status.substr(status.find(set + ":") + set.size() + 1);
  return (std::stoull(hex, nullptr, 16) >> (signal - 1) & 1) != 0;
}

TEST_F(Workers, start_with_no_signal_blocked_or_ignored_and_no_file_of_ours) {
  sigset_t one, before;
  sigemptyset(&one);
  sigaddset(&one, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &one, &before);
  const auto handler = ::signal(SIGUSR2, SIG_IGN);
  const int open_file = ::dup2(STDERR_FILENO, 77);
  const std::string script = program(
      "#!/bin/sh\n"
      "grep -E 'Sig(Blk|Ign)' /proc/self/status\n"
      "for each in /proc/$$/fd/*; do echo file ${each##*/}; done\n"
      "echo end\nexec sleep 100\n");
  {
    const WorkerProcess worker(script, {}, 1);
    const std::string text = printed(worker, "end\n");
    EXPECT_FALSE(has(text, "SigBlk", SIGTERM)) << text;
    EXPECT_FALSE(has(text, "SigIgn", SIGUSR2)) << text;
    EXPECT_NE(text.find("file 3\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("file 77\n"), std::string::npos) << text;
  }
  ::close(open_file);
  ::signal(SIGUSR2, handler);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_F(Workers, are_not_believed_what_they_say_of_an_earlier_epoch) {
  const std::string script = program("#!" P5BENCH_PYTHON R"(
import socket, struct
ours = socket.socket(fileno=3)
magic, version, epoch, length = struct.unpack("4I", ours.recv(16))
ours.recv(length)
for each in (epoch - 1, epoch):
    text = b'{"ok": true, "of": %d}' % each
    ours.sendall(struct.pack("4I", magic, version, each, len(text)) + text)
ours.recv(1)
)");
  WorkerProcess worker(script, {}, 8);
  worker.send({{"order", "anything"}});
  EXPECT_EQ(worker
                .wait(
                    {60}, [] { return false; }, [] {})
                .at("of"),
            8);
}

// Actions of scripts in the place of a worker after they have read an order, in Python; `ours` is their socket, `epoch`
// the order's.
std::string answering(const std::string& what) {
  return "#!" P5BENCH_PYTHON R"(
import json, mmap, os, signal, socket, struct
ours = socket.socket(fileno=3)
def order():
    magic, version, epoch, length = struct.unpack("4I", ours.recv(16, socket.MSG_WAITALL))
    return (magic, version, epoch), json.loads(ours.recv(length, socket.MSG_WAITALL))
def message(head, body):
    return struct.pack("4I", *head, len(body)) + body
head, asked = order()
)" + what;
}

json reply_to(WorkerProcess& worker, double limit_s) {
  worker.send({{"order", "anything"}});
  return worker.wait(
      {limit_s}, [] { return false; }, [] {});
}

TEST_F(Workers, that_stop_within_a_message_are_waited_for_no_longer_than_others) {
  // The cut is after the head, within it, within the body, or one byte before the end.
  for (const char* const part : {"16", "7", "25", "-1"}) {
    WorkerProcess worker(
        program(answering(fmt::format(
            "ours.sendall(message(head, b'{{\"ok\": true, \"slots\": 1, \"more\": 2}}')[:{}])\nsignal.pause()\n",
            part))),
        {}, 8);
    EXPECT_THROW(reply_to(worker, 0.3), StalledError) << part;
  }
  WorkerProcess worker(program(answering(R"(
for byte in message(head, b'{"ok": true, "slots": 1}'):
    ours.sendall(bytes([byte]))
signal.pause()
)")),
                       {}, 8);
  EXPECT_EQ(reply_to(worker, 60).at("slots"), 1) << "in pieces it is a message all the same";
}

TEST_F(Workers, that_hang_up_and_stay_are_not_said_to_have_been_killed) {
  WorkerProcess worker(program(answering("ours.shutdown(socket.SHUT_RDWR)\nsignal.pause()\n")), {}, 8);
  try {
    reply_to(worker, 60);
    FAIL() << "a reply of nobody";
  } catch (const LostError& problem) {
    EXPECT_NE(std::string(problem.what()).find("closed its connection"), std::string::npos) << problem.what();
  }
}

TEST_F(Workers, that_reply_twice_are_not_believed_the_next_time) {
  WorkerProcess worker(program(answering(R"(
ours.sendall(2 * message(head, b'{"ok": true, "slots": 1}'))
order()
ours.sendall(message(head, b'{"ok": true, "slots": 2}'))
signal.pause()
)")),
                       {}, 8);
  EXPECT_EQ(reply_to(worker, 60).at("slots"), 1);
  EXPECT_THROW(reply_to(worker, 60), CaseError);
}

// Whatever time the order has: a message is written at once.
TEST_F(Workers, that_stop_within_a_message_are_broken_soon) {
  WorkerProcess worker(
      program(answering("ours.sendall(message(head, b'{\"ok\": true, \"slots\": 1}')[:20])\nsignal.pause()\n")), {}, 8);
  try {
    reply_to(worker, 3600);
    FAIL() << "half a message was taken";
  } catch (const LostError& problem) {
    EXPECT_STREQ(problem.what(), "the other process stopped within a message: 20 bytes of it came, and no rest in 3 s");
  }
}

TEST_F(Workers, that_ended_are_gone_though_a_child_holds_their_socket) {
  WorkerProcess worker(program(answering(R"(
if os.fork() == 0:
    import select
    os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
    left = select.poll()
    left.register(ours, 0)  # until we close our end
    left.poll(60000)
    os._exit(0)
ours.sendall(message(head, b'{"ok": true, "slots": 1}'))
os._exit(3)
)")),
                       {}, 8);
  EXPECT_EQ(reply_to(worker, 60).at("slots"), 1) << "what it said before counts";
  try {
    reply_to(worker, 3600);
    FAIL() << "a reply of nobody";
  } catch (const LostError& problem) {
    EXPECT_NE(std::string(problem.what()).find("ended with status 3"), std::string::npos) << problem.what();
  }
}

TEST_F(Workers, that_send_what_is_no_reply_are_broken) {
  for (const char* const said :
       {"{}", "{\"slots\": 1}", "{\"ok\": false}", "{\"ok\": 1}", "[1]", "7", "null", "{\"error\": 7}",
        "{\"error\": {\"a\": 1}, \"elsewhere\": \"x\"}", "{", "", "{\"a\": 1e999}", "\\xff"}) {
    WorkerProcess worker(program(answering(fmt::format("ours.sendall(message(head, b'{}'))\nsignal.pause()\n", said))),
                         {}, 8);
    EXPECT_THROW(reply_to(worker, 60), CaseError) << said;
  }
  for (const char* const head : {"(1, 1, 8)", "(head[0], 77, 8)"}) {
    WorkerProcess worker(program(answering(fmt::format("ours.sendall(message({}, b'{{}}'))\nsignal.pause()\n", head))),
                         {}, 8);
    EXPECT_THROW(reply_to(worker, 60), CaseError) << head;
  }
}

// Errors are printed as they are.
TEST_F(Workers, that_send_an_error_of_several_lines_have_one) {
  WorkerProcess worker(
      program(answering("ours.sendall(message(head, json.dumps({'error': 'a\\nACCEPT: b\\x1b[2Jc'}).encode()))\n")), {},
      8);
  try {
    reply_to(worker, 60);
    FAIL() << "an error was taken for a reply";
  } catch (const CaseError& problem) {
    EXPECT_STREQ(problem.what(), "a\\x0aACCEPT: b\\x1b[2Jc");
  }
}

// A reader of the page would die of SIGBUS.
TEST_F(Workers, cannot_cut_the_page_that_they_share) {
  WorkerProcess worker(program(answering(R"(
done = []
for size in (0, 1, 1 << 20):
    try:
        os.ftruncate(4, size)
        done.append(size)
    except PermissionError:
        pass
page = mmap.mmap(4, 4096) if os.fstat(4).st_size >= 4096 else mmap.mmap(4, os.fstat(4).st_size)
page[:8] = b"\xff" * 8
ours.sendall(message(head, json.dumps({"ok": True, "done": done}).encode()))
order()
signal.pause()
)")),
                       {}, 8);
  EXPECT_EQ(reply_to(worker, 60).at("done"), json::array());
  EXPECT_THROW(reply_to(worker, 0.3), StalledError) << "the page is read for this";
}

// Ranks make communicators in a call of the library that waits for the others and looks for no abort.
TEST_F(Workers, that_make_communicators_do_not_hang_where_they_are_not_at_rest_after_an_abort) {
  for (const std::string_view order : {"open", "sample"}) {
    WorkerProcess worker(program(answering(fmt::format(R"(
page = mmap.mmap(4, 0)
page[16:28] = struct.pack("QI", 1, {})
print("ready", flush=True)
while page[28] == 0:
    pass
ours.sendall(message(head, b'{{"gave_up": true, "at_rest": false}}'))
signal.pause()
)",
                                                       protocol::order_number(order)))),
                         {}, 8);
    worker.send({{"order", std::string(order)}});
    printed(worker, "ready\n");
    try {
      worker.wait(
          {0}, [] { return false; }, [] {});
      FAIL() << "there is no reply";
    } catch (const StalledError& problem) {
      EXPECT_EQ(problem.hangs, order == "sample") << problem.what();
    }
  }
}

TEST_F(Workers, that_abort_say_why_with_the_last_lines_of_their_standard_error) {
  const std::string script = program(
      "#!/bin/sh\n"
      "for each in one two three four; do echo $each >&2; done\n"
      "kill -ABRT $$\n");
  testing::internal::CaptureStderr();
  std::string how;
  try {
    reply_to(*std::make_unique<WorkerProcess>(script, Environment{}, 1), 20);
  } catch (const LostError& problem) {
    how = problem.what();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "one\ntwo\nthree\nfour\n");  // none is lost
  EXPECT_NE(how.find("was ended by signal 6"), std::string::npos) << how;
  EXPECT_TRUE(how.ends_with("; its last lines of output: \"two\", \"three\", \"four\"")) << how;
}

TEST_F(Workers, that_never_stop_writing_are_given_up) {
  WorkerProcess worker(program(answering(R"(
line = b"NCCL INFO nothing new\n" * 100000
while True:
    os.write(1, line)
)")),
                       {}, 8);
  EXPECT_THROW(reply_to(worker, 60), LostError);
}

// The file is made longer at once, as by a writer that is faster than any reader.
TEST_F(Workers, that_write_more_to_standard_error_than_can_be_read_are_given_up) {
  const int before = ::dup(STDERR_FILENO), nowhere = ::open("/dev/null", O_WRONLY);
  ::dup2(nowhere, STDERR_FILENO);
  {
    WorkerProcess worker(program(answering("os.ftruncate(2, 200 << 20)\nsignal.pause()\n")), {}, 8);
    EXPECT_THROW(reply_to(worker, 60), LostError);
  }
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::close(nowhere);
}

TEST_F(Workers, without_files_left_to_open_name_the_limit_to_raise) {
  const auto start_without_files = [] {
    const rlimit none{3, 3};
    ::setrlimit(RLIMIT_NOFILE, &none);
    try {
      const WorkerProcess worker("/bin/true", {}, 1);
    } catch (const CaseError& problem) {
      std::_Exit(std::string(problem.what()).find("ulimit -n") != std::string::npos ? 0 : 1);
    }
    std::_Exit(2);
  };
  EXPECT_EXIT(start_without_files(), testing::ExitedWithCode(0), "");
}

TEST_F(Workers, that_write_much_in_all_take_no_more_memory_for_it) {
  WorkerProcess worker(program(answering(R"(
line = b"NCCL INFO nothing new\n" * 40000
for i in range(100):
    os.write(1, line)
    ours.sendall(message((head[0], head[1], 8), b'{"ok": true, "written": %d}' % ((i + 1) * len(line))))
    order()
)")),
                       {}, 8);
  json last;
  for (int i = 0; i < 100; ++i) last = reply_to(worker, 60);
  struct stat file {};
  ASSERT_EQ(::fstat(worker.log().descriptor(), &file), 0);
  EXPECT_EQ(file.st_size, last.at("written"));
  EXPECT_GT(file.st_size, 80 << 20);
  EXPECT_LT(file.st_blocks * 512, 24 << 20);
  EXPECT_TRUE(worker.log().text(0, 100).starts_with("NCCL INFO")) << "the start is kept";
  EXPECT_TRUE(worker.log().text(file.st_size - 22, 100).starts_with("NCCL INFO")) << "and the end";
}

TEST_F(Workers, have_no_word_for_the_terminal_in_their_log) {
  const WorkerProcess worker(program("#!" P5BENCH_PYTHON R"(
import os, signal
os.write(1, b"a\x1b[2Jb\x07c\x7fd\re\x9bf\tg\nend\n")
signal.pause()
)"),
                             {}, 1);
  EXPECT_EQ(printed(worker, "end\n"), "a?[2Jb?c?d?e?f\tg\nend\n");
}

TEST_F(Workers, that_do_not_mind_being_left_are_killed_with_the_shared_memory_of_their_library) {
  const fs::path segment = "/dev/shm/nccl-unit-" + std::to_string(::getpid());
  const std::string script = program("#!" P5BENCH_PYTHON "\nname = '" + segment.string() + R"('
import mmap, signal
with open(name, "w+b") as file:
    file.truncate(4096)
    kept = mmap.mmap(file.fileno(), 4096)
print("end", flush=True)
signal.pause()
)");
  pid_t pid = 0;
  {
    const WorkerProcess worker(script, {}, 1);
    pid = worker.pid();
    printed(worker, "end\n");
    EXPECT_TRUE(fs::exists(segment));
  }
  EXPECT_FALSE(fs::exists(segment));
  const pid_t left = ::waitpid(pid, nullptr, WNOHANG);
  EXPECT_EQ(left, -1) << "it is not gone, or nobody waited for it";
  if (left == 0) ::kill(pid, SIGKILL);
  fs::remove(segment);
}

}  // namespace
}  // namespace p5
