// What a job takes of its hosts' memory, and of this machine's.
#include "lab/training/costs/memory_needs.hpp"

#include <filesystem>
#include <string>

#include "lab/training/costs/cluster_misfit.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/lab/lab_cluster.hpp"
#include "server/tables/table_memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/lab/tiny_training.hpp"

namespace taut::lab {
namespace {

constexpr const char* kSolver = "solver_param { base_lr: 0.1 momentum: 0.9 max_iter: 5 } ";
constexpr std::uint64_t kParameterBytes = 4 * (6 * 3 + 3);  // of the parameters

/// Those of the tiny net.
std::vector<TableSpec> its_tables() {
  std::vector<TableSpec> tables(2);
  tables[0].shape = {3, 6};
  tables[1].id = TableId(1);
  tables[1].shape = {3};
  return tables;
}

ProcessMemory memory_of(const std::string& job, std::uint32_t servers = 1,
                        std::uint32_t backups = 0, bool lock_step = false) {
  TrainingOptions options = tiny_training(job, "compute { clock_ms: 1 }");
  if (lock_step) options.job.mutable_consistency()->set_mode(pb::Consistency::BSP);
  const auto memory = process_memory(options.job, its_tables(), servers, backups);
  REQUIRE(memory.has_value());
  return memory.value();
}

std::string refusal_of(const TrainingOptions& options) {
  const auto outcome = run_training(options);
  return outcome ? "" : outcome.error().message;
}

}  // namespace

TEST_CASE("processes take parameters, states, gradients and replicas", "[lab]") {
  // A worker computes with values, gets the next, has gradients, and sends.
  CHECK(memory_of(kSolver).worker == 4 * kParameterBytes);
  // Values, momentum, and a gradient; in lock-step one of each of three workers.
  CHECK(memory_of(kSolver).server == 3 * kParameterBytes);
  CHECK(memory_of(kSolver, 1, 0, true).server == 5 * kParameterBytes);
  CHECK(memory_of("solver_param { base_lr: 0.1 type: \"Adam\" max_iter: 5 }").server ==
        4 * kParameterBytes);
  // Half of it each, a value more because it is odd; with replicas the other's values and momentum.
  CHECK(memory_of(kSolver, 2).server == 3 * (kParameterBytes / 2 + 2));
  CHECK(memory_of(kSolver, 2, 1).server == 5 * (kParameterBytes / 2 + 2));
  // No more backups than there are other servers.
  CHECK(memory_of(kSolver, 2, 2).server == memory_of(kSolver, 2, 1).server);
  CHECK(memory_of(kSolver, 3, 2).server == 7 * kParameterBytes / 3);
  // What updates leave out.
  const std::string coded =
      std::string(kSolver) + "compression { push { scheme: ONE_BIT min_values: 1 } }";
  CHECK(memory_of(coded).worker == 5 * kParameterBytes);
}

TEST_CASE("of a table by rows servers reserve what they keep, and workers have a batch's rows",
          "[lab][rows]") {
  const TrainingOptions options = tiny_training(kSolver, "compute { clock_ms: 1 }");
  std::vector<TableSpec> tables = its_tables();
  TableSpec& table = tables.emplace_back();
  table.id = TableId(2);
  table.shape = {1'000'000'000, 8};
  table.rows = RowTable{.buckets = 5, .max_rows = 1000, .clock_rows = 50};
  for (const std::uint32_t servers : {1U, 2U}) {
    const auto memory = process_memory(options.job, tables, servers, 0);
    REQUIRE(memory.has_value());
    CHECK(memory.value().worker == 4 * (kParameterBytes + 4 * 50 * 8));
    // As a server does: with momentum, and for as many members as the job may have.
    server::JobView view;
    view.rule = to_update_rule(options.job).value();
    view.workers = options.job.workers();
    for (std::uint32_t i = 0; i < servers; ++i) view.shards.emplace_back(i);
    const std::uint64_t reserved = server::even_needs({&table, 1}, view).at(0).bytes;
    const std::uint64_t others = memory_of(kSolver, servers).server;
    CHECK(memory.value().server == others + reserved);
  }
  // The lab itself has the rows that workers compute with, not a billion.
  const auto bytes = lab_memory(options.job, tables, true);
  const auto without = lab_memory(options.job, its_tables(), true);
  REQUIRE(bytes.has_value());
  CHECK(bytes.value() - without.value() == 4 * 50 * 8 * options.job.workers());
}

TEST_CASE("a job that does not fit on a host is refused with the host's line and column", "[lab]") {
  TrainingOptions options = tiny_training(kSolver, "compute { clock_ms: 1 }");
  CHECK(refusal_of(options).empty());
  constexpr double kGib = 1UL << 30U;
  pb::LabHost& node = *options.cluster.mutable_host(1);
  node.set_memory_gib(4 * kParameterBytes / kGib);
  CHECK(refusal_of(options).empty());
  node.set_memory_gib((4 * kParameterBytes - 1) / kGib);
  CHECK_THAT(refusal_of(options), Catch::Matchers::StartsWith("host \"w0\" has a memory_gib of") &&
                                      Catch::Matchers::Contains("too little for 1 worker: "));
  const auto misfit = cluster_misfit(options.job, options.cluster, 1);
  REQUIRE(misfit.has_value());
  REQUIRE(misfit.value().has_value());
  CHECK(misfit.value()->steps.front().index == 1);
  // Two on one host take twice as much.
  node.set_memory_gib(4 * kParameterBytes / kGib);
  node.set_count(2);
  node.set_workers(2);
  CHECK_THAT(refusal_of(options), Catch::Matchers::Contains("too little for 2 workers: "));
  options.cluster.mutable_host(0)->set_memory_gib(kParameterBytes / kGib);
  CHECK_THAT(refusal_of(options), Catch::Matchers::Contains("host \"s\"") &&
                                      Catch::Matchers::Contains("too little for 1 server: "));
}

TEST_CASE("an error about a host's memory is at its place in the file", "[lab]") {
  const test::TempFolder folder;
  folder.write("c.textproto", "host { name: \"a\" }\nhost {\n  name: \"b\"\n  memory_gib: 2\n}\n");
  const std::string path = (folder.path() / "c.textproto").string();
  CHECK(lab_cluster_error(path, {{"host", 1}, {"memory_gib"}}, "too small").message ==
        path + ":4:3: too small");
  CHECK(lab_cluster_error({}, {{"host", 1}, {"memory_gib"}}, "too small").message == "too small");
}

TEST_CASE("what a job cannot be trained with is refused at its place in the cluster's file",
          "[lab]") {
  const TrainingOptions options = tiny_training(kSolver, "compute { clock_ms: 1 }");
  const test::TempFolder folder;
  const std::filesystem::path path = folder.path() / "c.textproto";
  const auto refusal = [&](const std::string& rest) {
    folder.write("c.textproto",
                 "host { name: \"h\" count: 4 servers: 1 link: \"card\" }\n"
                 "link { name: \"card\" gbit_per_s: 1 }\n" +
                     rest);
    const auto cluster = read_lab_cluster(path);
    REQUIRE(cluster.has_value());
    const auto misfit = cluster_misfit(options.job, cluster.value(), 1);
    REQUIRE(misfit.has_value());
    REQUIRE(misfit.value().has_value());
    const Error error = lab_cluster_error(path, misfit.value()->steps, misfit.value()->what);
    return error.message.substr(path.string().size());
  };
  CHECK(refusal("") ==
        ":1:1: the cluster file gives no compute times; add compute { clock_ms: 20 }");
  CHECK(refusal("compute {\n  layer { name: \"los\" forward_us: 1 }\n}\n") ==
        ":4:11: compute: the net \"n\" has no layer \"los\"; did you mean \"loss\"?");
  CHECK(refusal("compute { clock_ms: 1 }\ncontrol { heartbeat_limit_s: 0.3 }\n") ==
        ":4:11: control: heartbeat_limit_s must be more than 0.4 with 3 workers, whose heartbeats "
        "are 0.2 s apart, is 0.3");
  CHECK(refusal("compute { clock_ms: 1 }\ncontrol { heartbeat_limit_s: 0.4 }\n") ==
        ":4:11: control: heartbeat_limit_s must be more than 0.4 with 3 workers, whose heartbeats "
        "are 0.2 s apart, is 0.4");
}

TEST_CASE("more workers than this machine has memory for are refused before they start", "[lab]") {
  TrainingOptions options = tiny_training(kSolver, "compute { clock_ms: 1 }");
  options.memory = Bytes(100UL << 10U);
  CHECK(
      refusal_of(options) ==
      "the lab needs at least 0.28 MiB for 3 workers, and --memory-limit is 0.098 MiB; take fewer "
      "workers, a higher limit, or --no-learning");
  const auto checked = check_training(options);
  REQUIRE_FALSE(checked.has_value());
  CHECK(checked.error().message == refusal_of(options));
  // Without a limit it is the machine's memory.
  options.memory = Bytes(0);
  options.job.set_workers(100'000'000);
  const auto needs = lab_memory(options.job, its_tables(), true);
  REQUIRE(needs.has_value());
  CHECK(needs.value() == 100'000'000 * (kParameterBytes + (96UL << 10U)) + 2 * kParameterBytes);
}

TEST_CASE("what updates leave out is counted for each worker, without learning too", "[lab]") {
  const auto bytes = [](const std::string& compression, bool learns) {
    const TrainingOptions options = tiny_training(kSolver + compression, "compute { clock_ms: 1 }");
    return lab_memory(options.job, its_tables(), learns).value();
  };
  const std::string top_k = "compression { push { scheme: TOP_K keep: 0.1 min_values: 1 } }";
  CHECK(bytes(top_k, false) - bytes("", false) == 3 * kParameterBytes);
  CHECK(bytes(top_k, true) - bytes("", true) == 3 * kParameterBytes);
}

TEST_CASE("answers under way do not keep slices of a shard whose workers do not learn", "[lab]") {
  // Clocks are short: there are always answers under way when the next update is applied.
  TrainingOptions options =
      tiny_training("solver_param { base_lr: 0.1 max_iter: 50 }", "compute { clock_ms: 0.01 }");
  options.learns = false;
  const TrainingOutcome outcome = run_to_end(options);
  CHECK(outcome.job.state() == pb::DONE);
  // Of two small slices, which take the smallest buffers.
  const std::uint64_t slices = 2 * BufferPool::rounded_size(1);
  CHECK(outcome.shard_bytes >= slices);
  CHECK(outcome.shard_bytes <= 2 * slices);
}

}  // namespace taut::lab
