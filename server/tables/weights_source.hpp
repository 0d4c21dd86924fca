#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/bounded_queue.hpp"
#include "common/files/tensor_file.hpp"
#include "common/result.hpp"

namespace taut::server {

/// The source for tables that start from a file's values: the only interface by which a shard,
/// which does no I/O itself, reads files.
/// Thread    any
class WeightsSource {
 public:
  WeightsSource() = default;
  WeightsSource(const WeightsSource&) = delete;
  WeightsSource& operator=(const WeightsSource&) = delete;
  virtual ~WeightsSource() = default;

  /// Elements [first, first + out.size()) of the tensor at `place`.
  /// Errors    not_found, io; mismatch: the file is not the one that the place names; closed: this
  ///           process ends
  [[nodiscard]] virtual Result<void> read(const TensorPlace& place, std::uint64_t first,
                                          std::span<float> out) = 0;
};

/// Reads from the file system. A file's SHA-256 is compared once for each job's opening, however
/// many tables and shards read it; a file that is written to afterwards is compared again.
class FileWeights final : public WeightsSource {
 public:
  FileWeights() = default;
  ~FileWeights() override;

  /// Reads through, on a dedicated thread, files that tables are about to start from. Otherwise the
  /// shard that opens the first of those tables reads them, and answers no other job while it reads
  /// a large file. Workers do the same before they open their tables.
  /// Thread    the owner's
  void read_ahead(const std::vector<std::string>& files);
  /// Whether a file was read through, and was neither written to nor replaced by another since.
  [[nodiscard]] bool has_read(const std::string& file);
  /// Stops reading files, so that no thread has to wait for it. A second call does nothing.
  void stop();

  /// Errors    also closed: after stop()
  Result<void> read(const TensorPlace& place, std::uint64_t first, std::span<float> out) override;

 private:
  static constexpr std::size_t kMaxOpenFiles = 16;

  struct Known {
    std::string sha256;
    std::shared_ptr<const TensorFile> file;
  };
  [[nodiscard]] Result<std::shared_ptr<const TensorFile>> open(const TensorPlace& place);
  /// The known file of this path and digest, or nullptr; forgets one that was written to.
  /// REQUIRES: mutex_ is held
  [[nodiscard]] std::shared_ptr<const TensorFile> find_unchanged(const TensorPlace& place);
  /// REQUIRES: the file is in reading_, from which this removes it
  [[nodiscard]] Result<Known> read_through(const std::string& file);
  void run();

  std::mutex mutex_;
  std::vector<Known> known_;         // the newest last
  std::set<std::string> reading_;    // that some thread is reading through
  std::condition_variable is_read_;  // one of them has left that set
  BoundedQueue<std::string> ahead_{kMaxOpenFiles};
  std::atomic<bool> stops_{false};
  std::thread thread_;  // started by the first file to read ahead
};

}  // namespace taut::server
