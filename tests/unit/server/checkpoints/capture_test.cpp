#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "server/checkpoints/checkpoint_file.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/server/checkpoints/service.hpp"

namespace taut::server {
namespace {

namespace fs = std::filesystem;
using test::job_of;
using test::same_bits;
using test::Service;
using test::tables;

}  // namespace

TEST_CASE("a slice is captured when its V reaches the clock, and training continues",
          "[checkpoint]") {
  Service service(job_of(2, Slack(0)), 2);
  service.push_all(0, 3);
  service.order(1, 5);
  CHECK(service.captures().empty());
  service.push_all(3, 4);
  service.push(0, 4);
  CHECK(service.captures().empty());
  const std::vector<float> before = service.values();
  service.push(1, 4);
  const std::vector<float> at_five = service.values();
  CHECK(!same_bits(before, at_five));
  service.push_all(5, 8);
  const std::vector<ShardCapture> captures = service.captures();
  REQUIRE(captures.size() == 2);
  std::vector<float> held(at_five.size());
  std::size_t at = 0;
  for (const TableSpec& table : tables()) {
    for (const ShardCapture& capture : captures) {
      CHECK(capture.order.clock == Clock(5));
      CHECK(capture.tables == tables());
      for (const SliceImage& image : capture.slices) {
        if (image.place.table != table.id) continue;
        const auto values = image.values.floats();
        std::ranges::copy(values, held.begin() + static_cast<std::ptrdiff_t>(at));
        at += values.size();
        CHECK(image.states.size() == (table.kind == TableKind::kTrained ? 2 : 0));
        if (table.kind == TableKind::kFrozen) continue;
        CHECK(image.version == Clock(5));
        CHECK(image.applications == 5);
        CHECK(image.done.at(WorkerId(0)) == Clock(5));
        CHECK(image.done.at(WorkerId(1)) == Clock(5));
      }
    }
  }
  CHECK(same_bits(held, at_five));
  CHECK(service.captures().empty());
}

TEST_CASE("values that are not finite are not written", "[checkpoint]") {
  const test::TempFolder folder;
  Service service(job_of(1, Slack(0)), 1);
  service.order(1, 2);
  service.push_all(0, 2);
  std::vector<ShardCapture> captures = service.captures();
  REQUIRE(captures.size() == 1);
  captures[0].order.folder = folder.path().string();
  captures[0].slices[1].values.floats()[2] = std::numeric_limits<float>::infinity();
  const auto file = write_shard_files(std::move(captures[0]), false);
  REQUIRE_FALSE(file.has_value());
  CHECK(file.error().message.find("has values that are not finite") != std::string::npos);
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("an order at a clock that BSP has passed is missed, and the next one is not",
          "[checkpoint]") {
  Service service(job_of(1, Slack(0)), 1);
  service.push_all(0, 6);
  service.order(1, 5);
  std::vector<ShardCapture> captures = service.captures();
  REQUIRE(captures.size() == 1);
  CHECK(captures[0].missed);
  CHECK(captures[0].slices.empty());
  service.order(2, 6);
  captures = service.captures();
  REQUIRE(captures.size() == 1);
  CHECK(!captures[0].missed);
  CHECK(captures[0].slices.size() == 4);
}

TEST_CASE("on arrival a slice holds more than the clock, and reports which updates",
          "[checkpoint]") {
  Service service(job_of(2, Slack::unbounded(), "SGD"), 1);
  service.push_all(0, 2);
  for (std::int64_t clock = 2; clock < 6; ++clock) service.push(1, clock);
  service.order(1, 3);
  CHECK(service.captures().empty());
  service.push(0, 2);
  const auto captures = service.captures();
  REQUIRE(captures.size() == 1);
  for (const SliceImage& image : captures[0].slices) {
    if (tables()[image.place.table.value()].kind == TableKind::kFrozen) continue;
    CHECK(image.version == Clock(3));
    CHECK(image.done.at(WorkerId(0)) == Clock(3));
    CHECK(image.done.at(WorkerId(1)) == Clock(6));
  }
}

TEST_CASE("updates that a slice still holds back are not counted as done", "[checkpoint]") {
  Service service(job_of(2, Slack(0)), 1);
  service.order(1, 2);
  service.push_all(0, 1);
  service.push(1, 1);
  service.push(1, 2);  // held: worker 0 owes clock 1
  service.push(0, 1);
  const auto captures = service.captures();
  REQUIRE(captures.size() == 1);
  for (const SliceImage& image : captures[0].slices) {
    if (tables()[image.place.table.value()].kind == TableKind::kFrozen) continue;
    CHECK(image.done.at(WorkerId(1)) == Clock(2));
    CHECK(image.applications == 2);
  }
}

TEST_CASE("a checkpoint is withdrawn by the next order and by the end of the job", "[checkpoint]") {
  Service service(job_of(1, Slack(0)), 1);
  service.order(1, 1);
  service.push_all(0, 1);
  const std::vector<ShardCapture> first = service.captures();
  REQUIRE(first.size() == 1);
  service.publish();
  CHECK_FALSE(*first[0].withdrawn);
  service.order(2, 2);
  CHECK(*first[0].withdrawn);
  service.push_all(1, 2);
  const std::vector<ShardCapture> second = service.captures();
  REQUIRE(second.size() == 1);
  CHECK_FALSE(*second[0].withdrawn);
  service.job.state.set_finished(true);
  service.publish();
  CHECK(*second[0].withdrawn);
}

}  // namespace taut::server
