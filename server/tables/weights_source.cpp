#include "server/tables/weights_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace taut::server {
namespace {

constexpr Duration kBetweenLooks = std::chrono::seconds(1);

/// The file, read through.
Result<std::pair<std::string, std::shared_ptr<const TensorFile>>> pinned_file(
    const std::string& path, const std::atomic<bool>& stops) {
  TAUT_TRY(TensorFile file, TensorFile::open(path));
  TAUT_TRY(std::string sha256, file.pin(&stops));
  return std::pair(std::move(sha256), std::make_shared<const TensorFile>(std::move(file)));
}

}  // namespace

FileWeights::~FileWeights() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void FileWeights::stop() {
  stops_ = true;
  ahead_.close();
}

Result<void> FileWeights::read(const TensorPlace& place, std::uint64_t first,
                               std::span<float> out) {
  TAUT_TRY(const auto file, open(place));
  return file->read_floats(place.type, place.offset + first * bytes_of(place.type), out);
}

void FileWeights::read_ahead(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    // If there is no room, a shard reads it.
    const bool is_queued = !has_read(file) && ahead_.push(std::string(file), Duration::zero());
    if (is_queued && !thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
}

bool FileWeights::has_read(const std::string& file) {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(known_, [&](const Known& known) {
    return known.file->path() == file && !known.file->has_changed() && !known.file->was_replaced();
  });
}

void FileWeights::run() {
  while (!ahead_.closed()) {
    const auto file = ahead_.pop(kBetweenLooks);
    if (!file || has_read(*file)) continue;
    {
      const std::lock_guard lock(mutex_);
      if (!reading_.insert(*file).second) continue;
    }
    // The shard that needs the file tries again, and reports why it cannot.
    (void)read_through(*file);
  }
}

std::shared_ptr<const TensorFile> FileWeights::find_unchanged(const TensorPlace& place) {
  const auto found = std::ranges::find_if(known_, [&](const Known& known) {
    return known.sha256 == place.sha256 && known.file->path() == place.file;
  });
  if (found == known_.end()) return nullptr;
  if (!found->file->has_changed()) return found->file;
  known_.erase(found);
  return nullptr;
}

Result<std::shared_ptr<const TensorFile>> FileWeights::open(const TensorPlace& place) {
  {
    std::unique_lock lock(mutex_);
    while (true) {
      if (auto known = find_unchanged(place)) return known;
      if (reading_.insert(place.file).second) break;
      // Others wait while one thread reads the file through: it is read once.
      is_read_.wait_for(lock, kBetweenLooks);
    }
  }
  TAUT_TRY(const Known fresh, read_through(place.file));
  if (fresh.sha256 != place.sha256) {
    return make_error(ErrorCode::kMismatch,
                      fmt::format("{}: has SHA-256 {:.12} here and {:.12} at the worker: it is not "
                                  "the same file; copy it to every machine",
                                  place.file, fresh.sha256, place.sha256));
  }
  return fresh.file;
}

Result<FileWeights::Known> FileWeights::read_through(const std::string& file) {
  Result<Known> read = make_error(ErrorCode::kIo, file + ": cannot be read");
  try {
    if (auto pinned = pinned_file(file, stops_); pinned) {
      read = Known{std::move(pinned.value().first), std::move(pinned.value().second)};
    } else {
      read = std::move(pinned.error());
    }
  } catch (const std::exception& failure) {
    read = make_error(ErrorCode::kIo, fmt::format("{}: {}", file, failure.what()));
  }
  const std::lock_guard lock(mutex_);
  if (read) {
    std::erase_if(known_, [&](const Known& known) {
      return known.sha256 == read.value().sha256 && known.file->path() == file;
    });
    if (known_.size() >= kMaxOpenFiles) known_.erase(known_.begin());
    known_.push_back(read.value());
  }
  reading_.erase(file);
  is_read_.notify_all();
  return read;
}

}  // namespace taut::server
