#include "server/coordinator/checkpoints/checkpoint_keeper.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/failpoint.hpp"
#include "common/files/allowed_folders.hpp"
#include "common/files/file.hpp"
#include "common/files/file_writer.hpp"
#include "common/files/folder.hpp"
#include "common/log.hpp"
#include "common/unix_time.hpp"
#include "proto/formats/checkpoint_manifest.hpp"
#include "proto/formats/checkpoint_reader.hpp"
#include "server/coordinator/checkpoints/checkpoint_orders.hpp"

namespace taut {
namespace fs = std::filesystem;
namespace {

constexpr Duration kIdle{500'000};

/// FOLDER, FOLDER-2, FOLDER-3, ...
std::string numbered(const std::string& folder, int number) {
  return number == 1 ? folder : fmt::format("{}-{}", folder, number);
}

/// Whether a manifest is of the task's checkpoint.
bool is_of(const CheckpointTask& task, std::string_view bytes, const fs::path& name) {
  const auto parsed = parse_manifest(bytes, name.string());
  return parsed && parsed.value().job() == task.manifest.job() &&
         parsed.value().token() == task.manifest.token() &&
         parsed.value().number() == task.manifest.number() &&
         parsed.value().clock() == task.manifest.clock();
}

bool is_of(const CheckpointTask& task, const std::string& folder) {
  const fs::path manifest = fs::path(folder) / kManifestName;
  const auto bytes = read_file(manifest);
  if (!bytes) return false;
  return is_of(task, bytes.value(), manifest);
}

/// The folder that already has the task's checkpoint: it was moved there, and the report of that
/// was lost. Empty if there is none.
std::string finished_folder(const CheckpointTask& task) {
  std::error_code failed;
  if (fs::exists(task.aside, failed)) return {};
  for (int number = 1; fs::exists(numbered(task.folder, number), failed); ++number) {
    if (is_of(task, numbered(task.folder, number))) return numbered(task.folder, number);
  }
  return {};
}

Result<void> check_parts(const CheckpointTask& task) {
  for (const pb::CheckpointFile& file : task.manifest.files()) {
    const fs::path path = fs::path(task.aside) / file.name();
    std::error_code failed;
    const auto bytes = fs::file_size(path, failed);
    if (failed || bytes != file.bytes()) {
      return make_error(
          ErrorCode::kNotFound,
          fmt::format("{}: {}; servers and workers must share the checkpoints' folder with the "
                      "coordinator",
                      path.string(),
                      failed ? failed.message()
                             : fmt::format("has {} bytes, not {}", bytes, file.bytes())));
    }
  }
  return ok();
}

/// Whether a server has another checkpoint under this path.
Result<bool> is_taken(const CheckpointTask& task, const std::string& folder,
                      const std::string& address, server::PartClient& parts) {
  const auto request = [&](pb::PartRequest::Kind kind) {
    return server::part_request(kind, task.manifest.token(), folder, kManifestName);
  };
  TAUT_TRY(const DataPartReply found, parts.ask(address, request(pb::PartRequest::CHECK)));
  if (found.head.missing()) return false;
  if (found.head.bytes() > kMaxManifestBytes) return true;
  pb::PartRequest read = request(pb::PartRequest::READ);
  read.set_count(found.head.bytes());
  TAUT_TRY(const DataPartReply manifest, parts.ask(address, std::move(read)));
  return !is_of(task, manifest.payload.text(), fs::path(folder) / kManifestName);
}

/// The path for the checkpoint: FOLDER, or a numbered one if that is taken, here or on the disk of
/// a server that has parts of it.
Result<std::string> free_path(const CheckpointTask& task, server::PartClient* parts) {
  for (int number = 1;; ++number) {
    const std::string folder = numbered(task.folder, number);
    std::error_code failed;
    // A symbolic link counts as taken, whatever it points to.
    bool taken = fs::symlink_status(folder, failed).type() != fs::file_type::not_found;
    for (const pb::PartHolder& holder : task.holders) {
      if (taken || parts == nullptr) break;
      TAUT_TRY(taken, is_taken(task, folder, holder.address(), *parts));
    }
    if (!taken) return folder;
  }
}

/// Moves a checkpoint back that will be reported as not written: nothing would ever remove it if it
/// stayed in place as a whole checkpoint.
Error move_back(const CheckpointTask& task, const std::string& folder, Error why) {
  if (std::rename(folder.c_str(), task.aside.c_str()) != 0) {
    why.message += fmt::format("; its folder stays at {}", folder);
  }
  return why;
}

/// Moves the folder to its final path, unless something exists there: another coordinator may have
/// used the path since it was checked.
Result<std::string> put_in_place(const CheckpointTask& task, const std::string& folder) {
  int moved = renameat2(AT_FDCWD, task.aside.c_str(), AT_FDCWD, folder.c_str(), RENAME_NOREPLACE);
  // Not every file system supports this: rename() replaces at most an empty folder.
  if (moved != 0 && errno == EINVAL) moved = std::rename(task.aside.c_str(), folder.c_str());
  if (moved != 0) return io_error(folder, "be moved to its final path");
  const Result<void> flushed = flush_folder(fs::path(folder).parent_path());
  if (!flushed) return move_back(task, folder, flushed.error());
  return folder;
}

/// Removes the remains of earlier, unfinished orders of the job from the folder of its checkpoints.
void remove_leftovers(const CheckpointTask& task, std::uint64_t token, const fs::path& folder,
                      Notes& notes) {
  const std::string mark = unfinished_mark(task.job, token);
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    const std::size_t at = name.rfind(mark);
    if (at == std::string::npos) continue;
    const std::string number = name.substr(at + mark.size());
    const bool is_number = !number.empty() && number.size() < 18 &&
                           number.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number || std::stoull(number) >= task.number) continue;
    if (remove_checkpoint(entry->path().string())) notes.add("removed the unfinished " + name);
  }
}

bool is_ours(const std::string& name) {
  return name.find(".safetensors") != std::string::npos || name.starts_with(kManifestName);
}

}  // namespace

