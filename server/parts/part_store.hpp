#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "proto/data_message.hpp"

namespace taut::server {

/// The folder of a server with parts of coded checkpoints. A request names a checkpoint's folder as
/// the job does; where it is on this server's disk is decided here. Only files of parts and copies
/// of manifests are touched. Each request may be repeated.
/// Thread    any
class PartStore {
 public:
  /// folder  from the server's configuration; if empty, parts are in the folder of each job's
  ///         checkpoints
  /// server  its name
  PartStore(std::filesystem::path folder, std::string server)
      : folder_(std::move(folder)), server_(std::move(server)) {}

  /// Carries out a request; the reply contains the error, if any.
  [[nodiscard]] DataPartReply answer(const DataPartRequest& request);

  /// Where this server keeps the parts of a checkpoint.
  /// token     of the job's submission; 0: not known
  /// Errors    invalid: not the name of a folder; outside of the folders that are allowed
  [[nodiscard]] Result<std::filesystem::path> place_of(const std::string& checkpoint,
                                                       std::uint64_t token) const;

 private:
  [[nodiscard]] Result<void> carry_out(const DataPartRequest& request, DataPartReply& reply);
  [[nodiscard]] Result<void> write(const pb::PartRequest& head, std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> refuse_withdrawn(const std::filesystem::path& place);
  [[nodiscard]] Result<void> seal(const pb::PartRequest& head);
  [[nodiscard]] Result<void> read(const pb::PartRequest& head, DataPartReply& reply) const;
  [[nodiscard]] Result<void> check(const pb::PartRequest& head, pb::PartReply& reply);
  [[nodiscard]] Result<void> move(const pb::PartRequest& head);
  [[nodiscard]] Result<void> remove(const pb::PartRequest& head);
  /// The path of the file: at this server's place or, as the server may have had another name, at
  /// another's on this machine. Empty if it is at neither.
  [[nodiscard]] Result<std::filesystem::path> find(const pb::PartRequest& head) const;

  struct Checked {
    std::uint64_t bytes = 0;
    std::filesystem::file_time_type written;
    std::string sha256;
  };
  const std::filesystem::path folder_;
  const std::string server_;
  struct Withdrawn {
    std::filesystem::path place;
    std::chrono::steady_clock::time_point at;
  };
  std::mutex mutex_;  // guards what follows
  std::map<std::filesystem::path, Checked> checked_;
  std::deque<Withdrawn> withdrawn_;  // unfinished folders that were removed, oldest first
};

}  // namespace taut::server
