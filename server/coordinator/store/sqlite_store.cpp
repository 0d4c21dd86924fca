#include <fmt/format.h>

#include <string>
#include <system_error>
#include <utility>

#include "server/coordinator/store/check_record.hpp"
#include "server/coordinator/store/sqlite_database.hpp"
#include "server/coordinator/store/store.hpp"

namespace taut {
namespace {

constexpr std::int64_t kSchemaVersion = 1;
// "TAUT" in the file's header identifies our databases.
constexpr std::int64_t kApplicationId = 0x54415554;

// The column `state` is for users who inspect the file; records are protobuf bytes.
constexpr const char* kSchema = R"(
  CREATE TABLE counters (id INTEGER PRIMARY KEY CHECK (id = 1), record BLOB NOT NULL);
  CREATE TABLE jobs (job INTEGER PRIMARY KEY, state TEXT NOT NULL, record BLOB NOT NULL);
)";

class SqliteStore final : public CoordinatorStore {
 public:
  explicit SqliteStore(SqliteDatabase database) : database_(std::move(database)) {}

  Result<void> prepare();
  Result<CoordinatorRecords> load() override;
  Result<void> save(const CoordinatorChanges& changes) override;

 private:
  Result<void> write(const CoordinatorChanges& changes);

  SqliteDatabase database_;
};

Result<void> SqliteStore::prepare() {
  // The lock is kept from the first access on: one coordinator per file.
  TAUT_TRY(
      database_.run("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;"
                    "PRAGMA synchronous = FULL; BEGIN EXCLUSIVE; COMMIT;"));
  TAUT_TRY(const std::int64_t application, database_.number("PRAGMA application_id"));
  TAUT_TRY(const std::int64_t version, database_.number("PRAGMA user_version"));
  TAUT_TRY(const std::int64_t tables, database_.number("SELECT count(*) FROM sqlite_master"));
  if (application == 0 && version == 0 && tables == 0) {
    return database_.run(
        fmt::format("BEGIN; {} PRAGMA application_id = {}; PRAGMA user_version = "
                    "{}; COMMIT;",
                    kSchema, kApplicationId, kSchemaVersion));
  }
  if (application != kApplicationId) {
    return make_error(ErrorCode::kMismatch,
                      fmt::format("{}: is another program's database", database_.path()));
  }
  if (version != kSchemaVersion) {
    return make_error(ErrorCode::kMismatch,
                      fmt::format("{}: has schema version {}, this release reads {}; use the "
                                  "release that wrote it, or another state_folder",
                                  database_.path(), version, kSchemaVersion));
  }
  return ok();
}

Result<CoordinatorRecords> SqliteStore::load() {
  CoordinatorRecords records;
  const auto damaged = [this](const std::string& what, const std::string& how = "") {
    return invalid(
        fmt::format("{}: the record of {} is damaged{}{}; use a copy of the file from "
                    "before, or another state_folder",
                    database_.path(), what, how.empty() ? "" : ": ", how));
  };
  TAUT_TRY(SqliteStatement counters,
           SqliteStatement::prepare(database_, "SELECT record FROM counters"));
  TAUT_TRY(const bool has_counters, counters.step());
  if (has_counters && !records.counters.ParseFromString(std::string(counters.bytes(0)))) {
    return damaged("the counters");
  }
  TAUT_TRY(SqliteStatement jobs,
           SqliteStatement::prepare(database_, "SELECT job, record FROM jobs"));
  while (true) {
    TAUT_TRY(const bool has_row, jobs.step());
    if (!has_row) return records;
    const JobId id(static_cast<std::uint64_t>(jobs.integer(0)));
    pb::StoredJob& job = records.jobs[id];
    if (!job.ParseFromString(std::string(jobs.bytes(1)))) {
      return damaged(fmt::format("job {}", id.value()));
    }
    if (const std::string damage = damage_of(id, job); !damage.empty()) {
      return damaged(fmt::format("job {}", id.value()), damage);
    }
  }
}

Result<void> SqliteStore::save(const CoordinatorChanges& changes) {
  TAUT_TRY(database_.run("BEGIN"));
  Result<void> written = write(changes);
  if (written) written = database_.run("COMMIT");
  if (!written) {
    // The first failure is the one to report.
    [[maybe_unused]] const Result<void> undone = database_.run("ROLLBACK");
  }
  return written;
}

Result<void> SqliteStore::write(const CoordinatorChanges& changes) {
  if (changes.counters) {
    TAUT_TRY(SqliteStatement insert,
             SqliteStatement::prepare(database_, "INSERT OR REPLACE INTO counters VALUES (1, ?)"));
    insert.bind(1, changes.counters->SerializeAsString());
    TAUT_TRY(insert.step());
  }
  for (const auto& [id, job] : changes.jobs) {
    TAUT_TRY(SqliteStatement insert,
             SqliteStatement::prepare(database_, "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?)"));
    insert.bind(1, static_cast<std::int64_t>(id.value()));
    insert.bind(2, pb::JobState_Name(job.state()));
    insert.bind(3, job.SerializeAsString());
    TAUT_TRY(insert.step());
  }
  for (const JobId id : changes.forgotten) {
    TAUT_TRY(SqliteStatement forget,
             SqliteStatement::prepare(database_, "DELETE FROM jobs WHERE job = ?"));
    forget.bind(1, static_cast<std::int64_t>(id.value()));
    TAUT_TRY(forget.step());
  }
  return ok();
}

}  // namespace

Result<std::unique_ptr<CoordinatorStore>> open_sqlite_store(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    return make_error(ErrorCode::kIo, fmt::format("{}: the state folder cannot be created: {}",
                                                  folder.string(), failed.message()));
  }
  TAUT_TRY(SqliteDatabase database, SqliteDatabase::open(folder / "coordinator.sqlite"));
  auto store = std::make_unique<SqliteStore>(std::move(database));
  TAUT_TRY(store->prepare());
  return std::unique_ptr<CoordinatorStore>(std::move(store));
}

}  // namespace taut
