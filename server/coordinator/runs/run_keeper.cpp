#include "server/coordinator/runs/run_keeper.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "common/files/file.hpp"
#include "common/files/regular_file.hpp"
#include "common/log.hpp"
#include "proto/config/text.hpp"
#include "proto/formats/run_json.hpp"
#include "proto/session/record_sender.hpp"
#include "server/coordinator/job_status.hpp"
#include "server/coordinator/runs/run_summary.hpp"

namespace taut {
namespace {

namespace fs = std::filesystem;

// Limits in bytes: the beginning of a metrics.csv or tests.csv is kept, and the end of a log.
constexpr std::uint64_t kMaxMetrics = std::uint64_t{64} << 20U;
constexpr std::uint64_t kMaxLog = std::uint64_t{4} << 20U;
constexpr const char* kOwnLog = "coordinator.log";

/// The name with all characters replaced that may be special in a path.
std::string as_file_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '.' && c != '_'; },
      '_');
  if (!name.empty() && name.front() == '.') name.front() = '_';
  constexpr std::size_t kMaxName = 80;
  if (name.size() > kMaxName) name.resize(kMaxName);
  return name.empty() ? "job" : name;
}

/// The name of a process's log; a process may be named like the coordinator's own log.
std::string log_name(const std::string& process) {
  const std::string name = as_file_name(process) + ".log";
  return name == kOwnLog ? "_" + name : name;
}

std::string token_text(std::uint64_t token) {
  return fmt::format("{:016x}", token);
}

/// Whether the folder belongs to the job with this token.
bool is_of(const fs::path& folder, std::uint64_t token) {
  const auto text = read_file(folder / "run.json");
  if (!text) return false;
  const auto about = nlohmann::json::parse(text.value(), nullptr, false);
  if (!about.is_object()) return false;
  const auto found = about.find("token");
  return found != about.end() && found->is_string() && *found == token_text(token);
}

bool append(const fs::path& path, std::string_view text) {
  auto opened = open_to_write(path, O_WRONLY | O_APPEND);
  if (!opened) return false;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(fdopen(opened.value().release(), "ab"),
                                                             std::fclose);
  return file && std::fwrite(text.data(), 1, text.size(), file.get()) == text.size() &&
         std::fflush(file.get()) == 0;
}

std::uint64_t size_of(const fs::path& path) {
  std::error_code failed;
  const auto bytes = fs::file_size(path, failed);
  return failed ? 0 : bytes;
}

/// Removes the first half of a log that is too long: its end shows what went wrong.
bool keep_end(const fs::path& path) {
  const auto text = read_file(path);
  if (!text) return false;
  const std::size_t middle = text.value().find('\n', text.value().size() / 2);
  const std::size_t from = middle == std::string::npos ? 0 : middle + 1;
  return write_file_atomically(path, std::string_view(text.value()).substr(from)).has_value();
}

Result<void> write_origin(const std::filesystem::path& folder, const pb::StoredJob& job,
                          const pb::RunOrigin& origin) {
  nlohmann::ordered_json about = begin_run_json("submit", job.definition().name(), origin);
  about["job"] = job.job();
  about["token"] = token_text(job.token());
  return write_run_json(folder, about);
}

}  // namespace

