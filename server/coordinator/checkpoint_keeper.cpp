#include "server/coordinator/checkpoint_keeper.hpp"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/failpoint.hpp"
#include "common/files/allowed_folders.hpp"
#include "common/files/file.hpp"
#include "common/files/file_writer.hpp"
#include "common/log.hpp"
#include "proto/formats/checkpoint_manifest.hpp"

namespace taut {
namespace fs = std::filesystem;
namespace {

constexpr Duration kIdle{500'000};

Error io_error(const fs::path& path, const char* step, const std::error_code& failed) {
  return make_error(ErrorCode::kIo,
                    fmt::format("{}: cannot {}: {}", path.string(), step, failed.message()));
}

/// FOLDER, FOLDER-2, FOLDER-3, ...
std::string numbered(const std::string& folder, int number) {
  return number == 1 ? folder : fmt::format("{}-{}", folder, number);
}

bool is_of(const CheckpointTask& task, const std::string& folder) {
  const fs::path manifest = fs::path(folder) / kManifestName;
  const auto bytes = read_file(manifest);
  if (!bytes) return false;
  const auto parsed = parse_manifest(bytes.value(), manifest.string());
  return parsed && parsed.value().job() == task.manifest.job() &&
         parsed.value().token() == task.manifest.token() &&
         parsed.value().number() == task.manifest.number() &&
         parsed.value().clock() == task.manifest.clock();
}

/// The folder that already has the task's checkpoint: it was moved there, and the report of that
/// was lost. Empty: none has.
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

/// The path that the checkpoint gets: FOLDER, or next to others of that name.
std::string free_path(const CheckpointTask& task) {
  std::error_code failed;
  int number = 1;
  while (fs::exists(numbered(task.folder, number), failed)) ++number;
  return numbered(task.folder, number);
}

/// Moves the folder to its final path, or next to another checkpoint that has that path: of
/// another job, or of this one before it was resumed from an earlier clock.
Result<std::string> put_in_place(const CheckpointTask& task) {
  std::error_code failed;
  const std::string folder = free_path(task);
  fs::rename(task.aside, folder, failed);
  if (failed) return io_error(folder, "be moved to its final path", failed);
  TAUT_TRY(flush_folder(fs::path(folder).parent_path()));
  return folder;
}

/// Removes the remains of earlier, unfinished orders of the job.
void remove_leftovers(const CheckpointTask& task, std::vector<std::string>& notes) {
  const std::string mark = fmt::format(".part-{}-", task.job.value());
  std::error_code failed;
  for (fs::directory_iterator entry(fs::path(task.folder).parent_path(), failed), end;
       !failed && entry != end; entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    const std::size_t at = name.rfind(mark);
    if (at == std::string::npos) continue;
    const std::string number = name.substr(at + mark.size());
    const bool is_number = !number.empty() && number.size() < 18 &&
                           number.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number || std::stoull(number) >= task.number) continue;
    if (remove_checkpoint(entry->path().string()))
      notes.push_back("removed the unfinished " + name);
  }
}

bool is_ours(const std::string& name) {
  return name.find(".safetensors") != std::string::npos || name.starts_with(kManifestName);
}

}  // namespace

Result<void> remove_checkpoint(const std::string& folder) {
  TAUT_TRY(check_place(folder));
  std::error_code failed;
  if (!fs::exists(folder, failed)) return ok();
  // The manifest first: without it, the rest is not a complete checkpoint.
  fs::remove(fs::path(folder) / kManifestName, failed);
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    if (is_ours(entry->path().filename().string())) files.push_back(entry->path());
  }
  for (const fs::path& file : files) {
    if (!failed) fs::remove(file, failed);
  }
  if (!failed) fs::remove(folder, failed);
  if (failed) return io_error(folder, "be removed", failed);
  return ok();
}

