#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/net/shared_link.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/data_message.hpp"

namespace taut::server {

/// Sends images between shards of one machine through shared memory. Holds the links to the backups
/// that this shard lends images to, and to the primaries that lend images to it. Each message says
/// whose memory it refers to, so nothing is negotiated again after a broken connection. A backup
/// copies what it is lent at once: its images outlive their primary, and a primary has its memory
/// back once the message is read.
/// Thread    the shard's
class ImageLinks {
 public:
  /// arena  where the shard's values are; nullptr: images travel as bytes
  explicit ImageLinks(std::shared_ptr<SharedArena> arena);

  /// For a primary: a connection to a backup opens or closes.
  void add(PeerId backup);
  void remove(PeerId backup);
  /// Names the shard's memory in images to a backup and, once the backup has mapped it, the
  /// backup's. Returns the link to encode them with; nullptr: they travel as bytes.
  [[nodiscard]] SharedLink* offer(PeerId backup, DataImages& images);
  /// The link of a backup; nullptr if no more may be lent to it.
  [[nodiscard]] SharedLink* link(PeerId backup);
  /// Inspects a backup's reply before the shard handles it.
  void hear(PeerId backup, const pb::SliceImagesReply& reply);

  /// For a backup: maps the primary's memory and copies what it lends.
  /// Errors    invalid: what is lent is not in that memory, or is lent to another process
  [[nodiscard]] Result<void> take(DataImages& images);
  /// Returns the memory lent with images that are not taken.
  void give_back(const DataImages& images);
  /// Offers a link in the reply to images, so that their primary may lend the next ones.
  void answer(const pb::SharedMemory& primary, pb::SliceImagesReply& reply);

  /// Leaves what is on loan unchanged from now on, while the shard ends: a backup may still copy
  /// it.
  void abandon_memory();

  /// Takes back what backups have returned, and drops the links of processes that have ended.
  void sweep(TimePoint now);

 private:
  // More than the servers on one machine and the jobs that they share.
  static constexpr std::size_t kMaxPrimaries = 256;
  // Bytes on loan to one backup; what is lost with a connection stays on loan.
  static constexpr std::uint64_t kMaxOnLoan = 128ULL << 20U;

  struct Backup {
    std::unique_ptr<SharedLink> link;
    SharedLink::Offer offer;  // the backup's, once it is open
  };
  struct Primary {
    std::unique_ptr<SharedLink> link;  // nullptr: its memory cannot be mapped; tried again later
    SharedLink::Offer offer;           // the primary's
  };

  [[nodiscard]] SharedLink* link_to(const pb::SharedMemory& memory);

  void make_lendable(Frame& gradient);

  const std::shared_ptr<SharedArena> arena_;
  BufferPool lent_;                         // copies of others' memory, made to be lent
  BufferPool copies_{Bytes(64ULL << 20U)};  // copies of what others lend
  std::map<PeerId, Backup> backups_;
  std::vector<std::unique_ptr<SharedLink>> old_links_;  // with something on loan
  std::vector<Primary> primaries_;
  TimePoint swept_;
};

}  // namespace taut::server
