#include "proto/config/cluster_config.hpp"

#include <filesystem>
#include <string>

#include "common/files/allowed_folders.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

Result<pb::ClusterConfig> load(const std::string& text) {
  const test::TempFolder folder;
  return load_cluster_config(folder.write("cluster.textproto", text));
}

std::string refusal_of(const std::string& text) {
  const auto config = load(text);
  CAPTURE(text);
  REQUIRE_FALSE(config.has_value());
  CHECK_THAT(config.error().message, Contains("cluster.textproto"));
  return config.error().message;
}

pb::ClusterConfig insecure() {
  pb::ClusterConfig config;
  config.set_insecure(true);
  return config;
}

}  // namespace

TEST_CASE("an empty cluster file is a whole configuration", "[cluster_config]") {
  const auto config = load("");
  REQUIRE(config.has_value());
  CHECK(config.value().coordinator_address() == "127.0.0.1:7600");
  CHECK(config.value().server().shards() == 1);
}

TEST_CASE("a missing or misspelled cluster file is reported with its place", "[cluster_config]") {
  const auto missing = load_cluster_config("/no/such/cluster.textproto");
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == ErrorCode::kNotFound);
  CHECK_THAT(missing.error().message, Contains("/no/such/cluster.textproto"));
  CHECK_THAT(refusal_of("server {\n  shard: 2\n}"), Contains(":2:3:") && Contains("shards"));
}

TEST_CASE("settings of the data plane that cannot be are reported with their place",
          "[cluster_config]") {
  CHECK(load("data_security: TOKEN io_threads: 64").has_value());
  CHECK(load("data_security: CURVE insecure: true").has_value());
  CHECK_THAT(refusal_of("worker {}\n  data_security: TOKEN\ninsecure: true"),
             Contains(":2:3: data_security: TOKEN") && Contains("insecure: true"));
  CHECK_THAT(refusal_of("data_security: TOKENS"), Contains(":1:16:") && Contains("CURVE, TOKEN"));
  CHECK(load("data_security: TOKEN server { transport: UCX }").has_value());
  for (const char* with : {"", "data_security: CURVE", "insecure: true"}) {
    CHECK_THAT(refusal_of(std::string(with) + "\nserver {\n  transport: UCX\n}"),
               Contains(":3:3: transport: UCX") && Contains("data_security: TOKEN"));
  }
  CHECK_THAT(refusal_of("\n io_threads: 65"), Contains(":2:2: io_threads") && Contains("65"));
}

TEST_CASE("every number of a cluster file must be in its range", "[cluster_config]") {
  CHECK_THAT(refusal_of("server { shards: 0 }"), Contains("server.shards is 0"));
  CHECK_THAT(refusal_of("server { shards: 257 }"), Contains("257"));
  CHECK_THAT(refusal_of("server { port_base: 65536 }"), Contains("65536"));
  CHECK_THAT(refusal_of("worker { threads: 0 }"), Contains("worker.threads"));
  CHECK_THAT(refusal_of("worker { slowdown_ms: -1 }"), Contains("-1"));
  CHECK_THAT(refusal_of("worker { slowdown_ms: nan }"), Contains("nan"));
  CHECK_THAT(refusal_of("start_wait_s: inf"), Contains("start_wait_s"));
  CHECK_THAT(refusal_of("heartbeat_interval_s: 0"), Contains("heartbeat_interval_s"));
  CHECK_THAT(refusal_of("server { coordinator { heartbeat_limit_s: 1e9 } }"),
             Contains("heartbeat_limit_s"));
  CHECK(load("server { shards: 256 port_base: 60000 }").has_value());
}

TEST_CASE("a level of the log that there is not is refused at its place", "[cluster_config]") {
  CHECK_THAT(refusal_of("server { }\nlog { level: 'verbose' }"),
             Contains(":2:7: log level \"verbose\" is unknown; choose trace, debug"));
  for (const char* level : {"trace", "debug", "info", "warn", "warning", "error", "off"}) {
    CAPTURE(level);
    CHECK(load("log { level: '" + std::string(level) + "' }").has_value());
  }
}

TEST_CASE("a quota limits something, and there is one for each user", "[cluster_config]") {
  const auto quotas = [](const std::string& text) {
    return "server { coordinator { scheduling { " + text + " } } }";
  };
  CHECK(load(quotas("quota { user: 'alice' jobs: 1 } quota { user: 'bob' workers: 2 } "
                    "quota { workers: 4 jobs: 2 }"))
            .has_value());
  CHECK_THAT(refusal_of(quotas("quota { user: 'alice' }")),
             Contains("server.coordinator.scheduling.quota of user \"alice\" limits nothing"));
  CHECK_THAT(refusal_of(quotas("quota { jobs: 1 } quota { workers: 0 }")),
             Contains("quota of each other user limits nothing"));
  CHECK_THAT(refusal_of(quotas("quota { user: 'a' jobs: 1 } quota { user: 'a' jobs: 2 }")),
             Contains("quota of user \"a\" occurs twice"));
  CHECK_THAT(refusal_of(quotas("quota { jobs: 1 } quota { workers: 2 }")),
             Contains("quota of each other user occurs twice"));
}

TEST_CASE("heartbeats that would arrive too late are refused with both numbers",
          "[cluster_config]") {
  CHECK_THAT(refusal_of("heartbeat_interval_s: 2 server { coordinator { heartbeat_limit_s: 3 } }"),
             Contains("2") && Contains("3") && Contains("lost"));
}