namespace {

pb::PartRequest request_of(pb::PartRequest::Kind kind, const std::string& folder) {
  pb::PartRequest request;
  request.set_kind(kind);
  request.set_folder(folder);
  return request;
}

Result<void> move_parts(const CheckpointTask& task, const std::string& folder,
                        server::PartClient& parts) {
  for (const pb::PartHolder& holder : task.holders) {
    pb::PartRequest move = request_of(pb::PartRequest::MOVE, task.aside);
    move.set_to(folder);
    move.set_offset(task.manifest.number());
    move.set_count(task.manifest.token());
    TAUT_TRY(parts.post(holder.address(), std::move(move)));
  }
  TAUT_TRY(parts.settle());
  failpoint("parts moved");
  return ok();
}

Result<void> copy_manifest(const CheckpointTask& task, const std::string& folder,
                           const std::string& manifest, server::PartClient& parts) {
  for (const pb::PartHolder& holder : task.holders) {
    pb::PartRequest write = request_of(pb::PartRequest::WRITE, folder);
    write.set_file(kManifestName);
    TAUT_TRY(parts.post(holder.address(), std::move(write), Frame::copy_of(manifest)));
  }
  TAUT_TRY(parts.settle());
  for (const pb::PartHolder& holder : task.holders) {
    pb::PartRequest seal = request_of(pb::PartRequest::SEAL, folder);
    seal.set_file(kManifestName);
    seal.set_count(manifest.size());
    TAUT_TRY(parts.post(holder.address(), std::move(seal)));
  }
  TAUT_TRY(parts.settle());
  failpoint("manifests copied");
  return ok();
}

/// Removes a folder's parts on all servers that answer.
void remove_parts(const CheckpointTask& task, const std::string& folder, server::PartClient* parts,
                  std::vector<std::string>& notes) {
  if (parts == nullptr) return;
  for (const pb::PartHolder& holder : task.holders) {
    const auto removed = parts->ask(holder.address(), request_of(pb::PartRequest::REMOVE, folder));
    if (removed) continue;
    notes.push_back(fmt::format("parts of {} stay on server \"{}\": {}", folder, holder.name(),
                                removed.error().message));
  }
}

}  // namespace

Result<std::string> finish_checkpoint(const CheckpointTask& task, std::vector<std::string>& notes,
                                      server::PartClient* parts) {
  std::string place = finished_folder(task);
  if (place.empty()) {
    pb::CheckpointManifest manifest = task.manifest;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    manifest.set_unix_time_s(std::chrono::duration<double>(now).count());
    const std::string text = write_manifest(manifest);
    if (manifest.has_coding()) {
      if (parts == nullptr) return invalid(task.folder + ": no server's parts can be reached");
      std::error_code failed;
      fs::create_directories(task.aside, failed);
      if (failed) return io_error(task.aside, "be made", failed);
      const std::string path = free_path(task);
      // Wherever there is a manifest, the parts are in place.
      TAUT_TRY(move_parts(task, path, *parts));
      if (auto copied = copy_manifest(task, path, text, *parts); !copied) {
        remove_parts(task, path, parts, notes);
        return copied.error();
      }
    } else {
      TAUT_TRY(check_parts(task));
    }
    TAUT_TRY(write_file_atomically(fs::path(task.aside) / kManifestName, text));
    failpoint("manifest written");
    TAUT_TRY(flush_folder(task.aside));
    TAUT_TRY(place, put_in_place(task));
    failpoint("checkpoint in place");
  }
  remove_leftovers(task, notes);
  return place;
}

namespace {

void remove_unkept(const CheckpointTask& task, std::vector<std::string>& notes,
                   server::PartClient* parts) {
  for (const std::string& folder : task.unkept) {
    if (const auto removed = remove_checkpoint(folder); !removed) {
      notes.push_back("a checkpoint was not removed: " + removed.error().message);
    }
    remove_parts(task, folder, parts, notes);
  }
}

}  // namespace

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
  // A task that the queue did not take is unchanged. NOLINTNEXTLINE(bugprone-use-after-move)
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
    Done done{std::move(*task), "", {}};
    carry_out(done);
    give(std::move(done));
  }
}

void CheckpointKeeper::carry_out(Done& done) {
  if (done.task.kind == CheckpointTask::Kind::kFinish) {
    const auto finished = finish_checkpoint(done.task, done.notes, parts_.get());
    if (finished) {
      done.task.folder = finished.value();
    } else {
      done.error = finished.error().message;
    }
  } else if (done.task.kind == CheckpointTask::Kind::kRemove) {
    remove_unkept(done.task, done.notes, parts_.get());
  } else {
    if (const auto removed = remove_checkpoint(done.task.aside); !removed) {
      done.error = removed.error().message;
      done.notes.push_back("the parts of a checkpoint were not removed: " + done.error);
    }
    remove_parts(done.task, done.task.aside, parts_.get(), done.notes);
  }
}

}  // namespace taut
