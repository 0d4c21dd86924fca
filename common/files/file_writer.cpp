#include "common/files/file_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "common/check.hpp"
#include "common/files/regular_file.hpp"

namespace taut {
namespace fs = std::filesystem;
namespace {

// A smaller piece is not worth a separate request.
constexpr std::size_t kEarlyBytes = 1UL << 20U;

Error io_error(const fs::path& path, const char* step, int error) {
  return make_error(ErrorCode::kIo, fmt::format("{}: cannot {}: {}", path.string(), step,
                                                std::generic_category().message(error)));
}

}  // namespace

Result<void> flush_folder(const fs::path& folder) {
  const fs::path place = folder.empty() ? fs::path(".") : folder;
  const int file = open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return io_error(place, "be opened", errno);
  const int flushed = fsync(file);
  const int error = errno;
  close(file);
  // Some file systems cannot flush a folder and return EINVAL.
  if (flushed != 0 && error != EINVAL) return io_error(place, "be flushed to the disk", error);
  return ok();
}

FileWriter::FileWriter(fs::path path, std::string partial, int file, Durability durability)
    : path_(std::move(path)), partial_(std::move(partial)), file_(file), durability_(durability) {}

Result<FileWriter> FileWriter::create(const fs::path& path, Durability durability) {
  std::string partial = path.string() + ".part" + std::to_string(getpid());
  TAUT_TRY(Descriptor file, create_anew(partial, O_RDWR, path));
  return FileWriter(path, std::move(partial), file.release(), durability);
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      partial_(std::move(other.partial_)),
      file_(std::exchange(other.file_, -1)),
      durability_(other.durability_),
      past_cache_(other.past_cache_) {}

FileWriter& FileWriter::operator=(FileWriter&& other) noexcept {
  if (this == &other) return *this;
  drop();
  path_ = std::move(other.path_);
  partial_ = std::move(other.partial_);
  file_ = std::exchange(other.file_, -1);
  durability_ = other.durability_;
  past_cache_ = other.past_cache_;
  return *this;
}

FileWriter::~FileWriter() {
  drop();
}

void FileWriter::drop() noexcept {
  if (file_ < 0) return;
  close(file_);
  unlink(partial_.c_str());
  file_ = -1;
}

Error FileWriter::failed(const char* step) const {
  return io_error(path_, step, errno);
}

void FileWriter::bypass_page_cache(std::uint64_t bytes) {
  TAUT_CHECK(file_ >= 0, "a committed file is not written to");
  // Not posix_fallocate, which writes every page if the file system cannot allocate.
  (void)fallocate(file_, 0, 0, static_cast<::off_t>(bytes));
  const int flags = fcntl(file_, F_GETFL);
  past_cache_ = flags >= 0 && fcntl(file_, F_SETFL, flags | O_DIRECT) == 0;
}

void FileWriter::end_past_cache() {
  past_cache_ = false;
  const int flags = fcntl(file_, F_GETFL);
  TAUT_CHECK(flags >= 0 && fcntl(file_, F_SETFL, flags & ~O_DIRECT) == 0, "a flag of an open file");
}

bool FileWriter::passes_cache(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (!past_cache_) return false;
  const auto memory = reinterpret_cast<std::uintptr_t>(bytes.data());
  if ((memory | offset | bytes.size()) % kPageBytes != 0) end_past_cache();
  return past_cache_;
}

Result<void> FileWriter::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  TAUT_CHECK(file_ >= 0, "a committed file is not written to");
  const bool passes = passes_cache(offset, bytes);
  const std::uint64_t begin = offset;
  const std::size_t count_all = bytes.size();
  while (!bytes.empty()) {
    const ssize_t count = pwrite(file_, bytes.data(), bytes.size(), static_cast<::off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EINVAL && past_cache_) {
      // A file system may accept the flag and refuse the write.
      end_past_cache();
      continue;
    }
    if (count < 0) return failed("be written");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  if (durability_ == Durability::kFlushed && count_all >= kEarlyBytes && !(passes && past_cache_)) {
    // Starts writing now instead of at the flush. A hint: if it fails, the flush writes it all.
    (void)sync_file_range(file_, static_cast<::off_t>(begin), static_cast<::off_t>(count_all),
                          SYNC_FILE_RANGE_WRITE);
  }
  return ok();
}

Result<void> FileWriter::commit() {
  TAUT_CHECK(file_ >= 0, "a file is committed once");
  const bool flush = durability_ == Durability::kFlushed;
  if (flush && fsync(file_) != 0) return failed("be flushed to the disk");
  if (rename(partial_.c_str(), path_.c_str()) != 0) return failed("be put in place");
  const int file = std::exchange(file_, -1);
  if (close(file) != 0) return failed("be closed");
  return flush ? flush_folder(path_.parent_path()) : Result<void>(ok());
}

}  // namespace taut
