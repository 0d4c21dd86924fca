#include "common/log.hpp"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/printable.hpp"
#include "common/thread_sanitizer.hpp"

namespace taut::log {
namespace {

constexpr std::size_t kMaxLine = 16384;

struct Context {
  std::int64_t rank = -1;
  std::int64_t clock = -1;
};

// Per thread, so without a lock: each line contains its thread's clock.
thread_local Context context;
std::atomic<std::int64_t> current_epoch = -1;

// spdlog makes its registry at the first use, in an order that ThreadSanitizer does not see. So it
// is used here, before there are threads.
[[maybe_unused]] const bool kHasRegistry =
    thread_sanitizer::kIsOn && spdlog::default_logger_raw() != nullptr;

/// One JSON object per line, with the fields that monitoring systems expect.
class JsonFormatter final : public spdlog::formatter {
 public:
  JsonFormatter(std::string role, std::string name)
      : role_(std::move(role)), name_(std::move(name)) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const auto since_epoch = message.time.time_since_epoch();
    nlohmann::ordered_json line;
    line["time"] = std::chrono::duration<double>(since_epoch).count();
    const auto level = spdlog::level::to_string_view(message.level);
    line["level"] = std::string(level.data(), level.size());
    line["role"] = role_;
    line["name"] = name_;
    if (context.rank >= 0) line["rank"] = context.rank;
    if (context.clock >= 0) line["clock"] = context.clock;
    if (const std::int64_t epoch = current_epoch; epoch >= 0) line["epoch"] = epoch;
    line["message"] = std::string(message.payload.data(), message.payload.size());
    const std::string text =
        line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    out.append(text.data(), text.data() + text.size());
  }
  [[nodiscard]] std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>(role_, name_);
  }

 private:
  std::string role_;
  std::string name_;
};

/// Keeps the newest lines, for the thread that collects them.
class Memory final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  [[nodiscard]] std::uint64_t end() {
    std::scoped_lock lock(mutex_);
    return begin_ + text_.size();
  }
  [[nodiscard]] Excerpt read_from(std::uint64_t position, std::size_t limit) {
    std::scoped_lock lock(mutex_);
    const std::uint64_t from = std::clamp<std::uint64_t>(position, begin_, begin_ + text_.size());
    return {from, text_.substr(from - begin_, limit)};
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    text_.append(line.data(), line.size());
    if (text_.size() <= kMaxBytes) return;
    // Drops whole lines, half of the text at once, so that the text is not moved at every line.
    const std::size_t middle = text_.find('\n', text_.size() / 2);
    const std::size_t count = middle == std::string::npos ? text_.size() : middle + 1;
    text_.erase(0, count);
    begin_ += count;
  }
  void flush_() override {}

 private:
  static constexpr std::size_t kMaxBytes = std::size_t{512} << 10U;
  std::uint64_t begin_ = 0;  // position of the first byte kept
  std::string text_;
};

std::shared_ptr<Memory>& memory() {
  static std::shared_ptr<Memory> newest = std::make_shared<Memory>();
  return newest;
}

/// `%*` in the text pattern: the thread's rank, clock and epoch, if they are set.
class ContextFlag final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& /*message*/, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    std::string text;
    if (context.rank >= 0) text += fmt::format(" rank={}", context.rank);
    if (context.clock >= 0) text += fmt::format(" clock={}", context.clock);
    if (const std::int64_t epoch = current_epoch; epoch >= 0) {
      text += fmt::format(" epoch={}", epoch);
    }
    out.append(text.data(), text.data() + text.size());
  }
  [[nodiscard]] std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<ContextFlag>();
  }
};

spdlog::level::level_enum as_spdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

spdlog::level::level_enum level_of(const std::string& name) {
  return spdlog::level::from_str(name == "warning" ? "warn" : name);
}

}  // namespace

Result<void> check_level(const std::string& name) {
  // spdlog reads an unknown name as off.
  if (level_of(name) != spdlog::level::off || name == "off") return ok();
  return invalid(
      fmt::format("log level \"{}\" is unknown; choose trace, debug, info, warn or error", name));
}

Result<void> start(const Options& options) {
  const auto level = level_of(options.level);
  TAUT_TRY(check_level(options.level));
  spdlog::sink_ptr sink;
  if (options.file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  } else {
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file);
    } catch (const spdlog::spdlog_ex& failure) {
      return make_error(ErrorCode::kIo,
                        fmt::format("log file {}: {}", options.file, failure.what()));
    }
  }
  auto logger =
      std::make_shared<spdlog::logger>("tautline", spdlog::sinks_init_list{sink, memory()});
  if (options.format == Format::kJson) {
    logger->set_formatter(std::make_unique<JsonFormatter>(options.role, options.name));
  } else {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<ContextFlag>('*');
    const std::string source =
        options.name.empty() ? options.role : options.role + " " + options.name;
    formatter->set_pattern("%H:%M:%S.%e %^%l%$ [" + source + "%*] %v");
    logger->set_formatter(std::move(formatter));
  }
  logger->set_level(level);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  return ok();
}

void set_context(std::int64_t rank, std::int64_t clock) {
  context = Context{rank, clock};
}

void set_epoch(std::int64_t epoch) {
  current_epoch = epoch;
}

void write(Level level, fmt::string_view text, fmt::format_args args) {
  spdlog::logger* const logger = spdlog::default_logger_raw();
  if (!logger->should_log(as_spdlog(level))) return;
  const std::string line = printable(fmt::vformat(text, args), Lines::kOne, kMaxLine);
  logger->log(as_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

std::uint64_t position() {
  return memory()->end();
}

Excerpt read_from(std::uint64_t position, std::size_t limit) {
  return memory()->read_from(position, limit);
}

void stop() {
  if (auto logger = spdlog::default_logger()) logger->flush();
}

}  // namespace taut::log
