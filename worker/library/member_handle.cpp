#include "worker/library/member_handle.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "common/ssp/table_shape.hpp"
#include "worker/library/elements.hpp"

namespace taut::library {

Result<void> check(const tautline_member* member) {
  if (member == nullptr || member->member == nullptr) return invalid("the member is NULL");
  return ok();
}

Result<std::uint64_t> count_of(const NewTable& table) {
  const auto count = taut::count_of(table.shape);
  if (count) return count.value();
  return invalid(fmt::format("table \"{}\" {}", table.name, count.error().message));
}

Result<TableKind> kind_of(const NewTable& table) {
  if (table.kind == TAUTLINE_TRAINED) return TableKind::kTrained;
  if (table.kind == TAUTLINE_AVERAGED) return TableKind::kAveraged;
  return invalid(
      fmt::format("table \"{}\": kind {} is unknown", table.name, static_cast<int>(table.kind)));
}

Result<void> check_table_memory(const GivenTensor& tensor, const std::string& what) {
  if (tensor.element() != TAUTLINE_FLOAT32) {
    return invalid(fmt::format("{} is {}; the library writes float32 into it: convert it", what,
                               words_of(tensor.element())));
  }
  if (tensor.is_read_only()) {
    return invalid(fmt::format("{} is read-only; give a copy of it", what));
  }
  return ok();
}

Result<void> check_update_shape(const GivenTensor& update, const JobMember::TableView& table) {
  if (std::ranges::equal(update.shape(), table.shape)) return ok();
  return invalid(fmt::format("table \"{}\" has shape [{}], but its update has [{}]", table.name,
                             fmt::join(table.shape, ", "), fmt::join(update.shape(), ", ")));
}

Result<std::uint32_t> add_table(tautline_member& member, const NewTable& table, void* values,
                                std::shared_ptr<void> owner) {
  TAUT_TRY(const TableKind kind, kind_of(table));
  TAUT_TRY(const std::uint64_t count, count_of(table));
  TAUT_TRY(const TableId id,
           member.member->add_table(table.name, {table.shape.begin(), table.shape.end()}, kind,
                                    {static_cast<float*>(values), count}, std::move(owner)));
  return id.value();
}

Result<void> check_on_host(const tautline_member& member, std::uint32_t table) {
  if (member.on_devices == nullptr || !member.on_devices->has(TableId(table))) return ok();
  return invalid(fmt::format(
      "table {} is on CUDA device {}; push what is there, by tautline_push_device_buffer() or "
      "tautline_push_device_dlpack()",
      table, member.on_devices->memory(TableId(table)).device));
}

Result<void> push(tautline_member& member, std::uint32_t table, tautline_element element,
                  const void* update, std::uint64_t count) {
  TAUT_TRY(check_on_host(member, table));
  TAUT_TRY(check_element(element));
  if (update == nullptr) return invalid("an argument is NULL");
  if (element == TAUTLINE_FLOAT32) {
    return member.member->push(TableId(table), {static_cast<const float*>(update), count});
  }
  return member.member->push(TableId(table), count, [&](std::span<float> converted) {
    to_float32(element, update, converted);
  });
}

Result<void> push_lent(tautline_member& member, std::uint32_t table, tautline_element element,
                       const LentMemory& update, std::uint64_t count) {
  TAUT_TRY(check_on_host(member, table));
  const void* const data = update.memory().get();
  if (element != TAUTLINE_FLOAT32 || data == nullptr) {
    return push(member, table, element, data, count);
  }
  if (count > std::numeric_limits<std::uint64_t>::max() / sizeof(float)) {
    return invalid(fmt::format("an update of {} values cannot be", count));
  }
  return member.member->push_lent(
      TableId(table), Frame(update.memory(), {update.memory().get(), count * sizeof(float)}));
}

}  // namespace taut::library
