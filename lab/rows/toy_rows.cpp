#include "lab/rows/toy_rows.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "common/ssp/row_buckets.hpp"

namespace taut::sim {
namespace {

std::uint64_t row_place(TableId table, std::uint64_t row, WorkerId worker) {
  return Random::mix(Random::mix(row + 1) ^ std::uint64_t{table.value()} << 32U ^
                     std::uint64_t{worker.value()} << 48U);
}

}  // namespace

std::vector<std::uint64_t> ToyRows::rows_of(SliceId bucket) const {
  std::vector<std::uint64_t> rows;
  for (std::uint32_t i = 0; i < named; ++i) {
    if (bucket_of(row(i), kept.buckets) == bucket.value()) rows.push_back(row(i));
  }
  return rows;
}

std::vector<ToyRows> draw_rows(Random& random, std::int64_t clocks) {
  std::vector<ToyRows> tables(1 + random.below(2));
  for (ToyRows& table : tables) {
    table.width = static_cast<std::uint32_t>(random.between(1, 3));
    table.named = static_cast<std::uint32_t>(random.between(4, 20));
    table.is_filled = random.chance(0.3);
    table.period = (clocks + kMaxNamed - 1) / kMaxNamed;
    table.kept.buckets = static_cast<std::uint32_t>(random.between(1, 5));
    if (random.chance(0.3)) {
      table.kept.max_rows = static_cast<std::uint64_t>(random.between(1, table.named));
      // Memory is reserved for the rows that are kept, not for all possible rows.
      if (random.chance(0.5)) table.stride = 1UL << random.below(32);
    }
    if (random.chance(0.3)) table.kept.idle_clocks = random.between(1, 12);
    // A read may name one of them twice. This uses no draw, so that other seeds' runs do not
    // change.
    if (table.named % 2 == 0) table.kept.clock_rows = table.named + 1;
  }
  return tables;
}

TableSpec toy_row_table(const ToyRows& rows, TableId id) {
  TableSpec table;
  table.id = id;
  table.name = "t" + std::to_string(id.value());
  table.shape = {static_cast<std::int64_t>(rows.row(rows.named - 1)) + 1, rows.width};
  if (rows.is_filled) table.filler = {math::Filler::Kind::kUniform, -1.0F, 1.0F};
  table.rows = rows.kept;
  return table;
}

std::vector<std::uint64_t> rows_pushed(const ToyRows& rows, TableId table, WorkerId worker,
                                       Clock clock) {
  std::vector<std::uint64_t> named;
  const std::int64_t period = clock.value() / rows.period;
  for (std::uint32_t i = 0; i < rows.named; ++i) {
    Random random(row_place(table, rows.row(i), worker) ^ static_cast<std::uint64_t>(period));
    const auto at =
        static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(rows.period)));
    if (at == clock.value() % rows.period && random.chance(0.75)) named.push_back(rows.row(i));
  }
  return named;
}

std::vector<std::uint64_t> rows_read(const ToyRows& rows, TableId table, WorkerId worker,
                                     Clock clock) {
  constexpr std::uint64_t kOfReads = 1ULL << 60U;  // no row is this large
  Random random(row_place(table, kOfReads, worker) ^ static_cast<std::uint64_t>(clock.value()));
  const std::uint64_t kind = random.below(5);
  if (kind == 0) return {};
  if (kind == 1 && clock > Clock(0)) return rows_read(rows, table, worker, clock - 1);
  std::vector<std::uint64_t> named;
  for (std::uint32_t i = 0; i < rows.named; ++i) {
    if (random.chance(0.4)) named.push_back(rows.row(i));
  }
  for (std::size_t i = named.size(); i > 1; --i) std::swap(named[i - 1], named[random.below(i)]);
  if (!named.empty() && random.chance(0.2)) named.push_back(named.front());
  return named;
}

void toy_row_update(TableId table, std::uint64_t row, WorkerId worker, Clock clock,
                    std::span<float> out) {
  out[0] = worker.value() < kCountedMembers ? std::ldexp(1.0F, 3 * static_cast<int>(worker.value()))
                                            : 0.0F;
  Random random(row_place(table, row, worker) + static_cast<std::uint64_t>(clock.value()));
  for (float& value : out.subspan(1)) {
    const std::uint64_t bits = random.next();
    const auto mantissa =
        static_cast<float>(static_cast<std::int32_t>(bits & 0xffffffU) - 0x800000);
    value = std::ldexp(mantissa, -static_cast<int>(20 + (bits >> 40U) % 12));
  }
}

std::int64_t counted(float value, std::uint32_t member) {
  return (static_cast<std::int64_t>(-value) >> (3 * member)) & kMaxNamed;
}

}  // namespace taut::sim
