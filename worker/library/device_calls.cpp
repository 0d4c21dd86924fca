// The C interface's calls for device memory, each with the stream that orders its use.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "worker/library/elements.hpp"
#include "worker/library/guarded.hpp"
#include "worker/library/member_handle.hpp"
#include "worker/library/tensor.hpp"

using namespace taut;           // NOLINT(google-build-using-namespace): what follows is C
using namespace taut::library;  // NOLINT(google-build-using-namespace)

namespace {

Result<void> check(const tautline_device_buffer* buffer) {
  if (buffer == nullptr || buffer->data == nullptr) return invalid("an argument is NULL");
  if (buffer->size == sizeof(tautline_device_buffer)) return ok();
  return invalid(
      fmt::format("the buffer's size is {}, but a tautline_device_buffer has {} bytes; set it to "
                  "sizeof(tautline_device_buffer)",
                  buffer->size, sizeof(tautline_device_buffer)));
}

DeviceTables::Memory memory_of(const tautline_device_buffer& buffer) {
  return {buffer.data, buffer.count, buffer.device, buffer.stream};
}

Result<std::uint32_t> add(tautline_member& member, const NewTable& table,
                          const DeviceTables::Memory& values, std::shared_ptr<void> owner) {
  TAUT_TRY(const TableKind kind, kind_of(table));
  if (member.on_devices == nullptr) {
    member.on_devices = std::make_unique<DeviceTables>(*member.member);
  }
  TAUT_TRY(const TableId id,
           member.on_devices->add(table.name, {table.shape.begin(), table.shape.end()}, kind,
                                  values, std::move(owner)));
  return id.value();
}

Result<void> push(tautline_member& member, std::uint32_t table, tautline_element element,
                  const DeviceTables::Memory& update, std::shared_ptr<void> owner) {
  TAUT_TRY(check_element(element));
  if (member.on_devices == nullptr || !member.on_devices->has(TableId(table))) {
    return invalid(fmt::format(
        "table {} is in the host's memory; push a copy there, by tautline_push()", table));
  }
  return member.on_devices->push(
      TableId(table),
      {update, bytes_of(element),
       [element](const void* from, std::span<float> into) { to_float32(element, from, into); },
       std::move(owner)});
}

}  // namespace

tautline_code tautline_add_device_buffer(tautline_member* member, const char* name,
                                         const int64_t* shape, size_t dimensions,
                                         tautline_kind kind, const tautline_device_buffer* values,
                                         uint32_t* table) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(taut::library::check(member));
    TAUT_TRY(check(values));
    const bool has_shape = shape != nullptr || dimensions == 0;
    if (name == nullptr || !has_shape || table == nullptr) return invalid("an argument is NULL");
    TAUT_TRY(const tautline_element element, element_in(values->element));
    TAUT_TRY(check_written(element));
    LentMemory lent(values->data, release_of(*values));
    TAUT_TRY(*table,
             add(*member, {name, {shape, dimensions}, kind}, memory_of(*values), lent.memory()));
    lent.accept();
    return ok();
  });
}

tautline_code tautline_push_device_buffer(tautline_member* member, uint32_t table,
                                          const tautline_device_buffer* update) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(taut::library::check(member));
    TAUT_TRY(check(update));
    TAUT_TRY(const tautline_element element, element_in(update->element));
    LentMemory lent(update->data, release_of(*update));
    TAUT_TRY(push(*member, table, element, memory_of(*update), lent.memory()));
    lent.accept();
    return ok();
  });
}

tautline_code tautline_add_device_dlpack(tautline_member* member, const char* name,
                                         tautline_kind kind, void* tensor, int versioned,
                                         void* stream, uint32_t* table) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(taut::library::check(member));
    if (name == nullptr || table == nullptr) return invalid("an argument is NULL");
    const std::string what = fmt::format("the memory of table \"{}\"", name);
    TAUT_TRY(GivenTensor given,
             GivenTensor::take(tensor, versioned != 0, what, GivenTensor::Place::kCuda));
    TAUT_TRY(check_table_memory(given, what));
    const auto& memory = given.memory().memory();
    TAUT_TRY(*table, add(*member, {name, given.shape(), kind},
                         {memory.get(), given.count(), given.device(), stream}, memory));
    given.accept();
    return ok();
  });
}

tautline_code tautline_push_device_dlpack(tautline_member* member, uint32_t table, void* tensor,
                                          int versioned, void* stream) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(taut::library::check(member));
    TAUT_TRY(const JobMember::TableView known, member->member->table(TableId(table)));
    TAUT_TRY(GivenTensor given,
             GivenTensor::take(tensor, versioned != 0,
                               fmt::format("the update of table \"{}\"", known.name),
                               GivenTensor::Place::kCuda));
    TAUT_TRY(check_update_shape(given, known));
    const auto& memory = given.memory().memory();
    TAUT_TRY(push(*member, table, given.element(),
                  {memory.get(), given.count(), given.device(), stream}, memory));
    given.accept();
    return ok();
  });
}

tautline_code tautline_set_stream(tautline_member* member, uint32_t table, void* stream) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(taut::library::check(member));
    if (member->on_devices == nullptr || !member->on_devices->has(TableId(table))) {
      return invalid(fmt::format("table {} is not on a device, and has no stream", table));
    }
    member->on_devices->set_stream(TableId(table), stream);
    return ok();
  });
}
