#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "worker/library/elements.hpp"
#include "worker/library/guarded.hpp"
#include "worker/library/json_text.hpp"
#include "worker/library/library_keys.hpp"
#include "worker/library/member_handle.hpp"

using namespace taut;           // NOLINT(google-build-using-namespace): what follows is C
using namespace taut::library;  // NOLINT(google-build-using-namespace)

tautline_code tautline_join(const char* address, const char* keys, uint64_t job, const char* name,
                            double wait_s, tautline_member** member) {
  return guarded([&]() -> Result<void> {
    if (address == nullptr || member == nullptr) return invalid("an argument is NULL");
    if (job == 0) return invalid("job 0 does not exist; jobs are counted from 1");
    MemberOptions options;
    options.coordinator = address;
    options.job = JobId(job);
    options.name = name == nullptr || *name == '\0' ? default_name() : name;
    TAUT_TRY(options.start_wait, to_wait(wait_s));
    prepare_process();
    TAUT_TRY(options.security, member_keys(keys, options.name));
    auto joined = std::make_unique<tautline_member>();
    TAUT_TRY(joined->member, JobMember::join(options));
    *member = joined.release();
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
    TAUT_TRY(const TableSpec* const table, member->member->table_in_text(index));
    *info = {table->name.c_str(), table->shape.data(), table->shape.size(),
             table->kind == TableKind::kAveraged ? TAUTLINE_AVERAGED : TAUTLINE_TRAINED};
    return ok();
  });
}

tautline_code tautline_definition(tautline_member* member, char** json) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    if (json == nullptr) return invalid("an argument is NULL");
    TAUT_TRY(const pb::Job job, member->member->definition());
    TAUT_TRY(const std::string text, json_of(job, "the job"));
    *json = text_of(text);
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

tautline_code tautline_set_multiples(tautline_member* member, uint32_t table, float lr_mult,
                                     float decay_mult) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    return member->member->set_multiples(TableId(table), lr_mult, decay_mult);
  });
}

tautline_code tautline_open(tautline_member* member) {
  return guarded_wait([&]() -> Result<bool> {
    TAUT_TRY(check(member));
    return member->on_devices != nullptr ? member->on_devices->open(patience())
                                         : member->member->open(patience());
  });
}

tautline_code tautline_is_due(tautline_member* member, uint32_t table, int* due) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    if (due == nullptr) return invalid("an argument is NULL");
    TAUT_TRY(const bool is_due, member->member->is_due(TableId(table)));
    *due = is_due ? 1 : 0;
    return ok();
  });
}

tautline_code tautline_gradient(tautline_member* member, uint32_t table, tautline_element element,
                                void** update) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    TAUT_TRY(check_written(element));
    if (update == nullptr) return invalid("an argument is NULL");
    TAUT_TRY(check_on_host(*member, table));
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
    TAUT_TRY(const auto read, member->on_devices != nullptr
                                  ? member->on_devices->pull(TableId(table), patience())
                                  : member->member->pull(TableId(table), patience()));
    if (read && version != nullptr) *version = read->version.value();
    return read.has_value();
  });
}

tautline_code tautline_snapshot(tautline_member* member, uint32_t table, tautline_element element,
                                void* into, uint64_t count, int64_t* version) {
  return guarded_wait([&]() -> Result<bool> {
    TAUT_TRY(check(member));
    TAUT_TRY(check_written(element));
    if (into == nullptr) return invalid("an argument is NULL");
    TAUT_TRY(const auto read, member->member->snapshot(
                                  TableId(table), {static_cast<float*>(into), count}, patience()));
    if (read && version != nullptr) *version = read->version.value();
    return read.has_value();
  });
}

tautline_code tautline_end_clock(tautline_member* member, const tautline_report* report,
                                 tautline_orders* orders) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    if (member->on_devices != nullptr) {
      TAUT_TRY(member->on_devices->check_pulled());
    }
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
    if (bins == nullptr || count == 0) return invalid("give room for at least one bin");
    TAUT_TRY(const StalenessHistogram histogram, member->member->staleness());
    std::fill_n(bins, count, 0);
    for (const auto& [staleness, reads] : histogram) {
      bins[std::min(static_cast<std::size_t>(staleness), count - 1)] += reads;
    }
    return ok();
  });
}

tautline_code tautline_leave(tautline_member* member) {
  return guarded_wait([&]() -> Result<bool> {
    TAUT_TRY(check(member));
    if (member->on_devices != nullptr) {
      TAUT_TRY(member->on_devices->check_pulled());
    }
    return member->member->leave(false, patience());
  });
}

tautline_code tautline_finish(tautline_member* member) {
  return guarded_wait([&]() -> Result<bool> {
    TAUT_TRY(check(member));
    if (member->on_devices != nullptr) {
      TAUT_TRY(member->on_devices->check_pulled());
    }
    return member->member->leave(true, patience());
  });
}

tautline_code tautline_fail(tautline_member* member, const char* reason) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    return member->member->fail(reason == nullptr ? "" : reason);
  });
}

void tautline_cancel(tautline_member* member) {
  if (member != nullptr && member->member != nullptr) member->member->cancel();
}

void tautline_close(tautline_member* member) {
  const std::unique_ptr<tautline_member> owned(member);
}
