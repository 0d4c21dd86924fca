#include "server/dashboard/pausing_ask.hpp"

#include "tests/support/catch.hpp"

namespace taut::dashboard {
namespace {

using namespace std::chrono_literals;

TEST_CASE("who has not answered for long is not asked for a while", "[dashboard]") {
  TimePoint now{};
  Duration takes = 2s;
  bool answers = false;
  int asked = 0;
  const Ask ask = with_pauses(
      [&](const pb::ControlMessage&) -> Result<pb::ControlMessage> {
        ++asked;
        now = now + takes;
        if (answers) return pb::ControlMessage();
        return make_error(ErrorCode::kTimeout, "silent");
      },
      [&] { return now; });
  CHECK(ask({}).error().message == "silent");
  for (int i = 0; i < 9; ++i) {
    now = now + 1s;
    CHECK(ask({}).error().message == "silent");
  }
  CHECK(asked == 1);
  now = now + 1s;
  answers = true;
  CHECK(ask({}).has_value());
  CHECK(asked == 2);
  // A slow answer is one, and a quick error keeps no caller waiting.
  CHECK(ask({}).has_value());
  answers = false;
  takes = 10ms;
  CHECK_FALSE(ask({}).has_value());
  CHECK_FALSE(ask({}).has_value());
  CHECK(asked == 5);
}

}  // namespace
}  // namespace taut::dashboard
