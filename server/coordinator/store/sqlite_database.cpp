#include "server/coordinator/store/sqlite_database.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <utility>

namespace taut {

Result<SqliteDatabase> SqliteDatabase::open(const std::string& path) {
  sqlite3* handle = nullptr;
  const int status =
      sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  SqliteDatabase database(handle, path);
  if (status != SQLITE_OK) return database.error("cannot be opened");
  return database;
}

SqliteDatabase::SqliteDatabase(SqliteDatabase&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), path_(std::move(other.path_)) {}

SqliteDatabase& SqliteDatabase::operator=(SqliteDatabase&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(path_, other.path_);
  return *this;
}

SqliteDatabase::~SqliteDatabase() {
  sqlite3_close(handle_);
}

Error SqliteDatabase::error(std::string_view doing) const {
  const int code = handle_ == nullptr ? SQLITE_NOMEM : sqlite3_errcode(handle_);
  if (code == SQLITE_BUSY) {
    return make_error(ErrorCode::kExists,
                      fmt::format("{}: another coordinator uses it; give this one another "
                                  "coordinator {{ state_folder: \"...\" }}",
                                  path_));
  }
  // After a failed fsync the kernel may have dropped the pages and call a second one a success.
  const int extended = handle_ == nullptr ? 0 : sqlite3_extended_errcode(handle_);
  if (extended == SQLITE_IOERR_FSYNC || extended == SQLITE_IOERR_DIR_FSYNC) {
    return make_error(ErrorCode::kClosed,
                      fmt::format("{}: {}: the disk failed to sync it", path_, doing));
  }
  const char* reason = handle_ == nullptr ? "out of memory" : sqlite3_errmsg(handle_);
  return make_error(
      code == SQLITE_NOTADB || code == SQLITE_CORRUPT ? ErrorCode::kInvalid : ErrorCode::kIo,
      fmt::format("{}: {}: {}", path_, doing, reason));
}

Result<void> SqliteDatabase::run(const std::string& sql) {
  if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return error("cannot be written");
  }
  return ok();
}

Result<std::int64_t> SqliteDatabase::number(const std::string& sql) {
  TAUT_TRY(SqliteStatement query, SqliteStatement::prepare(*this, sql));
  TAUT_TRY(const bool has_row, query.step());
  return has_row ? query.integer(0) : 0;
}

Result<SqliteStatement> SqliteStatement::prepare(SqliteDatabase& database, const std::string& sql) {
  sqlite3_stmt* handle = nullptr;
  if (sqlite3_prepare_v2(database.handle_, sql.c_str(), -1, &handle, nullptr) != SQLITE_OK) {
    return database.error("cannot be read");
  }
  return SqliteStatement(database, handle);
}

SqliteStatement::SqliteStatement(SqliteStatement&& other) noexcept
    : database_(other.database_), handle_(std::exchange(other.handle_, nullptr)) {}

SqliteStatement::~SqliteStatement() {
  sqlite3_finalize(handle_);
}

void SqliteStatement::bind(int index, std::int64_t value) {
  sqlite3_bind_int64(handle_, index, value);
}

void SqliteStatement::bind(int index, std::string_view bytes) {
  sqlite3_bind_blob64(handle_, index, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
}

Result<bool> SqliteStatement::step() {
  const int status = sqlite3_step(handle_);
  if (status == SQLITE_ROW) return true;
  if (status == SQLITE_DONE) return false;
  return database_->error("cannot be read or written");
}

std::int64_t SqliteStatement::integer(int column) const {
  return sqlite3_column_int64(handle_, column);
}

std::string_view SqliteStatement::bytes(int column) const {
  const void* data = sqlite3_column_blob(handle_, column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(handle_, column));
  return data == nullptr ? std::string_view()
                         : std::string_view(static_cast<const char*>(data), size);
}

}  // namespace taut
