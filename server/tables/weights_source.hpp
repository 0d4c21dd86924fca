#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/files/tensor_file.hpp"
#include "common/result.hpp"

namespace taut::server {

/// The source of tables that start from a file's numbers: the only interface by which a shard,
/// which does no I/O itself, reads files.
/// Thread    any
class WeightsSource {
 public:
  WeightsSource() = default;
  WeightsSource(const WeightsSource&) = delete;
  WeightsSource& operator=(const WeightsSource&) = delete;
  virtual ~WeightsSource() = default;

  /// Elements [first, first + out.size()) of the tensor at `place`.
  /// Errors    not_found, io; mismatch: the file is not the one that the place names
  [[nodiscard]] virtual Result<void> read(const TensorPlace& place, std::uint64_t first,
                                          std::span<float> out) = 0;
};

/// From the file system. A file's SHA-256 is compared once for each job's opening, however many
/// tables and shards read it; a file that is written to afterwards is compared again.
class FileWeights final : public WeightsSource {
 public:
  Result<void> read(const TensorPlace& place, std::uint64_t first, std::span<float> out) override;

 private:
  struct Known {
    std::string sha256;
    std::shared_ptr<const TensorFile> file;
  };
  [[nodiscard]] Result<std::shared_ptr<const TensorFile>> open(const TensorPlace& place);

  std::mutex mutex_;
  std::vector<Known> known_;  // the newest last
};

}  // namespace taut::server
