#include "lab/training/run_disk.hpp"

#include <atomic>
#include <utility>

#include "common/log.hpp"
#include "server/checkpoints/checkpoint_file.hpp"

namespace taut::lab {

namespace fs = std::filesystem;

RunDisk::RunDisk(const fs::path& root) : root_(root.has_filename() ? root : root.parent_path()) {}

std::string RunDisk::place_of(const std::string& path) const {
  return path.empty() ? path : (root_ / path).string();
}

std::string RunDisk::path_of(const std::string& place) const {
  return place.empty() ? place : fs::path(place).lexically_relative(root_).string();
}

server::ShardPart RunDisk::write(server::ShardCapture capture) const {
  static const std::atomic<bool> never = false;
  server::ShardPart part;
  part.number = capture.order.number;
  part.missed = capture.missed;
  part.tables = capture.tables;
  if (part.missed) return part;
  capture.order.folder = place_of(capture.order.folder);
  capture.order.base = place_of(capture.order.base);
  auto written = server::write_shard_files(std::move(capture), never);
  if (written) {
    part.files = std::move(written.value());
  } else {
    part.error = written.error().message;
  }
  return part;
}

DoneCheckpointTask RunDisk::carry_out(CheckpointTask task, TimePoint now) const {
  task.aside = place_of(task.aside);
  task.folder = place_of(task.folder);
  for (UnkeptCheckpoint& unkept : task.unkept) unkept.folder = place_of(unkept.folder);
  // The same when the training is repeated.
  task.manifest.set_unix_time_s(seconds(now.since_origin()));
  DoneCheckpointTask done = taut::carry_out(std::move(task));
  done.task.aside = path_of(done.task.aside);
  done.task.folder = path_of(done.task.folder);
  done.task.tried = path_of(done.task.tried);
  for (const Note& note : done.notes) log::info("{}", note.text);
  return done;
}

}  // namespace taut::lab
