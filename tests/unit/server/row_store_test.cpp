#include "server/tables/row_store.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "common/math/update_rules.hpp"
#include "common/ssp/row_buckets.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/server/row_model.hpp"

namespace taut::server {
namespace {

using test::by_rows::kSeed;
using test::by_rows::Model;
using test::by_rows::RowGradients;

TableSpec make_table(std::int64_t width, RowTable rows = {}) {
  TableSpec table;
  table.name = "embedding";
  table.shape = {1'000'000, width};
  table.filler = {math::Filler::Kind::kUniform, -1.0F, 1.0F};
  table.rows = rows;
  return table;
}

/// At an odd address, as a frame's part may be.
Update update_of(const RowGradients& of, Clock clock) {
  std::vector<std::byte> bytes(1 + of.rows.size() * sizeof(std::uint64_t) +
                               of.gradients.size() * sizeof(float));
  std::byte* at = bytes.data() + 1;
  if (!of.rows.empty()) {
    std::memcpy(at, of.rows.data(), of.rows.size() * sizeof(std::uint64_t));
    std::memcpy(at + of.rows.size() * sizeof(std::uint64_t), of.gradients.data(),
                of.gradients.size() * sizeof(float));
  }
  Update update;
  update.clock = clock;
  update.gradient = Frame::copy_of(bytes).part(1, bytes.size() - 1);
  update.rows = static_cast<std::uint32_t>(of.rows.size());
  return update;
}

void apply(RowStore& store, math::RuleKind kind, const math::UpdateStep& step,
           const std::vector<RowGradients>& all, float scale, Clock clock) {
  std::vector<Update> updates;
  updates.reserve(all.size());
  for (const RowGradients& one : all) updates.push_back(update_of(one, clock));
  std::vector<RowStore::Weighed> weighed;
  for (std::size_t i = 0; i < all.size(); ++i) weighed.push_back({&updates[i], all[i].scale});
  store.apply(kind, step, weighed, scale, clock);
}

/// The rows of an image, found place by place.
Model::Rows rows_of(const RowImage& image, std::size_t width, std::size_t states) {
  Model::Rows rows;
  for (const auto& chunk : image.chunks) {
    for (std::size_t i = 0; i < chunk->numbers.size(); ++i) {
      if (chunk->updated[i] == RowChunk::kFree) continue;
      const auto floats = std::span(chunk->floats).subspan(i * (1 + states) * width);
      Model::Row row;
      row.values.assign(floats.begin(), floats.begin() + static_cast<std::ptrdiff_t>(width));
      for (std::size_t state = 1; state <= states; ++state) {
        const auto part = floats.subspan(state * width, width);
        row.states.emplace_back(part.begin(), part.end());
      }
      row.updated = chunk->updated[i];
      const bool is_new = rows.emplace(chunk->numbers[i], std::move(row)).second;
      REQUIRE(is_new);
    }
  }
  REQUIRE(image.rows == rows.size());
  return rows;
}

std::vector<float> read(const RowStore& store, const std::vector<std::uint64_t>& rows) {
  std::vector<std::byte> numbers(1 + rows.size() * sizeof(std::uint64_t));
  if (!rows.empty()) {
    std::memcpy(numbers.data() + 1, rows.data(), rows.size() * sizeof(std::uint64_t));
  }
  std::vector<float> values(rows.size() * store.width());
  store.read(std::span(numbers).subspan(1), values);
  return values;
}

/// Draws updates of a few members.
class Drawer {
 public:
  Drawer(std::uint32_t seed, std::uint64_t universe, std::size_t width)
      : random_(seed), universe_(universe), width_(width) {}

