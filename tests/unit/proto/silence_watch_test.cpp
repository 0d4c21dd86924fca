#include "proto/session/silence_watch.hpp"

#include "tests/support/catch.hpp"

using namespace std::chrono_literals;

namespace taut {
namespace {

TimePoint at(Duration since_start) {
  return TimePoint(1000s + since_start);
}

}  // namespace

TEST_CASE("a coordinator that never answers is named after the limit, then seldom", "[silence]") {
  SilenceWatch watch("the coordinator at a:1", 3s, at(0s));
  CHECK(watch.tick(at(2999ms)).empty());
  CHECK(watch.tick(at(3s)) == "the coordinator at a:1 has not answered for 3 s; waiting for it");
  CHECK(watch.tick(at(4s)).empty());
  CHECK(watch.tick(at(32s)).empty());
  CHECK(watch.tick(at(33s)) == "the coordinator at a:1 has not answered for 33 s; waiting for it");
  // Its first answer needs no line: joining has its own.
  CHECK(watch.heard(at(34s)).empty());
}

TEST_CASE("a coordinator that falls silent is named, and again when it returns", "[silence]") {
  SilenceWatch watch("it", 3s, at(0s));
  for (int second = 0; second < 10; ++second) {
    CHECK(watch.heard(at(std::chrono::seconds(second))).empty());
    CHECK(watch.tick(at(std::chrono::seconds(second + 2))).empty());
  }
  CHECK(watch.tick(at(12s)) == "it is silent for 3 s; waiting for it");
  CHECK(watch.heard(at(20s)) == "it answers again after 11 s");
  CHECK(watch.tick(at(22s)).empty());
  CHECK(watch.tick(at(23s)) == "it is silent for 3 s; waiting for it");
}

}  // namespace taut
