#include "cuda/device_choice.hpp"

#include <optional>
#include <string>

#include "tests/support/catch.hpp"

using namespace taut;
using Catch::Matchers::Contains;

namespace {

/// A machine with two devices that work, until a test says otherwise.
class FakeDriver final : public cuda::Driver {
 public:
  int driver = 13000;
  int runtime = 13000;
  std::size_t cudnn = 91900;
  int count = 2;
  int major = 9;
  std::optional<std::string> refusal;
  mutable int opened = -1;

  int driver_version() const override { return driver; }
  int runtime_version() const override { return runtime; }
  std::size_t cudnn_loaded() const override { return cudnn; }
  std::size_t cudnn_built() const override { return 91900; }
  Result<int> device_count() const override { return count; }
  Result<cuda::DeviceFacts> facts(int) const override {
    cuda::DeviceFacts facts;
    facts.name = "NVIDIA H200";
    facts.major = major;
    return facts;
  }
  Result<Bytes> open(int index) const override {
    opened = index;
    if (refusal) return make_error(ErrorCode::kUnavailable, *refusal);
    return Bytes(100);
  }
};

std::string refused(const FakeDriver& driver, int index = 0) {
  const auto chosen = cuda::choose_device(driver, index);
  REQUIRE_FALSE(chosen.has_value());
  CHECK(chosen.error().message.find('\n') == std::string::npos);
  return chosen.error().message;
}

}  // namespace

TEST_CASE("a working device is opened, with its free memory", "[cuda]") {
  const FakeDriver driver;
  const auto chosen = cuda::choose_device(driver, 1);
  REQUIRE(chosen.has_value());
  CHECK(driver.opened == 1);
  CHECK(chosen.value().name == "NVIDIA H200");
  CHECK(chosen.value().free == Bytes(100));
}

TEST_CASE("a newer driver, and another cuDNN of the same major version, will do", "[cuda]") {
  FakeDriver driver;
  driver.driver = 14010;
  driver.cudnn = 90100;
  CHECK(cuda::choose_device(driver, 0).has_value());
  driver.driver = 13000;
  driver.runtime = 13020;
  CHECK(cuda::choose_device(driver, 0).has_value());
}

TEST_CASE("a machine without a driver is reported", "[cuda]") {
  FakeDriver driver;
  driver.driver = 0;
  CHECK_THAT(refused(driver), Contains("no NVIDIA driver"));
}

TEST_CASE("a driver that is older than the toolkit is named with both versions", "[cuda]") {
  FakeDriver driver;
  driver.driver = 12040;
  CHECK_THAT(refused(driver), Contains("12.4") && Contains("13.0"));
}

TEST_CASE("a cuDNN of another major version is named with both versions", "[cuda]") {
  FakeDriver driver;
  driver.cudnn = 100200;
  CHECK_THAT(refused(driver), Contains("cuDNN 10.2.0") && Contains("cuDNN 9.19.0"));
}

TEST_CASE("a driver without devices is distinguished from no driver", "[cuda]") {
  FakeDriver driver;
  driver.count = 0;
  CHECK_THAT(refused(driver), Contains("shows no device"));
}

TEST_CASE("an index that no device has is refused with those that there are", "[cuda]") {
  FakeDriver driver;
  CHECK_THAT(refused(driver, 2), Contains("device_index 2") && Contains("devices 0 to 1"));
  CHECK_THAT(refused(driver, -1), Contains("device_index -1"));
  driver.count = 1;
  CHECK_THAT(refused(driver, 1), Contains("device 0 only"));
  CHECK(cuda::choose_device(driver, 1).error().code == ErrorCode::kInvalid);
}

TEST_CASE("a device that is too old for the kernels is named", "[cuda]") {
  FakeDriver driver;
  driver.major = 7;
  CHECK_THAT(refused(driver), Contains("NVIDIA H200") && Contains("7.0") && Contains("8.0"));
}

TEST_CASE("a busy device is named with the driver's message", "[cuda]") {
  FakeDriver driver;
  driver.refusal = "cudaMemGetInfo: device busy";
  CHECK_THAT(refused(driver, 1),
             Contains("CUDA device 1 (NVIDIA H200)") && Contains("device busy"));
}
