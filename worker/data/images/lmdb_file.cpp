#include "worker/data/images/lmdb_file.hpp"

#include <fmt/format.h>
#include <lmdb.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "common/files/draft_folder.hpp"
#include "common/files/regular_file.hpp"
#include "common/thread_sanitizer.hpp"
#include "worker/data/images/lmdb_check.hpp"

namespace taut::data {
namespace {

namespace fs = std::filesystem;

// Keys are Caffe's: eight digits and a path. Reserved address space costs nothing until it is used.
// ThreadSanitizer leaves less address space.
constexpr std::size_t kWriterMapBytes = std::size_t{1} << (thread_sanitizer::kIsOn ? 36 : 40);
constexpr std::uint64_t kWritesInOne = 1000;
constexpr unsigned kMaxReaders = 1024;

Error failed(const std::string& name, const char* what, int code, ErrorCode kind) {
  return make_error(kind, fmt::format("{}: LMDB, {}: {}", name, what, mdb_strerror(code)));
}

struct Environment {
  MDB_env* env = nullptr;
  std::string name;

  Environment() = default;
  ~Environment() { close(); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  void close() {
    if (env != nullptr) mdb_env_close(std::exchange(env, nullptr));
  }
};

struct Transaction {
  MDB_txn* txn = nullptr;

  Transaction() = default;
  ~Transaction() { abort(); }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void abort() {
    if (txn != nullptr) mdb_txn_abort(txn);
    txn = nullptr;
  }
  int commit() { return mdb_txn_commit(std::exchange(txn, nullptr)); }
};

struct Cursor {
  MDB_cursor* cursor = nullptr;

  Cursor() = default;
  ~Cursor() {
    if (cursor != nullptr) mdb_cursor_close(cursor);
  }
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;
};

}  // namespace

struct LmdbReader::State : Environment {
  MDB_dbi table = 0;
};

LmdbReader::LmdbReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
LmdbReader::~LmdbReader() = default;

Result<std::unique_ptr<LmdbReader>> LmdbReader::open(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / "data.mdb", ignored)) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{}: no LMDB: it has no data.mdb", folder.string()));
  }
  // LMDB maps the file that was checked, even if the name refers to another one by then.
  TAUT_TRY(const Descriptor file, open_to_read(folder / "data.mdb"));
  const std::string opened = fmt::format("/proc/self/fd/{}", file.get());
  TAUT_TRY(check_lmdb(opened, folder.string()));
  auto state = std::make_unique<State>();
  state->name = folder.string();
  const auto refuse = [&](const char* what, int code) {
    return failed(state->name, what, code, ErrorCode::kInvalid);
  };
  int code = mdb_env_create(&state->env);
  if (code != 0) return refuse("making an environment", code);
  mdb_env_set_maxreaders(state->env, kMaxReaders);
  // No lock file: no process writes while a job reads, and the folder may be read-only.
  code = mdb_env_open(state->env, opened.c_str(),
                      MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS | MDB_NOSUBDIR, 0644);
  if (code != 0) return refuse("opening", code);

  Transaction transaction;
  code = mdb_txn_begin(state->env, nullptr, MDB_RDONLY, &transaction.txn);
  if (code != 0) return refuse("beginning to read", code);
  code = mdb_dbi_open(transaction.txn, nullptr, 0, &state->table);
  if (code != 0) return refuse("opening its table", code);
  std::vector<std::string> keys;
  {
    Cursor cursor;
    code = mdb_cursor_open(transaction.txn, state->table, &cursor.cursor);
    if (code != 0) return refuse("opening a cursor", code);
    MDB_val key{};
    while ((code = mdb_cursor_get(cursor.cursor, &key, nullptr, MDB_NEXT_NODUP)) == 0) {
      keys.emplace_back(static_cast<const char*>(key.mv_data), key.mv_size);
    }
  }
  if (code != MDB_NOTFOUND) return refuse("walking its keys", code);
  if (keys.empty()) return invalid(fmt::format("{}: an LMDB without a record", state->name));
  // The table's handle outlives the transaction only if the transaction is committed.
  code = transaction.commit();
  if (code != 0) return refuse("closing the read transaction", code);
  std::unique_ptr<LmdbReader> reader(new LmdbReader(std::move(state)));
  reader->keys_ = std::move(keys);
  return reader;
}

Result<void> LmdbReader::read(std::uint64_t index,
                              const std::function<Result<void>(LmdbBytes)>& use) const {
  Transaction transaction;
  int code = mdb_txn_begin(state_->env, nullptr, MDB_RDONLY, &transaction.txn);
  if (code == 0) {
    const std::string& name = keys_[index];
    MDB_val key{name.size(), const_cast<char*>(name.data())};
    MDB_val value{};
    code = mdb_get(transaction.txn, state_->table, &key, &value);
    if (code == 0) {
      return use({static_cast<const std::uint8_t*>(value.mv_data), value.mv_size});
    }
  }
  return failed(state_->name, fmt::format("reading record {}", index).c_str(), code,
                ErrorCode::kInvalid);
}

std::string lmdb_key(std::uint64_t number, std::uint64_t count) {
  constexpr std::size_t kDigits = 8;
  const std::size_t digits = fmt::formatted_size("{}", std::max<std::uint64_t>(count, 1) - 1);
  return fmt::format("{:0{}}", number, std::max(digits, kDigits));
}

struct LmdbWriter::State : Environment {
  Transaction transaction;
  MDB_dbi table = 0;
  std::uint64_t pending = 0;
  std::unique_ptr<DraftFolder> folder;
};

LmdbWriter::LmdbWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

// The transaction ends before its environment, and that before its files.
LmdbWriter::~LmdbWriter() {
  state_->transaction.abort();
  state_->close();
}

Result<std::unique_ptr<LmdbWriter>> LmdbWriter::create(const fs::path& folder) {
  auto state = std::make_unique<State>();
  state->name = folder.string();
  TAUT_TRY(state->folder, DraftFolder::create(folder));
  int code = mdb_env_create(&state->env);
  if (code == 0) code = mdb_env_set_mapsize(state->env, kWriterMapBytes);
  if (code == 0) code = mdb_env_open(state->env, state->folder->path().c_str(), MDB_NOSYNC, 0644);
  if (code == 0) code = mdb_txn_begin(state->env, nullptr, 0, &state->transaction.txn);
  if (code == 0) code = mdb_dbi_open(state->transaction.txn, nullptr, 0, &state->table);
  std::unique_ptr<LmdbWriter> writer(new LmdbWriter(std::move(state)));
  if (code != 0) return failed(folder.string(), "creating", code, ErrorCode::kIo);
  return writer;
}

Result<void> LmdbWriter::add(const std::string& key, const std::string& value) {
  MDB_val name{key.size(), const_cast<char*>(key.data())};
  MDB_val bytes{value.size(), const_cast<char*>(value.data())};
  int code = mdb_put(state_->transaction.txn, state_->table, &name, &bytes, MDB_APPEND);
  if (code == 0 && ++state_->pending % kWritesInOne == 0) {
    code = state_->transaction.commit();
    if (code == 0) code = mdb_txn_begin(state_->env, nullptr, 0, &state_->transaction.txn);
  }
  if (code != 0) return failed(state_->name, "writing", code, ErrorCode::kIo);
  return ok();
}

Result<void> LmdbWriter::finish() {
  int code = state_->transaction.commit();
  if (code == 0) code = mdb_env_sync(state_->env, 1);
  if (code != 0) return failed(state_->name, "writing", code, ErrorCode::kIo);
  state_->close();
  return state_->folder->put_in_place();
}

}  // namespace taut::data
