// What users and jobs may have and require: quotas, devices, memory.
#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/queue/jobs_cluster.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace taut {
namespace {

using test::Jobs;
using test::Names;

pb::Quota quota_of(const char* user, std::uint32_t workers, std::uint32_t jobs) {
  pb::Quota quota;
  if (user != nullptr) quota.set_user(user);
  quota.set_workers(workers);
  quota.set_jobs(jobs);
  return quota;
}

TEST_CASE("a job that exceeds its user's quota waits, says so and holds up no other",
          "[coordinator][queue]") {
  Jobs cluster(6);
  *cluster.options.scheduling.add_quota() = quota_of("alice", 3, 2);
  *cluster.options.scheduling.add_quota() = quota_of(nullptr, 0, 1);
  cluster.restart_coordinator(1s);
  cluster.run_for(1s);
  const auto submit = [&](const char* user, const pb::Job& definition) {
    return cluster.submit(definition, 0, user).job();
  };
  const std::uint64_t first = submit("alice", make_job(2));
  const std::uint64_t second = submit("alice", make_job(2));
  const std::uint64_t third = submit("alice", make_job(1));
  const std::uint64_t fourth = submit("alice", make_job(1));
  const std::uint64_t fifth = submit("bob", make_job(1));
  const std::uint64_t sixth = submit("bob", make_job(1));
  const std::uint64_t seventh = submit("", make_job(1));
  const std::uint64_t eighth = submit("alice", make_job(4));
  REQUIRE(cluster.run_until_state(seventh, pb::RUNNING));
  CHECK(cluster.status(first).state() == pb::RUNNING);
  CHECK(cluster.status(third).state() == pb::RUNNING);
  CHECK(cluster.status(fifth).state() == pb::RUNNING);
  CHECK(cluster.status(first).user() == "alice");
  CHECK(cluster.status(second).message() ==
        "user \"alice\" has 2 jobs running, and the quota is 2");
  CHECK(cluster.status(fourth).message() == cluster.status(second).message());
  CHECK(cluster.status(sixth).message() == "user \"bob\" has 1 job running, and the quota is 1");
  CHECK(cluster.status(second).place() == 1);
  CHECK(cluster.status(sixth).place() == 3);
  CHECK(cluster.status(first).place() == 0);
  REQUIRE(cluster.stop(third).error().empty());
  REQUIRE(cluster.run_until_state(fourth, pb::RUNNING));
  REQUIRE(cluster.stop(fourth).error().empty());
  REQUIRE(cluster.run_until_state(fourth, pb::STOPPED));
  cluster.run_for(1s);
  CHECK(cluster.status(second).message() ==
        "requires 2 workers, and user \"alice\" has 2 of the quota of 3");
  CHECK(cluster.status(eighth).message() ==
        "requires 4 workers, and the quota of user \"alice\" is 3: it cannot start");
  REQUIRE(cluster.stop(first).error().empty());
  REQUIRE(cluster.run_until_state(second, pb::RUNNING));
  // A user without a name has a quota too.
  const std::uint64_t ninth = submit("", make_job(1));
  cluster.run_for(1s);
  CHECK(cluster.status(ninth).message() == "this user has 1 job running, and the quota is 1");
}

TEST_CASE("a job that takes every worker takes those of its user's quota", "[coordinator][queue]") {
  Jobs cluster(4);
  *cluster.options.scheduling.add_quota() = quota_of("alice", 3, 0);
  cluster.restart_coordinator(1s);
  cluster.run_for(1s);
  const std::uint64_t job = cluster.submit(make_job(0), 0, "alice").job();
  REQUIRE(cluster.run_until_state(job, pb::RUNNING));
  CHECK(cluster.workers_of(job).size() == 3);
}

TEST_CASE("jobs get workers with the devices and the memory that they require",
          "[coordinator][queue]") {
  constexpr std::uint64_t kGib = 1UL << 30U;
  Jobs cluster(0);
  for (int i = 0; i < 4; ++i) {
    cluster.add_worker("w" + std::to_string(i), {i < 2 ? "a" : "b", 10 * kGib, i < 2 ? 0U : 1U});
  }
  cluster.run_for(1s);
  pb::Job definition = make_job(1);
  definition.mutable_resources()->set_devices(1);
  definition.mutable_resources()->set_memory(6 * kGib);
  const std::uint64_t first = cluster.start(definition);
  CHECK(cluster.workers_of(first) == Names{"w2"});
  // The other worker of that host has 4 GiB left.
  const std::uint64_t second = cluster.submit(definition).job();
  definition.mutable_resources()->clear_devices();
  const std::uint64_t third = cluster.start(definition);
  CHECK(cluster.workers_of(third) == Names{"w0"});
  CHECK(cluster.status(second).message() ==
        "waits for 1 worker with 1 GPU and 6.0 GiB of memory each; 0 of them are idle");
  CHECK(cluster.status(second).max_workers() == 1);
  definition.set_workers(3);
  const std::uint64_t fourth = cluster.submit(definition).job();
  definition.mutable_resources()->set_memory(20 * kGib);
  const std::uint64_t fifth = cluster.submit(definition).job();
  definition.mutable_resources()->clear_memory();
  definition.mutable_resources()->set_devices(2);
  const std::uint64_t sixth = cluster.submit(definition).job();
  cluster.run_for(1s);
  CHECK(cluster.status(fourth).message() ==
        "requires 3 workers with 6.0 GiB of memory, and all workers together have room for 2");
  CHECK(cluster.status(fifth).message() ==
        "waits for 3 more workers with 20.0 GiB of memory: 3 required, 0 of 4 joined have that; "
        "the most that one has is 10.0 GiB");
  CHECK(cluster.status(sixth).message() ==
        "waits for 3 more workers with 2 GPUs: 3 required, 0 of 4 joined have that; the most that "
        "one has is 1 GPU");
  // What is reserved outlives the coordinator.
  cluster.restart_coordinator(1s);
  cluster.run_for(2s);
  CHECK(cluster.status(second).state() == pb::SUBMITTED);
  REQUIRE(cluster.stop(first).error().empty());
  CHECK(cluster.run_until_state(second, pb::RUNNING));
}

TEST_CASE("a job waits for memory of the servers, backups included", "[coordinator][queue]") {
  constexpr std::uint64_t kMib = 1UL << 20U;
  constexpr std::uint64_t kGib = 1024 * kMib;
  const bool is_replicated = GENERATE(false, true);
  FakeCluster cluster;
  cluster.options.replication_interval = is_replicated ? 4 : 0;
  cluster.restart_coordinator(1ms);
  // Three of the four shards are on the first one, whose 9 GiB thus suffice for 12 GiB in total.
  cluster.add_server("s0", 3, 9 * kGib);
  cluster.add_server("s1", 1, 100 * kGib);
  for (int i = 0; i < 4; ++i) cluster.add_worker("w" + std::to_string(i));
  cluster.run_for(1s);
  const std::uint64_t half = is_replicated ? 3 : 6;
  pb::Job definition = make_job(1);
  definition.mutable_resources()->set_server_memory(half * kGib + kMib);
  const std::uint64_t first = cluster.submit(definition).job();
  REQUIRE(cluster.run_until_state(first, pb::RUNNING));
  const std::uint64_t second = cluster.submit(definition).job();
  definition.mutable_resources()->set_server_memory(half * kGib - 2 * kMib);
  const std::uint64_t third = cluster.submit(definition).job();
  REQUIRE(cluster.run_until_state(third, pb::RUNNING));
  definition.mutable_resources()->set_server_memory(20 * kGib);
  const std::uint64_t fourth = cluster.submit(definition).job();
  cluster.run_for(1s);
  CHECK(cluster.status(second).message() ==
        (is_replicated ? "waits for 3.0 GiB of the servers' memory; there is room for tables of "
                         "1.0 MiB of 6.0 GiB, with their backups"
                       : "waits for 6.0 GiB of the servers' memory; there is room for tables of "
                         "1.0 MiB of 12.0 GiB"));
  CHECK_THAT(cluster.status(fourth).message(),
             Contains("requires 20.0 GiB of the servers' memory, which has room for tables of " +
                      std::string(is_replicated ? "6.0" : "12.0") + " GiB"));
  REQUIRE(cluster.stop(first).error().empty());
  CHECK(cluster.run_until_state(second, pb::RUNNING));
}

TEST_CASE("what a job requires is checked when it is submitted", "[coordinator][queue]") {
  Jobs cluster(1);
  pb::Job definition = make_job(1);
  definition.mutable_resources()->set_devices(65);
  CHECK(cluster.submit(definition).error() == "resources: devices is 65; at most 64 are possible");
  definition.mutable_resources()->set_devices(0);
  definition.mutable_resources()->set_memory(~0ULL);
  CHECK_THAT(cluster.submit(definition).error(),
             Contains("resources: 18446744073709551615 bytes are more than 1125899906842624"));
  definition.mutable_resources()->set_memory(1);
  definition.set_external_members(true);
  definition.clear_net_param();
  CHECK_THAT(cluster.submit(definition).error(), Contains("omit memory and devices"));
}

}  // namespace
}  // namespace taut
