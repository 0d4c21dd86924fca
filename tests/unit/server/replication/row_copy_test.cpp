#include "server/replication/row_copy.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "server/replication/image_parts.hpp"
#include "tests/unit/server/row_job.hpp"

namespace taut::server {
namespace {

using test::content_of;

constexpr std::size_t kStates = 2;

/// A bucket at a primary, updated at random, and its copy at a backup.
class CopiedBucket {
 public:
  explicit CopiedBucket(TableSpec table, std::uint64_t seed = 5)
      : table_(std::move(table)),
        random_(seed),
        store(table_, 42, kStates),
        copy(table_, 2, kStates) {
    for (std::uint64_t row = 0; row < test::kRows; ++row) {
      if (bucket_of(row, table_.rows->buckets) == 2) rows_.push_back(row);
    }
  }

  void update(std::int64_t clock, std::size_t rows) {
    std::vector<std::uint64_t> some;
    std::ranges::sample(rows_, std::back_inserter(some), static_cast<std::ptrdiff_t>(rows),
                        random_);
    Update update;
    update.by_rows = true;
    update.rows = static_cast<std::uint32_t>(some.size());
    update.gradient =
        test::row_payload(some, test::gradient_of(1, clock, some.size() * test::kWidth));
    const RowStore::Weighed weighed{&update, 1};
    math::UpdateRule rule;
    rule.kind = math::RuleKind::kAdam;
    store.apply(rule.kind, math::make_step(rule, clock, 1, 1, 1, clock, 1), {&weighed, 1}, 1,
                Clock(clock));
  }

  /// The image that must be sent now.
  std::vector<ImageItem> image(bool whole = false) {
    ImageItem head;
    head.sequence = ++sequence;
    const RowChanges changes = store.take_changes(whole);
    if (!changes.is_whole) head.base = head.sequence - 1;
    return in_parts(head, changes, test::kWidth, kStates);
  }
  RowCopy::Taken take(const std::vector<ImageItem>& parts) {
    RowCopy::Taken taken = RowCopy::Taken::kPart;
    for (const ImageItem& part : parts) taken = copy.take(part);
    return taken;
  }
  [[nodiscard]] bool is_same() const {
    return content_of(store.image(), test::kWidth) == content_of(copy.image(), test::kWidth);
  }

 private:
  const TableSpec table_;
  std::mt19937_64 random_;
  std::vector<std::uint64_t> rows_;

