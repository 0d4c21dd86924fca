#include "worker/records/tensorboard.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/support/catch.hpp"

namespace taut::worker {
namespace {

TEST_CASE("the checksum of a record is the masked CRC-32C", "[records]") {
  // RFC 3720, appendix B.4: CRC-32C of 32 zeros is 0x8a9136aa; then rotated and shifted.
  const std::uint32_t plain = 0x8a9136aa;
  CHECK(masked_crc32c(std::string(32, '\0')) == ((plain >> 15U) | (plain << 17U)) + 0xa282ead8U);
}

TEST_CASE("a record is its length, a checksum, the bytes and a checksum", "[records]") {
  const std::string record = tf_record("abc");
  REQUIRE(record.size() == 8 + 4 + 3 + 4);
  CHECK(record.substr(0, 8) == std::string("\3\0\0\0\0\0\0\0", 8));
  CHECK(record.substr(12, 3) == "abc");
}

TEST_CASE("a histogram counts every finite value once, between its extremes", "[records]") {
  std::vector<float> values(1001);
  std::iota(values.begin(), values.end(), -500.0F);
  values.push_back(std::numeric_limits<float>::quiet_NaN());
  values.push_back(std::numeric_limits<float>::infinity());
  const pb::TensorBoardHistogram histogram = histogram_of(values);
  CHECK(histogram.min() == -500);
  CHECK(histogram.max() == 500);
  CHECK(histogram.num() == 1001);
  CHECK(histogram.sum() == Approx(0));
  CHECK(histogram.sum_squares() == Approx(2.0 * 500 * 501 * 1001 / 6));
  REQUIRE(histogram.bucket_size() == histogram.bucket_limit_size());
  CHECK(std::accumulate(histogram.bucket().begin(), histogram.bucket().end(), 0.0) == 1001);
  CHECK(histogram.bucket_limit(histogram.bucket_limit_size() - 1) >= 500);
  for (int i = 1; i < histogram.bucket_limit_size(); ++i) {
    CHECK(histogram.bucket_limit(i) > histogram.bucket_limit(i - 1));
  }
}

TEST_CASE("a histogram of equal values, or of none, is still one", "[records]") {
  for (const float value : {0.0F, 3.0F, -1e30F}) {
    const pb::TensorBoardHistogram equal = histogram_of(std::vector<float>(5, value));
    CHECK(equal.num() == 5);
    CHECK(equal.bucket(0) == 5);
    for (int i = 1; i < equal.bucket_limit_size(); ++i) {
      CHECK(equal.bucket_limit(i) > equal.bucket_limit(i - 1));
    }
  }
  CHECK(histogram_of({}).num() == 0);
  CHECK(histogram_of(std::vector<float>{std::nanf("")}).bucket_size() == 0);
}

}  // namespace
}  // namespace taut::worker