  /// below  `count`
  std::uint64_t pick(std::uint64_t count) { return random_() % count; }
  std::vector<RowGradients> updates() {
    std::vector<RowGradients> all(1 + pick(3));
    for (RowGradients& one : all) {
      if (pick(5) == 0) continue;  // it names no row
      const std::uint64_t odds = 2 + pick(8);
      for (std::uint64_t row = 0; row < universe_; ++row) {
        if (pick(odds) == 0) one.rows.push_back(row * row * 7);
      }
      one.gradients.resize(one.rows.size() * width_);
      for (float& value : one.gradients) {
        value = static_cast<float>(static_cast<std::int64_t>(pick(2001)) - 1000) / 256;
      }
      if (pick(3) == 0) one.scale = static_cast<float>(1 + pick(8)) / 4;
    }
    return all;
  }
  /// Any rows, in any order, among them some that no update ever names.
  std::vector<std::uint64_t> rows() {
    std::vector<std::uint64_t> numbers(pick(12));
    for (std::uint64_t& number : numbers) {
      const std::uint64_t row = pick(universe_);
      number = row * row * 7 + (pick(8) == 0 ? 1 : 0);
    }
    return numbers;
  }

 private:
  std::mt19937 random_;
  const std::uint64_t universe_;
  const std::size_t width_;
};

math::UpdateRule rule_of(math::RuleKind kind) {
  math::UpdateRule rule;
  rule.kind = kind;
  rule.rate.base = 0.125F;
  rule.momentum = 0.5F;
  rule.weight_decay = 0.01F;
  rule.ftrl_l1 = 0.1F;
  rule.ftrl_l2 = 0.01F;
  return rule;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

void check_reads(const RowStore& store, const Model& model, Drawer& draw) {
  const std::vector<std::uint64_t> rows = draw.rows();
  const std::vector<float> values = read(store, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    INFO("row " << rows[i]);
    CHECK(same_bits(std::span(values).subspan(i * store.width(), store.width()),
                    model.read(rows[i])));
  }
}

struct Kept {
  RowImage image;
  Model::Rows rows;
};

/// A store and the model under the same updates, with images that stay while both change.
void run_against_model(math::RuleKind kind, const TableSpec& table, std::uint32_t seed,
                       int applications) {
  const math::UpdateRule rule = rule_of(kind);
  const auto states = static_cast<std::size_t>(rule.state_count());
  RowStore store(table, kSeed, states);
  Model model(table, states);
  Drawer draw(seed, 60, table.width());
  std::vector<Kept> images;
  std::int64_t clock = 0;
  for (int i = 0; i < applications; ++i) {
    const math::UpdateStep step = math::make_step(rule, clock, 1, 1, 1, i);
    const auto updates = draw.updates();
    const float scale = draw.pick(2) == 0 ? 1.0F : 0.5F;
    apply(store, kind, step, updates, scale, Clock(clock));
    model.apply(kind, step, updates, scale, Clock(clock));
    REQUIRE(store.rows() == model.rows().size());
    REQUIRE(store.dropped() == model.dropped());
    const std::uint64_t most = RowStore::max_rows_of_bucket(table);
    if (most > 0) REQUIRE(store.rows() <= most);
    check_reads(store, model, draw);
    if (draw.pick(4) == 0) images.push_back({store.image(), model.rows()});
    if (images.size() > 3) images.erase(images.begin());
    // At times an earlier clock, which counts as the highest before.
    clock = std::max<std::int64_t>(0, clock + static_cast<std::int64_t>(draw.pick(4)) - 1);
  }
  CHECK(rows_of(store.image(), table.width(), states) == model.rows());
  for (const Kept& kept : images) {
    CHECK(rows_of(kept.image, table.width(), states) == kept.rows);
  }
}

}  // namespace

TEST_CASE("rows are stepped by every rule as a dense slice of each row would be", "[rows]") {
  for (std::size_t i = 0; i < math::kRuleCount; ++i) {
    const auto kind = static_cast<math::RuleKind>(i);
    const math::UpdateRule rule = rule_of(kind);
    if (rule.is_scaled_by_slice() || rule.update_norm() != math::UpdateNorm::kNone) continue;
    INFO("rule " << math::info_of(kind).name);
    for (std::int64_t width = 1; width <= 3; ++width) {
      run_against_model(kind, make_table(width), static_cast<std::uint32_t>(width), 40);
    }
  }
}

TEST_CASE("the rows that are dropped are those that the updates make idle or too many", "[rows]") {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    const auto width = static_cast<std::int64_t>(1 + seed % 5);
    const auto kind = seed % 2 == 0 ? math::RuleKind::kAdaGrad : math::RuleKind::kSgd;
    run_against_model(kind, make_table(width, {.max_rows = 1 + seed % 40}), seed, 120);
    run_against_model(kind, make_table(width, {.idle_clocks = 1 + seed % 6}), seed, 120);
    run_against_model(kind, make_table(width, {.max_rows = 10 + seed, .idle_clocks = 1 + seed % 9}),
                      seed, 120);
  }
}

TEST_CASE("rows of a wide table fill chunk after chunk, and places of dropped ones are used again",
          "[rows]") {
  // A chunk has few places then.
  constexpr std::int64_t kWidth = 5000;
  const TableSpec table = make_table(kWidth, {.max_rows = 30});
  run_against_model(math::RuleKind::kMomentum, table, 5, 30);
}

TEST_CASE("an application that names more rows than are kept takes memory for no more", "[rows]") {
  // A chunk has few places then.
  constexpr std::int64_t kWidth = 5000;
  const TableSpec table = make_table(kWidth, {.max_rows = 10});
  RowStore store(table, kSeed, 0);
  const math::UpdateStep step = math::make_step(rule_of(math::RuleKind::kSgd), 0, 1, 0, 1, 0);
  RowGradients many;
  for (std::uint64_t row = 0; row < 100; ++row) many.rows.push_back(row);
  many.gradients.resize(many.rows.size() * kWidth, 1.0F);
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    apply(store, math::RuleKind::kSgd, step, {many}, 1, Clock(clock));
    const RowImage image = store.image();
    const std::size_t places = image.chunks.front()->numbers.size();
    REQUIRE(places < 10);
    CHECK((image.chunks.size() - 1) * places < 10);
    CHECK(rows_of(image, kWidth, 0).begin()->first == 90);
  }
}

