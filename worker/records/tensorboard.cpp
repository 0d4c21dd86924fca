#include "worker/records/tensorboard.hpp"

#include <algorithm>
#include <array>
#include <boost/crc.hpp>
#include <cmath>
#include <limits>

namespace taut::worker {
namespace {

constexpr std::size_t kBuckets = 64;

template <class Number>
void put(std::string& out, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    out.push_back(static_cast<char>((number >> (8 * i)) & 0xff));
  }
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const std::uint32_t sum = crc.checksum();
  return ((sum >> 15U) | (sum << 17U)) + 0xa282ead8U;
}

std::string tf_record(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + 16);
  put(out, std::uint64_t{bytes.size()});
  put(out, masked_crc32c(out));
  out.append(bytes);
  put(out, masked_crc32c(bytes));
  return out;
}

pb::TensorBoardHistogram histogram_of(std::span<const float> values) {
  float low = std::numeric_limits<float>::max();
  float high = std::numeric_limits<float>::lowest();
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  pb::TensorBoardHistogram histogram;
  if (low > high) return histogram;
  // A last bucket that is empty takes the highest value up to its open limit.
  const double width = std::max((static_cast<double>(high) - low) / kBuckets,
                                std::max(std::abs(static_cast<double>(high)), 1e-12) * 1e-7);
  std::array<std::uint64_t, kBuckets> counts{};
  double sum = 0;
  double squares = 0;
  std::uint64_t count = 0;
  const double scale = 1 / width;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const double number = value;
    const auto bucket = static_cast<std::size_t>((number - low) * scale);
    ++counts[std::min(bucket, kBuckets - 1)];
    sum += number;
    squares += number * number;
    ++count;
  }
  histogram.set_min(low);
  histogram.set_max(high);
  histogram.set_num(static_cast<double>(count));
  histogram.set_sum(sum);
  histogram.set_sum_squares(squares);
  for (std::size_t i = 0; i < kBuckets; ++i) {
    histogram.add_bucket_limit(low + width * static_cast<double>(i + 1));
    histogram.add_bucket(static_cast<double>(counts[i]));
  }
  return histogram;
}

std::string tensorboard_head(double unix_time_s) {
  pb::TensorBoardEvent event;
  event.set_wall_time(unix_time_s);
  event.set_file_version("brain.Event:2");
  return tf_record(event.SerializeAsString());
}

}  // namespace taut::worker
