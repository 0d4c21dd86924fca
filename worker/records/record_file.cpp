#include "worker/records/record_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/log.hpp"

namespace taut::worker {
namespace {

constexpr Duration kFlushInterval{1'000'000};

}  // namespace

Result<RecordFile> RecordFile::open(const std::filesystem::path& path, bool appends) {
  RecordFile record;
  record.path_ = path;
  record.file_.reset(std::fopen(path.c_str(), appends ? "ab" : "wb"));
  if (!record.file_) {
    return make_error(ErrorCode::kIo,
                      fmt::format("the record {} cannot be written: {}; name another folder with "
                                  "records {{ folder }}",
                                  path.string(), std::strerror(errno)));
  }
  std::fseek(record.file_.get(), 0, SEEK_END);
  record.began_empty_ = std::ftell(record.file_.get()) == 0;
  return record;
}

void RecordFile::append(std::string_view bytes, TimePoint now) {
  if (!file_) return;
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size();
  const bool due = now >= next_flush_;
  if (written && (!due || std::fflush(file_.get()) == 0)) {
    if (due) next_flush_ = now + kFlushInterval;
    return;
  }
  log::warn("the record {} ends here: {}", path_.string(), std::strerror(errno));
  file_.reset();
}

void RecordFile::flush() {
  if (file_) std::fflush(file_.get());
}

}  // namespace taut::worker
