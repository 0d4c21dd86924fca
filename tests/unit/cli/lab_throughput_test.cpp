#include "cli/commands/training/lab_throughput.hpp"

#include "proto/config/lab/lab_cluster.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

namespace taut::cli {
namespace {

using schedule::DeviceType;

TEST_CASE("hosts' types are their names, or what the command line says", "[cli]") {
  const test::TempFolder folder;
  folder.write("cluster.textproto",
               "host { name: \"server\" workers: 0 servers: 1 link: \"card\" }\n"
               "host { name: \"K80\" link: \"card\" }\n"
               "host { count: 2 name: \"node\" link: \"card\" }\n"
               "link { name: \"card\" gbit_per_s: 1 }\n");
  const std::string path = (folder.path() / "cluster.textproto").string();
  const auto cluster = read_lab_cluster(path);
  if (!cluster) FAIL(cluster.error().message);

  const auto types = host_types({"node=T4"}, cluster.value(), path);
  if (!types) FAIL(types.error().message);
  CHECK(types.value() == HostTypes{{"K80", DeviceType::kK80}, {"node", DeviceType::kT4}});

  CHECK(host_types({}, cluster.value(), path).error().message ==
        path +
            ":3:17: host \"node\": for --throughput its name must be V100, P100, K80 or T4, or add "
            "--host-type node=V100");
  CHECK(host_types({"node=T4", "server=T4"}, cluster.value(), path).error().message ==
        "--host-type: " + path + " has no host \"server\" with places for workers");
}

TEST_CASE("a type of hosts that is none is refused", "[cli]") {
  CHECK(check_host_type("node=V100").empty());
  for (const char* text : {"node", "=V100", "node=P4", "node="}) {
    CAPTURE(text);
    CHECK(check_host_type(text) ==
          "must be HOST=TYPE with the type V100, P100, K80 or T4, e.g. node=V100");
  }
}

}  // namespace
}  // namespace taut::cli
