#include "worker/engine/device_group.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "common/check.hpp"
#include "common/log.hpp"
#include "worker/engine/cuda/cuda_backend.hpp"
#include "worker/engine/relying_stream.hpp"

namespace taut {
namespace {

/// Exchanges by copies from one member's memory to another's. A copy is queued on the stream of the
/// member that it writes to; events delay it until the member that it reads from has reached the
/// same point.
class CopyingGroup final : public DeviceGroup {
 public:
  explicit CopyingGroup(std::vector<Member> members) : members_(std::move(members)) {
    for (const Member& member : members_) {
      ready_.push_back(member.backend->make_event());
      taken_.push_back(member.backend->make_event());
    }
    relying_ = dynamic_cast<RelyingStream*>(members_[0].stream);
    for (std::size_t i = 1; relying_ != nullptr && i < members_.size(); ++i) {
      relying_->rely_on(*members_[i].stream);
    }
  }
  ~CopyingGroup() override {
    if (relying_ != nullptr) relying_->rely_on_none();
  }

  std::string description() const override { return "copies between the devices"; }

  void spread(DeviceSpan<const float> from, std::span<const DeviceSpan<float>> into) override {
    TAUT_CHECK(into.size() + 1 == members_.size(), "one place for each member after the first");
    ready_[0]->record(*members_[0].stream);
    for (std::size_t i = 1; i < members_.size(); ++i) {
      ready_[0]->wait(*members_[i].stream);
      members_[i].backend->copy(*members_[i].stream, from, into[i - 1]);
      taken_[i]->record(*members_[i].stream);
    }
    for (std::size_t i = 1; i < members_.size(); ++i) taken_[i]->wait(*members_[0].stream);
  }

  void mean(std::span<const DeviceSpan<const float>> parts, DeviceSpan<float> into) override {
    TAUT_CHECK(parts.size() == members_.size(), "one part for each member");
    const Member& first = members_[0];
    const float share = 1.0F / static_cast<float>(members_.size());
    const DeviceSpan<float> arriving = room_for(into.size());
    const std::array<Term, 1> own = {Term{parts[0], share}};
    first.backend->weighted_sum(*first.stream, own, into);
    for (std::size_t i = 1; i < members_.size(); ++i) {
      ready_[i]->record(*members_[i].stream);
      ready_[i]->wait(*first.stream);
      first.backend->copy(*first.stream, parts[i], arriving);
      taken_[0]->record(*first.stream);
      taken_[0]->wait(*members_[i].stream);
      const std::array<Term, 2> terms = {Term{into, 1}, Term{arriving, share}};
      first.backend->weighted_sum(*first.stream, terms, into);
    }
  }

 private:
  /// Memory in which the first member receives another member's part.
  DeviceSpan<float> room_for(std::size_t count) {
    if (arriving_.size().value() < count * sizeof(float)) {
      members_[0].stream->finish();
      arriving_ = DeviceBuffer();
      arriving_ = members_[0].backend->allocate_floats(count, BufferKind::kGradient,
                                                       "another device's gradient on this one");
    }
    return arriving_.as<float>().subspan(0, count);
  }

  const std::vector<Member> members_;
  RelyingStream* relying_ = nullptr;           // the first member's; nullptr: it cannot fail alone
  std::vector<std::unique_ptr<Event>> ready_;  // of each member: its part is ready
  std::vector<std::unique_ptr<Event>> taken_;  // of each member: it has read its part
  DeviceBuffer arriving_;
};

}  // namespace

std::unique_ptr<DeviceGroup> make_device_group(std::vector<DeviceGroup::Member> members,
                                               GroupOrder order) {
  TAUT_CHECK(members.size() > 1, "a group has two members or more");
  if (order == GroupOrder::kAny) {
    auto fast = make_cuda_group(members);
    if (fast) return std::move(fast).value();
    log::info("the devices of this worker exchange by copies: {}", fast.error().message);
  }
  return std::make_unique<CopyingGroup>(std::move(members));
}

}  // namespace taut
