#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/files/file.hpp"
#include "proto/config/job_state.hpp"
#include "proto/formats/checkpoint_reader.hpp"
#include "server/checkpoints/checkpoint_file.hpp"
#include "server/coordinator/checkpoints/checkpoint_keeper.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/server/job_maker.hpp"

namespace taut::server {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kCount = 1000;  // elements of a slice

/// Table 0 is trained, 1 is frozen, 2 gets an update now and then.
std::vector<TableSpec> tables() {
  return {test::make_table(0, {2, kCount}), test::make_table(1, {3, kCount}, TableKind::kFrozen),
          test::make_table(2, {1, kCount})};
}

/// A job's slices, whose values are a function of how many updates were applied to them.
class SavingJob {
 public:
  explicit SavingJob(const fs::path& home) : home_(home) {}

  /// One update of table 0, and of table 2 if `both`.
  void train(bool both = false) {
    ++clock;
    ++applications[0];
    if (both) ++applications[2];
  }

  /// The order's parts, in their own folder.
  /// before_file  called before each file is written, once links are made
  Result<void> write(std::uint64_t number, const std::string& base,
                     const std::function<Result<void>()>& before_file = {}) {
    task = CheckpointTask();
    task.job = JobId(3);
    task.number = number;
    task.folder = folder(clock);
    task.aside = task.folder + ".part-3-" + std::to_string(number);
    task.manifest.set_format(kCheckpointFormat);
    task.manifest.set_job(3);
    task.manifest.set_number(number);
    task.manifest.set_clock(clock);
    task.manifest.set_slots(1);
    task.manifest.add_members()->set_leave_clock(Clock::never().value());
    for (const TableSpec& table : tables()) *task.manifest.add_tables() = to_wire(table);
    fs::create_directories(task.aside);
    const MakeOutput whole = whole_files(task.aside);
    const MakeOutput make = [&](const std::string& name,
                                std::uint64_t bytes) -> Result<std::unique_ptr<CheckpointOutput>> {
      if (before_file) {
        TAUT_TRY(before_file());
      }
      return whole(name, bytes);
    };
    const std::atomic<bool> stop = false;
    for (std::uint32_t shard = 0; shard < 2; ++shard) {
      TAUT_TRY(auto files, write_shard_files(capture(shard, number, base), make, stop));
      for (const pb::CheckpointFile& file : files) *task.manifest.add_files() = file;
    }
    return ok();
  }
  Result<void> write_manifest() const {
    return write_file_atomically(fs::path(task.aside) / kManifestName,
                                 taut::write_manifest(task.manifest));
  }
  Result<std::string> finish() const {
    Notes notes;
    return finish_checkpoint(task, notes);
  }
  std::string save(std::uint64_t number, const std::string& base) {
    REQUIRE(write(number, base).has_value());
    const auto finished = finish();
    REQUIRE(finished.has_value());
    saved[finished.value()] = applications;
    return finished.value();
  }

  [[nodiscard]] std::string folder(std::int64_t of_clock) const {
    return (home_ / ("job_iter_" + std::to_string(of_clock))).string();
  }

