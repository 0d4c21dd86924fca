#include "worker/engine/device_group.hpp"

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/gpu/tested_cuda.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/layers/layer_bench.hpp"

using namespace taut;
using namespace taut::test;

namespace {

constexpr std::size_t kCount = 100'003;

/// What members of a group work with. Everything that they are to write holds NaNs before.
class Members {
 public:
  explicit Members(std::vector<std::unique_ptr<Backend>> backends)
      : backends_(std::move(backends)), nothing_(kCount, std::numeric_limits<float>::quiet_NaN()) {
    for (std::size_t i = 0; i < backends_.size(); ++i) {
      streams_.push_back(backends_[i]->make_stream());
      members_.push_back({backends_[i].get(), streams_[i].get()});
      given_.push_back(random_values(kCount, static_cast<std::uint32_t>(i + 1)));
      parts_.push_back(backends_[i]->allocate_floats(kCount));
      copies_.push_back(backends_[i]->allocate_floats(kCount));
      backends_[i]->copy_to_device(*streams_[i], given_[i], parts_[i].as<float>());
      backends_[i]->copy_to_device(*streams_[i], nothing_, copies_[i].as<float>());
    }
  }

  void check(GroupOrder order) {
    const auto group = make_device_group(members_, order);
    INFO(group->description());
    std::vector<DeviceSpan<const float>> parts;
    std::vector<DeviceSpan<float>> places;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts.emplace_back(parts_[i].as<float>());
      if (i > 0) places.push_back(copies_[i].as<float>());
    }
    group->spread(parts[0], places);
    for (std::size_t i = 1; i < parts_.size(); ++i) CHECK(read(i) == given_[0]);
    group->mean(parts, copies_[0].as<float>());
    const Values mean = read(0);
    for (std::size_t k = 0; k < kCount; ++k) {
      double sum = 0;
      for (const Values& one : given_) sum += one[k];
      REQUIRE(mean[k] == Approx(sum / static_cast<double>(given_.size())).margin(1e-6));
    }
  }

 private:
  Values read(std::size_t member) {
    Values values = nothing_;
    backends_[member]->copy_to_host(*streams_[member], copies_[member].as<float>(), values);
    streams_[member]->finish();
    return values;
  }

  std::vector<std::unique_ptr<Backend>> backends_;
  const Values nothing_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<DeviceGroup::Member> members_;
  std::vector<Values> given_;
  std::vector<DeviceBuffer> parts_;
  std::vector<DeviceBuffer> copies_;
};

std::unique_ptr<Backend> open_device(int index) {
  auto choice = make_backend({.device = DeviceKind::kCuda, .cuda_device = index});
  return choice ? std::move(choice.value().backend) : nullptr;
}

}  // namespace

TEST_CASE("replicas on one device exchange values and gradients", "[gpu]") {
  std::vector<std::unique_ptr<Backend>> backends(3);
  for (auto& backend : backends) backend = open_device(0);
  Members(std::move(backends)).check(GroupOrder::kMembers);
}

TEST_CASE("devices of one machine exchange values and gradients", "[gpu]") {
  const GroupOrder order = GENERATE(GroupOrder::kMembers, GroupOrder::kAny);
  std::vector<std::unique_ptr<Backend>> backends;
  for (int i = 0; i < 64; ++i) {
    auto backend = open_device(i);
    if (backend == nullptr) break;
    backends.push_back(std::move(backend));
  }
  if (backends.size() < 2) {
    WARN("this machine has one CUDA device: nothing is exchanged between devices");
    return;
  }
  Members(std::move(backends)).check(order);
}
