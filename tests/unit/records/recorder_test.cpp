#include "worker/records/recorder.hpp"

#include <sstream>
#include <string>
#include <vector>

#include "common/files/file.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

namespace taut::worker {
namespace {

pb::RecordsConfig config_for(const test::TempFolder& folder) {
  pb::RecordsConfig config;
  config.set_folder(folder.path().string());
  config.set_metrics(true);
  return config;
}

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  const auto text = read_file(file);
  REQUIRE(text.has_value());
  std::istringstream stream(text.value());
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

constexpr std::uint64_t kToken = 17;

void train(const pb::RecordsConfig& config, std::int64_t from, std::int64_t to,
           std::uint64_t token = kToken) {
  auto recorder = Recorder::open(config, "w0", JobId(3), token, Clock(from));
  REQUIRE(recorder.has_value());
  for (std::int64_t clock = from; clock < to; ++clock) {
    recorder.value()->on_clock({Clock(clock), 1.0, Duration(10), Duration(5), 8, nullptr});
  }
}

TEST_CASE("without requested records there is no recorder and no folder", "[records]") {
  const test::TempFolder folder;
  pb::RecordsConfig config;
  config.set_folder((folder.path() / "records").string());
  config.set_metrics(false);
  const auto recorder = Recorder::open(config, "w0", JobId(1), kToken, Clock(0));
  REQUIRE(recorder.has_value());
  CHECK(recorder.value() == nullptr);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "records"));
}

TEST_CASE("metrics.csv has a line for every few clocks", "[records]") {
  const test::TempFolder folder;
  pb::RecordsConfig config = config_for(folder);
  config.set_every(5);
  train(config, 0, 23);
  const auto lines = lines_of(folder.path() / "job3-w0/metrics.csv");
  REQUIRE(lines.size() == 1 + 4);
  CHECK(lines[1].starts_with("4,"));
  CHECK(lines[4].starts_with("19,"));
}

TEST_CASE("a worker that starts later continues the file; one from clock 0 starts a new one",
          "[records]") {
  const test::TempFolder folder;
  const pb::RecordsConfig config = config_for(folder);
  const auto file = folder.path() / "job3-w0/metrics.csv";
  train(config, 0, 4);
  train(config, 4, 6);
  const auto lines = lines_of(file);
  REQUIRE(lines.size() == 1 + 6);
  CHECK(lines[0].starts_with("clock,"));
  CHECK(lines[5].starts_with("4,"));
  train(config, 0, 2);
  CHECK(lines_of(file).size() == 1 + 2);
}

TEST_CASE("records of another job of the same number are left alone", "[records]") {
  const test::TempFolder folder;
  const pb::RecordsConfig config = config_for(folder);
  train(config, 0, 4);
  train(config, 0, 2, kToken + 1);
  train(config, 2, 7, kToken + 1);
  CHECK(lines_of(folder.path() / "job3-w0/metrics.csv").size() == 1 + 4);
  CHECK(lines_of(folder.path() / "job3-w0-2/metrics.csv").size() == 1 + 7);
}

TEST_CASE("a folder that cannot be made is an error that names it and the setting", "[records]") {
  const test::TempFolder folder;
  pb::RecordsConfig config = config_for(folder);
  config.set_folder(folder.write("file", "").string());
  const auto recorder = Recorder::open(config, "w0", JobId(1), kToken, Clock(0));
  REQUIRE_FALSE(recorder.has_value());
  CHECK(recorder.error().message.find(config.folder()) != std::string::npos);
  CHECK(recorder.error().message.find("records { folder }") != std::string::npos);
}

TEST_CASE("a disk that takes no more ends the record, not the training", "[records]") {
  if (!std::filesystem::exists("/dev/full")) return;
  auto file = RecordFile::open("/dev/full", false);
  REQUIRE(file.has_value());
  for (int i = 0; i < 3; ++i) {
    file.value().append(std::string(1 << 20, 'x'), TimePoint(Duration(i * 2'000'000)));
  }
  CHECK(file.value().has_ended());
}

}  // namespace
}  // namespace taut::worker
