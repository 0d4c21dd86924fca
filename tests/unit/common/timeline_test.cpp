#include "common/timeline.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "common/files/file.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

namespace taut {
namespace {

using nlohmann::json;
using timeline::Row;

json events_in(const std::filesystem::path& file) {
  const auto text = read_file(file);
  REQUIRE(text.has_value());
  json events = json::parse(text.value(), nullptr, false);
  INFO(text.value().substr(0, 400));
  REQUIRE(events.is_array());
  return events;
}

std::vector<json> spans_in(const std::filesystem::path& file, const std::string& phase = "X") {
  std::vector<json> spans;
  for (const json& event : events_in(file)) {
    if (event["ph"] == phase) spans.push_back(event);
  }
  return spans;
}

std::filesystem::path begin(const test::TempFolder& folder, Bytes limit = Bytes(1 << 20)) {
  const auto path = timeline::start({folder.path(), "w0", limit});
  REQUIRE(path.has_value());
  return path.value();
}

TimePoint much_later() {
  return steady_now() + Duration(10'000'000);
}

TEST_CASE("a timeline that was never started writes nothing", "[timeline]") {
  CHECK_FALSE(timeline::is_on());
  { const timeline::Span span(Row::kCompute, "forward"); }
  timeline::flush(much_later());
  timeline::stop();
}

TEST_CASE("a timeline is complete JSON after every write and has each span once", "[timeline]") {
  const test::TempFolder folder;
  const auto file = begin(folder);
  CHECK(events_in(file).size() == 1);  // the process's name
  for (int clock = 0; clock < 3; ++clock) {
    { const timeline::Span span(Row::kCompute, "conv\"1\\\n", clock); }
    timeline::flush(much_later());
    CHECK(spans_in(file).size() == static_cast<std::size_t>(clock) + 1);
  }
  timeline::stop();
  const auto spans = spans_in(file);
  REQUIRE(spans.size() == 3);
  CHECK(spans[2]["args"]["clock"] == 2);
  CHECK(spans[2]["name"] == "conv_1__");
  CHECK(spans[0]["ts"].get<std::int64_t>() <= spans[1]["ts"].get<std::int64_t>());
}

TEST_CASE("rows have a name each, and a shard's carry its number", "[timeline]") {
  const test::TempFolder folder;
  const auto file = begin(folder);
  { const timeline::Span span(Row::kWait, "data"); }
  std::thread([] {
    timeline::set_lane(3);
    const timeline::Span span(Row::kUpdate, "update");
  }).join();
  timeline::add_overlapping(Row::kPull, "table 0", 0, steady_now(), steady_now(), 5);
  timeline::stop();
  std::vector<std::string> rows;
  for (const json& event : events_in(file)) {
    if (event["name"] == "thread_name") rows.push_back(event["args"]["name"]);
  }
  CHECK(rows == std::vector<std::string>{"wait", "shard 3 update", "pull"});
  CHECK(spans_in(file, "b").size() == 1);
  CHECK(spans_in(file, "e").size() == 1);
}

TEST_CASE("a timeline ends at its limit and stays whole", "[timeline]") {
  const test::TempFolder folder;
  const auto file = begin(folder, Bytes(256 << 10));
  for (int i = 0; i < 20000; ++i) const timeline::Span span(Row::kCompute, "forward", i);
  CHECK_FALSE(timeline::is_on());
  CHECK(std::filesystem::file_size(file) <= (256 << 10) + 8);
  CHECK(spans_in(file).size() > 1000);
  timeline::stop();
}

TEST_CASE("a restarted timeline is written to another file", "[timeline]") {
  const test::TempFolder folder;
  const auto first = begin(folder);
  CHECK(begin(folder) == first);
  timeline::stop();
  const auto second = begin(folder);
  timeline::stop();
  CHECK(second != first);
  CHECK(second.filename() == "w0.trace-2.json");
}

TEST_CASE("threads share a timeline", "[timeline]") {
  const test::TempFolder folder;
  const auto file = begin(folder, Bytes(16 << 20));
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int lane = 0; lane < 4; ++lane) {
    threads.emplace_back([lane] {
      timeline::set_lane(lane);
      for (int i = 0; i < 2000; ++i) const timeline::Span span(Row::kUpdate, "update", i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  timeline::stop();
  CHECK(spans_in(file).size() == 8000);
}

TEST_CASE("a folder that cannot be written is an error that names it and the setting",
          "[timeline]") {
  const test::TempFolder folder;
  const auto path = timeline::start({folder.write("file", ""), "w0"});
  REQUIRE_FALSE(path.has_value());
  CHECK(path.error().message.find("records { folder }") != std::string::npos);
  CHECK_FALSE(timeline::is_on());
}

}  // namespace
}  // namespace taut
