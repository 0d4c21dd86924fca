#pragma once

#include <algorithm>
#include <cstdint>

namespace taut::server {

/// The room that backups have for logged updates of a table by rows, over all its buckets at one
/// shard. The primary counts the bytes of updates that count and are not in an image that every
/// backup has. An update for which there is no room counts once images have made some.
/// Thread    shard thread
class LogRoom {
 public:
  /// One bucket's part.
  struct Bucket {
    std::uint64_t unsaved = 0;  // bytes not in an image that every backup has
    std::uint64_t outside = 0;  // bytes not in the newest image either
    std::uint64_t since = 0;    // bytes accepted after the newest image was made

    /// Whether the image in flight, or the next one, may make room.
    [[nodiscard]] bool can_shrink() const { return since > 0 || unsaved > outside; }
  };

  explicit LogRoom(std::uint64_t limit = 0) : limit_(limit) {}

  /// Adds a bucket's part.
  void add(const Bucket& bucket) {
    unsaved_ += bucket.unsaved;
    outside_ += bucket.outside;
    since_ += bucket.since;
  }
  /// Whether an update of `bytes` may count now. It also may if no image can make room: what is
  /// left then waits in the buckets for other members' updates, and is bounded by their allowance.
  [[nodiscard]] bool has(std::uint64_t bytes) const {
    return unsaved_ + bytes <= limit_ || (since_ == 0 && unsaved_ == outside_);
  }
  /// Whether images should be made before their turn, so that updates need not wait for room.
  [[nodiscard]] bool is_short() const { return unsaved_ > limit_ / 4 * 3; }

  /// Notes that an update counts from now on.
  void note_counted(Bucket& bucket, std::uint64_t bytes) {
    change(bucket, {bucket.unsaved + bytes, bucket.outside + bytes, bucket.since + bytes});
  }
  /// Notes that an image was made.
  /// held  bytes of updates that the bucket has not applied
  void note_image(Bucket& bucket, std::uint64_t held) {
    change(bucket, {std::max(bucket.unsaved, held), held, 0});
  }
  /// Notes that every backup has the newest image.
  void note_kept(Bucket& bucket) { change(bucket, {bucket.outside, bucket.outside, bucket.since}); }

 private:
  void change(Bucket& bucket, const Bucket& now) {
    unsaved_ += now.unsaved - bucket.unsaved;
    outside_ += now.outside - bucket.outside;
    since_ += now.since - bucket.since;
    bucket = now;
  }

  std::uint64_t limit_;
  std::uint64_t unsaved_ = 0;
  std::uint64_t outside_ = 0;
  std::uint64_t since_ = 0;
};

}  // namespace taut::server
