#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "common/time.hpp"
#include "common/types.hpp"

/// The process's timeline: what each row did and when, as a file that chrome://tracing and
/// ui.perfetto.dev open. It can be started and stopped at any time; while off, a span costs a
/// check of one flag. The file is complete JSON after every write, so a killed process leaves
/// a readable file; a kill within the microseconds of a write leaves it without its closing
/// bracket, which both viewers accept.
/// Source    "Trace Event Format", Google, 2016: the JSON array format
namespace taut::timeline {

/// The kind of a span. Each lane has a row for each kind that it uses.
enum class Row : std::uint8_t { kCompute, kWait, kPush, kPull, kCopy, kUpdate };

struct Options {
  std::filesystem::path folder;  // of PROCESS.trace.json, or, if that exists, PROCESS.trace-2.json
  std::string process;           // "worker0"
  Bytes limit = Bytes(64ULL << 20);
};

/// Starts a file, or continues the current one. Returns its path. Errors: io. Thread: any.
[[nodiscard]] Result<std::filesystem::path> start(const Options& options);
/// Ends the file; a second call does nothing. Thread: any.
void stop();
[[nodiscard]] bool is_on();
/// Writes pending events; called about twice a second. Thread: any.
void flush(TimePoint now);

/// Sets the lane of this thread's later spans: a shard's number; -1 if the process has one lane.
void set_lane(std::int32_t lane);

/// Spans construction to destruction, on a row of this thread's lane. `name` must outlive it.
class Span {
 public:
  explicit Span(Row row, std::string_view name, std::int64_t clock = -1);
  ~Span() {
    if (on_) end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  void end() const;

  const bool on_;
  Row row_;
  std::string_view name_;
  std::int64_t clock_;
  TimePoint begin_;
};

/// A span that may overlap others on its row, such as a pending read.
void add_overlapping(Row row, std::string_view name, std::uint64_t id, TimePoint begin,
                     TimePoint end, std::int64_t clock);

}  // namespace taut::timeline
