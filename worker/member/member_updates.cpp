// A member's clocks: what is pushed, and what is read.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "worker/member/job_member.hpp"

namespace taut {

Result<bool> JobMember::is_due(TableId id) {
  TAUT_TRY(const auto call, enter());
  TAUT_TRY(const Table* const table, find(id));
  return table->schedule.pushes_at(clock_);
}

Result<std::span<float>> JobMember::gradient(TableId id) {
  TAUT_TRY(const auto call, enter());
  TAUT_TRY(Table* const table, find(id));
  if (table->gradient.size() == 0) table->gradient = client_->gradient_buffer(table->spec.id);
  return table->gradient.floats().first(table->values.size());
}

Result<void> JobMember::check_push(TableId id, std::uint64_t count) {
  TAUT_TRY(const auto call, enter());
  TAUT_TRY(const Table* const table, find(id));
  return check_push(*table, count);
}

Result<void> JobMember::push(TableId id, std::span<const float> gradient) {
  TAUT_TRY(const auto call, enter());
  TAUT_TRY(Table* const table, find(id));
  TAUT_TRY(check_push(*table, gradient.size()));
  copy_and_send(*table, gradient);
  return ok();
}

Result<void> JobMember::push(TableId id, std::uint64_t count, const Write& write) {
  TAUT_TRY(const auto call, enter());
  TAUT_TRY(Table* const table, find(id));
  TAUT_TRY(check_push(*table, count));
  write_and_send(*table, write);
  return ok();
}

Result<void> JobMember::push_lent(TableId id, const Frame& gradient) {
  TAUT_TRY(const auto call, enter());
  TAUT_TRY(Table* const table, find(id));
  const std::span floats(reinterpret_cast<const float*>(gradient.bytes().data()),
                         gradient.size() / sizeof(float));
  TAUT_TRY(check_push(*table, floats.size()));
  if (client_->shares_memory() || is_replicated_ || overlaps_values(gradient.bytes())) {
    copy_and_send(*table, floats);
  } else {
    client_->push_and_read(table->spec.id, table->clock, gradient, table->values);
    sent(*table);
  }
  return ok();
}

/// Whether it overlaps a table's values, which a read may write while they are sent.
bool JobMember::overlaps_values(std::span<const std::byte> memory) const {
  const std::less<const std::byte*> before;
  return std::ranges::any_of(tables_, [&](const Table& table) {
    const auto values = std::as_bytes(table.values);
    return before(memory.data(), values.data() + values.size()) &&
           before(values.data(), memory.data() + memory.size());
  });
}

Result<void> JobMember::check_push(const Table& table, std::size_t count) const {
  if (count != table.values.size()) {
    return invalid(fmt::format("table \"{}\" has {} values, but its update has {}", table.spec.name,
                               table.values.size(), count));
  }
  if (table.clock == clock_) return ok();
  if (table.schedule.pushes_at(clock_)) {
    return invalid(fmt::format(
        "table \"{}\" was pushed at clock {} before; end the clock before it is pushed again",
        table.spec.name, clock_.value()));
  }
  return invalid(fmt::format(
      "table \"{}\" is of a fragment that meets at clock {} next, not at {}; push the tables that "
      "are due",
      table.spec.name, table.clock.value(), clock_.value()));
}

void JobMember::copy_and_send(Table& table, std::span<const float> gradient) {
  const bool is_handed_out =
      table.gradient.size() > 0 && gradient.data() == table.gradient.floats().data();
  if (is_handed_out) return send(table, std::exchange(table.gradient, Buffer()));
  write_and_send(table, [&](std::span<float> into) { std::ranges::copy(gradient, into.begin()); });
}

void JobMember::write_and_send(Table& table, const Write& write) {
  const Buffer update = client_->gradient_buffer(table.spec.id);
  write(update.floats().first(table.values.size()));
  send(table, update);
}

void JobMember::send(Table& table, const Buffer& update) {
  client_->push_and_read(table.spec.id, table.clock, update, table.values);
  sent(table);
}

void JobMember::sent(Table& table) {
  table.reads = table.clock.next();
  table.clock = table.schedule.first_from(table.reads);
  table.is_pulled = false;
}

Result<std::optional<ReadResult>> JobMember::pull(TableId id, Duration at_most) {
  TAUT_TRY(const auto call, enter());
  TAUT_TRY(Table* const table, find(id));
  if (table->is_pulled) return std::optional(table->read);
  return await(*table, at_most);
}

Result<std::optional<ReadResult>> JobMember::await(Table& table, Duration at_most) {
  const TimePoint begin = steady_now();
  auto read = client_->wait(table.spec.id, table.reads, silence_limit_, at_most);
  waited_ += steady_now() - begin;
  if (!read) return explain(read.error());
  if (!read.value()) return read;
  table.is_pulled = true;
  table.read = *read.value();
  return read;
}

Result<std::optional<ReadResult>> JobMember::snapshot(TableId id, std::span<float> into,
                                                      Duration at_most) {
  TAUT_TRY(const auto call, enter());
  TAUT_TRY(Table* const table, find(id));
  if (into.size() != table->values.size()) {
    return invalid(fmt::format("table \"{}\" has {} values, but there is room for {}",
                               table->spec.name, table->values.size(), into.size()));
  }
  auto read = client_->snapshot(table->spec.id, into, silence_limit_, at_most);
  if (!read) return explain(read.error());
  return read;
}

Result<void> JobMember::check_pushed() const {
  for (const Table& table : tables_) {
    if (table.clock > clock_ && table.is_pulled) continue;
    const std::string_view what = table.clock > clock_ ? "pulled" : "pushed";
    return invalid(fmt::format(
        "table \"{}\" was not {} at clock {}; each table {}is {} once a clock", table.spec.name,
        what, clock_.value(), schedule_.fragments > 1 ? "that is due " : "", what));
  }
  return ok();
}

Result<MemberOrders> JobMember::end_clock(const ClockReport& report) {
  TAUT_TRY(const auto call, enter());
  if (!is_open_) return invalid("the tables are not open yet");
  TAUT_TRY(check_pushed());
  clock_ = clock_.next();
  const TimePoint now = steady_now();
  const Duration length = now - *clock_begun_;
  clock_begun_ = now;
  figures_.clock = clock_;
  if (report.loss) figures_.loss = report.loss;
  figures_.items += report.items;
  figures_.waited += waited_;
  figures_.computed += length - std::min(length, waited_);
  figures_.ended = now;
  figures_.staleness = client_->staleness();
  figures_.traffic = client_->traffic();
  waited_ = Duration(0);
  control_->report(figures_);
  return control_->orders();
}

}  // namespace taut