Result<void> remove_checkpoint(const std::string& folder) {
  TAUT_TRY(check_place(folder));
  // The manifest first: without it, the rest is not a complete checkpoint.
  return remove_files(folder, kManifestName, is_ours);
}

namespace {

Result<void> move_parts(const CheckpointTask& task, const std::string& folder,
                        server::PartClient& client) {
  server::PartPosts posts(client);
  for (const pb::PartHolder& holder : task.holders) {
    pb::PartRequest move =
        server::part_request(pb::PartRequest::MOVE, task.manifest.token(), task.aside);
    move.set_to(folder);
    move.set_order(task.manifest.number());
    TAUT_TRY(posts.post(holder.address(), std::move(move)));
  }
  TAUT_TRY(posts.settle());
  failpoint("parts moved");
  return ok();
}

Result<void> copy_manifest(const CheckpointTask& task, const std::string& folder,
                           const std::string& manifest, server::PartClient& client) {
  server::PartPosts posts(client);
  const auto request = [&](pb::PartRequest::Kind kind) {
    return server::part_request(kind, task.manifest.token(), folder, kManifestName);
  };
  for (const pb::PartHolder& holder : task.holders) {
    TAUT_TRY(
        posts.post(holder.address(), request(pb::PartRequest::WRITE), Frame::copy_of(manifest)));
  }
  TAUT_TRY(posts.settle());
  for (const pb::PartHolder& holder : task.holders) {
    pb::PartRequest seal = request(pb::PartRequest::SEAL);
    seal.set_count(manifest.size());
    TAUT_TRY(posts.post(holder.address(), std::move(seal)));
  }
  TAUT_TRY(posts.settle());
  failpoint("manifests copied");
  return ok();
}

/// The text of the manifest's file. Errors: invalid: it would be too long to be read.
Result<std::string> manifest_text(const CheckpointTask& task) {
  pb::CheckpointManifest manifest = task.manifest;
  // In virtual time the task has it already.
  if (manifest.unix_time_s() == 0) manifest.set_unix_time_s(unix_time_s());
  std::string text = write_manifest(manifest);
  if (text.size() <= kMaxManifestBytes) return text;
  return invalid(fmt::format(
      "{}/{} would have {} bytes, with {} of the job's definition; the limit is {}", task.folder,
      kManifestName, text.size(), manifest.definition().ByteSizeLong(), kMaxManifestBytes));
}

}  // namespace

Result<std::string> finish_checkpoint(const CheckpointTask& task, Notes& notes,
                                      server::PartClient* parts, std::string* tried) {
  std::string place = finished_folder(task);
  if (place.empty()) {
    TAUT_TRY(const std::string text, manifest_text(task));
    if (task.manifest.has_coding()) {
      if (parts == nullptr) return invalid(task.folder + ": no server's parts can be reached");
      std::error_code failed;
      fs::create_directories(task.aside, failed);
      if (failed) return io_error(task.aside, "be made", failed);
    } else {
      TAUT_TRY(check_parts(task));
    }
    // Another checkpoint may have that name: of another job, or of this one before it was resumed
    // from an earlier clock.
    TAUT_TRY(const std::string path, free_path(task, parts));
    if (tried != nullptr) *tried = path;
    if (task.manifest.has_coding()) {
      // The parts come first: a manifest proves that they are in place.
      TAUT_TRY(move_parts(task, path, *parts));
      TAUT_TRY(copy_manifest(task, path, text, *parts));
    }
    TAUT_TRY(write_file_atomically(fs::path(task.aside) / kManifestName, text));
    failpoint("manifest written");
    TAUT_TRY(flush_folder(task.aside));
    TAUT_TRY(place, put_in_place(task, path));
    failpoint("checkpoint in place");
  }
  remove_leftovers(task, task.manifest.token(), fs::path(task.folder).parent_path(), notes);
  return place;
}

