#include "cli/child_process.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "cli/local_cluster.hpp"
#include "common/files/file.hpp"
#include "tests/support/catch.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

/// A folder that is gone with the test.
struct TemporaryFolder {
  fs::path path;
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "taut-child-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { fs::remove_all(path); }
};

ChildProcess shell(const std::string& script, const fs::path& log) {
  auto child = ChildProcess::start(
      {.name = "shell", .program = "/bin/sh", .arguments = {"-c", script}, .log = log});
  REQUIRE(child);
  return std::move(child.value());
}

/// Waits until a condition holds; false when it does not within ten seconds.
bool soon(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

bool exists(pid_t process) {
  return ::kill(process, 0) == 0;
}

TEST_CASE("a child's exit status and its output are kept", "[cli]") {
  TemporaryFolder folder;
  ChildProcess child = shell("echo one; echo two >&2; exit 3", folder.path / "log");
  REQUIRE(soon([&] { return !child.running(); }));
  CHECK(child.ending() == "exited with status 3");
  CHECK(!child.ended_well());
  CHECK(read_file(folder.path / "log").value() == "one\ntwo\n");
}

TEST_CASE("a child's output is appended to the log of an earlier attempt", "[cli]") {
  TemporaryFolder folder;
  const fs::path log = folder.path / "log";
  std::string old;
  for (int i = 0; i < 1000; ++i) old += fmt::format("old {}\n", i);
  std::ofstream(log) << old;
  ChildProcess child = shell("echo new; echo newer >&2", log);
  REQUIRE(soon([&] { return !child.running(); }));
  CHECK(read_file(log).value() == old + "new\nnewer\n");
  CHECK(last_lines(log, 2) == "\n  | new\n  | newer");
}

TEST_CASE("a killed child is reported with its signal", "[cli]") {
  TemporaryFolder folder;
  ChildProcess child = shell("sleep 60", folder.path / "log");
  child.kill();
  REQUIRE(soon([&] { return !child.running(); }));
  CHECK(child.ending() == "was killed by signal 9 (Killed)");
}

TEST_CASE("a missing program is an error that names it", "[cli]") {
  TemporaryFolder folder;
  const auto child = ChildProcess::start({.name = "worker0",
                                          .program = "/no/such/program",
                                          .arguments = {},
                                          .log = folder.path / "l"});
  REQUIRE(!child);
  CHECK(child.error().code == ErrorCode::kNotFound);
  CHECK(child.error().message.find("/no/such/program") != std::string::npos);
}

TEST_CASE("a log that cannot be written is an error, not a lost child", "[cli]") {
  const auto child = ChildProcess::start({.name = "worker0",
                                          .program = "/bin/sh",
                                          .arguments = {"-c", "exit 0"},
                                          .log = "/no/such/folder/log"});
  REQUIRE(!child);
  CHECK(child.error().code == ErrorCode::kIo);
  CHECK(child.error().message.find("/no/such/folder/log") != std::string::npos);
}

TEST_CASE("ending all kills a process that ignores the signal, and reports it", "[cli]") {
  TemporaryFolder folder;
  std::vector<ChildProcess> children;
  children.push_back(shell("sleep 60", folder.path / "a"));
  children.push_back(
      shell("trap '' TERM; echo ready; while :; do sleep 1; done", folder.path / "b"));
  REQUIRE(soon([&] { return read_file(folder.path / "b").value() == "ready\n"; }));
  const auto killed = end_all(children, std::chrono::milliseconds(200));
  CHECK(killed.size() == 1);
  for (ChildProcess& child : children) CHECK(!child.running());
}

TEST_CASE("a stopped child is ended without being killed", "[cli]") {
  TemporaryFolder folder;
  std::vector<ChildProcess> children;
  children.push_back(shell("sleep 60", folder.path / "a"));
  ::kill(children[0].pid(), SIGSTOP);
  CHECK(end_all(children, std::chrono::seconds(5)).empty());
}

TEST_CASE("a child ends when its parent is killed", "[cli]") {
  TemporaryFolder folder;
  const fs::path pid_file = folder.path / "pid";
  const pid_t parent = fork();
  if (parent == 0) {
    // SIGTERM is blocked here; the child must receive it all the same.
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, nullptr);
    auto child = ChildProcess::start({.name = "shell",
                                      .program = "/bin/sleep",
                                      .arguments = {"60"},
                                      .log = folder.path / "log"});
    if (!child) _exit(1);
    if (!write_file_atomically(pid_file, std::to_string(child.value().pid()))) _exit(1);
    while (true) pause();
  }
  REQUIRE(soon([&] { return fs::exists(pid_file); }));
  const pid_t child = std::stoi(read_file(pid_file).value());
  CHECK(exists(child));
  ::kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  // Its new parent may be one that never reaps it: a zombie has ended too.
  CHECK(soon([&] {
    const auto state = read_file(fmt::format("/proc/{}/stat", child));
    return !exists(child) || !state || state.value().find(") Z") != std::string::npos;
  }));
}

TEST_CASE("the end of a log is its last lines", "[cli]") {
  TemporaryFolder folder;
  std::ofstream(folder.path / "log") << "one\ntwo\nthree\n";
  CHECK(last_lines(folder.path / "log", 2) == "\n  | two\n  | three");
  CHECK(last_lines(folder.path / "none", 2).empty());
}

}  // namespace
}  // namespace taut::cli