 public:
  RowStore store;
  RowCopy copy;
  std::uint64_t sequence = 0;
};

}  // namespace

TEST_CASE("a copy that is sent what has changed of a bucket has its rows", "[replication][rows]") {
  CopiedBucket bucket(test::row_table(0));
  CHECK(bucket.take(bucket.image()) == RowCopy::Taken::kWhole);
  CHECK(bucket.is_same());
  std::size_t dropped = 0;
  std::size_t sent = 0;
  for (std::int64_t clock = 0; clock < 60; ++clock) {
    // Some images are of several clocks, some of none.
    for (std::int64_t i = 0; i < clock % 3; ++i) {
      bucket.update(clock, static_cast<std::size_t>(1 + (clock * 7 + i) % 13));
    }
    const auto image = bucket.image();
    REQUIRE(image.size() == 1);
    CHECK(image[0].base == bucket.sequence - 1);
    dropped += image[0].dropped;
    sent += image[0].rows;
    CHECK(bucket.take(image) == RowCopy::Taken::kWhole);
    REQUIRE(bucket.is_same());
    CHECK(bucket.copy.sequence() == bucket.sequence);
  }
  CHECK(dropped > 20);
  CHECK(sent < 60 * 20);
  CHECK(bucket.store.rows() > 20);
}

TEST_CASE("what changes of a store that nothing is sent of is not gathered without an end",
          "[replication][rows]") {
  // One row is kept, so that each update drops one.
  CopiedBucket bucket(test::row_table(0, {test::kBuckets, 1, 0}));
  CHECK(bucket.take(bucket.image()) == RowCopy::Taken::kWhole);
  for (std::int64_t clock = 0; clock < 5000; ++clock) bucket.update(clock, 2);
  const auto image = bucket.image();
  CHECK(image[0].base == 0);
  CHECK(image[0].dropped == 0);
  CHECK(bucket.take(image) == RowCopy::Taken::kWhole);
  CHECK(bucket.is_same());
}

TEST_CASE("an image in parts counts once all have arrived, in any order and more than once",
          "[replication][rows]") {
  // Rows of 96 KiB: ten or so make a part.
  TableSpec table = test::row_table(0, {test::kBuckets, 0, 0});
  table.shape[1] = 8192;
  RowChanges changes;
  std::vector<float> floats(3UL * 8192);
  for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<float>(i);
  for (std::uint64_t row = 0; changes.rows.size() < 50; ++row) {
    if (bucket_of(row, test::kBuckets) != 2) continue;
    changes.rows.push_back({static_cast<std::int64_t>(row), row, floats.data()});
  }
  changes.is_whole = true;
  ImageItem head;
  head.sequence = 3;
  const std::vector<ImageItem> parts = in_parts(head, changes, 8192, kStates);
  REQUIRE(parts.size() > 3);
  for (const ImageItem& part : parts) {
    CHECK(part.rows == 50);
    CHECK(part.values.size() * 3 < (2UL << 20U));
  }
  RowCopy copy(table, 2, kStates);
  for (std::size_t i = parts.size(); i-- > 1;) {
    CHECK(copy.take(parts[i]) == RowCopy::Taken::kPart);
    CHECK(copy.take(parts[i]) == RowCopy::Taken::kPart);
  }
  CHECK(copy.sequence() == 0);
  CHECK(copy.take(parts[0]) == RowCopy::Taken::kWhole);
  CHECK(copy.sequence() == 3);
  const RowImage image = copy.image();
  CHECK(image.rows == 50);
  CHECK(std::get<2>(content_of(image, 8192)[49]) ==
        std::get<2>(content_of(changes.rows[49], floats.size())));
}

TEST_CASE("a copy that lacks the image that another continues says so", "[replication][rows]") {
  CopiedBucket bucket(test::row_table(0));
  CHECK(bucket.take(bucket.image()) == RowCopy::Taken::kWhole);
  bucket.update(0, 5);
  (void)bucket.image();  // never arrives
  bucket.update(1, 5);
  CHECK(bucket.take(bucket.image()) == RowCopy::Taken::kLacking);
  CHECK(bucket.take(bucket.image(true)) == RowCopy::Taken::kWhole);
  CHECK(bucket.is_same());
  RowCopy other(test::row_table(0), 2, kStates);
  bucket.update(2, 5);
  for (const ImageItem& part : bucket.image()) {
    CHECK(other.take(part) == RowCopy::Taken::kLacking);
  }
}

TEST_CASE("parts that cannot be of the bucket are of no use", "[replication][rows]") {
  CopiedBucket bucket(test::row_table(0));
  bucket.update(0, 9);
  const ImageItem sound = bucket.image().at(0);
  const auto refused = [&](const ImageItem& part) {
    return bucket.copy.take(part) == RowCopy::Taken::kPart && bucket.copy.sequence() == 0;
  };
  const auto with_number = [&](std::size_t at, std::uint64_t number) {
    std::vector<std::byte> keys(sound.keys.bytes().begin(), sound.keys.bytes().end());
    std::memcpy(keys.data() + at * sizeof(number), &number, sizeof(number));
    ImageItem part = sound;
    part.keys = Frame::copy_of(keys);
    return part;
  };
  std::uint64_t other = test::kRows - 1;
  while (bucket_of(other, test::kBuckets) == 2) --other;
  CHECK(refused(with_number(8, test::kRows + 1)));    // beyond the table
  CHECK(refused(with_number(8, other)));              // of another bucket
  CHECK(refused(with_number(9, 1ULL << 63U)));        // no clock
  CHECK(refused(with_number(9, ~std::uint64_t{0})));  // dropped, but with values
  ImageItem part = sound;
  part.rows = test::kRows + 1;
  CHECK(refused(part));
  part = sound;
  part.dropped = 1;
  CHECK(refused(part));
  part = sound;
  part.states.pop_back();
  CHECK(refused(part));
  part = sound;
  part.states[1] = part.states[1].part(0, part.states[1].size() - 4);
  CHECK(refused(part));
  part = sound;
  part.values = test::frame_of(std::vector<float>(1000));
  CHECK(refused(part));
  // Another head than that of the part before it.
  part = sound;
  part.rows = 10;
  CHECK(refused(part));
  CHECK(bucket.copy.take(sound) == RowCopy::Taken::kPart);
  part = sound;
  part.sequence = 7;
  CHECK(bucket.copy.take(part) == RowCopy::Taken::kWhole);
}

TEST_CASE("a table whose buckets are too large for a backup is refused with a number that is not",
          "[replication][rows]") {
  TableSpec table = test::row_table(0, {16, 0, 0});
  CHECK(check_bucket_bytes(table, 2).has_value());
  table.shape = {10'000'000, 16};
  const auto refused = check_bucket_bytes(table, 2);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("it needs 42 buckets") != std::string::npos);
  table.rows->buckets = 42;
  CHECK(check_bucket_bytes(table, 2).has_value());
  table.rows = RowTable{16, 1'000'000, 0};
  CHECK(check_bucket_bytes(table, 2).has_value());
  table.shape = {1LL << 32U, 64};
  table.rows = RowTable{4096, 0, 0};
  CHECK(check_bucket_bytes(table, 2).error().message.find(
            "with 4096 buckets evict { max_rows } may be up to 262955008") != std::string::npos);
}

}  // namespace taut::server
