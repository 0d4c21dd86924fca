#include "server/parts/part_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <system_error>

#include "common/failpoint.hpp"
#include "common/files/allowed_folders.hpp"
#include "common/files/file.hpp"
#include "common/files/file_writer.hpp"
#include "common/files/folder.hpp"
#include "common/files/regular_file.hpp"
#include "common/files/tensor_file.hpp"
#include "proto/formats/checkpoint_manifest.hpp"
#include "proto/formats/checkpoint_parts.hpp"
#include "proto/message_limits.hpp"

namespace taut::server {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kMaxRead = 16ULL << 20U;
constexpr std::size_t kMaxChecked = 4096;
constexpr std::size_t kMaxWithdrawn = 256;
constexpr std::chrono::seconds kWithdrawnFor{60};  // longer than a request is in flight
constexpr std::string_view kUnfinished = ".unfinished";

bool is_plain(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

/// "shard0.safetensors.part3", or a manifest.
bool is_ours(const std::string& name) {
  if (name == kManifestName) return true;
  const std::size_t at = name.rfind(".part");
  return is_plain(name) && at != std::string::npos && at + 5 < name.size() &&
         name.find_first_not_of("0123456789", at + 5) == std::string::npos;
}

/// The name of a part until it is sealed.
fs::path unfinished(const fs::path& path) {
  return path.string() + std::string(kUnfinished);
}

/// Whether a folder's manifest is of this order of this submission.
bool is_of(const fs::path& folder, std::uint64_t token, std::uint64_t order) {
  const auto bytes = read_file(folder / kManifestName);
  if (!bytes) return false;
  const auto manifest = parse_manifest(bytes.value(), folder.string());
  return manifest && manifest.value().token() == token && manifest.value().number() == order;
}

/// Removes the manifest first: without it, the rest is not a complete checkpoint.
Result<void> remove_ours(const fs::path& folder) {
  return remove_files(folder, kManifestName, [](std::string name) {
    if (name.ends_with(kUnfinished)) name.resize(name.size() - kUnfinished.size());
    return is_ours(name);
  });
}

}  // namespace

DataPartReply PartStore::answer(const DataPartRequest& request) {
  DataPartReply reply;
  reply.head.set_request(request.head.request());
  const auto done = carry_out(request, reply);
  if (!done) reply.head.set_error(done.error().message);
  cut_to_limits(reply.head);
  return reply;
}

Result<void> PartStore::carry_out(const DataPartRequest& request, DataPartReply& reply) {
  const pb::PartRequest& head = request.head;
  const bool is_of_file =
      head.kind() != pb::PartRequest::MOVE && head.kind() != pb::PartRequest::REMOVE;
  if (is_of_file && !is_ours(head.file())) {
    return invalid(fmt::format("\"{}\" is not a part of a checkpoint", head.file()));
  }
  switch (head.kind()) {
    case pb::PartRequest::WRITE:
      return write(head, request.payload.bytes());
    case pb::PartRequest::SEAL:
      return seal(head);
    case pb::PartRequest::READ:
      return read(head, reply);
    case pb::PartRequest::CHECK:
      return check(head, reply.head);
    case pb::PartRequest::MOVE:
      return move(head);
    case pb::PartRequest::REMOVE:
      return remove(head);
    default:
      return invalid("an unknown request about a part of a checkpoint");
  }
}

Result<fs::path> PartStore::place_of(const std::string& checkpoint, std::uint64_t token) const {
  const fs::path named(checkpoint);
  if (!is_plain(named.filename().string())) {
    return invalid(fmt::format("\"{}\" does not name a checkpoint's folder", checkpoint));
  }
  fs::path home = folder_;
  if (home.empty()) {
    home = named.parent_path();
    // A job may resume from a server's own copy of the manifest.
    if (home.filename().string().starts_with(disk_folder_name(""))) home = home.parent_path();
    home /= disk_folder_name(server_);
  } else if (token != 0) {
    // Checkpoints of several jobs may have one name, in different folders.
    home /= fmt::format("submission-{:016x}", token);
  }
  const fs::path place = home / named.filename();
  TAUT_TRY(check_place(place));
  return place;
}

/// Refuses a part that arrives, or is sealed, after its checkpoint was given up; removes what it
/// left.
Result<void> PartStore::refuse_withdrawn(const fs::path& place) {
  {
    const std::scoped_lock lock(mutex_);
    const auto since = std::chrono::steady_clock::now() - kWithdrawnFor;
    std::erase_if(withdrawn_, [&](const Withdrawn& one) { return one.at < since; });
    if (std::ranges::find(withdrawn_, place, &Withdrawn::place) == withdrawn_.end()) return ok();
  }
  TAUT_TRY(remove_ours(place));
  return make_error(ErrorCode::kNotFound, place.string() + ": this checkpoint was given up");
}

Result<void> PartStore::write(const pb::PartRequest& head, std::span<const std::byte> bytes) {
  TAUT_TRY(const fs::path place, place_of(head.folder(), head.token()));
  TAUT_TRY(refuse_withdrawn(place));
  std::error_code failed;
  fs::create_directories(place, failed);
  if (failed) return io_error(place, "be made", failed);
  const fs::path path = place / head.file();
  TAUT_TRY(const Descriptor file, open_to_write(unfinished(path), O_WRONLY, path));
  std::uint64_t offset = head.offset();
  while (!bytes.empty()) {
    const ssize_t count =
        pwrite(file.get(), bytes.data(), bytes.size(), static_cast<::off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error(path, "be written");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  // Starts writing now instead of at the flush; a hint.
  (void)sync_file_range(file.get(), static_cast<::off_t>(head.offset()),
                        static_cast<::off_t>(offset - head.offset()), SYNC_FILE_RANGE_WRITE);
  return refuse_withdrawn(place);  // another thread may have given it up meanwhile
}

Result<void> PartStore::seal(const pb::PartRequest& head) {
  TAUT_TRY(const fs::path place, place_of(head.folder(), head.token()));
  const fs::path path = place / head.file();
  const fs::path begun = unfinished(path);
  std::error_code failed;
  if (!fs::exists(begun, failed)) {
    const bool is_sealed = fs::file_size(path, failed) == head.count() && !failed;
    if (is_sealed) return ok();
    return make_error(ErrorCode::kNotFound, path.string() + ": nothing was written");
  }
  failpoint("part written");
  TAUT_TRY(const Descriptor file, open_to_write(begun, O_WRONLY, path));
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return io_error(path, "be read");
  // An earlier attempt may have written more.
  if (static_cast<std::uint64_t>(status.st_size) > head.count()) {
    status.st_size = static_cast<::off_t>(head.count());
    if (ftruncate(file.get(), status.st_size) != 0) return io_error(path, "be cut");
  }
  if (static_cast<std::uint64_t>(status.st_size) != head.count()) {
    return make_error(ErrorCode::kIo, fmt::format("{}: has {} bytes, not {}", path.string(),
                                                  status.st_size, head.count()));
  }
  if (fsync(file.get()) != 0) return io_error(path, "be flushed to the disk");
  fs::rename(begun, path, failed);
  if (failed) return io_error(path, "be put in place", failed);
  // Another thread that listed the folder before the rename did not remove the part.
  TAUT_TRY(refuse_withdrawn(place));
  return flush_folder(place);
}

Result<fs::path> PartStore::find(const pb::PartRequest& head) const {
  TAUT_TRY(const fs::path own, place_of(head.folder(), head.token()));
  std::error_code failed;
  if (fs::exists(own / head.file(), failed)) return own / head.file();
  if (folder_.empty()) {
    for (const fs::path& other : part_folders(head.folder())) {
      if (fs::exists(other / head.file(), failed)) return other / head.file();
    }
  }
  return fs::path();
}

Result<void> PartStore::read(const pb::PartRequest& head, DataPartReply& reply) const {
  if (head.count() > kMaxRead) {
    return invalid(fmt::format("{} bytes of a part are requested at once; the limit is {}",
                               head.count(), kMaxRead));
  }
  TAUT_TRY(const fs::path path, find(head));
  if (path.empty()) {
    reply.head.set_missing(true);
    return ok();
  }
  TAUT_TRY(const TensorFile file, TensorFile::open(path));
  auto bytes = std::make_shared<std::vector<std::byte>>(head.count());
  TAUT_TRY(file.read_bytes(head.offset(), *bytes));
  const std::span<const std::byte> view(*bytes);
  reply.payload = Frame(std::move(bytes), view);
  return ok();
}

Result<void> PartStore::check(const pb::PartRequest& head, pb::PartReply& reply) {
  TAUT_TRY(const fs::path path, find(head));
  if (path.empty()) {
    reply.set_missing(true);
    return ok();
  }
  TAUT_TRY(const TensorFile file, TensorFile::open(path));
  std::error_code failed;
  Checked now{file.bytes(), fs::last_write_time(path, failed), ""};
  {
    const std::scoped_lock lock(mutex_);
    const auto known = checked_.find(path);
    if (known != checked_.end() && known->second.bytes == now.bytes &&
        known->second.written == now.written) {
      now.sha256 = known->second.sha256;
    }
  }
  if (now.sha256.empty()) {
    TAUT_TRY(now.sha256, file.sha256());
  }
  reply.set_bytes(now.bytes);
  reply.set_sha256(now.sha256);
  const std::scoped_lock lock(mutex_);
  if (checked_.size() >= kMaxChecked) checked_.clear();
  checked_[path] = std::move(now);
  return ok();
}

Result<void> PartStore::move(const pb::PartRequest& head) {
  TAUT_TRY(const fs::path from, place_of(head.folder(), head.token()));
  TAUT_TRY(const fs::path to, place_of(head.to(), head.token()));
  std::error_code failed;
  if (fs::exists(to / kManifestName, failed)) {
    if (is_of(to, head.token(), head.order())) return ok();
    return make_error(
        ErrorCode::kExists,
        to.string() + ": has another checkpoint; move it, or name another folder in the job");
  }
  if (!fs::exists(from, failed)) {
    // It was moved before, or this server has no part of it.
    fs::create_directories(to, failed);
    if (failed) return io_error(to, "be made", failed);
    return ok();
  }
  TAUT_TRY(remove_ours(to));
  fs::rename(from, to, failed);
  if (failed) return io_error(to, "be put in place", failed);
  return flush_folder(to.parent_path());
}

Result<void> PartStore::remove(const pb::PartRequest& head) {
  TAUT_TRY(const fs::path place, place_of(head.folder(), head.token()));
  std::error_code failed;
  const bool is_whole = fs::exists(place / kManifestName, failed);
  if (head.order() != 0 && is_whole && !is_of(place, head.token(), head.order())) return ok();
  if (place.filename().string().find(".part-") != std::string::npos) {
    // Its name belongs to one order only; other servers may still send parts of it.
    const std::scoped_lock lock(mutex_);
    withdrawn_.push_back({place, std::chrono::steady_clock::now()});
    if (withdrawn_.size() > kMaxWithdrawn) withdrawn_.pop_front();
  }
  // A part that another thread seals meanwhile has another name afterwards.
  if (remove_ours(place)) return ok();
  return remove_ours(place);
}

}  // namespace taut::server
