#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/system/host_name.hpp"
#include "worker/library/elements.hpp"
#include "worker/library/guarded.hpp"
#include "worker/library/library_keys.hpp"
#include "worker/library/member_handle.hpp"

namespace taut::library {
namespace {

std::string default_name() {
  static std::atomic<unsigned> next = 0;
  return fmt::format("{}-{}-{}", host_name(), getpid(), next++);
}

}  // namespace
}  // namespace taut::library

using namespace taut;           // NOLINT(google-build-using-namespace): what follows is C
using namespace taut::library;  // NOLINT(google-build-using-namespace)

tautline_code tautline_join(const char* address, const char* keys, uint64_t job, const char* name,
                            double wait_s, tautline_member** member) {
  return guarded([&]() -> Result<void> {
    if (address == nullptr || member == nullptr) return invalid("an argument is NULL");
    if (job == 0) return invalid("job 0 does not exist; jobs are counted from 1");
    prepare_process();
    MemberOptions options;
    options.coordinator = address;
    options.job = JobId(job);
    options.name = name == nullptr || *name == '\0' ? default_name() : name;
    options.start_wait = from_seconds(wait_s);
    TAUT_TRY(options.security, member_keys(keys, options.name));
    auto made = std::make_unique<tautline_member>();
    TAUT_TRY(made->member, JobMember::join(options));
    *member = made.release();
    return ok();
  });
}

tautline_code tautline_await_place(tautline_member* member, tautline_place* place) {
  return guarded_wait([&]() -> Result<bool> {
    TAUT_TRY(check(member));
    TAUT_TRY(const auto taken, member->member->await_place(patience()));
    if (!taken) return false;
    if (place != nullptr) {
      *place = {taken->worker, taken->slot, taken->slots, taken->start.value()};
    }
    return true;
  });
}

tautline_code tautline_job_table(tautline_member* member, size_t index, tautline_table_info* info) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    if (info == nullptr) return invalid("an argument is NULL");
    const std::vector<TableSpec>& tables = member->member->tables_in_text();
    if (index >= tables.size()) {
      return make_error(
          ErrorCode::kNotFound,
          fmt::format("table {} is not in the job's text, which names {}", index, tables.size()));
    }
    const TableSpec& table = tables[index];
    *info = {table.name.c_str(), table.shape.data(), table.shape.size(),
             table.kind == TableKind::kAveraged ? TAUTLINE_AVERAGED : TAUTLINE_TRAINED};
    return ok();
  });
}

tautline_code tautline_add_table(tautline_member* member, const char* name, const int64_t* shape,
                                 size_t dimensions, tautline_element element, tautline_kind kind,
                                 void* values, uint32_t* table) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    TAUT_TRY(check_written(element));
    const bool has_shape = shape != nullptr || dimensions == 0;
    if (name == nullptr || !has_shape || values == nullptr || table == nullptr) {
      return invalid("an argument is NULL");
    }
    TAUT_TRY(*table, add_table(*member, {name, {shape, dimensions}, kind}, values));
    return ok();
  });
}

tautline_code tautline_open(tautline_member* member) {
  return guarded_wait([&]() -> Result<bool> {
    TAUT_TRY(check(member));
    return member->member->open(patience());
  });
}

tautline_code tautline_gradient(tautline_member* member, uint32_t table, tautline_element element,
                                void** update) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    TAUT_TRY(check_written(element));
    if (update == nullptr) return invalid("an argument is NULL");
    TAUT_TRY(const std::span<float> memory, member->member->gradient(TableId(table)));
    *update = memory.data();
    return ok();
  });
}

tautline_code tautline_push(tautline_member* member, uint32_t table, tautline_element element,
                            const void* update, uint64_t count) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    return push(*member, table, element, update, count);
  });
}

tautline_code tautline_pull(tautline_member* member, uint32_t table, int64_t* version) {
  return guarded_wait([&]() -> Result<bool> {
    TAUT_TRY(check(member));
    TAUT_TRY(const auto read, member->member->pull(TableId(table), patience()));
    if (read && version != nullptr) *version = read->version.value();
    return read.has_value();
  });
}

tautline_code tautline_snapshot(tautline_member* member, uint32_t table, tautline_element element,
                                void* into, uint64_t count, int64_t* version) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    TAUT_TRY(check_written(element));
    if (into == nullptr) return invalid("an argument is NULL");
    TAUT_TRY(const ReadResult read,
             member->member->snapshot(TableId(table), {static_cast<float*>(into), count}));
    if (version != nullptr) *version = read.version.value();
    return ok();
  });
}

tautline_code tautline_end_clock(tautline_member* member, const tautline_report* report,
                                 tautline_orders* orders) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    ClockReport ended;
    if (report != nullptr) {
      ended.items = report->items;
      if (!std::isnan(report->loss)) ended.loss = report->loss;
    }
    TAUT_TRY(const MemberOrders given, member->member->end_clock(ended));
    if (orders != nullptr) {
      orders->clock = member->member->clock().value();
      orders->leave = given.leave ? 1 : 0;
    }
    return ok();
  });
}

tautline_code tautline_staleness(tautline_member* member, uint64_t* bins, size_t count) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    if (bins == nullptr || count == 0) return invalid("there is no room for a bin");
    std::fill_n(bins, count, 0);
    for (const auto& [staleness, reads] : member->member->staleness()) {
      bins[std::min(static_cast<std::size_t>(staleness), count - 1)] += reads;
    }
    return ok();
  });
}

tautline_code tautline_leave(tautline_member* member) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    return member->member->leave(false);
  });
}

tautline_code tautline_finish(tautline_member* member) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    return member->member->leave(true);
  });
}

tautline_code tautline_fail(tautline_member* member, const char* reason) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    member->member->fail(reason == nullptr ? "" : reason);
    return ok();
  });
}

void tautline_close(tautline_member* member) {
  const std::unique_ptr<tautline_member> owned(member);
}
