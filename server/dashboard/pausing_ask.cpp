#include "server/dashboard/pausing_ask.hpp"

#include <memory>
#include <optional>
#include <utility>

namespace taut::dashboard {
namespace {

constexpr Duration kLong{1'000'000};
constexpr Duration kPause{10'000'000};

struct Pause {
  TimePoint until;
  Error reason;
};

}  // namespace

Ask with_pauses(Ask ask, std::function<TimePoint()> now) {
  return [ask = std::move(ask), now = std::move(now),
          pause = std::make_shared<std::optional<Pause>>()](
             const pb::ControlMessage& message) -> Result<pb::ControlMessage> {
    const TimePoint begin = now();
    if (*pause && begin < (*pause)->until) return (*pause)->reason;
    pause->reset();
    auto reply = ask(message);
    const TimePoint end = now();
    if (!reply && end - begin >= kLong) *pause = Pause{end + kPause, reply.error()};
    return reply;
  };
}

}  // namespace taut::dashboard
