// The C interface's calls that lend memory: buffers with a release, and DLPack tensors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

#include "worker/library/elements.hpp"
#include "worker/library/guarded.hpp"
#include "worker/library/member_handle.hpp"
#include "worker/library/tensor.hpp"

using namespace taut;           // NOLINT(google-build-using-namespace): what follows is C
using namespace taut::library;  // NOLINT(google-build-using-namespace)

tautline_code tautline_add_buffer(tautline_member* member, const char* name, const int64_t* shape,
                                  size_t dimensions, tautline_kind kind,
                                  const tautline_buffer* values, uint32_t* table) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    const bool has_shape = shape != nullptr || dimensions == 0;
    if (name == nullptr || !has_shape || values == nullptr || values->data == nullptr ||
        table == nullptr) {
      return invalid("an argument is NULL");
    }
    TAUT_TRY(const tautline_element element, element_in(values->element));
    TAUT_TRY(check_written(element));
    const NewTable added{name, {shape, dimensions}, kind};
    TAUT_TRY(const std::uint64_t count, count_of(added));
    if (count != values->count) {
      return invalid(
          fmt::format("table \"{}\": its shape [{}] has {} values, but its buffer has {}", name,
                      fmt::join(added.shape, ", "), count, values->count));
    }
    LentMemory lent(values->data, release_of(*values));
    TAUT_TRY(*table, add_table(*member, added, values->data, lent.memory()));
    lent.accept();
    return ok();
  });
}

tautline_code tautline_push_buffer(tautline_member* member, uint32_t table,
                                   const tautline_buffer* update) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    if (update == nullptr) return invalid("an argument is NULL");
    TAUT_TRY(const tautline_element element, element_in(update->element));
    LentMemory lent(update->data, release_of(*update));
    TAUT_TRY(push_lent(*member, table, element, lent, update->count));
    lent.accept();
    return ok();
  });
}

tautline_code tautline_add_dlpack(tautline_member* member, const char* name, tautline_kind kind,
                                  void* tensor, int versioned, uint32_t* table) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    if (name == nullptr || table == nullptr) return invalid("an argument is NULL");
    const std::string what = fmt::format("the memory of table \"{}\"", name);
    TAUT_TRY(GivenTensor given, GivenTensor::take(tensor, versioned != 0, what));
    TAUT_TRY(check_table_memory(given, what));
    const NewTable added{name, given.shape(), kind};
    TAUT_TRY(*table,
             add_table(*member, added, given.memory().memory().get(), given.memory().memory()));
    given.accept();
    return ok();
  });
}

tautline_code tautline_push_dlpack(tautline_member* member, uint32_t table, void* tensor,
                                   int versioned) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    TAUT_TRY(const JobMember::TableView known, member->member->table(TableId(table)));
    const std::string what = fmt::format("the update of table \"{}\"", known.name);
    TAUT_TRY(GivenTensor given, GivenTensor::take(tensor, versioned != 0, what));
    TAUT_TRY(check_update_shape(given, known));
    TAUT_TRY(push_lent(*member, table, given.element(), given.memory(), given.count()));
    given.accept();
    return ok();
  });
}

tautline_code tautline_values_dlpack(tautline_member* member, uint32_t table, int versioned,
                                     void** tensor) {
  return guarded([&]() -> Result<void> {
    TAUT_TRY(check(member));
    if (tensor == nullptr) return invalid("an argument is NULL");
    TAUT_TRY(JobMember::TableView known, member->member->table(TableId(table)));
    const bool is_on_device =
        member->on_devices != nullptr && member->on_devices->has(TableId(table));
    if (is_on_device) {
      const DeviceTables::Memory& values = member->on_devices->memory(TableId(table));
      *tensor = make_tensor(static_cast<float*>(values.data), known.shape, std::move(known.owner),
                            versioned != 0, {dlpack::kCuda, values.device});
    } else {
      *tensor =
          make_tensor(known.values.data(), known.shape, std::move(known.owner), versioned != 0);
    }
    return ok();
  });
}
