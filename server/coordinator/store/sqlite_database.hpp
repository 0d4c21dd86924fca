#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace taut {

/// An open SQLite database. Thread: one at a time.
class SqliteDatabase {
 public:
  /// Opens or creates the file. Errors: io.
  [[nodiscard]] static Result<SqliteDatabase> open(const std::string& path);
  SqliteDatabase(SqliteDatabase&& other) noexcept;
  SqliteDatabase& operator=(SqliteDatabase&& other) noexcept;
  ~SqliteDatabase();

  /// Runs statements that return nothing. Errors: io; exists: another process has locked the file.
  [[nodiscard]] Result<void> run(const std::string& sql);
  /// The single number that a query returns.
  [[nodiscard]] Result<std::int64_t> number(const std::string& sql);

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  friend class SqliteStatement;
  SqliteDatabase(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  [[nodiscard]] Error error(std::string_view doing) const;

  sqlite3* handle_;
  std::string path_;
};

/// One prepared statement. The database must outlive it.
class SqliteStatement {
 public:
  [[nodiscard]] static Result<SqliteStatement> prepare(SqliteDatabase& database,
                                                       const std::string& sql);
  SqliteStatement(SqliteStatement&& other) noexcept;
  SqliteStatement& operator=(SqliteStatement&&) = delete;
  ~SqliteStatement();

  /// Binds parameter `index`, from 1. Bytes are copied.
  void bind(int index, std::int64_t value);
  void bind(int index, std::string_view bytes);
  /// Advances to the next row. False if there is none. Errors: io.
  [[nodiscard]] Result<bool> step();
  [[nodiscard]] std::int64_t integer(int column) const;
  /// Valid until the next step().
  [[nodiscard]] std::string_view bytes(int column) const;

 private:
  SqliteStatement(SqliteDatabase& database, sqlite3_stmt* handle)
      : database_(&database), handle_(handle) {}

  SqliteDatabase* database_;
  sqlite3_stmt* handle_;
};

}  // namespace taut
