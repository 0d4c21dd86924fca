#include "server/coordinator/checkpoints/checkpoint_keeper.hpp"

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "proto/formats/checkpoint_reader.hpp"
#include "server/coordinator/checkpoints/checkpoint_orders.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/proto/checkpoint_maker.hpp"

namespace taut {
namespace {

namespace fs = std::filesystem;

/// Parts that are written, and the task to make them whole.
CheckpointTask written_parts(const fs::path& folder, std::int64_t clock, std::uint64_t number = 2) {
  const std::string name = "tiny_iter_" + std::to_string(clock);
  CheckpointTask task;
  task.job = JobId(3);
  task.number = number;
  task.folder = (folder / name).string();
  task.aside = (folder / (name + ".part-3-" + std::to_string(number))).string();
  test::CheckpointMaker maker(clock);
  maker.manifest.set_number(number);
  maker.write(task.aside);
  fs::remove(fs::path(task.aside) / kManifestName);
  task.manifest = maker.manifest;
  return task;
}

Result<std::string> finish(const CheckpointTask& task) {
  Notes notes;
  return finish_checkpoint(task, notes);
}

}  // namespace

TEST_CASE("written parts become a checkpoint, and again changes nothing", "[checkpoint]") {
  const test::TempFolder folder;
  const CheckpointTask task = written_parts(folder.path(), 40);
  REQUIRE(finish(task).has_value());
  CHECK(!fs::exists(task.aside));
  CHECK(CheckpointReader::open_to_resume(task.folder).value().clock() == Clock(40));
  CHECK(CheckpointReader::open(task.folder).value().manifest().unix_time_s() > 1e9);
  const std::string before = test::bytes_of_file(fs::path(task.folder) / kManifestName);
  REQUIRE(finish(task).has_value());
  CHECK(test::bytes_of_file(fs::path(task.folder) / kManifestName) == before);
}

TEST_CASE("a missing or truncated part makes no checkpoint", "[checkpoint]") {
  const test::TempFolder folder;
  const CheckpointTask task = written_parts(folder.path(), 40);
  const fs::path part = fs::path(task.aside) / "shard1.safetensors";
  const std::string bytes = test::bytes_of_file(part);
  test::put_file(part, bytes.substr(1));
  CHECK(finish(task).error().message.find("shard1.safetensors: has") != std::string::npos);
  fs::remove(part);
  CHECK(finish(task).error().message.find("must share the checkpoints' folder") !=
        std::string::npos);
  CHECK(!fs::exists(task.folder));
}

TEST_CASE("a checkpoint replaces none of another job of the same number", "[checkpoint]") {
  const test::TempFolder folder;
  const CheckpointTask first = written_parts(folder.path(), 40);
  REQUIRE(finish(first).value() == first.folder);
  CheckpointTask other = written_parts(folder.path(), 40);
  other.manifest.set_token(7);
  CHECK(finish(other).value() == other.folder + "-2");
  CHECK(finish(other).value() == other.folder + "-2");
  CHECK(CheckpointReader::open_to_resume(first.folder).value().manifest().token() == 0);
  CHECK(CheckpointReader::open_to_resume(other.folder + "-2").value().manifest().token() == 7);
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("older and unfinished checkpoints of the job are removed, other files stay",
          "[checkpoint]") {
  const test::TempFolder folder;
  const CheckpointTask old = written_parts(folder.path(), 10, 1);
  REQUIRE(finish(old).has_value());
  const CheckpointTask kept = written_parts(folder.path(), 15, 2);
  REQUIRE(finish(kept).has_value());
  fs::create_directories(folder.path() / "tiny_iter_17.part-3-3");
  fs::create_directories(folder.path() / "tiny_iter_18.part-4-1");
  const auto foreign = folder.write("tiny_iter_10/notes.txt", "mine");
  CheckpointTask task = written_parts(folder.path(), 20, 4);
  Notes notes;
  REQUIRE(finish_checkpoint(task, notes).has_value());
  CHECK(fs::exists(fs::path(old.folder) / kManifestName));
  CHECK(!fs::exists(folder.path() / "tiny_iter_17.part-3-3"));
  CHECK(fs::exists(folder.path() / "tiny_iter_18.part-4-1"));
  CHECK(notes.size() == 1);
  CheckpointTask removal;
  removal.kind = CheckpointTask::Kind::kRemove;
  removal.job = old.job;
  removal.unkept = {{old.folder, old.number}, {(folder.path() / "nowhere").string(), 2}};
  BoundedQueue<int> woken(8);
  CheckpointKeeper keeper([&] { (void)woken.push(1, Duration::zero()); });
  keeper.put(removal);
  REQUIRE(woken.pop(Duration(10'000'000)).has_value());
  CHECK(fs::exists(foreign));
  CHECK(!fs::exists(fs::path(old.folder) / kManifestName));
  CHECK(!fs::exists(fs::path(old.folder) / "shard0.safetensors"));
  CHECK(fs::exists(fs::path(kept.folder) / kManifestName));
  // The folder with the foreign file stays, which is said.
  CHECK(keeper.take_done().at(0).notes.size() == 1);
}

TEST_CASE("where another checkpoint is by then, one that is not kept any more removes nothing",
          "[checkpoint]") {
  const test::TempFolder folder;
  const CheckpointTask task = written_parts(folder.path(), 40);
  REQUIRE(finish(task).has_value());
  BoundedQueue<int> woken(8);
  CheckpointKeeper keeper([&] { (void)woken.push(1, Duration::zero()); });
  // Of another job, of another submission under its number, and of a later order.
  CheckpointTask removal;
  removal.kind = CheckpointTask::Kind::kRemove;
  removal.unkept = {{task.folder, task.number}};
  const auto notes_of = [&](std::uint64_t job, std::uint64_t token, std::uint64_t order) {
    removal.job = JobId(job);
    removal.token = token;
    removal.unkept.front().order = order;
    keeper.put(removal);
    REQUIRE(woken.pop(Duration(10'000'000)).has_value());
    const auto done = keeper.take_done();
    std::vector<std::string> lines;
    for (const Note& note : done.at(0).notes) lines.push_back(note.text);
    return lines;
  };
  for (const auto& [job, token, order] :
       {std::array<std::uint64_t, 3>{4, 0, 2}, {3, 7, 2}, {3, 0, 1}}) {
    CHECK(notes_of(job, token, order) ==
          std::vector<std::string>{task.folder + " is not removed: it has another checkpoint now"});
    CHECK(CheckpointReader::open_to_resume(task.folder).has_value());
  }
  // A record of an earlier release does not have the order.
  CHECK(notes_of(3, 0, 0).empty());
  CHECK(!fs::exists(task.folder));
}

TEST_CASE("unfinished checkpoints of another coordinator's job of the same number stay",
          "[checkpoint]") {
  const test::TempFolder folder;
  const std::string others = "tiny_iter_17" + unfinished_mark(JobId(3), 8) + "1";
  const std::string own = "tiny_iter_17" + unfinished_mark(JobId(3), 7) + "1";
  for (const std::string& name : {others, own}) fs::create_directories(folder.path() / name);
  CheckpointTask task = written_parts(folder.path(), 20, 4);
  task.manifest.set_token(7);
  REQUIRE(finish(task).has_value());
  CHECK(fs::exists(folder.path() / others));
  CHECK(!fs::exists(folder.path() / own));
}

TEST_CASE("a link under a checkpoint's final name is neither followed nor replaced",
          "[checkpoint]") {
  const test::TempFolder folder;
  const CheckpointTask task = written_parts(folder.path(), 40);
  fs::create_directory_symlink(folder.path() / "elsewhere", task.folder);
  CHECK(finish(task).value() == task.folder + "-2");
  CHECK(fs::is_symlink(task.folder));
  CHECK(!fs::exists(folder.path() / "elsewhere"));
}

TEST_CASE("with a checkpoint that is dropped the remains of earlier ones are removed",
          "[checkpoint]") {
  const test::TempFolder folder;
  const CheckpointTask earlier = written_parts(folder.path(), 40, 2);
  const CheckpointTask later = written_parts(folder.path(), 60, 4);
  CheckpointTask task = written_parts(folder.path(), 50, 3);
  task.kind = CheckpointTask::Kind::kDrop;
  task.token = task.manifest.token();
  const DoneCheckpointTask done = carry_out(task);
  CHECK(done.error.empty());
  CHECK_FALSE(fs::exists(task.aside));
  CHECK_FALSE(fs::exists(earlier.aside));
  CHECK(fs::exists(later.aside));
}

TEST_CASE("the keeper reports the result of each task", "[checkpoint]") {
  const test::TempFolder folder;
  BoundedQueue<int> woken(8);
  CheckpointKeeper keeper([&] { (void)woken.push(1, Duration::zero()); });
  CheckpointTask task = written_parts(folder.path(), 40);
  keeper.put(task);
  REQUIRE(woken.pop(Duration(10'000'000)).has_value());
  std::vector<CheckpointKeeper::Done> done = keeper.take_done();
  REQUIRE(done.size() == 1);
  CHECK(done[0].error.empty());
  CHECK(done[0].task.number == task.number);
  task = written_parts(folder.path(), 50, 3);
  task.kind = CheckpointTask::Kind::kDrop;
  keeper.put(task);
  REQUIRE(woken.pop(Duration(10'000'000)).has_value());
  CHECK(!fs::exists(task.aside));
  fs::remove_all(task.aside);
  task.kind = CheckpointTask::Kind::kFinish;
  keeper.put(task);
  REQUIRE(woken.pop(Duration(10'000'000)).has_value());
  done = keeper.take_done();
  REQUIRE(done.size() == 2);
  CHECK(!done[1].error.empty());
}

}  // namespace taut
