#include <fmt/format.h>
#include <google/protobuf/stubs/common.h>
#include <openssl/crypto.h>
#include <unistd.h>
#include <zlib.h>
#include <zmq.h>

#include <filesystem>
#include <string>
#include <thread>

#include "cli/child_process.hpp"
#include "cli/doctor/machine.hpp"
#include "cli/install_paths.hpp"
#include "common/files/file.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr Duration kWithin{5'000'000};
constexpr Bytes kMaxOutput(1ULL << 16U);

/// The output of `program --version`, through a file that is removed afterwards.
Result<std::string> version_of(const fs::path& program, const fs::path& output) {
  TAUT_TRY(auto child, ChildProcess::start({.name = program.filename().string(),
                                            .program = program,
                                            .arguments = {"--version"},
                                            .log = output}));
  const TimePoint deadline = steady_now() + kWithin;
  while (child.running()) {
    if (steady_now() > deadline) {
      return make_error(ErrorCode::kTimeout, fmt::format("{} --version did not end in {:g} s",
                                                         program.string(), seconds(kWithin)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  TAUT_TRY(std::string text, read_file(output, kMaxOutput));
  while (text.ends_with('\n')) text.pop_back();
  if (!child.ended_well()) {
    return invalid(fmt::format("{} --version {}: {}", program.string(), child.ending(), text));
  }
  return text;
}

Result<std::string> build_of(const std::string& name) {
  TAUT_TRY(const fs::path program, sibling_program(name));
  std::error_code failed;
  std::string pattern = (fs::temp_directory_path(failed) / "tautline-doctor-XXXXXX").string();
  const int file = mkstemp(pattern.data());
  if (file < 0) {
    return make_error(
        ErrorCode::kIo,
        fmt::format("{} cannot be written, so the version of {} is unknown", pattern, name));
  }
  close(file);
  auto version = version_of(program, pattern);
  fs::remove(pattern, failed);
  return version;
}

}  // namespace

std::vector<ProgramFacts> sibling_programs() {
  std::vector<ProgramFacts> programs;
  for (const char* name : {"tautline-server", "tautline-worker"}) {
    programs.push_back({name, build_of(name)});
  }
  return programs;
}

std::vector<LibraryFacts> linked_libraries() {
  int major = 0;
  int minor = 0;
  int patch = 0;
  zmq_version(&major, &minor, &patch);
  const auto protobuf = [](int number) {
    return fmt::format("{}.{}.{}", number / 1000000, number / 1000 % 1000, number % 1000);
  };
  return {
      {"ZeroMQ", fmt::format("{}.{}.{}", ZMQ_VERSION_MAJOR, ZMQ_VERSION_MINOR, ZMQ_VERSION_PATCH),
       fmt::format("{}.{}.{}", major, minor, patch)},
      // The library itself refuses to run with another version's headers.
      {"protobuf", protobuf(GOOGLE_PROTOBUF_VERSION), ""},
      {"zlib", ZLIB_VERSION, zlibVersion()},
      {"OpenSSL", OPENSSL_VERSION_STR, OpenSSL_version(OPENSSL_VERSION_STRING)},
  };
}

}  // namespace taut::cli
