#include "proto/data_codec/item_codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "common/ssp/row_buckets.hpp"

namespace taut {
namespace {

constexpr std::uint32_t kMaxEvery = 1U << 18U;
constexpr std::uint32_t kMaxColumns = 1U << 18U;

bool always_carries_payload(DataItem::Kind kind) {
  return kind == pb::DataItem::PUSH || kind == pb::DataItem::PUSH_READ ||
         kind == pb::DataItem::VALUE || kind == pb::DataItem::SNAPSHOT_VALUE ||
         kind == pb::DataItem::FOLLOW_VALUE;
}

bool is_push(DataItem::Kind kind) {
  return kind == pb::DataItem::PUSH || kind == pb::DataItem::PUSH_READ;
}

bool names_rows(DataItem::Kind kind) {
  return kind == pb::DataItem::READ || kind == pb::DataItem::SNAPSHOT;
}

/// Errors    invalid: an impossible item by rows
Result<void> check_rows(const pb::DataItem& wire) {
  if (wire.layout() == pb::DataItem::DENSE) {
    if (wire.rows() == 0) return ok();
    return invalid(fmt::format("{} rows in a payload that is not by rows", wire.rows()));
  }
  const auto kind = wire.kind();
  if (kind == pb::DataItem::PUSH_READ || kind == pb::DataItem::FOLLOW_VALUE ||
      !carries_payload(kind, true)) {
    return invalid(fmt::format("a data item of kind {} has the layout ROWS, which it must not have",
                               pb::DataItem::Kind_Name(kind)));
  }
  if (wire.rows() > kMaxRowsOfItem || wire.count() < 1 || wire.count() > kMaxRowWidth ||
      wire.rows() * wire.count() > kMaxRowValues) {
    return invalid(fmt::format(
        "{} rows of {} values; at most {} rows, {} values of each and {} of all are allowed",
        wire.rows(), wire.count(), kMaxRowsOfItem, kMaxRowWidth, kMaxRowValues));
  }
  return ok();
}

/// Codecs by their element types.
constexpr std::array kCodecOf{math::Codec::kFloat32, math::Codec::kFloat16, math::Codec::kBfloat16,
                              math::Codec::kInt8,    math::Codec::kOneBit,  math::Codec::kTopK,
                              math::Codec::kRandomK, math::Codec::kLowRank};
static_assert(kCodecOf.size() == math::kCodecs &&
              kCodecOf.size() == std::size_t{pb::DataItem::ElementType_MAX} + 1);

pb::DataItem::ElementType element_type_of(const math::Encoding& encoding) {
  const auto* found = std::ranges::find(kCodecOf, encoding.codec);
  return static_cast<pb::DataItem::ElementType>(found - kCodecOf.begin());
}

Result<void> check_factors(const math::Encoding& encoding) {
  if (encoding.codec != math::Codec::kLowRank) {
    if (encoding.rank == 0 && encoding.columns == 0) return ok();
    return invalid(fmt::format("{} has a rank of {} and {} columns; it must have neither",
                               math::to_string(encoding.codec), encoding.rank, encoding.columns));
  }
  if (encoding.rank < 1 || encoding.rank > math::kMaxRank) {
    return invalid(fmt::format("the rank of a matrix must be from 1 to {}, is {}", math::kMaxRank,
                               encoding.rank));
  }
  if (encoding.columns < 1 || encoding.columns > kMaxColumns) {
    return invalid(fmt::format("the columns of a matrix must be from 1 to {}, are {}", kMaxColumns,
                               encoding.columns));
  }
  return ok();
}

/// Errors    invalid: an encoding that is unknown, or that such an item cannot have
Result<math::Encoding> encoding_of(const pb::DataItem& wire) {
  const auto type = static_cast<std::size_t>(wire.element_type());
  const bool is_known =
      wire.layout() == pb::DataItem::DENSE || (wire.layout() == pb::DataItem::ROWS && type == 0);
  if (type >= kCodecOf.size() || !is_known) {
    return invalid(fmt::format("element type {} in layout {} is unknown",
                               static_cast<int>(wire.element_type()),
                               static_cast<int>(wire.layout())));
  }
  const math::Encoding encoding{kCodecOf[type], wire.every(), wire.rank(), wire.columns()};
  TAUT_TRY(check_factors(encoding));
  const auto limits = encoding.is_sparse() ? std::pair{2U, kMaxEvery} : std::pair{0U, 0U};
  if (encoding.every < limits.first || encoding.every > limits.second) {
    return invalid(fmt::format("one of {} values is sent as {}; it must be from {} to {}",
                               encoding.every, math::to_string(encoding.codec), limits.first,
                               limits.second));
  }
  const bool may_be =
      is_push(wire.kind()) || (wire.kind() == pb::DataItem::VALUE && !encoding.has_residual());
  if (encoding.codec != math::Codec::kFloat32 && !may_be) {
    return invalid(fmt::format("a data item of kind {} is encoded as {}, which it must not be",
                               pb::DataItem::Kind_Name(wire.kind()),
                               math::to_string(encoding.codec)));
  }
  return encoding;
}

}  // namespace

bool carries_payload(DataItem::Kind kind, bool by_rows) {
  return always_carries_payload(kind) || (by_rows && names_rows(kind));
}

std::uint64_t row_bytes(DataItem::Kind kind, std::uint64_t rows, std::uint64_t width) {
  if (names_rows(kind)) return rows * sizeof(std::uint64_t);
  return rows * (is_push(kind) ? pushed_row_bytes(width) : width * sizeof(float));
}

void to_wire(const DataItem& item, pb::DataItem& wire) {
  wire.set_kind(item.kind);
  wire.set_table(item.table.value());
  wire.set_slice(item.slice.value());
  wire.set_offset(item.offset);
  wire.set_count(item.count);
  wire.set_clock(item.clock.value());
  wire.set_version(item.version.value());
  wire.set_done(item.done.value());
  wire.set_stable(item.stable.value());
  wire.set_payload(carries_payload(item.kind, item.by_rows));
  if (item.by_rows) {
    wire.set_layout(pb::DataItem::ROWS);
    wire.set_rows(item.rows);
  }
  wire.set_element_type(element_type_of(item.encoding));
  wire.set_every(item.encoding.every);
  wire.set_rank(item.encoding.rank);
  wire.set_columns(item.encoding.columns);
  wire.set_refusal(item.refusal);
  wire.set_gradient_norm(item.gradient_norm);
  if (item.weight != 1) wire.set_weight(item.weight);
  wire.set_waits_for(item.waits_for.value());
  wire.set_follower(item.follower.value());
  if (!item.reason.empty()) wire.set_reason(item.reason);
}

Result<DataItem> from_wire(pb::DataItem& wire) {
  if (!pb::DataItem::Kind_IsValid(wire.kind()) || wire.kind() == pb::DataItem::UNKNOWN) {
    return invalid(fmt::format("data item of unknown kind {}", static_cast<int>(wire.kind())));
  }
  if ((wire.packed() || wire.has_place()) && !wire.payload()) {
    return invalid("a data item without a payload has a place for it");
  }
  if (wire.packed() && wire.has_place()) {
    return invalid("a data item whose payload is both packed and in shared memory");
  }
  const bool by_rows = wire.layout() == pb::DataItem::ROWS;
  if (wire.payload() != carries_payload(wire.kind(), by_rows)) {
    return invalid(fmt::format("a data item of kind {} {} a payload",
                               pb::DataItem::Kind_Name(wire.kind()),
                               wire.payload() ? "has" : "lacks"));
  }
  DataItem item;
  TAUT_TRY(item.encoding, encoding_of(wire));
  TAUT_TRY(check_rows(wire));
  item.by_rows = by_rows;
  item.rows = wire.rows();
  item.kind = wire.kind();
  item.table = TableId(wire.table());
  item.slice = SliceId(wire.slice());
  item.offset = wire.offset();
  item.count = wire.count();
  item.clock = Clock(wire.clock());
  item.version = Clock(wire.version());
  item.done = Clock(wire.done());
  item.stable = Clock(wire.stable());
  item.refusal = wire.refusal();
  item.reason = std::move(*wire.mutable_reason());
  item.waits_for = WorkerId(wire.waits_for());
  item.follower = FollowerId(wire.follower());
  item.gradient_norm = wire.gradient_norm();
  if (!(item.gradient_norm >= 0)) {
    return invalid(fmt::format("gradient norm must be at least 0, is {}", item.gradient_norm));
  }
  if (wire.weight() != 0) item.weight = wire.weight();
  if (!(item.weight > 0 && std::isfinite(item.weight))) {
    return invalid(fmt::format("weight must be finite and greater than 0, is {}", item.weight));
  }
  if (item.clock < Clock(0) || item.clock == Clock::never()) {
    return invalid(fmt::format("clock {} is out of range", item.clock.value()));
  }
  return item;
}

void to_wire(const SharedPlace& place, pb::SharedPlace& wire) {
  wire.set_offset(place.offset);
  wire.set_loan(place.loan);
  wire.set_generation(place.generation);
}

SharedPlace place_of(const pb::SharedPlace& wire) {
  return {wire.offset(), wire.loan(), wire.generation()};
}

std::uint64_t push_bytes(const DataItem& push) {
  return push.by_rows ? row_bytes(push.kind, push.rows, push.count)
                      : math::encoded_bytes(push.encoding, push.count);
}

}  // namespace taut
