#include "worker/data/row_numbers.hpp"

#include <bit>
#include <chrono>
#include <vector>

#include "tests/support/catch.hpp"
#include "worker/data/data_loader.hpp"

using namespace std::chrono_literals;
using namespace taut;
using data::RowNumbers;

namespace {

using Rows = std::vector<std::uint64_t>;

float bits(std::uint32_t number) {
  return std::bit_cast<float>(number);
}

std::string error_of(const RowNumbers& numbers, std::vector<float> blob) {
  Rows rows;
  const auto settled = data::settle_rows(numbers, blob, rows);
  REQUIRE_FALSE(settled.has_value());
  CHECK(settled.error().code == ErrorCode::kInvalid);
  return settled.error().message;
}

}  // namespace

TEST_CASE("row numbers become their places among the distinct ones, which ascend", "[rows]") {
  std::vector<float> blob = {7, 3, 7, 0, 16777215, 3};
  Rows rows = {1, 2};
  REQUIRE(data::settle_rows({.rows = 1ULL << 32U, .layer = ""}, blob, rows).has_value());
  CHECK(rows == Rows{0, 3, 7, 16777215});
  CHECK(blob == std::vector<float>{2, 1, 2, 0, 3, 1});
  blob.clear();
  REQUIRE(data::settle_rows({.rows = 4, .layer = ""}, blob, rows).has_value());
  CHECK(rows.empty());
}

TEST_CASE("row numbers in a float's bits are exact up to 2^32", "[rows]") {
  // One is the bits of a NaN that signals, another those of a number that is not normal.
  std::vector<float> blob = {bits(4294967295U), bits(0x7f800001U), bits(5), bits(4294967294U)};
  Rows rows;
  REQUIRE(data::settle_rows({.are_bits = true, .rows = 1ULL << 32U, .layer = ""}, blob, rows)
              .has_value());
  CHECK(rows == Rows{5, 0x7f800001U, 4294967294U, 4294967295U});
  CHECK(blob == std::vector<float>{3, 1, 0, 2});
}

TEST_CASE("bits that no layer by rows reads become the numbers themselves", "[rows]") {
  std::vector<float> blob = {bits(16777216), bits(0), bits(9), bits(9)};
  Rows rows;
  const RowNumbers numbers{.are_bits = true, .as_places = false, .rows = 1ULL << 32U, .layer = "d"};
  REQUIRE(data::settle_rows(numbers, blob, rows).has_value());
  CHECK(rows.empty());
  CHECK(blob == std::vector<float>{16777216, 0, 9, 9});
  // The next number is none of a float's.
  CHECK(error_of(numbers, {bits(16777217)}).find("number 16777217 at position 0") !=
        std::string::npos);
}

TEST_CASE("a number that is none of the rows' is refused with its layer and position", "[rows]") {
  const RowNumbers numbers{.rows = 10, .layer = "wide"};
  CHECK(error_of(numbers, {1, 10}) ==
        "layer \"wide\": number 10 at position 1 of the batch is not a whole number in [0, 10); "
        "check the data and embed_param.input_dim");
  CHECK(error_of(numbers, {-1}).find("number -1 at position 0") != std::string::npos);
  CHECK(error_of(numbers, {0, 0, 2.5F}).find("number 2.5 at position 2") != std::string::npos);
  CHECK(error_of(numbers, {std::bit_cast<float>(0x7fc00000U)}).find("number nan") !=
        std::string::npos);
  const RowNumbers of_bits{.are_bits = true, .rows = 10, .layer = "wide"};
  CHECK(error_of(of_bits, {bits(10)}).find("number 10 at position 0") != std::string::npos);
}

TEST_CASE("a float that stands for several row numbers is refused", "[rows]") {
  const RowNumbers numbers{.rows = 1ULL << 32U, .layer = "d"};
  const std::string why = error_of(numbers, {1, 16777216});
  CHECK(why.find("number 16777216 at position 1 of the batch is beyond 2^24") != std::string::npos);
  CHECK(why.find("SparseData") != std::string::npos);
}

TEST_CASE("a loader's batches have the rows of each blob, also where the blob never changes",
          "[rows]") {
  data::DummyTop changing;
  changing.elements = 12;
  changing.classes = 5;
  data::DummyTop constant;
  constant.elements = 3;
  constant.filler = {math::Filler::Kind::kConstant, 8, 0};
  std::vector<std::unique_ptr<data::Feed>> feeds;
  feeds.push_back(
      data::dummy_feed({changing, constant}, {.share = {}, .batch = 3, .seed = 1}, "in"));
  REQUIRE(feeds[0]->is_constant(1));
  data::DataLoader::Options options;
  options.row_numbers = {{.blob = 0, .rows = 5, .layer = "a"},
                         {.blob = 1, .rows = 9, .layer = "b"}};
  const auto loader = data::DataLoader::start(std::move(feeds), options).value();
  for (int clock = 0; clock < 12; ++clock) {
    auto batch = loader->next(10s).value();
    REQUIRE(batch.rows.size() == 2);
    REQUIRE_FALSE(batch.rows[0].empty());
    CHECK(std::ranges::is_sorted(batch.rows[0]));
    CHECK(batch.rows[0].back() < 5);
    for (const float place : batch.blobs[0])
      CHECK(place < static_cast<float>(batch.rows[0].size()));
    // A batch that is used again has this blob's places, not its numbers.
    CHECK(batch.rows[1] == Rows{8});
    for (const float place : batch.blobs[1]) CHECK(place == 0);
    loader->recycle(std::move(batch));
  }
}

TEST_CASE("a loader without row numbers leaves its batches as they are", "[rows]") {
  data::DummyTop top;
  top.elements = 4;
  top.classes = 5;
  std::vector<std::unique_ptr<data::Feed>> feeds;
  feeds.push_back(data::dummy_feed({top}, {.share = {}, .batch = 4, .seed = 1}, "in"));
  const auto loader = data::DataLoader::start(std::move(feeds), {}).value();
  CHECK(loader->next(10s).value().rows.empty());
}
