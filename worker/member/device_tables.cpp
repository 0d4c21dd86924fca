#include "worker/member/device_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "common/ssp/table_shape.hpp"
#include "common/time.hpp"
#include "worker/member/rest_of_wait.hpp"

namespace taut {
namespace {

// A sleep takes 50 us longer than requested, as long as a small copy: polling comes first, for this
// long, as with events of the engine.
constexpr Duration kLooks{200};
// Between two later polls of a device, from the first to the longest.
constexpr std::chrono::microseconds kFirstPause{20};
constexpr std::chrono::microseconds kMaxPause{500};

/// what  the memory is of the table, for messages
Result<void> check_memory(const ProgramDevice& device, const void* address, const char* what,
                          const std::string& table) {
  auto checked = device.check_memory(address);
  if (checked || checked.error().code != ErrorCode::kInvalid) return checked;
  return invalid(fmt::format("{} of table \"{}\" {}", what, table, checked.error().message));
}

}  // namespace

DeviceTables::~DeviceTables() {
  member_.cancel();
  const std::scoped_lock last_call(calls_);
}

Result<std::unique_lock<std::mutex>> DeviceTables::enter() {
  std::unique_lock lock(calls_, std::try_to_lock);
  if (lock.owns_lock()) return lock;
  return invalid(
      "another thread is in a call of this member, which serves one at a time; give each thread "
      "its own member, or let both take a lock");
}

Result<ProgramDevice*> DeviceTables::device(int index) {
  auto& found = devices_[index];
  if (found == nullptr) {
    auto opened = open_program_device(index);
    if (!opened) {
      devices_.erase(index);
      return opened.error();
    }
    found = std::move(opened.value());
  }
  return found.get();
}

Result<TableId> DeviceTables::add(const std::string& name, std::vector<std::int64_t> shape,
                                  TableKind kind, const Memory& values,
                                  std::shared_ptr<void> owner) {
  TAUT_TRY(const auto call, enter());
  const auto count = count_of(shape);
  if (!count) return invalid(fmt::format("table \"{}\" {}", name, count.error().message));
  if (count.value() != values.count) {
    return invalid(fmt::format("table \"{}\": its shape has {} values, but its memory has {}", name,
                               count.value(), values.count));
  }
  TAUT_TRY(ProgramDevice* const on, device(values.device));
  TAUT_TRY(check_memory(*on, values.data, "the memory", name));
  const Bytes bytes(values.count * sizeof(float));
  Table table;
  table.name = name;
  table.values = values;
  TAUT_TRY(HostBuffer host, on->allocate_pinned(bytes));
  TAUT_TRY(table.update, on->allocate_pinned(bytes));
  TAUT_TRY(table.values_copy, on->make_copy());
  TAUT_TRY(table.update_copy, on->make_copy());
  struct Kept {
    HostBuffer host;
    std::shared_ptr<void> device_memory;
  };
  auto kept = std::make_shared<Kept>(Kept{std::move(host), std::move(owner)});
  table.host = std::shared_ptr<HostBuffer>(kept, &kept->host);
  TAUT_TRY(const TableId id,
           member_.add_table(name, std::move(shape), kind, table.host->as<float>(), kept));
  tables_.emplace(id, std::move(table));
  return id;
}

Result<bool> DeviceTables::open(Duration at_most) {
  TAUT_TRY(const auto call, enter());
  if (is_open_) return true;
  const TimePoint begin = steady_now();
  // Until now the program may have written other values, as to tables on the host.
  for (auto& [id, table] : tables_) {
    if (table.is_read) continue;
    TAUT_TRY(table.values_copy->to_host(table.values.stream, table.values.data,
                                        table.host->as<std::byte>()));
    table.is_read = true;
  }
  TAUT_TRY(const bool copied, wait_for(at_most, [&]() -> Result<bool> {
             for (auto& [id, table] : tables_) {
               TAUT_TRY(const bool done, table.values_copy->is_done());
               if (!done) return false;
             }
             return true;
           }));
  if (!copied) return false;
  TAUT_TRY(const bool opened, member_.open(rest_of(at_most, begin)));
  if (!opened) return false;
  for (auto& [id, table] : tables_) {
    TAUT_TRY(copy_values(table));
  }
  is_open_ = true;
  return true;
}

Result<void> DeviceTables::push(TableId id, Update update) {
  TAUT_TRY(const auto call, enter());
  TAUT_TRY(send_copied());
  Table& table = tables_.at(id);
  if (table.is_pushed) {
    return invalid(fmt::format("table \"{}\" was pushed before; pull it before it is pushed again",
                               table.name));
  }
  TAUT_TRY(member_.check_push(id, update.memory.count));
  TAUT_TRY(ProgramDevice* const on, device(table.values.device));
  TAUT_TRY(check_memory(*on, update.memory.data, "the update", table.name));
  const std::size_t bytes = update.memory.count * update.element_bytes;
  if (bytes > table.update.size().value()) {  // elements wider than the values
    TAUT_TRY(table.update, on->allocate_pinned(Bytes(bytes)));
  }
  TAUT_TRY(table.update_copy->to_host(update.memory.stream, update.memory.data,
                                      table.update.as<std::byte>().first(bytes)));
  table.is_pushed = true;
  pending_.push_back({id, std::move(update)});
  return ok();
}

Result<bool> DeviceTables::is_copied(const Pending& pending) {
  Table& table = tables_.at(pending.table);
  TAUT_TRY(const bool update, table.update_copy->is_done());
  // The values that the servers send next are written where these are copied from.
  TAUT_TRY(const bool values, table.values_copy->is_done());
  return update && values;
}

Result<void> DeviceTables::send(Pending& pending) {
  Table& table = tables_.at(pending.table);
  const void* const copied = table.update.as<std::byte>().data();
  TAUT_TRY(member_.push(pending.table, pending.update.memory.count,
                        [&](std::span<float> into) { pending.update.convert(copied, into); }));
  table.is_current = false;
  return ok();
}

Result<bool> DeviceTables::send_copied() {
  while (!pending_.empty()) {
    TAUT_TRY(const bool copied, is_copied(pending_.front()));
    if (!copied) return false;
    TAUT_TRY(send(pending_.front()));
    pending_.pop_front();
  }
  return true;
}

Result<std::optional<ReadResult>> DeviceTables::pull(TableId id, Duration at_most) {
  TAUT_TRY(const auto call, enter());
  const TimePoint begin = steady_now();
  TAUT_TRY(const bool sent, wait_for(at_most, [&] { return send_copied(); }));
  if (!sent) return std::optional<ReadResult>();
  TAUT_TRY(auto read, member_.pull(id, rest_of(at_most, begin)));
  if (read && has(id)) {
    Table& table = tables_.at(id);
    table.is_pushed = false;
    if (!table.is_current) {
      TAUT_TRY(copy_values(table));
    }
  }
  return read;
}

Result<void> DeviceTables::copy_values(Table& table) {
  TAUT_TRY(table.values_copy->to_device(table.values.stream, table.host->as<const std::byte>(),
                                        table.values.data));
  table.is_current = true;
  return ok();
}

Result<void> DeviceTables::check_pulled() const {
  for (const auto& [id, table] : tables_) {
    if (!table.is_pushed) continue;
    return invalid(fmt::format(
        "table \"{}\" was pushed and not pulled; pull it before the clock ends", table.name));
  }
  return ok();
}

Result<bool> DeviceTables::wait_for(Duration at_most,
                                    const std::function<Result<bool>()>& condition) {
  const TimePoint begin = steady_now();
  for (auto pause = kFirstPause;;) {
    TAUT_TRY(const bool holds, condition());
    if (holds) return true;
    if (const auto end = member_.end()) return *end;
    const Duration waited = steady_now() - begin;
    if (at_most != Duration::max() && waited >= at_most) return false;
    if (waited < kLooks) continue;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kMaxPause);
  }
}

}  // namespace taut
