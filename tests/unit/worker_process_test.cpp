// The process of a worker, as scripts in the place of worker programs find it and leave it.
#include "bench/backends/worker_process.hpp"
#include "tests/unit/in_folder.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace p5 {
namespace {

namespace fs = std::filesystem;

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

// Whether the signal is in a set of /proc/PID/status.
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
    text = b'{"of": %d}' % each
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
