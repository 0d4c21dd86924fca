#include "server/tables/weights_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace taut::server {
namespace {

constexpr std::size_t kMaxOpenFiles = 16;

}  // namespace

Result<void> FileWeights::read(const TensorPlace& place, std::uint64_t first,
                               std::span<float> out) {
  TAUT_TRY(const auto file, open(place));
  return file->read_floats(place.type, place.offset + first * bytes_of(place.type), out);
}

Result<std::shared_ptr<const TensorFile>> FileWeights::open(const TensorPlace& place) {
  // Others wait here while one shard reads the file through: it is read once.
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(known_, [&](const Known& known) {
    return known.sha256 == place.sha256 && known.file->path() == place.file;
  });
  if (found != known_.end()) {
    if (!found->file->has_changed()) return found->file;
    known_.erase(found);
  }
  TAUT_TRY(TensorFile file, TensorFile::open(place.file));
  TAUT_TRY(const std::string sha256, file.pin());
  if (sha256 != place.sha256) {
    return make_error(ErrorCode::kMismatch,
                      fmt::format("{}: has SHA-256 {:.12} here and {:.12} at the worker: it is not "
                                  "the same file; copy it to every machine",
                                  place.file, sha256, place.sha256));
  }
  if (known_.size() >= kMaxOpenFiles) known_.erase(known_.begin());
  auto kept = std::make_shared<const TensorFile>(std::move(file));
  known_.push_back({sha256, kept});
  return kept;
}

}  // namespace taut::server