  /// Whether every bit of a saved checkpoint exists.
  [[nodiscard]] bool is_whole(const std::string& place) const {
    const auto opened = CheckpointReader::open_to_resume(place);
    if (!opened) {
      UNSCOPED_INFO(opened.error().message);
      return false;
    }
    const auto& at = saved.at(place);
    for (const TableSpec& table : tables()) {
      std::vector<float> values(table.count());
      const std::uint32_t id = table.id.value();
      if (!opened.value().read_values(table.id, 0, values)) return false;
      for (std::uint64_t i = 0; i < values.size(); ++i) {
        if (values[i] != value(id, i, at.at(id))) return false;
      }
      if (table.kind == TableKind::kFrozen) continue;
      if (!opened.value().read_state(table.id, 0, 0, values)) return false;
      if (values[1] != -value(id, 1, at.at(id))) return false;
      const auto slices = opened.value().slices_of(table.id, 0, table.count());
      for (const pb::CheckpointSlice* slice : slices) {
        if (slice->applications() != at.at(id)) return false;
        if (slice->version() != opened.value().clock().value()) return false;
      }
    }
    return true;
  }
  /// The checkpoints in the folder, whatever their number.
  [[nodiscard]] std::vector<std::string> complete() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(home_)) {
      const bool is_named = entry.path().string().find(".part-") == std::string::npos;
      if (is_named && fs::exists(entry.path() / kManifestName)) {
        found.push_back(entry.path().string());
      }
    }
    return found;
  }
  [[nodiscard]] bool all_are_whole() const {
    bool whole = true;
    for (const std::string& place : complete()) whole = whole && is_whole(place);
    return whole;
  }

  std::int64_t clock = 0;
  std::map<std::uint32_t, std::int64_t> applications{{0, 0}, {1, 0}, {2, 0}};
  std::map<std::string, std::map<std::uint32_t, std::int64_t>> saved;
  std::uint64_t term = 1;
  CheckpointTask task;

 private:
  static float value(std::uint32_t table, std::uint64_t i, std::int64_t updates) {
    return static_cast<float>(table * 10'000 + i) + 0.125F * static_cast<float>(updates);
  }
  /// Even rows are on shard 0, odd ones on shard 1.
  ShardCapture capture(std::uint32_t shard, std::uint64_t number, const std::string& base) {
    ShardCapture result;
    result.job = JobId(3);
    result.shard = ShardId(shard);
    result.order.number = number;
    result.order.clock = Clock(clock);
    result.order.folder = task.aside;
    result.order.is_incremental = true;
    result.order.base = base;
    result.tables = tables();
    result.terms = {{ShardId(0), term}, {ShardId(1), term}};
    for (const TableSpec& table : result.tables) {
      const std::uint32_t id = table.id.value();
      for (std::uint32_t row = 0; row < table.count() / kCount; ++row) {
        if (row % 2 != shard) continue;
        SliceImage& image = result.slices.emplace_back();
        image.place.table = table.id;
        image.place.slice = SliceId(row);
        image.place.offset = row * kCount;
        image.place.count = kCount;
        image.place.shard = ShardId(shard);
        image.version = Clock(clock);
        image.applications = applications.at(id);
        image.values = pool_.acquire(kCount * sizeof(float));
        if (table.kind != TableKind::kFrozen) {
          image.states.push_back(pool_.acquire(kCount * sizeof(float)));
        }
        for (std::uint64_t i = 0; i < kCount; ++i) {
          const float one = value(id, row * kCount + i, applications.at(id));
          image.values.floats()[i] = one;
          if (!image.states.empty()) image.states[0].floats()[i] = -one;
        }
      }
    }
    return result;
  }

  fs::path home_;
  BufferPool pool_;
};

std::uint64_t links_of(const fs::path& file) {
  return fs::hard_link_count(file);
}

void remove_kept(const std::string& folder) {
  REQUIRE(remove_checkpoint(folder).has_value());
}

/// The bytes of a folder's files that no other checkpoint has.
std::uint64_t own_bytes(const std::string& folder) {
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (links_of(entry.path()) == 1) bytes += entry.file_size();
  }
  return bytes;
}

}  // namespace

TEST_CASE("an incremental checkpoint has only what has changed since the last one",
          "[checkpoint][incremental]") {
  const test::TempFolder home;
  SavingJob job(home.path());
  job.train(true);
  const std::string first = job.save(1, "");
  const std::uint64_t whole = own_bytes(first);
  job.train();
  const std::string second = job.save(2, first);
  // Table 2 rests now; it was in a file with what has changed, so it is written once more.
  CHECK(own_bytes(second) < whole - 3 * kCount * sizeof(float) + 2000);
  job.train();
  const std::string third = job.save(3, second);
  // 4 of the 9 arrays of a thousand numbers: two rows of table 0, with their states.
  CHECK(own_bytes(third) > 4 * kCount * sizeof(float));
  CHECK(own_bytes(third) < 5 * kCount * sizeof(float));
  job.train(true);
  const std::string fourth = job.save(4, third);
  CHECK(job.all_are_whole());
  CHECK(job.complete().size() == 4);
  // The manifest names for each slice the file, and the order that has written it.
  const auto opened = CheckpointReader::open(third);
  const auto frozen = opened.value().find_slice(TableId(1), 0, kCount);
  CHECK(frozen.file->name() == "shard0-1-unchanged.safetensors");
  CHECK(frozen.file->order() == 1);
  const auto rests = opened.value().find_slice(TableId(2), 0, kCount);
  CHECK(rests.file->name() == "shard0-2-unchanged.safetensors");
  CHECK(rests.file->order() == 2);
  CHECK(opened.value().find_slice(TableId(0), 0, kCount).file->order() == 0);
  CHECK(opened.value().find_slice(TableId(0), 1, kCount).slice == nullptr);
  // Whichever are removed, in whatever order, the others stay whole.
  remove_kept(second);
  CHECK(job.all_are_whole());
  remove_kept(first);
  CHECK(job.all_are_whole());
  remove_kept(fourth);
  CHECK(job.is_whole(third));
  CHECK(links_of(fs::path(third) / "shard0-1-unchanged.safetensors") == 1);
}

