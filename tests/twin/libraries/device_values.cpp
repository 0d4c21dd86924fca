#include "tests/twin/libraries/device_values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/support/catch.hpp"
#include "tests/twin/stream_queue.hpp"

namespace taut::twin::test {

Values some_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> distribution(-1, 1);
  Values values(count);
  for (float& value : values) value = distribution(random);
  return values;
}

DeviceValues::DeviceValues(std::size_t count, Format format)
    : count_(count),
      format_(format),
      begin_(allocate_device_memory(0, count * size_of(format), "a test's values")) {
  REQUIRE(begin_ != nullptr);
  enqueue(nullptr, "poison", {{begin_, bytes(), true}}, [this] { poison(begin_, bytes()); });
  (void)finish(nullptr);
}

DeviceValues::DeviceValues(const Values& values, Format format)
    : DeviceValues(values.size(), format) {
  write(values);
}

DeviceValues::~DeviceValues() {
  release_device_memory(begin_);
}

void DeviceValues::write(const Values& values) {
  enqueue(nullptr, "write", {{begin_, bytes(), true}}, [this, values] {
    for (std::size_t i = 0; i < count_; ++i) store(format_, begin_, i, values[i]);
  });
  REQUIRE(finish(nullptr) == cudaSuccess);
}

Values DeviceValues::read(cudaStream_t stream) const {
  REQUIRE(finish(stream) == cudaSuccess);
  Values values(count_);
  enqueue(nullptr, "read", {{begin_, bytes(), false}}, [this, &values] {
    for (std::size_t i = 0; i < count_; ++i) values[i] = load(format_, begin_, i);
  });
  REQUIRE(finish(nullptr) == cudaSuccess);
  return values;
}

double difference(const Values& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  double largest = 0;
  double apart = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    const double distance = std::abs(static_cast<double>(found[i]) - expected[i]);
    apart =
        std::isnan(distance) ? std::numeric_limits<double>::infinity() : std::max(apart, distance);
  }
  return largest == 0 ? apart : apart / largest;
}

}  // namespace taut::twin::test