TEST_CASE("of one application the rows of the lowest numbers are the first to be dropped",
          "[rows]") {
  const TableSpec table = make_table(1, {.max_rows = 2});
  RowStore store(table, kSeed, 0);
  const math::UpdateStep step = math::make_step(rule_of(math::RuleKind::kSgd), 0, 1, 0, 1, 0);
  apply(store, math::RuleKind::kSgd, step, {{{8, 9}, {1, 1}}, {{3, 5, 8}, {1, 1, 1}}}, 1, Clock(0));
  CHECK(store.rows() == 2);
  CHECK(store.dropped() == 2);
  const Model::Rows kept = rows_of(store.image(), 1, 0);
  CHECK(kept.contains(8));
  CHECK(kept.contains(9));
}

TEST_CASE(
    "a row is dropped once it was not updated for idle_clocks, by updates of other rows or of "
    "none",
    "[rows]") {
  const TableSpec table = make_table(1, {.idle_clocks = 3});
  RowStore store(table, kSeed, 0);
  const math::UpdateStep step = math::make_step(rule_of(math::RuleKind::kSgd), 0, 1, 0, 1, 0);
  apply(store, math::RuleKind::kSgd, step, {{{4}, {1}}}, 1, Clock(10));
  apply(store, math::RuleKind::kSgd, step, {{{6}, {1}}}, 1, Clock(12));
  CHECK(store.rows() == 2);
  apply(store, math::RuleKind::kSgd, step, {{{}, {}}}, 1, Clock(13));
  CHECK(store.rows() == 1);
  CHECK(read(store, {4})[0] == read(RowStore(table, kSeed, 0), {4})[0]);
  CHECK(read(store, {6})[0] != read(RowStore(table, kSeed, 0), {6})[0]);
}

TEST_CASE("a dropped row starts again from its first values and without states", "[rows]") {
  const TableSpec table = make_table(2, {.max_rows = 1});
  const math::UpdateRule rule = rule_of(math::RuleKind::kMomentum);
  const math::UpdateStep step = math::make_step(rule, 0, 1, 1, 1, 0);
  RowStore store(table, kSeed, 1);
  apply(store, rule.kind, step, {{{70}, {1, 2}}}, 1, Clock(0));
  const std::vector<float> once = read(store, {70});
  apply(store, rule.kind, step, {{{70}, {1, 2}}}, 1, Clock(1));
  CHECK_FALSE(same_bits(read(store, {70}), once));
  apply(store, rule.kind, step, {{{71}, {1, 2}}}, 1, Clock(2));
  apply(store, rule.kind, step, {{{70}, {1, 2}}}, 1, Clock(3));
  CHECK(same_bits(read(store, {70}), once));
}

