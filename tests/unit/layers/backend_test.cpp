#include "worker/backend/backend.hpp"

#include <cstdint>
#include <utility>

#include "tests/support/catch.hpp"
#include "tests/unit/layers/layer_bench.hpp"
#include "worker/backend/cpu_backend.hpp"

using namespace taut;
using namespace taut::test;

TEST_CASE("the CPU is always there, and says what it is", "[backend]") {
  const auto choice = make_backend({.device = DeviceKind::kCpu, .threads = 3});
  REQUIRE(choice);
  CHECK(choice.value().backend->shares_host_memory());
  CHECK_THAT(choice.value().reason, Catch::Matchers::StartsWith("CPU, oneDNN "));
  CHECK_THAT(choice.value().reason, Catch::Matchers::EndsWith(", 3 threads"));
}

TEST_CASE("AUTO takes the CPU where CUDA is not there, and says why", "[backend]") {
  const auto cuda = make_backend({.device = DeviceKind::kCuda});
  const auto automatic = make_backend({.device = DeviceKind::kAuto});
  REQUIRE(automatic);
  REQUIRE(automatic.value().backend->shares_host_memory() == !cuda.has_value());
  if (cuda) return;
  CHECK(cuda.error().code == ErrorCode::kUnavailable);
  CHECK_THAT(cuda.error().message, Catch::Matchers::Contains("CUDA"));
  CHECK_THAT(automatic.value().reason, Catch::Matchers::Contains(cuda.error().message));
}

TEST_CASE("a negative thread count is refused", "[backend]") {
  const auto choice = make_backend({.device = DeviceKind::kCpu, .threads = -1});
  REQUIRE_FALSE(choice);
  CHECK(choice.error().code == ErrorCode::kInvalid);
  CHECK_THAT(choice.error().message, Catch::Matchers::Contains("-1"));
}

TEST_CASE("a block is aligned for the widest vector, and moves with its owner", "[backend]") {
  const auto backend = cpu();
  DeviceBuffer first = backend->allocate_floats(1001);
  const auto span = first.as<float>();
  CHECK(span.size() == 1001);
  CHECK(reinterpret_cast<std::uintptr_t>(span.address()) % 64 == 0);
  DeviceBuffer second = std::move(first);
  CHECK(second.as<float>().address() == span.address());
  CHECK(first.as<float>().empty());
  CHECK(backend->allocate_floats(0).as<float>().empty());
}

TEST_CASE("memory that is not there is a device error with the size", "[backend]") {
  CHECK_THROWS_AS(cpu()->allocate(Bytes(std::uint64_t{1} << 62U)), DeviceError);
  CHECK_THROWS_WITH(cpu()->allocate(Bytes(std::uint64_t{1} << 62U)),
                    Catch::Matchers::Contains("4611686018427387904"));
}

TEST_CASE("copies, fills and sums do what they say on a named stream", "[backend]") {
  const auto backend = cpu();
  const auto stream = backend->make_stream();
  const DeviceBuffer a = backend->allocate_floats(3);
  const DeviceBuffer b = backend->allocate_floats(3);
  backend->copy_to_device(*stream, Values{1, 2, 3}, a.as<float>());
  backend->fill(*stream, b.as<float>(), 10);
  backend->add(*stream, a.as<float>(), b.as<float>());
  Values out(3);
  backend->copy_to_host(*stream, b.as<float>(), out);
  CHECK(out == Values{11, 12, 13});
  backend->copy(*stream, a.as<float>(), b.as<float>());
  backend->copy_to_host(*stream, b.as<float>(), out);
  stream->finish();
  CHECK(out == Values{1, 2, 3});
}

TEST_CASE("an inline stream's events have passed as soon as they are recorded", "[backend]") {
  const auto backend = cpu();
  const auto stream = backend->make_stream();
  const auto event = backend->make_event();
  CHECK(event->query());
  event->record(*stream);
  event->wait(*stream);
  event->finish();
  CHECK(event->query());
}

TEST_CASE("a tensor comes back in Caffe's order as it was written", "[backend]") {
  const auto backend = cpu();
  const auto stream = backend->make_stream();
  const Extents shape = GENERATE(Extents{2, 3, 4, 5}, Extents{2, 1, 4, 5}, Extents{2, 3, 1, 1},
                                 Extents{6, 7}, Extents{2, 3, 4}, Extents{});
  const Values values = random_values(count_of(shape), 5);
  const DeviceBuffer device = backend->allocate_floats(values.size());
  backend->write_tensor(*stream, shape, values, device.as<float>());
  Values back(values.size());
  backend->read_tensor(*stream, shape, device.as<float>(), back);
  CHECK(back == values);
}
