// A node's place in its engine's run, and how the nodes of a run find each other.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "cli/node/meeting.hpp"
#include "cli/node/node_address.hpp"
#include "cli/node/node_place.hpp"
#include "cli/node/node_share.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

namespace taut::cli {
namespace {

using Variables = std::map<std::string, std::string>;

Result<NodePlace> place_of(const Variables& variables) {
  return find_place([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

const Variables kSlurm = {{"SLURM_JOB_ID", "812"},      {"SLURM_STEP_ID", "0"},
                          {"SLURM_PROCID", "5"},        {"SLURM_STEP_NUM_TASKS", "7"},
                          {"SLURM_JOB_NUM_NODES", "4"}, {"SLURM_NODEID", "2"},
                          {"SLURM_LOCALID", "1"},       {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                          {"SLURM_PMI_FD", "7"}};

TEST_CASE("a process that no engine started is a separate run", "[node]") {
  const auto place = place_of({{"HOME", "/root"}});
  REQUIRE(place);
  CHECK(place.value().engine.empty());
  CHECK(place.value().count == 1);
}

TEST_CASE("a task of Slurm knows its rank and the tasks of its node", "[node]") {
  const auto place = place_of(kSlurm);
  REQUIRE(place);
  CHECK(place.value().engine == "slurm");
  CHECK(place.value().run == "slurm-812");
  CHECK(place.value().attempt == "812.0.0");
  CHECK(place.value().rank == 5);
  CHECK(place.value().count == 7);
  CHECK(place.value().local_rank == 1);
  CHECK(place.value().local_count == 2);
}

TEST_CASE("a task of Slurm knows the switch that its node is at", "[node]") {
  Variables task = kSlurm;
  CHECK(place_of(task).value().rack.empty());
  task["SLURM_TOPOLOGY_ADDR"] = "core.leaf-2.n7";
  task["SLURM_TOPOLOGY_ADDR_PATTERN"] = "switch.switch.node";
  CHECK(place_of(task).value().rack == "leaf-2");
  // Without topology/tree the address is the node's name alone.
  task["SLURM_TOPOLOGY_ADDR"] = "n7";
  task["SLURM_TOPOLOGY_ADDR_PATTERN"] = "node";
  CHECK(place_of(task).value().rack.empty());
  task["SLURM_TOPOLOGY_ADDR"] = "a/b.n7";
  task["SLURM_TOPOLOGY_ADDR_PATTERN"] = "switch.node";
  CHECK(place_of(task).value().rack.empty());
}

TEST_CASE("a Slurm batch script of several nodes is told to use srun", "[node]") {
  Variables batch = kSlurm;
  batch.erase("SLURM_STEP_ID");
  const auto refused = place_of(batch);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("srun") != std::string::npos);
  batch["SLURM_JOB_NUM_NODES"] = "1";
  const auto alone = place_of(batch);
  REQUIRE(alone);
  CHECK(alone.value().count == 1);
}

TEST_CASE("Open MPI's variables count before those of the job that runs mpirun", "[node]") {
  Variables nested = kSlurm;
  nested["OMPI_COMM_WORLD_SIZE"] = "4";
  nested["OMPI_COMM_WORLD_RANK"] = "3";
  nested["OMPI_COMM_WORLD_LOCAL_RANK"] = "1";
  nested["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  nested["PMIX_NAMESPACE"] = "1337/2";
  const auto place = place_of(nested);
  REQUIRE(place);
  CHECK(place.value().engine == "mpi");
  CHECK(place.value().run == "mpi-1337-2");
  CHECK(place.value().rank == 3);
  CHECK(place.value().count == 4);
  CHECK(place.value().local_rank == 1);
}

TEST_CASE("torchrun's convention names the leader", "[node]") {
  const Variables variables = {{"RANK", "1"},
                               {"WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "trainer-0"},
                               {"MASTER_PORT", "29500"},
                               {"TORCHELASTIC_RUN_ID", "none"}};
  const auto place = place_of(variables);
  REQUIRE(place);
  CHECK(place.value().engine == "torchrun");
  CHECK(place.value().leader == "trainer-0");
  CHECK(place.value().run.empty());
  CHECK(place.value().local_count == 1);
}

TEST_CASE("a variable that is out of range is named with its value", "[node]") {
  const auto rank = place_of({{"RANK", "4"}, {"WORLD_SIZE", "4"}});
  REQUIRE_FALSE(rank);
  CHECK(rank.error().message == "RANK must be a whole number from 0 to 3, is \"4\"");
  const auto size = place_of({{"RANK", "0"}, {"WORLD_SIZE", "two"}});
  REQUIRE_FALSE(size);
  CHECK(size.error().message.find("WORLD_SIZE") == 0);
  CHECK_FALSE(place_of({{"OMPI_COMM_WORLD_SIZE", "2"}}));
}

TEST_CASE("ranks of one machine divide its devices", "[node]") {
  NodeOptions options;
  NodePlace place{.local_rank = 1, .local_count = 2};
  NodeShare share = share_of(options, place, 5);
  CHECK(share.devices == std::vector<std::uint32_t>{1, 3});
  CHECK(share.workers == 2);
  CHECK(share.servers == 1);
  share = share_of(options, {}, 0);
  CHECK(share.workers == 1);
  CHECK(share.devices.empty());
  options.workers_per_node = 0;
  options.device = pb::WorkerConfig::CPU;
  share = share_of(options, {}, 5);
  CHECK(share.workers == 0);
  CHECK(share.devices.empty());
}

TEST_CASE("a meeting forgets an earlier attempt and says when it has ended", "[node]") {
  const test::TempFolder folder;
  Meeting meeting(folder.path(), "812.0.1");
  REQUIRE(meeting.clear());
  CHECK(meeting.leader().coordinator.empty());
  REQUIRE(meeting.open("10.0.0.1:7600"));
  CHECK(meeting.leader().coordinator == "10.0.0.1:7600");
  REQUIRE(meeting.join({.rank = 1, .host = "b", .servers = 2, .workers = 3, .build = "x"}));
  REQUIRE(meeting.join({.rank = 0, .host = "a", .servers = 1, .workers = 1, .build = "x"}));
  auto notices = meeting.notices();
  REQUIRE(notices);
  REQUIRE(notices.value().size() == 2);
  CHECK(notices.value()[1].host == "b");
  CHECK(notices.value()[1].workers == 3);
  meeting.leave(1);
  CHECK(meeting.notices().value().size() == 1);
  REQUIRE(meeting.close(143));
  CHECK(meeting.leader().coordinator.empty());
  CHECK(meeting.leader().status == 143);
  CHECK(meeting.leader().is_of_this_attempt);
  CHECK_FALSE(Meeting(folder.path(), "812.0.2").leader().is_of_this_attempt);
  REQUIRE(meeting.clear());
  CHECK_FALSE(meeting.leader().status);
  CHECK(meeting.notices().value().empty());
}

TEST_CASE("a file that is no notice is named", "[node]") {
  const test::TempFolder folder;
  Meeting meeting(folder.path(), "812.0.1");
  REQUIRE(meeting.clear());
  std::ofstream(folder.path() / "nodes" / "3.json") << R"({"rank": "three"})";
  const auto notices = meeting.notices();
  REQUIRE_FALSE(notices);
  CHECK(notices.error().message.find("3.json") != std::string::npos);
}

TEST_CASE("this machine has an address, and one on the way to itself", "[node]") {
  const std::string own = own_address();
  CHECK_FALSE(own.empty());
  const auto towards = own_address_towards(own);
  REQUIRE(towards);
  CHECK(towards.value() == own);
  CHECK(numeric_address("127.0.0.1").value() == "127.0.0.1");
  CHECK_FALSE(own_address_towards("no-number"));
  CHECK_FALSE(numeric_address("no such host"));
}

TEST_CASE("a leader whose name is loopback on its own machine has the address that others reach",
          "[node]") {
  CHECK(address_for_others("localhost").value() == own_address());
  // A loopback address as a number is kept.
  CHECK(address_for_others("127.0.0.1").value() == "127.0.0.1");
  CHECK_FALSE(address_for_others("no such host"));
}

}  // namespace
}  // namespace taut::cli