namespace {

/// Whether a folder has a complete checkpoint other than the one that this job wrote there.
bool is_anothers(const CheckpointTask& task, const UnkeptCheckpoint& unkept) {
  const fs::path manifest = fs::path(unkept.folder) / kManifestName;
  const auto bytes = read_file(manifest, Bytes(kMaxManifestBytes));
  if (!bytes) return false;
  const auto parsed = parse_manifest(bytes.value(), manifest.string());
  return parsed &&
         (parsed.value().job() != task.job.value() || parsed.value().token() != task.token ||
          (unkept.order != 0 && parsed.value().number() != unkept.order));
}

void remove_unkept(const CheckpointTask& task, Notes& notes) {
  for (const UnkeptCheckpoint& unkept : task.unkept) {
    const std::string& folder = unkept.folder;
    if (is_anothers(task, unkept)) {
      notes.add(fmt::format("{} is not removed: it has another checkpoint now", folder));
      continue;
    }
    if (const auto removed = remove_checkpoint(folder); !removed) {
      notes.add("a checkpoint was not removed: " + removed.error().message);
    }
  }
}

/// Has servers remove parts. One that does not answer is asked for no others until a later task.
void remove_parts(CheckpointTask& task, Notes& notes, server::PartClient* parts) {
  std::set<std::string> silent;
  for (PartRemoval& removal : task.removals) {
    removal.failed = parts == nullptr || silent.contains(removal.address);
    if (removal.failed) continue;
    pb::PartRequest remove =
        server::part_request(pb::PartRequest::REMOVE, task.token, removal.folder);
    remove.set_order(removal.order);
    const auto removed = parts->ask(removal.address, std::move(remove));
    if (removed) continue;
    removal.failed = removed.error().code != ErrorCode::kIo;
    if (removal.failed) silent.insert(removal.address);
    notes.add(task.job,
              fmt::format("parts of {} stay on server \"{}\"{}: {}", removal.folder, removal.server,
                          removal.failed ? " until it answers" : "", removed.error().message));
  }
}

/// Adds what the job's record keeps about a finished checkpoint.
Result<void> note_manifest(CheckpointTask& task) {
  if (!task.manifest.has_coding()) return ok();
  TAUT_TRY(const SavedCheckpoint saved, find_saved(task.folder));
  task.manifest_sha256 = saved.manifest_sha256;
  return ok();
}

}  // namespace

DoneCheckpointTask carry_out(CheckpointTask given, server::PartClient* parts) {
  DoneCheckpointTask done{std::move(given), "", {}};
  CheckpointTask& task = done.task;
  switch (task.kind) {
    case CheckpointTask::Kind::kFinish: {
      const auto finished = finish_checkpoint(task, done.notes, parts, &task.tried);
      if (finished) task.folder = finished.value();
      if (!finished) {
        done.error = finished.error().message;
      } else if (const auto noted = note_manifest(task); !noted) {
        done.error = move_back(task, finished.value(), noted.error()).message;
      }
      break;
    }
    case CheckpointTask::Kind::kDrop:
      if (const auto removed = remove_checkpoint(task.aside); !removed) {
        done.error = removed.error().message;
        done.notes.add("the parts of a checkpoint were not removed: " + done.error);
      }
      remove_leftovers(task, task.token, fs::path(task.aside).parent_path(), done.notes);
      break;
    case CheckpointTask::Kind::kRemove:
      remove_unkept(task, done.notes);
      break;
    case CheckpointTask::Kind::kRemoveParts:
      remove_parts(task, done.notes, parts);
      break;
  }
  return done;
}

CheckpointKeeper::CheckpointKeeper(std::function<void()> on_done,
                                   std::unique_ptr<server::PartClient> parts)
    : on_done_(std::move(on_done)), parts_(std::move(parts)), thread_([this] { run(); }) {}

CheckpointKeeper::~CheckpointKeeper() {
  tasks_.close();
  if (parts_) parts_->stop();
  thread_.join();
}

void CheckpointKeeper::put(CheckpointTask task) {
  if (tasks_.push(std::move(task), Duration::zero())) return;
  // A rejected task was not moved from. NOLINTNEXTLINE(bugprone-use-after-move)
  give({std::move(task), "too many checkpoints are waiting to be completed", {}});
}

void CheckpointKeeper::give(Done done) {
  {
    std::scoped_lock lock(mutex_);
    done_.push_back(std::move(done));
  }
  on_done_();
}

std::vector<CheckpointKeeper::Done> CheckpointKeeper::take_done() {
  std::scoped_lock lock(mutex_);
  return std::exchange(done_, {});
}

void CheckpointKeeper::run() {
  while (true) {
    auto task = tasks_.pop(kIdle);
    if (!task) {
      if (tasks_.closed()) return;
      continue;
    }
    give(carry_out(std::move(*task), parts_.get()));
  }
}

}  // namespace taut
