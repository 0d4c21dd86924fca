#include "worker/library/tensor.hpp"

#include <functional>
#include <vector>

#include "tests/support/catch.hpp"

using namespace taut::library;
using Catch::Matchers::Contains;

namespace {

/// A tensor of another library, which counts how often it is deleted.
struct Foreign {
  Foreign(std::vector<std::int64_t> extents, std::vector<std::int64_t> steps = {})
      : shape(std::move(extents)), strides(std::move(steps)) {
    dlpack::Tensor tensor{};
    tensor.data = values.data();
    tensor.device = {dlpack::kCpu, 0};
    tensor.dimensions = static_cast<std::int32_t>(shape.size());
    tensor.element = {dlpack::kFloat, 32, 1};
    tensor.shape = shape.data();
    tensor.strides = strides.empty() ? nullptr : strides.data();
    plain = {tensor, this,
             [](dlpack::Managed* one) { ++static_cast<Foreign*>(one->context)->deleted; }};
    versioned = {
        {1, 1},
        this,
        [](dlpack::ManagedVersioned* one) { ++static_cast<Foreign*>(one->context)->deleted; },
        0,
        tensor};
  }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;

  [[nodiscard]] taut::Result<GivenTensor> take() {
    return GivenTensor::take(&plain, false, "the tensor");
  }
  [[nodiscard]] taut::Result<GivenTensor> take_versioned() {
    return GivenTensor::take(&versioned, true, "the tensor");
  }

  std::vector<float> values = std::vector<float>(64);
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  dlpack::Managed plain{};
  dlpack::ManagedVersioned versioned{};
  int deleted = 0;
};

std::string error_of(const std::function<void(Foreign&)>& change) {
  Foreign foreign({2, 3});
  change(foreign);
  std::string message;
  {
    const auto taken = foreign.take();
    REQUIRE_FALSE(taken.has_value());
    message = taken.error().message;
  }
  CHECK(foreign.deleted == 0);
  return message;
}

}  // namespace

TEST_CASE("a tensor in C order is taken where it is, and deleted by its own deleter", "[library]") {
  Foreign foreign({2, 3}, {3, 1});
  foreign.plain.tensor.byte_offset = foreign.versioned.tensor.byte_offset = 8;
  for (const bool versioned : {false, true}) {
    foreign.deleted = 0;
    {
      auto taken = versioned ? foreign.take_versioned() : foreign.take();
      REQUIRE(taken.has_value());
      CHECK(static_cast<void*>(taken.value().memory().memory().get()) == foreign.values.data() + 2);
      CHECK(taken.value().count() == 6);
      CHECK(taken.value().element() == TAUTLINE_FLOAT32);
      CHECK_FALSE(taken.value().is_read_only());
      taken.value().accept();
      CHECK(foreign.deleted == 0);
    }
    CHECK(foreign.deleted == 1);
  }
}

TEST_CASE("strides of axes of one element do not count, and a single value has none", "[library]") {
  CHECK(Foreign({1, 3, 1}, {77, 1, 5}).take().has_value());
  Foreign scalar(std::vector<std::int64_t>{});
  const auto taken = scalar.take();
  REQUIRE(taken.has_value());
  CHECK(taken.value().count() == 1);
}

TEST_CASE("each element type that updates may have is known", "[library]") {
  const auto element_of = [](std::uint8_t code, std::uint8_t bits) {
    Foreign foreign({2});
    foreign.plain.tensor.element = {code, bits, 1};
    return foreign.take().value().element();
  };
  CHECK(element_of(dlpack::kFloat, 16) == TAUTLINE_FLOAT16);
  CHECK(element_of(dlpack::kFloat, 64) == TAUTLINE_FLOAT64);
  CHECK(element_of(dlpack::kBfloat, 16) == TAUTLINE_BFLOAT16);
}

