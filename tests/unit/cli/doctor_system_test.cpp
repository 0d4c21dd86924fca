#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <netinet/in.h>

#include "cli/doctor/machine.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

using Catch::Matchers::Contains;

namespace taut::cli {
namespace {

/// A port of the loopback that this process listens on.
struct HeldPort {
  HeldPort() : descriptor(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(bind(descriptor, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
    REQUIRE(listen(descriptor, 1) == 0);
    socklen_t size = sizeof at;
    REQUIRE(getsockname(descriptor, reinterpret_cast<sockaddr*>(&at), &size) == 0);
    number = ntohs(at.sin_port);
  }
  ~HeldPort() { close(descriptor); }
  int descriptor;
  int number = 0;
};

}  // namespace

TEST_CASE("a port that a process holds differs from a free one, and from another machine's",
          "[doctor]") {
  using State = PortFacts::State;
  std::string address;
  {
    const HeldPort held;
    address = fmt::format("127.0.0.1:{}", held.number);
    const PortFacts facts = system_port(address);
    CHECK(facts.state == State::kHeld);
    CHECK_THAT(facts.holder, Contains(fmt::format("(process {})", getpid())));
  }
  CHECK(system_port(address).state == State::kFree);
  // TEST-NET-1 of RFC 5737: no machine has it.
  CHECK(system_port("192.0.2.1:7600").state == State::kElsewhere);
}

TEST_CASE("shared memory is tried with another process", "[doctor]") {
  CHECK(try_shared_memory().has_value());
}

TEST_CASE("a folder that does not exist yet is judged by its parent", "[doctor]") {
  const test::TempFolder folder;
  const FolderFacts facts = system_folder(folder.path() / "runs" / "one");
  CHECK(facts.nearest == folder.path());
  CHECK(facts.unwritable.empty());
  CHECK(facts.free_bytes > 0);
  CHECK(std::filesystem::is_empty(folder.path()));
  const auto file = folder.write("file", "x");
  CHECK_THAT(system_folder(file / "below").unwritable, Contains("not a folder"));
}

TEST_CASE("the host's own figures are plausible", "[doctor]") {
  const HostFacts host = system_host();
  CHECK(host.processors >= 1);
  CHECK(host.processors <= host.online_processors);
  CHECK(host.memory_bytes >= host.available_bytes);
  CHECK(host.available_bytes > 0);
  CHECK(host.open_files > 0);
}

}  // namespace taut::cli
