#pragma once

#include <compare>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "common/time.hpp"
#include "common/types.hpp"

namespace taut::lab {

/// What each process and link of a training in the lab did and when, in virtual time: written to a
/// file that ui.perfetto.dev and chrome://tracing open, and kept for a few clocks for a drawing.
/// Source    "Trace Event Format", Google, 2016: the JSON array format
class VirtualTimeline {
 public:
  enum class Kind : std::uint8_t { kCompute, kWait, kPause, kServe, kLink };
  /// A row of the picture; its entries do not overlap.
  struct Row {
    std::uint32_t process = 0;  // a node's number; links have kLinks
    Kind kind = Kind::kCompute;
    std::uint32_t lane = 0;  // a shard, or a link
    std::uint32_t slot = 0;  // of messages that share a link, set by add()
    friend auto operator<=>(const Row&, const Row&) = default;
  };
  static constexpr std::uint32_t kLinks = 1U << 31U;  // the process that all links are rows of

  struct Options {
    std::filesystem::path file;  // empty: no file
    Bytes limit{256UL << 20U};   // of the file, which ends there
    Clock drawn_from{0};         // the drawn worker's clock at which the drawing begins
    std::int64_t drawn_clocks = 8;
  };
  /// Errors    io
  [[nodiscard]] static Result<std::unique_ptr<VirtualTimeline>> open(const Options& options);
  ~VirtualTimeline();
  VirtualTimeline(const VirtualTimeline&) = delete;
  VirtualTimeline& operator=(const VirtualTimeline&) = delete;

  /// Names a process, and for links a row.
  void name_process(std::uint32_t process, const std::string& name);
  void name_link(std::uint32_t link, const std::string& name);
  /// The name of a process, or of a link.
  [[nodiscard]] std::string name_of(const Row& row) const;
  /// The worker whose clocks determine when the drawing begins and ends.
  void draw_clocks_of(std::uint32_t process) { drawn_worker_ = process; }

  /// Something lasted from `begin` to `end`. A wait that continues the last one of its row is
  /// merged with it. Messages that overlap on a link get separate rows; they are added as they end.
  void add(const Row& where, std::string_view name, Clock clock, TimePoint begin, TimePoint end);

  /// Whether the file has reached its limit.
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  /// Ends the file. Errors: io, from any write.
  [[nodiscard]] Result<void> finish();

  struct Span {
    Row row;
    TimePoint begin;
    TimePoint end;
  };
  /// The spans of the drawing, from drawn_begin() to drawn_end(); never if it did not begin, or if
  /// the training ended first.
  [[nodiscard]] const std::vector<Span>& drawn() const { return drawn_; }
  [[nodiscard]] TimePoint drawn_begin() const { return drawn_begin_; }
  [[nodiscard]] TimePoint drawn_end() const { return drawn_end_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct Wait {
    std::string name;
    Clock clock;
    TimePoint begin;
    TimePoint end;
  };
  explicit VirtualTimeline(const Options& options) : options_(options) {}
  [[nodiscard]] std::uint32_t free_slot(std::uint32_t link, TimePoint begin, TimePoint end);
  void draw(const Row& row, Clock clock, TimePoint begin, TimePoint end);
  void write_wait(const Row& row, const Wait& wait);
  void write(const Row& row, std::string_view name, Clock clock, TimePoint begin, TimePoint end);
  void write_row_name(const Row& row);
  void put(std::string_view event);

  const Options options_;
  std::unique_ptr<std::FILE, Close> file_;
  std::uint64_t bytes_ = 0;
  bool has_ended_ = false;
  bool has_failed_ = false;
  std::map<Row, std::uint32_t> threads_;  // rows that were named: their numbers
  std::map<std::uint32_t, std::string> processes_;
  std::map<std::uint32_t, std::string> links_;
  std::map<Row, Wait> waits_;                              // that may continue
  std::map<std::uint32_t, std::vector<TimePoint>> slots_;  // by link, when each was last in use
  std::uint32_t drawn_worker_ = 0;
  std::vector<Span> drawn_;
  TimePoint drawn_begin_ = TimePoint::never();
  TimePoint drawn_end_ = TimePoint::never();
};

}  // namespace taut::lab
