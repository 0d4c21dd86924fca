#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "common/time.hpp"
#include "common/types.hpp"

/// The process's timeline: what each row was busy with and when, as a file that chrome://tracing and
/// ui.perfetto.dev open. It is started and stopped while the process works; off, a span costs the
/// look at one flag. The file is whole JSON after every write, so a process that is killed leaves
/// one that can be read; a kill within the microseconds of a write leaves one without its closing
/// bracket, which both viewers accept.
/// Source    "Trace Event Format", Google, 2016: the JSON array format
namespace taut::timeline {

/// What a span is about. Each lane has a row for each kind that it uses.
enum class Row : std::uint8_t { kCompute, kWait, kPush, kPull, kCopy, kUpdate };

struct Options {
  std::filesystem::path folder;  // receives PROCESS.trace.json, or the next number that is free
  std::string process;           // "worker0"
  Bytes limit = Bytes(64ULL << 20);
};

/// Begins a file; where one is under way, it goes on. Returns where it is. Errors: io. Thread: any.
[[nodiscard]] Result<std::filesystem::path> start(const Options& options);
/// Ends the file. Again: nothing. Thread: any.
void stop();
[[nodiscard]] bool is_on();
/// Writes what waits, every half second or so. Thread: any.
void flush(TimePoint now);

/// The lane of this thread's rows from now on: a shard's number; -1: the process has but one.
void set_lane(std::int32_t lane);

/// From its making to its end, on a row of this thread's lane. `name` must outlive it.
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

/// Something that may overlap others on its row, such as a read under way.
void add_overlapping(Row row, std::string_view name, std::uint64_t id, TimePoint begin,
                     TimePoint end, std::int64_t clock);

}  // namespace taut::timeline