TEST_CASE("a device's tensor is taken where one is asked for, and no other", "[library]") {
  Foreign foreign({2});
  const auto take = [&](dlpack::Device device) {
    foreign.plain.tensor.device = device;
    return GivenTensor::take(&foreign.plain, false, "the tensor", GivenTensor::Place::kCuda);
  };
  for (const auto type : {dlpack::kCuda, dlpack::kCudaManaged}) {
    REQUIRE(take({type, 3}).has_value());
    CHECK(take({type, 3}).value().device() == 3);
  }
  CHECK(take({dlpack::kCpu, 0}).error().message ==
        "the tensor is in the host's memory, not on a CUDA device");
  CHECK(take({dlpack::kRocm, 1}).error().message ==
        "the tensor is on ROCm device 1, not on a CUDA device");
}

TEST_CASE("a tensor that cannot be taken is refused, and stays its owner's", "[library]") {
  CHECK(error_of([](Foreign& one) {
          one.strides = {1, 2};
          one.plain.tensor.strides = one.strides.data();
        }) ==
        "the tensor of shape [2, 3] has strides [1, 2], which are not those of C order; give a "
        "contiguous copy");
  CHECK(error_of([](Foreign& one) {
          one.plain.tensor.device = {dlpack::kCuda, 1};
        }) ==
        "the tensor is on CUDA device 1; use the call for a device's tensors, which takes its "
        "stream, or give a copy in the host's memory");
  CHECK(error_of([](Foreign& one) {
          one.plain.tensor.element = {dlpack::kInt, 64, 1};
        }) == "the tensor has element type int64; convert it to float32");
  CHECK(error_of([](Foreign& one) {
          one.plain.tensor.element = {dlpack::kFloat, 32, 4};
        }) == "the tensor has element type float32 x 4; convert it to float32");
  CHECK(error_of([](Foreign& one) { one.shape[1] = 0; }) ==
        "the tensor has shape 2x0: extents must be at least 1");
  CHECK(error_of([](Foreign& one) { one.plain.tensor.dimensions = -1; }) ==
        "the tensor has -1 dimensions without a shape");
  CHECK(error_of([](Foreign& one) { one.plain.tensor.data = nullptr; }) ==
        "the tensor of shape [2, 3] has no memory");
  CHECK(error_of([](Foreign& one) {
          one.plain.tensor.dimensions = 33;
          one.shape.assign(33, 1);
          one.plain.tensor.shape = one.shape.data();
        }) == "the tensor has 33 dimensions; the limit is 32");
  CHECK(error_of([](Foreign& one) {
          one.shape = {1LL << 40, 1LL << 40};
        }) ==
        "the tensor has shape 1099511627776x1099511627776: more than the limit of 1099511627776 "
        "values");
  CHECK_FALSE(GivenTensor::take(nullptr, false, "the tensor").has_value());
}

TEST_CASE("a version of DLPack with another layout is refused", "[library]") {
  Foreign foreign({2});
  foreign.versioned.version = {2, 0};
  const auto taken = foreign.take_versioned();
  REQUIRE_FALSE(taken.has_value());
  CHECK_THAT(taken.error().message, Contains("DLPack tensor of version 2.0"));
  foreign.versioned.version = {1, 9};
  foreign.versioned.flags = dlpack::kReadOnly;
  const auto read_only = foreign.take_versioned();
  REQUIRE(read_only.has_value());
  CHECK(read_only.value().is_read_only());
}

TEST_CASE("values are given as a tensor that keeps their owner", "[library]") {
  std::vector<float> values(6, 1.0F);
  for (const bool versioned : {false, true}) {
    auto owner = std::make_shared<int>(0);
    const std::weak_ptr<int> kept = owner;
    void* const tensor = make_tensor(values.data(), {2, 3}, std::move(owner), versioned);
    {
      auto taken = GivenTensor::take(tensor, versioned, "it");
      REQUIRE(taken.has_value());
      CHECK(static_cast<void*>(taken.value().memory().memory().get()) == values.data());
      CHECK(std::vector(taken.value().shape().begin(), taken.value().shape().end()) ==
            std::vector<std::int64_t>{2, 3});
      taken.value().accept();
      CHECK_FALSE(kept.expired());
    }
    CHECK(kept.expired());
  }
}
