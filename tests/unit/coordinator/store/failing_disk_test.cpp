#include "tests/unit/coordinator/store/failing_disk.hpp"

#include "server/coordinator/store/store.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

using Catch::Matchers::Contains;
using Fault = taut::FailingDisk::Fault;

namespace taut {
namespace {

CoordinatorChanges change(std::uint64_t next_job) {
  CoordinatorChanges changes;
  changes.counters.emplace().set_next_job(next_job);
  pb::StoredJob& job = changes.jobs[JobId(next_job)];
  job.set_job(next_job);
  job.set_message(std::string(20000, 'x'));
  return changes;
}

std::uint64_t kept_in(const std::filesystem::path& folder) {
  auto store = open_sqlite_store(folder);
  REQUIRE(store.has_value());
  return store.value()->load().value().counters.next_job();
}

}  // namespace

TEST_CASE("a save that fails at any write keeps the last saved state, and the next save works",
          "[store]") {
  const Fault fault = GENERATE(Fault::kNoSpace, Fault::kWriteError, Fault::kTornWrite);
  FailingDisk disk;
  int failed = 0;
  for (int at = 1; at < 100; ++at) {
    const test::TempFolder folder;
    auto store = open_sqlite_store(folder.path()).value();
    REQUIRE(store->save(change(1)).has_value());
    disk.set(fault, at);
    const Result<void> saved = store->save(change(2));
    disk.set(Fault::kNone);
    if (saved) {
      store.reset();
      CHECK(kept_in(folder.path()) == 2);
      break;
    }
    ++failed;
    CHECK(saved.error().code == ErrorCode::kIo);
    CHECK(store->load().value().counters.next_job() == 1);
    REQUIRE(store->save(change(3)).has_value());
    store.reset();
    CHECK(kept_in(folder.path()) == 3);
  }
  CHECK(failed > 2);
}

TEST_CASE("a store whose disk failed to sync reports that it is closed", "[store]") {
  FailingDisk disk;
  const test::TempFolder folder;
  auto store = open_sqlite_store(folder.path()).value();
  REQUIRE(store->save(change(1)).has_value());
  const int before = disk.syncs();
  REQUIRE(store->save(change(2)).has_value());
  const int in_a_save = disk.syncs() - before;
  REQUIRE(in_a_save > 0);
  for (int at = 1; at <= in_a_save; ++at) {
    auto fresh = std::make_unique<test::TempFolder>();
    auto failing = open_sqlite_store(fresh->path()).value();
    REQUIRE(failing->save(change(1)).has_value());
    disk.set(Fault::kSyncError, at);
    const Result<void> saved = failing->save(change(2));
    disk.set(Fault::kNone);
    REQUIRE_FALSE(saved.has_value());
    CHECK(saved.error().code == ErrorCode::kClosed);
    CHECK_THAT(saved.error().message, Contains("coordinator.sqlite") && Contains("sync"));
    // Opened again it holds one of the two, whole.
    failing.reset();
    const std::uint64_t kept = kept_in(fresh->path());
    CHECK((kept == 1 || kept == 2));
  }
}

}  // namespace taut
