// What a store returns and refuses, and which records are sound.
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "server/coordinator/store/check_record.hpp"
#include "server/coordinator/store/sqlite_database.hpp"
#include "server/coordinator/store/store.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/store/state_folder.hpp"

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
namespace fs = std::filesystem;

namespace taut {
namespace {

using test::Folder;
using test::stored_job;

}  // namespace

TEST_CASE("a store returns the last saved state", "[store]") {
  const Folder folder;
  const auto records = std::make_shared<CoordinatorRecords>();
  const bool in_memory = GENERATE(true, false);
  const auto open = [&] {
    return in_memory ? make_memory_store(records) : open_sqlite_store(folder.path).value();
  };
  {
    const auto store = open();
    CHECK(store->load().value().jobs.empty());
    CoordinatorChanges changes;
    changes.counters.emplace().set_next_job(4);
    changes.jobs[JobId(2)] = stored_job(2, "first");
    changes.jobs[JobId(3)] = stored_job(3, std::string("with\0zero", 9));
    REQUIRE(store->save(changes).has_value());
    CoordinatorChanges later;
    later.jobs[JobId(2)] = stored_job(2, "second");
    REQUIRE(store->save(later).has_value());
  }
  const CoordinatorRecords loaded = open()->load().value();
  CHECK(loaded.counters.next_job() == 4);
  REQUIRE(loaded.jobs.size() == 2);
  CHECK(loaded.jobs.at(JobId(2)).message() == "second");
  CHECK(loaded.jobs.at(JobId(3)).message() == std::string("with\0zero", 9));
}

TEST_CASE("a state folder that is in use, foreign, newer or damaged is refused by name",
          "[store]") {
  const Folder folder;
  const std::string file = folder.path / "coordinator.sqlite";
  fs::create_directories(folder.path);
  const auto refusal = [&] {
    const auto opened = open_sqlite_store(folder.path);
    REQUIRE_FALSE(opened.has_value());
    CHECK_THAT(opened.error().message, Contains(file));
    return opened.error();
  };
  SECTION("in use") {
    const auto holder = open_sqlite_store(folder.path).value();
    CHECK(refusal().code == ErrorCode::kExists);
  }
  SECTION("another program's") {
    REQUIRE(SqliteDatabase::open(file).value().run("CREATE TABLE x (y)").has_value());
    CHECK_THAT(refusal().message, Contains("another program"));
  }
  SECTION("of a newer release") {
    static_cast<void>(open_sqlite_store(folder.path).value());
    REQUIRE(SqliteDatabase::open(file).value().run("PRAGMA user_version = 9").has_value());
    CHECK_THAT(refusal().message, Contains("version 9") && Contains("reads 1"));
  }
  SECTION("no database at all") {
    std::ofstream(file) << std::string(4096, 'x');
    CHECK(refusal().code == ErrorCode::kInvalid);
  }
  SECTION("a record that does not parse") {
    static_cast<void>(open_sqlite_store(folder.path).value());
    REQUIRE(SqliteDatabase::open(file)
                .value()
                .run("INSERT INTO jobs VALUES (3, 'DONE', x'ffffffff')")
                .has_value());
    const auto loaded = open_sqlite_store(folder.path).value()->load();
    REQUIRE_FALSE(loaded.has_value());
    CHECK_THAT(loaded.error().message, Contains("job 3"));
  }
  SECTION("a record of which a number leads to nothing") {
    pb::StoredJob job = stored_job(3, "");
    job.add_servers()->add_shard_addresses("s0:7601");
    job.add_shards()->set_host(1);
    CoordinatorChanges changes;
    changes.jobs[JobId(3)] = job;
    REQUIRE(open_sqlite_store(folder.path).value()->save(changes).has_value());
    const auto loaded = open_sqlite_store(folder.path).value()->load();
    REQUIRE_FALSE(loaded.has_value());
    CHECK_THAT(loaded.error().message,
               StartsWith(file) && Contains("the record of job 3 is damaged: shard 0 is at host 1 "
                                            "of 1; use a copy"));
  }
}

TEST_CASE("a stored record is sound, or says what in it is not", "[store]") {
  pb::StoredJob job = stored_job(3, "");
  job.set_state(pb::RUNNING);
  job.set_slots(2);
  for (const char* name : {"s0", "s1"}) {
    pb::StoredServer& server = *job.add_servers();
    server.set_name(name);
    server.set_first_shard(static_cast<std::uint32_t>(job.servers_size() - 1));
    server.add_shard_addresses("host:7601");
    pb::StoredShard& shard = *job.add_shards();
    shard.set_host(server.first_shard());
    shard.set_backup(1 - server.first_shard());
  }
  job.add_modes();
  for (std::uint32_t i = 0; i < 2; ++i) {
    pb::Member& member = *job.add_members()->mutable_member();
    member.set_worker(i);
    member.set_slot(i);
    member.set_leave_clock(100);
  }
  REQUIRE(damage_of(JobId(3), job).empty());
  const auto damage_after = [&](auto change) {
    pb::StoredJob changed = job;
    change(changed);
    return damage_of(JobId(3), changed);
  };
  CHECK_THAT(damage_of(JobId(4), job), Contains("stored as job 4 and says that it is job 3"));
  CHECK_THAT(damage_after([](auto& one) { one.set_state(static_cast<pb::JobState>(9)); }),
             Contains("its state is 9"));
  CHECK_THAT(damage_after([](auto& one) { one.mutable_servers(1)->set_first_shard(5); }),
             Contains("server \"s1\" has the hosts from 5 on, and 1 are before it"));
  CHECK_THAT(damage_after([](auto& one) { one.mutable_shards(1)->set_backup(7); }),
             Contains("shard 1 is at host 7 of 2"));
  CHECK_THAT(damage_after([](auto& one) {
               one.clear_shards();
               one.clear_servers();
             }),
             Contains("has no server"));
  CHECK_THAT(damage_after([](auto& one) { one.mutable_members()->SwapElements(0, 1); }),
             Contains("worker 0 comes after worker 1"));
  CHECK_THAT(damage_after([](auto& one) { one.set_slots(1); }),
             Contains("worker 1 has share 1 of 1"));
  CHECK_THAT(damage_after(
                 [](auto& one) { one.mutable_members(0)->mutable_member()->set_join_clock(101); }),
             Contains("for the clocks from 101 to 100"));
  CHECK_THAT(damage_after([](auto& one) { one.set_slots(1U << 31U); }),
             Contains("2147483648 shares of the data, the limit is 65536"));
  CHECK_THAT(damage_after([](auto& one) { one.clear_modes(); }), Contains("no mode"));
  CHECK_THAT(damage_after([](auto& one) { one.mutable_modes(0)->set_first_clock(4); }),
             Contains("mode 0 is from clock 4 on"));
  CHECK_THAT(damage_after([](auto& one) { one.mutable_definition()->set_name("\xFF"); }),
             Contains("definition.name must be UTF-8 text"));
  CHECK_THAT(damage_after([](auto& one) { one.set_slack(-1); }), Contains("its slack is -1"));
}

}  // namespace taut
