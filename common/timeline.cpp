#include "common/timeline.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <iterator>
#include <mutex>
#include <set>

#include "common/log.hpp"
#include "common/system/host_name.hpp"

namespace taut::timeline {
namespace {

constexpr std::size_t kWriteAt = 64 << 10;
constexpr Duration kFlushInterval{500'000};
constexpr std::string_view kTail = "\n]\n";
constexpr std::array<const char*, 6> kRowNames = {"compute", "wait", "push",
                                                  "pull",    "copy", "update"};
constexpr std::int64_t kRows = 16;  // per lane

std::atomic<bool> on = false;
thread_local std::int32_t lane = -1;

/// Replaces quotes, backslashes and control characters, which would need escapes.
std::string plain(std::string_view text) {
  std::string safe(text);
  std::replace_if(
      safe.begin(), safe.end(),
      [](unsigned char c) { return c < 0x20 || c == '"' || c == '\\' || c > 0x7e; }, '_');
  return safe;
}

/// The open file and its pending text.
class File {
 public:
  ~File() { close(); }
  Result<std::filesystem::path> open(const Options& options);
  void close();
  [[nodiscard]] bool is_open() const { return file_ >= 0; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Appends an event's fields, of which the row is one.
  template <class... Args>
  void add(Row row, fmt::format_string<Args...> text, Args&&... args) {
    const std::int64_t thread = (lane + 1) * kRows + static_cast<std::int64_t>(row);
    if (named_.insert(thread).second) name_row(thread, row);
    auto out = std::back_inserter(waiting_);
    out = fmt::format_to(out, "{}{{\"pid\":{},\"tid\":{},", next(), pid_, thread);
    out = fmt::format_to(out, text, std::forward<Args>(args)...);
    fmt::format_to(out, "}}");
    if (waiting_.size() >= kWriteAt) write();
  }
  void write_if_due(TimePoint now) {
    if (!waiting_.empty() && now >= next_write_) write();
  }
  /// Microseconds since 1970, so that several processes' files can be merged.
  [[nodiscard]] std::int64_t stamp(TimePoint when) const {
    return when.since_origin().count() + to_unix_us_;
  }

 private:
  /// The separator between two events.
  std::string_view next() {
    const bool is_first = events_++ == 0;
    return is_first ? "" : ",\n";
  }
  void name_row(std::int64_t thread, Row row);
  void write();
  void give_up(const std::string& reason);

  int file_ = -1;
  std::filesystem::path path_;
  std::uint64_t limit_ = 0;
  std::uint64_t tail_ = 0;  // offset of the closing bracket
  std::uint64_t events_ = 0;
  std::int64_t pid_ = 0;
  std::int64_t to_unix_us_ = 0;
  std::string waiting_;
  std::set<std::int64_t> named_;
  TimePoint next_write_;
};

Result<std::filesystem::path> File::open(const Options& options) {
  std::error_code failed;
  std::filesystem::create_directories(options.folder, failed);
  for (int number = 1; file_ < 0; ++number) {
    path_ =
        options.folder / (number == 1 ? fmt::format("{}.trace.json", options.process)
                                      : fmt::format("{}.trace-{}.json", options.process, number));
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file_ < 0 && errno != EEXIST) {
      return make_error(ErrorCode::kIo,
                        fmt::format("the timeline {} cannot be written: {}; name another folder "
                                    "with records {{ folder }}",
                                    path_.string(), std::strerror(errno)));
    }
  }
  limit_ = options.limit.value();
  const std::string process = plain(options.process);
  // Process ids may repeat across machines; a name together with its host does not.
  pid_ = static_cast<std::int64_t>(std::hash<std::string>()(process + "@" + host_name()) >> 34U);
  const auto unix_now = std::chrono::system_clock::now().time_since_epoch();
  to_unix_us_ = std::chrono::duration_cast<std::chrono::microseconds>(unix_now).count() -
                steady_now().since_origin().count();
  tail_ = 0;
  events_ = 0;
  named_.clear();
  waiting_ = "[\n";
  fmt::format_to(
      std::back_inserter(waiting_),
      "{}{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":\"{}\"}}}}",
      next(), pid_, process);
  write();
  if (file_ < 0) {
    return make_error(ErrorCode::kIo,
                      fmt::format("the timeline {} cannot be written; the log gives "
                                  "why",
                                  path_.string()));
  }
  return path_;
}

void File::close() {
  if (file_ < 0) return;
  write();
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

void File::name_row(std::int64_t thread, Row row) {
  const char* kind = kRowNames[static_cast<std::size_t>(row)];
  const std::string name = lane < 0 ? kind : fmt::format("shard {} {}", lane, kind);
  fmt::format_to(
      std::back_inserter(waiting_),
      "{}{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":"
      "\"{}\"}}}},\n{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_sort_index\","
      "\"args\":{{\"sort_index\":{}}}}}",
      next(), pid_, thread, name, pid_, thread, thread);
}

/// Writes the pending events over the closing bracket, and a new bracket, in one call.
void File::write() {
  next_write_ = steady_now() + kFlushInterval;
  if (waiting_.empty()) return;
  if (tail_ + waiting_.size() > limit_) {
    return give_up(fmt::format("it has reached its limit of {:.1f} MiB",
                               static_cast<double>(limit_) / (1 << 20)));
  }
  const std::size_t size = waiting_.size();
  waiting_ += kTail;
  const ssize_t written =
      pwrite(file_, waiting_.data(), waiting_.size(), static_cast<off_t>(tail_));
  if (written != static_cast<ssize_t>(waiting_.size())) return give_up(std::strerror(errno));
  tail_ += size;
  waiting_.clear();
}

/// Closes the file after the text written so far.
void File::give_up(const std::string& reason) {
  log::warn("the timeline {} ends here: {}", path_.string(), reason);
  waiting_.clear();
  const auto end = static_cast<off_t>(tail_);
  const bool is_closed = tail_ == 0 || (ftruncate(file_, end) == 0 &&
                                        pwrite(file_, kTail.data(), kTail.size(), end) > 0);
  if (!is_closed) log::warn("the timeline {} lacks its closing bracket", path_.string());
  on = false;
  ::close(file_);
  file_ = -1;
}

std::mutex mutex;  // guards file
File file;

}  // namespace

Result<std::filesystem::path> start(const Options& options) {
  std::scoped_lock lock(mutex);
  if (file.is_open()) return file.path();
  TAUT_TRY(auto path, file.open(options));
  on = true;
  return path;
}

void stop() {
  on = false;
  std::scoped_lock lock(mutex);
  file.close();
}

bool is_on() {
  return on.load(std::memory_order_relaxed);
}

void flush(TimePoint now) {
  if (!is_on()) return;
  std::scoped_lock lock(mutex);
  if (file.is_open()) file.write_if_due(now);
}

void set_lane(std::int32_t number) {
  lane = number;
}

Span::Span(Row row, std::string_view name, std::int64_t clock)
    : on_(is_on()), row_(row), name_(name), clock_(clock) {
  if (on_) begin_ = steady_now();
}

void Span::end() const {
  const TimePoint end = steady_now();
  std::scoped_lock lock(mutex);
  if (!file.is_open()) return;
  file.add(row_, "\"ph\":\"X\",\"ts\":{},\"dur\":{},\"name\":\"{}\",\"args\":{{\"clock\":{}}}",
           file.stamp(begin_), (end - begin_).count(), plain(name_), clock_);
}

void add_overlapping(Row row, std::string_view name, std::uint64_t id, TimePoint begin,
                     TimePoint end, std::int64_t clock) {
  if (!is_on()) return;
  const char* kind = kRowNames[static_cast<std::size_t>(row)];
  std::scoped_lock lock(mutex);
  if (!file.is_open()) return;
  const std::string safe = plain(name);
  file.add(
      row,
      "\"ph\":\"b\",\"cat\":\"{}\",\"id\":{},\"ts\":{},\"name\":\"{}\",\"args\":{{\"clock\":{}}}",
      kind, id, file.stamp(begin), safe, clock);
  file.add(row, "\"ph\":\"e\",\"cat\":\"{}\",\"id\":{},\"ts\":{},\"name\":\"{}\"", kind, id,
           file.stamp(end), safe);
}

}  // namespace taut::timeline
