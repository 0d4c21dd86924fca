#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace taut::data {

using LmdbBytes = std::span<const std::uint8_t>;

/// An LMDB that is only read: a folder with data.mdb. Thread: any; several at a time.
class LmdbReader {
 public:
  /// Checks the database as check_lmdb() does, and keeps every key, in order.
  /// Errors    not_found; io; invalid: no LMDB, a damaged or an empty one
  [[nodiscard]] static Result<std::unique_ptr<LmdbReader>> open(
      const std::filesystem::path& folder);
  ~LmdbReader();
  LmdbReader(const LmdbReader&) = delete;
  LmdbReader& operator=(const LmdbReader&) = delete;

  [[nodiscard]] std::uint64_t size() const { return keys_.size(); }
  [[nodiscard]] const std::string& key(std::uint64_t index) const { return keys_[index]; }

  /// Gives a record's value to `use`; the bytes are valid only during the call.
  /// Errors    invalid: the database no longer has the key, or is damaged; what `use` returns
  [[nodiscard]] Result<void> read(std::uint64_t index,
                                  const std::function<Result<void>(LmdbBytes)>& use) const;

 private:
  struct State;
  explicit LmdbReader(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
  std::vector<std::string> keys_;
};

/// The key of record `number` of `count`: Caffe's eight digits, or as many as the last record
/// needs, since keys are sorted by their bytes.
[[nodiscard]] std::string lmdb_key(std::uint64_t number, std::uint64_t count);

/// Writes a new LMDB, key by key in ascending order. It gets its name only when it is finished,
/// since an unfinished one would be read as if it were complete (DraftFolder).
class LmdbWriter {
 public:
  /// Errors    as DraftFolder::create()
  [[nodiscard]] static Result<std::unique_ptr<LmdbWriter>> create(
      const std::filesystem::path& folder);
  ~LmdbWriter();
  LmdbWriter(const LmdbWriter&) = delete;
  LmdbWriter& operator=(const LmdbWriter&) = delete;

  /// Errors    io: the disk is full, or another error of LMDB
  [[nodiscard]] Result<void> add(const std::string& key, const std::string& value);
  /// Writes the rest, flushes it to the disk and moves the folder to its place. Nothing may be
  /// added afterwards.
  [[nodiscard]] Result<void> finish();

 private:
  struct State;
  explicit LmdbWriter(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace taut::data
