#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "worker/library/lent_memory.hpp"
#include "worker/library/tautline.h"
#include "worker/library/tensor.hpp"
#include "worker/member/device_tables.hpp"
#include "worker/member/job_member.hpp"

struct tautline_member {
  std::unique_ptr<taut::JobMember> member;
  std::unique_ptr<taut::DeviceTables> on_devices;  // nullptr: no table is on a device
};

namespace taut::library {

/// Errors    invalid: the member is NULL
[[nodiscard]] Result<void> check(const tautline_member* member);

/// A table that a program adds.
struct NewTable {
  const char* name = nullptr;
  std::span<const std::int64_t> shape;
  tautline_kind kind = TAUTLINE_TRAINED;
};
/// The number of a table's values.
/// Errors    invalid: as for a shape, with the table's name
[[nodiscard]] Result<std::uint64_t> count_of(const NewTable& table);

/// Errors    invalid: the kind is unknown
[[nodiscard]] Result<TableKind> kind_of(const NewTable& table);

/// Checks that a tensor can be a table's memory: float32, not read-only.
/// what  names it in messages
[[nodiscard]] Result<void> check_table_memory(const GivenTensor& tensor, const std::string& what);
/// Checks that an update has its table's shape.
[[nodiscard]] Result<void> check_update_shape(const GivenTensor& update,
                                              const JobMember::TableView& table);

/// values  [count_of(table)]
/// owner   of the values, kept until the member's end; nullptr: the caller keeps them
[[nodiscard]] Result<std::uint32_t> add_table(tautline_member& member, const NewTable& table,
                                              void* values, std::shared_ptr<void> owner = nullptr);

/// Checks that a table is in the host's memory. Errors: invalid, it is on a device.
[[nodiscard]] Result<void> check_on_host(const tautline_member& member, std::uint32_t table);

/// Pushes numbers of any type; those of a type other than float32 are converted.
[[nodiscard]] Result<void> push(tautline_member& member, std::uint32_t table,
                                tautline_element element, const void* update, std::uint64_t count);
/// As push(), for borrowed memory, which the library keeps until it no longer needs it.
[[nodiscard]] Result<void> push_lent(tautline_member& member, std::uint32_t table,
                                     tautline_element element, const LentMemory& update,
                                     std::uint64_t count);

}  // namespace taut::library
