#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "worker/engine/backend.hpp"

namespace taut {

/// The devices of one worker, and how they exchange parameters and gradients. Every call is
/// queued on the members' streams: it accesses a member's memory after the work already on that
/// stream, and the memory may be reused once the stream has passed.
/// Errors    DeviceError
/// Thread    one at a time
class DeviceGroup {
 public:
  struct Member {
    Backend* backend;  // outlives the group, as the stream does
    Stream* stream;    // for this member's part of every exchange
  };

  DeviceGroup() = default;
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;
  virtual ~DeviceGroup() = default;

  /// A short description of the exchange, for logs: "NCCL 2.27.3".
  [[nodiscard]] virtual std::string description() const = 0;

  /// Copies the first member's values to every other member's.
  /// into  one for each member after the first, of from's size
  virtual void spread(DeviceSpan<const float> from, std::span<const DeviceSpan<float>> into) = 0;

  /// The mean over all members' parts, into memory of the first one's.
  /// parts  one for each member, of into's size, none of them into
  virtual void mean(std::span<const DeviceSpan<const float>> parts, DeviceSpan<float> into) = 0;
  struct Mean {
    std::vector<DeviceSpan<const float>> parts;
    DeviceSpan<float> into;
  };
  /// mean() of each; they share no memory, so a group may combine them in one exchange.
  virtual void means(std::span<const Mean> all) {
    for (const Mean& one : all) mean(one.parts, one.into);
  }
};

enum class GroupOrder : std::uint8_t {
  kAny,      // the sums are added in whatever order is fastest
  kMembers,  // in the members' order, so that every run gives the same bits
};

/// Uses NCCL if every member is a different CUDA device and NCCL is found, unless the order
/// matters; else copies between the members.
/// members  two or more
[[nodiscard]] std::unique_ptr<DeviceGroup> make_device_group(
    std::vector<DeviceGroup::Member> members, GroupOrder order);

}  // namespace taut