TEST_CASE("a store that may keep fewer rows than its image has drops the oldest", "[rows]") {
  RowStore before(make_table(1, {1, 0, 0}), kSeed, 0);
  const math::UpdateStep step = math::make_step({}, 0, 1, 1, 1, 0);
  for (std::uint64_t row = 0; row < 5; ++row) {
    const RowGradients one{{row}, {1}, 1};
    apply(before, math::RuleKind::kSgd, step, {one}, 1, Clock(static_cast<std::int64_t>(5 + row)));
  }
  RowStore after(make_table(1, {1, 2, 0}), kSeed, 0);
  after.start_from(before.image());
  CHECK(after.rows() == 2);
  CHECK(before.rows() == 5);
  // Rows 4 and 3 were updated at the highest clocks.
  const std::vector<std::uint64_t> rows{4, 3, 2};
  std::vector<float> kept(3);
  std::vector<float> all(3);
  after.read(std::as_bytes(std::span(rows)), kept);
  before.read(std::as_bytes(std::span(rows)), all);
  CHECK(kept[0] == all[0]);
  CHECK(kept[1] == all[1]);
  CHECK(kept[2] != all[2]);
}

TEST_CASE("reading keeps no row", "[rows]") {
  const TableSpec table = make_table(3);
  RowStore store(table, kSeed, 0);
  const std::vector<float> values = read(store, {999'999, 0, 17, 0});
  std::vector<float> expected(3);
  math::fill(table.filler, kSeed, table.name, 17 * 3, expected);
  CHECK(same_bits(std::span(values).subspan(6, 3), expected));
  CHECK(store.rows() == 0);
  CHECK(store.image().chunks.empty());
}

TEST_CASE(
    "an image stays as it is while the rows that it shares are updated and dropped, and their "
    "places are used by others",
    "[rows]") {
  const TableSpec table = make_table(2, {.max_rows = 4});
  const math::UpdateStep step = math::make_step(rule_of(math::RuleKind::kSgd), 0, 1, 0, 1, 0);
  RowStore store(table, kSeed, 0);
  apply(store, math::RuleKind::kSgd, step, {{{1, 2, 3, 4}, std::vector<float>(8, 1.0F)}}, 1,
        Clock(0));
  const RowImage image = store.image();
  const Model::Rows before = rows_of(image, 2, 0);
  apply(store, math::RuleKind::kSgd, step, {{{5, 6, 7, 8}, std::vector<float>(8, 1.0F)}}, 1,
        Clock(1));
  apply(store, math::RuleKind::kSgd, step, {{{8}, {1.0F, 1.0F}}}, 1, Clock(2));
  CHECK(rows_of(image, 2, 0) == before);
  CHECK_FALSE(rows_of(store.image(), 2, 0).contains(1));
}

TEST_CASE("a store that starts from an image continues as the one that it was taken of", "[rows]") {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    const TableSpec table = make_table(2, {.max_rows = 12 + seed % 8, .idle_clocks = 2 + seed % 5});
    const math::UpdateRule rule = rule_of(math::RuleKind::kAdaGrad);
    RowStore store(table, kSeed, 1);
    Drawer draw(seed, 40, 2);
    std::optional<RowStore> second;
    for (std::int64_t clock = 0; clock < 60; ++clock) {
      const math::UpdateStep step = math::make_step(rule, clock, 1, 1, 1, clock);
      const auto updates = draw.updates();
      apply(store, rule.kind, step, updates, 1, Clock(clock));
      if (second) {
        apply(*second, rule.kind, step, updates, 1, Clock(clock));
        REQUIRE(rows_of(second->image(), 2, 1) == rows_of(store.image(), 2, 1));
      } else if (clock == 20) {
        second.emplace(table, kSeed, 1);
        second->start_from(store.image());
        CHECK(second->rows() == store.rows());
      }
    }
    CHECK(second->dropped() > 0);
  }
}

}  // namespace taut::server
