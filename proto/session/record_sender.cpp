#include "proto/session/record_sender.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <system_error>

#include "common/log.hpp"
#include "common/system/host_name.hpp"

namespace taut {
namespace {

// Records of earlier jobs that have not been sent by then remain only on this machine.
constexpr std::size_t kMaxRecords = 24;

std::string read_file_from(const std::filesystem::path& path, std::uint64_t offset) {
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(offset));
  std::string text(kMaxRecordPart, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(text.size())) && !in.eof()) return {};
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

}  // namespace

std::string place_on_host(const std::filesystem::path& path) {
  std::error_code failed;
  const std::filesystem::path whole = std::filesystem::absolute(path, failed);
  return fmt::format("{}:{}", host_name(), failed ? path.string() : whole.string());
}

RecordSender::RecordSender(const std::string& log_file)
    : log_kept_at_(log_file.empty() ? std::string() : place_on_host(log_file)) {}

void RecordSender::begin(JobId job) {
  const bool known = std::ranges::any_of(records_, [job](const Record& record) {
    return record.job == job && record.kind == pb::RecordPart::LOG && !record.over;
  });
  if (known) return;
  Record& log = records_.emplace_back();
  log.job = job;
  log.begin = log::position();
  log.kept_at = log_kept_at_;
  if (records_.size() > kMaxRecords) records_.erase(records_.begin());
}

void RecordSender::set_file(JobId job, pb::RecordPart::Kind kind,
                            const std::filesystem::path& file) {
  const bool known = std::ranges::any_of(records_, [&](const Record& record) {
    return record.job == job && record.kind == kind && record.file == file;
  });
  if (known) return;
  Record& added = records_.emplace_back();
  added.job = job;
  added.kind = kind;
  added.file = file;
  added.kept_at = place_on_host(file);
  if (records_.size() > kMaxRecords) records_.erase(records_.begin());
}

void RecordSender::end(JobId job) {
  for (Record& record : records_) {
    if (record.job != job || record.over) continue;
    record.over = true;
    if (record.kind == pb::RecordPart::LOG) record.end = log::position() - record.begin;
  }
}

std::string RecordSender::read(const Record& record, std::uint64_t& offset) const {
  if (record.sent >= record.end) return {};
  offset = record.sent;
  if (record.kind != pb::RecordPart::LOG) return read_file_from(record.file, record.sent);
  const std::size_t most = std::min<std::uint64_t>(kMaxRecordPart, record.end - record.sent);
  log::Excerpt excerpt = log::read_from(record.begin + record.sent, most);
  offset = excerpt.begin - record.begin;
  return std::move(excerpt.text);
}

void RecordSender::add_parts(pb::Heartbeat& heartbeat) const {
  std::size_t bytes = 0;
  for (const Record& record : records_) {
    std::uint64_t offset = 0;
    std::string text = read(record, offset);
    if (text.empty()) continue;
    bytes += text.size();
    pb::RecordPart& part = *heartbeat.add_records();
    part.set_job(record.job.value());
    part.set_kind(record.kind);
    part.set_offset(offset);
    part.set_text(std::move(text));
    part.set_kept_at(record.kept_at);
    if (bytes >= kMaxRecordPart) return;
  }
}

void RecordSender::take(const std::vector<pb::RecordMark>& marks) {
  for (const pb::RecordMark& mark : marks) {
    for (Record& record : records_) {
      const bool is_of = record.job == JobId(mark.job()) && record.kind == mark.kind();
      if (is_of) record.sent = std::max(record.sent, mark.end());
    }
  }
  std::erase_if(records_, [](const Record& record) {
    return record.sent == kRecordIsComplete || (record.over && record.sent >= record.end);
  });
}

}  // namespace taut
