#include "lab/training/records/virtual_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace taut::lab {
namespace {

constexpr std::array<const char*, 5> kKinds = {"compute", "wait", "pause", "serve", "link"};

/// Replaces what would need an escape.
std::string plain(std::string_view text) {
  std::string safe(text);
  std::ranges::replace_if(
      safe, [](unsigned char c) { return c < 0x20 || c == '"' || c == '\\' || c > 0x7e; }, '_');
  return safe;
}

}  // namespace

Result<std::unique_ptr<VirtualTimeline>> VirtualTimeline::open(const Options& options) {
  std::unique_ptr<VirtualTimeline> timeline(new VirtualTimeline(options));
  if (options.file.empty()) return timeline;
  timeline->file_.reset(std::fopen(options.file.c_str(), "w"));
  if (timeline->file_ == nullptr) {
    return make_error(ErrorCode::kIo,
                      fmt::format("the timeline {} cannot be written: {}; name another folder "
                                  "with --output",
                                  options.file.string(), std::strerror(errno)));
  }
  return timeline;
}

VirtualTimeline::~VirtualTimeline() {
  (void)finish();
}

Result<void> VirtualTimeline::finish() {
  if (file_ == nullptr) return ok();
  for (const auto& [row, wait] : std::exchange(waits_, {})) write_wait(row, wait);
  const char* const tail = bytes_ == 0 ? "[\n]\n" : "\n]\n";
  has_failed_ |= std::fputs(tail, file_.get()) < 0;
  has_failed_ |= std::fclose(file_.release()) != 0;
  if (!has_failed_) return ok();
  return make_error(ErrorCode::kIo, fmt::format("the timeline {} is not complete: {}",
                                                options_.file.string(), std::strerror(errno)));
}

void VirtualTimeline::put(std::string_view event) {
  if (file_ == nullptr || has_ended_) return;
  const std::string line = fmt::format("{}{}", bytes_ == 0 ? "[\n" : ",\n", event);
  if (bytes_ + line.size() > options_.limit.value()) {
    has_ended_ = true;
    return;
  }
  bytes_ += line.size();
  has_failed_ |= std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size();
}

std::string VirtualTimeline::name_of(const Row& row) const {
  const auto& names = row.kind == Kind::kLink ? links_ : processes_;
  const auto found = names.find(row.kind == Kind::kLink ? row.lane : row.process);
  return found == names.end() ? std::string() : found->second;
}

void VirtualTimeline::name_process(std::uint32_t process, const std::string& name) {
  processes_[process] = name;
  put(fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":"{}"}}}})", process,
                  plain(name)));
  put(fmt::format(
      R"({{"ph":"M","pid":{0},"name":"process_sort_index","args":{{"sort_index":{0}}}}})",
      process));
}

void VirtualTimeline::name_link(std::uint32_t link, const std::string& name) {
  links_[link] = name;
}

void VirtualTimeline::write_row_name(const Row& row) {
  std::string name = kKinds[static_cast<std::size_t>(row.kind)];
  if (row.kind == Kind::kLink) name = links_[row.lane];
  if (row.slot > 0) name += fmt::format(", {}", row.slot + 1);
  if (row.kind == Kind::kServe) name = fmt::format("shard {}", row.lane);
  put(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"{}"}}}})",
                  row.process, threads_[row], plain(name)));
}

std::uint32_t VirtualTimeline::free_slot(std::uint32_t link, TimePoint begin, TimePoint end) {
  std::vector<TimePoint>& slots = slots_[link];
  const auto is_free = [begin](TimePoint last) { return last <= begin; };
  const auto found = std::ranges::find_if(slots, is_free);
  const auto slot = static_cast<std::uint32_t>(found - slots.begin());
  if (found == slots.end()) slots.emplace_back();
  slots[slot] = end;
  return slot;
}

void VirtualTimeline::add(const Row& where, std::string_view name, Clock clock, TimePoint begin,
                          TimePoint end) {
  if (end <= begin) return;
  draw(where, clock, begin, end);
  if (file_ == nullptr || has_ended_) return;
  Row row = where;
  if (row.kind == Kind::kLink) row.slot = free_slot(row.lane, begin, end);
  if (row.kind != Kind::kWait) return write(row, name, clock, begin, end);
  Wait& wait = waits_[row];
  if (wait.end == begin && wait.end > wait.begin) {
    wait.end = end;
    return;
  }
  if (wait.end > wait.begin) write_wait(row, wait);
  wait = {std::string(name), clock, begin, end};
}

void VirtualTimeline::write_wait(const Row& row, const Wait& wait) {
  if (wait.end > wait.begin) write(row, wait.name, wait.clock, wait.begin, wait.end);
}

void VirtualTimeline::write(const Row& row, std::string_view name, Clock clock, TimePoint begin,
                            TimePoint end) {
  const auto [thread, is_new] =
      threads_.try_emplace(row, static_cast<std::uint32_t>(threads_.size() + 1));
  if (is_new) write_row_name(row);
  const std::string about =
      clock >= Clock(0) ? fmt::format(R"(,"args":{{"clock":{}}})", clock.value()) : "";
  put(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":"{}"{}}})", row.process,
                  thread->second, begin.since_origin().count(), (end - begin).count(), plain(name),
                  about));
}

/// Keeps what is done while the drawn worker computes some clocks.
void VirtualTimeline::draw(const Row& row, Clock clock, TimePoint begin, TimePoint end) {
  if (drawn_end_ != TimePoint::never()) return;
  const bool is_of_worker = row.process == drawn_worker_ && row.kind == Kind::kCompute;
  if (is_of_worker && clock >= options_.drawn_from) {
    if (drawn_begin_ == TimePoint::never()) drawn_begin_ = begin;
    if (clock >= Clock(options_.drawn_from.value() + options_.drawn_clocks)) {
      drawn_end_ = begin;
      return;
    }
  }
  // Spans that end in it may have begun before.
  if (end > drawn_begin_) drawn_.push_back({row, std::max(begin, drawn_begin_), end});
}

}  // namespace taut::lab
