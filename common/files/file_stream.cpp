#include "common/files/file_stream.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

#include "common/check.hpp"
#include "common/time.hpp"

namespace taut {
namespace fs = std::filesystem;
namespace {

// A huge page: the kernel then pins a block in four pieces instead of 2,048.
constexpr std::align_val_t kAlignment{std::size_t{2} << 20U};
constexpr Duration kIdle{500'000};

}  // namespace

void FileStream::FreeBlock::operator()(std::byte* memory) const noexcept {
  ::operator delete(memory, kAlignment);
}

FileStream::FileStream(FileWriter file, std::uint64_t bytes)
    : file_(std::move(file)), bytes_(bytes) {
  for (std::size_t i = 0; i < kBlocks; ++i) {
    Block block;
    block.memory.reset(static_cast<std::byte*>(::operator new(kBlockBytes, kAlignment)));
    (void)madvise(block.memory.get(), kBlockBytes, MADV_HUGEPAGE);
    TAUT_CHECK(empty_.push(std::move(block), Duration::zero()), "a slot for each block");
  }
  thread_ = std::thread([this] { run(); });
}

Result<std::unique_ptr<FileStream>> FileStream::create(const fs::path& path, std::uint64_t bytes) {
  TAUT_TRY(FileWriter file, FileWriter::create(path));
  file.bypass_page_cache(bytes);
  return std::unique_ptr<FileStream>(new FileStream(std::move(file), bytes));
}

FileStream::~FileStream() {
  if (!thread_.joinable()) return;
  failed_ = true;  // pending blocks are dropped
  full_.close();
  thread_.join();
}

/// Blocks keep circulating after a failure, so that no thread waits forever for one.
void FileStream::run() {
  while (true) {
    // Checked first: blocks queued before the queue was closed can still be popped.
    const bool closed = full_.closed();
    std::optional<Block> block = full_.pop(kIdle);
    if (!block && closed) return;
    if (!block) continue;
    if (!failed_) {
      if (auto done = write(*block); !done) {
        error_ = done.error();
        failed_ = true;
      }
    }
    TAUT_CHECK(empty_.push(*std::move(block), Duration::zero()), "a slot for each block");
  }
}

Result<void> FileStream::write(const Block& block) {
  const std::span<const std::byte> bytes(block.memory.get(), block.size);
  const std::size_t pages = bytes.size() - bytes.size() % FileWriter::kPageBytes;
  if (pages > 0) {
    TAUT_TRY(file_.write_at(written_, bytes.first(pages)));
  }
  if (pages < bytes.size()) {
    TAUT_TRY(file_.write_at(written_ + pages, bytes.subspan(pages)));
  }
  written_ += bytes.size();
  return ok();
}

Result<void> FileStream::failure() const {
  if (failed_ && error_) return *error_;
  return ok();
}

void FileStream::send() {
  TAUT_CHECK(full_.push(*std::move(filling_), Duration::zero()), "a slot for each block");
  filling_.reset();
}

Result<void> FileStream::append(std::span<const std::byte> bytes) {
  TAUT_CHECK(thread_.joinable(), "a committed file is not written to");
  while (!bytes.empty()) {
    TAUT_TRY(failure());
    if (!filling_) {
      filling_ = empty_.pop(kIdle);
      if (!filling_) continue;
      filling_->size = 0;
    }
    const std::size_t count = std::min(bytes.size(), kBlockBytes - filling_->size);
    std::copy_n(bytes.data(), count, filling_->memory.get() + filling_->size);
    filling_->size += count;
    bytes = bytes.subspan(count);
    if (filling_->size == kBlockBytes) send();
  }
  return ok();
}

Result<void> FileStream::commit() {
  TAUT_CHECK(thread_.joinable(), "a file is committed once");
  if (filling_) send();
  full_.close();
  thread_.join();
  TAUT_TRY(failure());
  TAUT_CHECK(written_ == bytes_, "a file is as long as it was announced to be");
  return file_.commit();
}

}  // namespace taut
