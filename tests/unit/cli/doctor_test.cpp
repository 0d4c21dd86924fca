#include <algorithm>

#include "cli/doctor/checks.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/cli/doctor_machine.hpp"

using Catch::Matchers::Contains;

namespace taut::cli {
namespace {

pb::ClusterConfig server_config() {
  pb::ClusterConfig config;
  config.mutable_server()->mutable_coordinator();
  return config;
}

/// The one finding whose text or advice holds `word`.
Finding finding_with(const Findings& findings, const std::string& word) {
  const auto found = std::ranges::find_if(findings, [&](const Finding& one) {
    return one.found.find(word) != std::string::npos || one.advice.find(word) != std::string::npos;
  });
  INFO("no finding with " << word);
  REQUIRE(found != findings.end());
  return *found;
}

HostFacts good_host() {
  HostFacts host;
  host.processor = "A processor";
  host.flags = {"sse2", "avx2", "fma"};
  host.processors = 8;
  host.online_processors = 8;
  host.memory_bytes = 16ULL << 30U;
  host.available_bytes = 12ULL << 30U;
  host.open_files = 1024;
  host.open_files_hard = 1048576;
  host.shm_bytes = 8ULL << 30U;
  return host;
}

}  // namespace

TEST_CASE("the clock is read off the shortest round trip, half of which is uncertain", "[doctor]") {
  // The second reading took 10 ms and the first a second: the coordinator is 5 s ahead.
  const auto offset = clock_offset({{.sent = 100, .received = 101, .coordinator_s = 105.9},
                                    {.sent = 102, .received = 102.010, .coordinator_s = 107.005}});
  REQUIRE(offset);
  CHECK(offset->seconds == Approx(5.0));
  CHECK(offset->uncertain_by == Approx(0.005));
  CHECK_FALSE(clock_offset({}));
  CHECK_FALSE(clock_offset({{.sent = 1, .received = 2, .coordinator_s = 0}}));
  // A clock that was set back between question and answer says nothing.
  CHECK_FALSE(clock_offset({{.sent = 5, .received = 4, .coordinator_s = 5}}));
}

TEST_CASE("a coordinator's clock counts as skewed beyond the uncertainty", "[doctor]") {
  FakeMachine machine;
  const CoordinatorAim aim{.address = "host:7600", .wait_s = 2, .must_answer = true};
  bool answers = false;
  machine.cluster =
      CoordinatorFacts{.readings = {{.sent = 0.5, .received = 1.5, .coordinator_s = 1.5}}};
  CHECK(worst(check_coordinator(aim, machine, answers)) == Verdict::kOk);
  CHECK(answers);
  machine.cluster =
      CoordinatorFacts{.readings = {{.sent = 10, .received = 10.002, .coordinator_s = 9}}};
  const Finding skew = finding_with(check_coordinator(aim, machine, answers), "behind");
  CHECK(skew.verdict == Verdict::kWarning);
  CHECK_THAT(skew.found, Contains("1001.0 ms behind") && Contains("+-1.0 ms"));
  CHECK_THAT(skew.advice, Contains("chrony"));
}

TEST_CASE("a coordinator that is silent is trouble only where one must be there", "[doctor]") {
  FakeMachine machine;
  bool answers = true;
  CoordinatorAim aim{.address = "host:7600", .wait_s = 2, .must_answer = true};
  const Findings needed = check_coordinator(aim, machine, answers);
  CHECK_FALSE(answers);
  CHECK(worst(needed) == Verdict::kTrouble);
  CHECK_THAT(needed[0].found, Contains("host:7600") && Contains("2 s"));
  CHECK_THAT(needed[0].advice, Contains("coordinator {}"));
  aim.must_answer = false;
  CHECK(worst(check_coordinator(aim, machine, answers)) == Verdict::kOk);
  aim.address = "127.0.0.1:0";
  CHECK_THAT(check_coordinator(aim, machine, answers)[0].found,
             Contains("the system chooses its port"));
  aim.must_answer = true;
  CHECK(worst(check_coordinator(aim, machine, answers)) == Verdict::kTrouble);
  machine.cluster = make_error(ErrorCode::kMismatch, "wire version 9");
  aim.address = "host:7600";
  CHECK_THAT(check_coordinator(aim, machine, answers)[0].found, Contains("wire version 9"));
}

TEST_CASE("processes that were lost are named", "[doctor]") {
  FakeMachine machine;
  bool answers = false;
  machine.cluster = CoordinatorFacts{.servers = 1, .workers = 2, .lost = {"worker7"}};
  const Findings findings =
      check_coordinator({.address = "host:7600", .must_answer = true}, machine, answers);
  CHECK(finding_with(findings, "worker7").verdict == Verdict::kWarning);
}

TEST_CASE("every port of a config is looked at, and no other", "[doctor]") {
  FakeMachine machine;
  pb::ClusterConfig config = server_config();
  config.mutable_server()->set_shards(2);
  config.mutable_server()->set_port_base(7700);
  config.mutable_http();
  CHECK(worst(check_ports(config, false, machine)) == Verdict::kOk);
  CHECK(machine.probed == std::vector<std::string>{"127.0.0.1:7600", "127.0.0.1:7680",
                                                   "127.0.0.1:7700", "127.0.0.1:7701"});
  machine.probed.clear();
  pb::ClusterConfig worker;
  worker.mutable_worker();
  worker.mutable_http();  // on a port that the system chooses
  CHECK(worst(check_ports(worker, false, machine)) == Verdict::kOk);
  CHECK(machine.probed.empty());
}

TEST_CASE("a held port is reported with its process, its setting, and whether it matters",
          "[doctor]") {
  FakeMachine machine;
  const std::string address = "127.0.0.1:7600";
  using State = PortFacts::State;
  const auto look = [&](PortFacts facts, bool answers) {
    machine.ports[address] = std::move(facts);
    return finding_with(check_ports(server_config(), answers, machine), address);
  };
  const Finding held = look({.state = State::kHeld, .holder = "python3 (process 12)"}, false);
  CHECK(held.verdict == Verdict::kTrouble);
  CHECK_THAT(held.found, Contains("python3 (process 12)"));
  CHECK_THAT(held.advice, Contains("coordinator_address"));
  CHECK_THAT(look({.state = State::kHeld}, false).found, Contains("another user"));
  const PortFacts ours{.state = State::kHeld, .holder = "tautline-server (process 9)"};
  CHECK(look(ours, true).verdict == Verdict::kOk);
  CHECK(look(ours, false).verdict == Verdict::kWarning);
  for (const State state : {State::kElsewhere, State::kForbidden, State::kUnknown}) {
    const Finding finding = look({.state = state}, false);
    CHECK(finding.verdict == Verdict::kTrouble);
    CHECK_THAT(finding.advice, Contains("coordinator_address"));
  }
}

TEST_CASE("HTTP that is not on loopback needs insecure, and no keys are worth a warning",
          "[doctor]") {
  pb::ClusterConfig config = server_config();
  config.mutable_server()->set_listen("0.0.0.0");
  CHECK(check_config(config).empty());
  config.mutable_http()->set_dashboard("0.0.0.0:7680");
  CHECK(worst(check_config(config)) == Verdict::kTrouble);
  config.mutable_http()->set_insecure(true);
  CHECK(check_config(config).empty());
  config.set_insecure(true);
  CHECK(worst(check_config(config)) == Verdict::kWarning);
}

TEST_CASE("shared memory that does not work is a warning, as TCP takes its place", "[doctor]") {
  FakeMachine machine;
  pb::ClusterConfig config;
  CHECK(check_shared_memory(config, machine)[0].verdict == Verdict::kOk);
  machine.shared = make_error(ErrorCode::kIo, "permission denied");
  const Finding finding = check_shared_memory(config, machine)[0];
  CHECK(finding.verdict == Verdict::kWarning);
  CHECK_THAT(finding.found, Contains("permission denied"));
  CHECK_THAT(finding.advice, Contains("shared_memory"));
  config.mutable_worker()->set_shared_memory(false);
  CHECK(check_shared_memory(config, machine)[0].verdict == Verdict::kOk);
}

TEST_CASE("each folder that is written into must be writable and have room", "[doctor]") {
  FakeMachine machine;
  pb::ClusterConfig config = server_config();
  CHECK(check_disk(config, machine).size() == 2);  // runs, and the coordinator's state
  config.mutable_server()->mutable_coordinator()->set_state_folder("/state");
  config.mutable_records()->set_folder("/records");
  config.mutable_records()->set_metrics(true);
  config.mutable_log()->set_file("/logs/server.log");
  CHECK(check_disk(config, machine).size() == 4);
  CHECK(worst(check_disk(config, machine)) == Verdict::kOk);

  machine.folders["/state"] = {
      .nearest = "/", .unwritable = "Permission denied", .free_bytes = 1ULL << 40U};
  const Finding closed = finding_with(check_disk(config, machine), "/state");
  CHECK(closed.verdict == Verdict::kTrouble);
  CHECK_THAT(closed.found, Contains("Permission denied"));
  CHECK_THAT(closed.advice, Contains("state_folder"));
  machine.folders["/state"] = {.nearest = "/state", .unwritable = "the disk is full"};
  CHECK_THAT(finding_with(check_disk(config, machine), "/state").advice, Contains("make room"));
  machine.folders.erase("/state");
  const auto with = [&](std::uint64_t bytes, std::uint64_t files) {
    machine.folders["/logs"] = {.nearest = "/logs", .free_bytes = bytes, .free_files = files};
    return finding_with(check_disk(config, machine), "/logs").verdict;
  };
  CHECK(with(10ULL << 20U, 1U << 20U) == Verdict::kTrouble);
  CHECK(with(500ULL << 20U, 1U << 20U) == Verdict::kWarning);
  CHECK(with(1ULL << 40U, 3) == Verdict::kWarning);
}

TEST_CASE("a missing GPU is an error only if the config requires one", "[doctor]") {
  pb::ClusterConfig any;
  pb::ClusterConfig cuda;
  cuda.mutable_worker()->set_device(pb::WorkerConfig::CUDA);
  CHECK(worst(check_gpu(any, {})) == Verdict::kOk);
  CHECK(worst(check_gpu(cuda, {})) == Verdict::kTrouble);

  GpuFacts closed{.driver = "550.54.14", .present = {"NVIDIA H200"}};
  closed.library_error = "libcuda.so.1: cannot open shared object file";
  CHECK(worst(check_gpu(any, closed)) == Verdict::kWarning);
  CHECK(worst(check_gpu(cuda, closed)) == Verdict::kTrouble);
  CHECK_THAT(finding_with(check_gpu(cuda, closed), "libcuda.so.1").advice, Contains("libcuda1"));

  GpuFacts hidden{.driver = "550.54.14", .present = {"NVIDIA H200"}, .cuda_version = 12040};
  CHECK_THAT(finding_with(check_gpu(cuda, hidden), "no device").advice,
             Contains("CUDA_VISIBLE_DEVICES"));
  GpuFacts good = hidden;
  good.devices = {{.name = "NVIDIA H200", .capability = 90, .bytes = 141ULL << 30U}};
  CHECK(worst(check_gpu(cuda, good)) == Verdict::kOk);
  CHECK_THAT(finding_with(check_gpu(cuda, good), "141 GiB").found, Contains("9.0"));
  good.cuda_version = 11080;
  CHECK_THAT(finding_with(check_gpu(cuda, good), "CUDA 11.8").advice, Contains("12.4"));
}

TEST_CASE("processors, memory and limits are compared with the config", "[doctor]") {
  pb::ClusterConfig config;
  config.mutable_worker()->set_threads(4);
  const auto verdict = [&](const HostFacts& host) { return worst(check_host(config, host)); };
  CHECK(verdict(good_host()) == Verdict::kOk);
  HostFacts host = good_host();
  host.processors = 2;
  CHECK_THAT(finding_with(check_host(config, host), "2 processors of 8").advice,
             Contains("threads: 4") && Contains("to 2"));
  host = good_host();
  host.processor_quota = 1.5;
  CHECK(finding_with(check_host(config, host), "by quota").verdict == Verdict::kWarning);
  host = good_host();
  host.group_limit_bytes = 1ULL << 29U;
  CHECK(finding_with(check_host(config, host), "control group").verdict == Verdict::kWarning);
  host = good_host();
  host.open_files = 64;
  CHECK_THAT(finding_with(check_host(config, host), "64 open files").advice,
             Contains("ulimit -n 4096"));
  CHECK(verdict(host) == Verdict::kTrouble);
  host = good_host();
  host.address_space = 1ULL << 30U;
  CHECK(finding_with(check_host(config, host), "address space").verdict == Verdict::kWarning);
}

TEST_CASE("programs of different builds are trouble", "[doctor]") {
  const ProgramFacts same{"tautline-server", std::string("tautline 1")};
  const ProgramFacts other{"tautline-worker", std::string("tautline 2")};
  const ProgramFacts missing{"tautline-worker", make_error(ErrorCode::kNotFound, "is not there")};
  CHECK(worst(check_versions({}, {same}, "tautline 1")) == Verdict::kOk);
  CHECK(worst(check_versions({}, {same, missing}, "tautline 1")) == Verdict::kTrouble);
  const Finding finding =
      finding_with(check_versions({}, {same, other}, "tautline 1"), "tautline 2");
  CHECK(finding.verdict == Verdict::kTrouble);
  CHECK_THAT(finding.found, Contains("tautline-worker") && Contains("tautline 1"));
  const Findings libraries =
      check_versions({{"ZeroMQ", "4.3.4", "4.3.5"}, {"zlib", "1.2", "1.2"}}, {}, "");
  CHECK_THAT(finding_with(libraries, "ZeroMQ").found, Contains("4.3.5, built with 4.3.4"));
  CHECK_THAT(finding_with(libraries, "zlib").found, Contains("zlib 1.2"));
}

TEST_CASE("findings are one line each, or one object, and the gravest counts", "[doctor]") {
  const Findings findings{fine("port", "free"), warning("disk", "small", "make room"),
                          trouble("data", "a \"b\"", "fetch it")};
  CHECK(worst(findings) == Verdict::kTrouble);
  CHECK(worst({}) == Verdict::kOk);
  const auto lines = findings_lines(findings);
  REQUIRE(lines.size() == 7);
  CHECK_THAT(lines[0], Catch::Matchers::StartsWith("ok") && Contains("port"));
  CHECK_THAT(lines[2], Contains("-> make room"));
  CHECK(lines.back() == "1 ok, 1 warning, 1 trouble");
  CHECK(findings_json({trouble("data", "a \"b\"\xff", "c")}) ==
        R"({"verdict":"trouble","findings":[{"verdict":"trouble","about":"data",)"
        "\"found\":\"a \\\"b\\\"\xef\xbf\xbd\",\"advice\":\"c\"}]}");
}

}  // namespace taut::cli
