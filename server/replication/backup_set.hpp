#pragma once

#include <cstddef>
#include <cstdint>

namespace taut::server {

/// Some of a shard's backups, by their place in ShardPlace::backups.
class BackupSet {
 public:
  static constexpr std::size_t kMax = 64;  // as many as a message has

  /// The first `count` backups.
  [[nodiscard]] static BackupSet first(std::size_t count) {
    BackupSet all;
    for (std::size_t backup = 0; backup < count; ++backup) all.bits_ |= bit(backup);
    return all;
  }
  [[nodiscard]] bool has(std::size_t backup) const { return (bits_ & bit(backup)) != 0; }
  [[nodiscard]] bool empty() const { return bits_ == 0; }
  void add(std::size_t backup) { bits_ |= bit(backup); }
  void remove(std::size_t backup) { bits_ &= ~bit(backup); }

 private:
  static std::uint64_t bit(std::size_t backup) {
    return backup < kMax ? std::uint64_t{1} << backup : 0;
  }

  std::uint64_t bits_ = 0;
};

}  // namespace taut::server