std::uint64_t RunKeeper::next_job() const {
  std::uint64_t next = 1;
  std::error_code failed;
  if (folder_.empty()) return next;
  for (fs::directory_iterator entry(folder_, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    const std::size_t dash = name.find('-');
    if (!name.starts_with("job") || dash == std::string::npos || dash > 18) continue;
    const std::string digits = name.substr(3, dash - 3);
    const bool is_number =
        !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
    if (is_number) next = std::max<std::uint64_t>(next, std::stoull(digits) + 1);
  }
  return next;
}

void RunKeeper::give_up(JobId job, Run& run, const std::string& why) {
  log::warn("job {}: nothing more is kept in {}: {}; training continues", job.value(),
            run.folder.string(), why);
  run.folder.clear();
}

void RunKeeper::begin(const pb::StoredJob& job, const pb::RunOrigin& origin) {
  const JobId id(job.job());
  if (folder_.empty() || runs_.contains(id)) return;
  Run& run = runs_[id];
  const fs::path first =
      folder_ / fmt::format("job{}-{}", id.value(), as_file_name(job.definition().name()));
  std::error_code failed;
  fs::create_directories(folder_, failed);
  const bool has_ended = job.state() >= pb::DONE && !job.closing();
  for (int number = 1; !failed; ++number) {
    run.folder = number == 1 ? first : fs::path(fmt::format("{}-{}", first.string(), number));
    if (is_of(run.folder, job.token())) {
      run.ended = fs::exists(run.folder / "summary.json", failed);
      return;
    }
    if (fs::exists(run.folder, failed)) continue;
    // If a user has removed an ended job's folder, it stays removed.
    if (has_ended) {
      run.folder.clear();
      return;
    }
    if (fs::create_directory(run.folder, failed)) break;
  }
  if (failed) {
    run.folder = first;
    give_up(id, run, failed.message());
    return;
  }
  Result<void> written = write_origin(run.folder, job, origin);
  if (written) {
    written = write_file_atomically(run.folder / "job.textproto", to_text(job.definition()));
  }
  if (!written) give_up(id, run, written.error().message);
}

void RunKeeper::note(JobId job, const std::string& line) {
  const auto found = runs_.find(job);
  if (found == runs_.end() || found->second.folder.empty()) return;
  const std::string stamped =
      fmt::format("{:%Y-%m-%d %H:%M:%S} {}\n", fmt::localtime(std::time(nullptr)), line);
  if (!append(found->second.folder / kOwnLog, stamped)) {
    give_up(job, found->second, std::strerror(errno));
  }
}

void RunKeeper::end(const pb::StoredJob& job) {
  const auto found = runs_.find(JobId(job.job()));
  if (found == runs_.end() || found->second.folder.empty()) return;
  Run& run = found->second;
  if (std::exchange(run.ended, true)) return;
  if (const std::string advice = advice_for(job); !advice.empty()) {
    note(JobId(job.job()), fmt::format("job {}: {}", job.job(), advice));
  }
  RunPlaces places;
  places.folder = run.folder.string();
  for (const auto& [of, record] : run.records) {
    if (!record.kept_at.empty()) places.records.emplace_back(of.first, record.kept_at);
  }
  const auto written =
      write_file_atomically(run.folder / "summary.json", run_summary_json(job, places));
  if (!written) give_up(JobId(job.job()), run, written.error().message);
}

fs::path RunKeeper::path_of(const Run& run, JobId job, const std::string& process,
                            pb::RecordPart::Kind kind) const {
  if (kind == pb::RecordPart::LOG) return run.folder / log_name(process);
  return run.folder / fmt::format("job{}-{}", job.value(), as_file_name(process)) /
         (kind == pb::RecordPart::TESTS ? "tests.csv" : "metrics.csv");
}

std::uint64_t RunKeeper::take(JobId job, const std::string& process, const pb::RecordPart& part) {
  const auto found = runs_.find(job);
  const bool is_log = part.kind() == pb::RecordPart::LOG;
  const bool is_known =
      is_log || part.kind() == pb::RecordPart::METRICS || part.kind() == pb::RecordPart::TESTS;
  if (found == runs_.end() || found->second.folder.empty() || !is_known ||
      part.text().size() > kMaxRecordPart) {
    return kRecordIsComplete;
  }
  Run& run = found->second;
  const auto [entry, is_new] = run.records.try_emplace({process, part.kind()});
  Record& record = entry->second;
  if (is_new) {
    record.path = path_of(run, job, process, part.kind());
    std::error_code failed;
    fs::create_directories(record.path.parent_path(), failed);
    // After a restart, or if a process has joined again, what was received stays.
    record.end = is_log ? part.offset() : size_of(record.path);
    record.kept_at = part.kept_at();
  }
  if (is_log && part.offset() == 0 && part.kept_at() != record.kept_at) {
    record.kept_at = part.kept_at();
  }
  const std::uint64_t end = part.offset() + part.text().size();
  if (end <= record.end) return record.end;
  std::string_view text = part.text();
  if (part.offset() < record.end) text.remove_prefix(record.end - part.offset());
  if (!is_log && size_of(record.path) + text.size() > kMaxMetrics) {
    record.is_cut = true;
    return kRecordIsComplete;
  }
  if (!append(record.path, text)) {
    give_up(job, run, std::strerror(errno));
    return kRecordIsComplete;
  }
  record.end = end;
  if (is_log && size_of(record.path) > kMaxLog) {
    record.is_cut = true;
    if (!keep_end(record.path)) give_up(job, run, "its log cannot be shortened");
  }
  return record.end;
}

pb::LogReply RunKeeper::log(const pb::LogRequest& request) const {
  pb::LogReply reply;
  const auto found = runs_.find(JobId(request.job()));
  if (found == runs_.end() || found->second.folder.empty()) {
    reply.set_error(folder_.empty()
                        ? "this coordinator keeps no folders of jobs: run_folder is empty"
                        : fmt::format("job {} has no folder here", request.job()));
    return reply;
  }
  const Run& run = found->second;
  std::error_code failed;
  for (fs::directory_iterator entry(run.folder, failed), last; !failed && entry != last;
       entry.increment(failed)) {
    const fs::path& path = entry->path();
    if (path.extension() == ".log" && path.filename() != kOwnLog) {
      reply.add_processes(path.stem().string());
    }
  }
  std::sort(reply.mutable_processes()->begin(), reply.mutable_processes()->end());
  reply.set_ended(run.ended);
  const fs::path path =
      run.folder / (request.process().empty() ? kOwnLog : log_name(request.process()));
  if (!request.process().empty() && !fs::exists(path, failed)) {
    const auto& known = reply.processes();
    reply.set_error(fmt::format(
        "job {} has no log of \"{}\"; there are those of {}", request.job(), request.process(),
        known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
    return reply;
  }
  // A log that was shortened keeps its offsets.
  const auto record = run.records.find({request.process(), pb::RecordPart::LOG});
  const std::uint64_t bytes = size_of(path);
  const std::uint64_t end =
      record == run.records.end() ? bytes : std::max(record->second.end, bytes);
  const std::uint64_t begin = end - bytes;
  const std::uint64_t from = std::clamp(request.offset(), begin, end);
  std::string text(std::min<std::uint64_t>(kMaxRecordPart, end - from), '\0');
  const auto file = open_to_read(path);
  const ssize_t count =
      file ? pread(file.value().get(), text.data(), text.size(), static_cast<off_t>(from - begin))
           : 0;
  text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  reply.set_next(from + text.size());
  reply.set_text(std::move(text));
  return reply;
}

void RunKeeper::forget(JobId job) {
  runs_.erase(job);
}

std::string RunKeeper::place_of(JobId job) const {
  const auto found = runs_.find(job);
  if (found == runs_.end() || found->second.folder.empty()) return {};
  return place_on_host(found->second.folder);
}

}  // namespace taut