TEST_CASE(
    "an interval of heartbeats of half of their limit is refused at its place, with what to set",
    "[cluster_config]") {
  const auto limit = [](const std::string& seconds) {
    return "server {\n  coordinator {\n    heartbeat_limit_s: " + seconds + "\n  }\n}\n";
  };
  CHECK_THAT(refusal_of(limit("3") + "heartbeat_interval_s: 1.5"),
             Contains(":6:1: heartbeat_interval_s is 1.5; it must be less than half") &&
                 Contains("which is 3") &&
                 Contains("set heartbeat_interval_s below 1.5 or heartbeat_limit_s above 3"));
  // The file has the limit alone.
  CHECK_THAT(refusal_of(limit("1")), Contains(":3:5: heartbeat_interval_s is 0.5;"));
  CHECK(load(limit("3") + "heartbeat_interval_s: 1.4").has_value());
  CHECK(load(limit("1.1")).has_value());
}

TEST_CASE("an address of the coordinator is a host and a port that exists", "[cluster_config]") {
  for (const char* address : {"", "localhost", "localhost:", "localhost:abc", "localhost:65536",
                              "localhost:-1", ":7600", "localhost:7600x"}) {
    CAPTURE(address);
    const auto config = load("coordinator_address: \"" + std::string(address) + "\"");
    CHECK_FALSE(config.has_value());
    if (!config) CHECK_THAT(config.error().message, Contains("coordinator_address"));
  }
  CHECK(load("coordinator_address: '[::1]:7600'").has_value());
  CHECK(load("coordinator_address: 'a:7600, b:7600'").has_value());
  const std::string three = "coordinator_address: 'a:1,b:2,c:3' server { coordinator { ";
  CHECK(load(three + "address: 'b:2' etcd: 'a:2379' } }").has_value());
  CHECK_THAT(load(three + "etcd: 'a:2379' } }").error().message,
             Contains("server.coordinator.address is \"\"; it must be one of a:1,b:2,c:3"));
  CHECK_THAT(load(three + "address: 'b:2' } }").error().message,
             Contains("lists 3 coordinators, which need a store in common"));
  CHECK_THAT(load("server { coordinator { etcd: 'a' } }").error().message,
             Contains("server.coordinator.etcd \"a\" is not"));
  CHECK(load("coordinator_address: 'node7.cluster:7600'").has_value());
}

TEST_CASE("the last shard's port must exist too", "[cluster_config]") {
  CHECK_THAT(refusal_of("server { shards: 8 port_base: 65530 }"), Contains("65530"));
  CHECK(load("server { shards: 6 port_base: 65530 }").has_value());
}

TEST_CASE("HTTP is served on loopback alone, unless the file sets insecure", "[cluster_config]") {
  const pb::ClusterConfig config;
  for (const char* address : {"127.0.0.1:7600", "127.0.0.1", "127.3.2.1:1", "localhost:0", "::1",
                              "[::1]:7600", "[::1]"}) {
    CAPTURE(address);
    CHECK(check_http_address(address, config).has_value());
  }
  for (const char* address :
       {"0.0.0.0:7600", "*:7600", "10.0.0.7", "::", "[::]:7600", "eth0:7600",
        "localhost.example.org:80", "127.example.org:80", "::ffff:10.0.0.7"}) {
    CAPTURE(address);
    const auto refused = check_http_address(address, config);
    CHECK_FALSE(refused.has_value());
    if (!refused) CHECK_THAT(refused.error().message, Contains(address) && Contains("insecure"));
    CHECK(check_http_address(address, insecure()).has_value());
  }
}

TEST_CASE("a process opens its own folders too where allowed_folders limits it",
          "[cluster_config]") {
  struct Unlimited {
    ~Unlimited() { limit_files_to({}, {}); }
  } const afterwards;
  const test::TempFolder folder;
  const auto place = [&folder](const char* name) { return (folder.path() / name).string(); };
  std::filesystem::create_directory(place("data"));
  pb::ClusterConfig config;
  config.add_allowed_folders(place("data"));
  config.mutable_records()->set_folder(place("records"));
  config.mutable_server()->set_part_folder(place("parts"));
  config.mutable_server()->mutable_coordinator()->set_run_folder(place("runs"));
  REQUIRE(limit_files(config, place("ready")).has_value());
  for (const char* own : {"data/f", "records/f", "parts/sub/saved", "runs/job1", "ready"}) {
    INFO(own);
    CHECK(check_place(place(own)).has_value());
  }
  CHECK_FALSE(check_place(place("elsewhere")).has_value());
  // A folder that has no name is not every one.
  config.mutable_records()->set_folder("");
  REQUIRE(limit_files(config, "").has_value());
  CHECK(check_place(place("data/f")).has_value());
  CHECK_FALSE(check_place(place("records/f")).has_value());
}

TEST_CASE("a host and a port are joined, IPv6 in brackets", "[cluster_config]") {
  CHECK(join_address("127.0.0.1", 80) == "127.0.0.1:80");
  CHECK(join_address("::1", 80) == "[::1]:80");
  CHECK(join_address("[::1]", 0) == "[::1]:0");
}

TEST_CASE("the log's options are those of the file", "[cluster_config]") {
  const auto config = load("log { format: JSON level: 'debug' file: '/tmp/log' }").value();
  const log::Options options = log_options(config, "server", "s0");
  CHECK(options.format == log::Format::kJson);
  CHECK(options.level == "debug");
  CHECK(options.file == "/tmp/log");
  CHECK(options.role == "server");
  CHECK(options.name == "s0");
}

TEST_CASE("an address of a cluster file is host:port", "[cluster_config]") {
  CHECK_THAT(refusal_of("http { dashboard: \"nonsense\" }"),
             Contains("http.dashboard \"nonsense\" is not \"host:port\""));
  CHECK_THAT(refusal_of("http { metrics: \"host:99999\" }"), Contains("http.metrics"));
}

}  // namespace taut