TEST_CASE("a slice that was taken over is written again, but for frozen ones",
          "[checkpoint][incremental]") {
  const test::TempFolder home;
  SavingJob job(home.path());
  job.train(true);
  const std::string first = job.save(1, "");
  job.term = 2;
  ++job.clock;
  const std::string second = job.save(2, first);
  const auto opened = CheckpointReader::open(second);
  CHECK(opened.value().find_slice(TableId(0), 0, kCount).file->order() == 0);
  CHECK(opened.value().find_slice(TableId(2), 0, kCount).file->order() == 0);
  CHECK(opened.value().find_slice(TableId(1), 0, kCount).file->order() == 1);
  CHECK(job.all_are_whole());
  ++job.clock;
  const std::string third = job.save(3, second);
  const auto again = CheckpointReader::open(third);
  CHECK(again.value().find_slice(TableId(0), 0, kCount).file->order() == 2);
  CHECK(job.all_are_whole());
}

TEST_CASE("a base that is damaged or gone costs bytes, and no checkpoint",
          "[checkpoint][incremental]") {
  const test::TempFolder home;
  SavingJob job(home.path());
  job.train(true);
  const std::string first = job.save(1, "");
  job.train();
  const std::string whole = job.save(2, (home.path() / "nowhere").string());
  CHECK(links_of(fs::path(first) / "shard0-1-unchanged.safetensors") == 1);
  fs::resize_file(fs::path(first) / "shard1-1-unchanged.safetensors", 100);
  job.train();
  const std::string third = job.save(3, first);
  CHECK(job.is_whole(whole));
  CHECK(job.is_whole(third));
  CHECK(!job.is_whole(first));
}

TEST_CASE("whenever the base is removed and whenever the process ends, what is complete is whole",
          "[checkpoint][incremental]") {
  // Steps of a checkpoint: 0 to 4 files are begun, 5 all are written, 6 the manifest is written but
  // the folder not moved, 7 it is in place. The base goes at one of them, the process ends at one.
  constexpr int kSteps = 8;
  for (int removal = 0; removal <= kSteps; ++removal) {
    for (int death = 0; death <= kSteps; ++death) {
      const test::TempFolder home;
      SavingJob job(home.path());
      job.train(true);
      const std::string first = job.save(1, "");
      job.train();
      const std::string base = job.save(2, first);
      job.train();
      CAPTURE(removal, death);
      int step = 0;
      bool is_dead = false;
      const auto reach = [&]() -> Result<void> {
        if (step == removal) remove_kept(base);
        if (step == death) is_dead = true;
        ++step;
        // The process ends: what is on the disk stays as it is.
        if (is_dead) return make_error(ErrorCode::kClosed, "killed");
        return ok();
      };
      const auto run = [&]() -> Result<void> {
        TAUT_TRY(job.write(3, base, reach));
        step = 5;
        TAUT_TRY(reach());
        TAUT_TRY(job.write_manifest());
        TAUT_TRY(reach());
        TAUT_TRY(const std::string finished, job.finish());
        job.saved[finished] = job.applications;
        return reach();
      };
      const auto done = run();
      CHECK(done.has_value() != is_dead);
      CHECK(job.all_are_whole());
      CHECK(job.is_whole(first));
      // After the restart, the order is repeated under another number, with the newest base.
      if (fs::exists(base)) remove_kept(base);
      const std::string newest =
          job.saved.contains(job.folder(job.clock)) ? job.folder(job.clock) : first;
      job.train();
      const std::string next = job.save(4, newest);
      CHECK(job.all_are_whole());
      for (const std::string& other : job.complete()) {
        if (other != next) remove_kept(other);
      }
      CHECK(job.is_whole(next));
    }
  }
}

}  // namespace taut::server
