#include "worker/engine/backend.hpp"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/math/update_kernels.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/layers/layer_bench.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"
#include "worker/engine/memory_use.hpp"

using namespace taut;
using namespace taut::test;

TEST_CASE("the CPU always exists, and describes itself", "[backend]") {
  const auto choice = make_backend({.device = DeviceKind::kCpu, .threads = 3});
  REQUIRE(choice);
  CHECK(choice.value().backend->shares_host_memory());
  CHECK_THAT(choice.value().reason, Catch::Matchers::StartsWith("CPU, oneDNN "));
  CHECK_THAT(choice.value().reason, Catch::Matchers::EndsWith(", 3 threads"));
}

TEST_CASE("AUTO takes the CPU if CUDA is missing, and reports why", "[backend]") {
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
  CHECK(first.as<float>().empty());  // NOLINT(bugprone-use-after-move): what the test is about
  CHECK(backend->allocate_floats(0).as<float>().empty());
}

TEST_CASE("missing memory is a device error with the size", "[backend]") {
  CHECK_THROWS_AS(cpu()->allocate(Bytes(std::uint64_t{1} << 62U)), DeviceError);
  CHECK_THROWS_WITH(cpu()->allocate(Bytes(std::uint64_t{1} << 62U)),
                    Catch::Matchers::Contains("4611686018427387904"));
}

TEST_CASE("host memory for copies is aligned, and pinning other memory is a no-op on the CPU",
          "[backend]") {
  const auto backend = cpu();
  const HostBuffer buffer = backend->allocate_host(Bytes(1000));
  CHECK(buffer.as<float>().size() == 250);
  CHECK(reinterpret_cast<std::uintptr_t>(buffer.as<float>().data()) % 64 == 0);
  std::vector<std::byte> other(100);
  backend->pin_host(other);
  backend->unpin_host(other);
}

TEST_CASE("allocated memory is in use until it is freed", "[backend]") {
  const auto backend = make_cpu_backend({});
  const auto used = [&] { return memory_use(*backend)->used.value(); };
  const std::uint64_t before = used();
  {
    const DeviceBuffer block = backend->allocate(Bytes(1 << 20));
    CHECK(used() >= before + (1 << 20));
    const HostBuffer host = backend->allocate_host(Bytes(8 << 20));
    CHECK(used() < before + (2 << 20));
  }
  CHECK(used() == before);
  CHECK(memory_use(*backend)->free > Bytes(1 << 20));
}

TEST_CASE("a block without room is named in the error", "[backend]") {
  CHECK_THROWS_WITH(cpu()->allocate(Bytes(std::uint64_t{1} << 62U), "gradient of fc6"),
                    Catch::Matchers::Contains("gradient of fc6"));
}

TEST_CASE("the device's updates are the shard's", "[backend]") {
  const auto backend = cpu();
  const auto stream = backend->make_stream();
  const Values first = random_values(1000, 1);
  const Values second = random_values(1000, 2);
  const Values start = random_values(1000, 3);
  std::vector<DeviceBuffer> memory;
  const auto on_device = [&](const Values& values) {
    memory.push_back(backend->allocate_floats(values.size()));
    backend->copy_to_device(*stream, values, memory.back().as<float>());
    return memory.back().as<float>();
  };
  const DeviceGradient gradients[]{{on_device(first), 0.5F}, {on_device(second), 1.0F}};
  const DeviceSpan<float> values = on_device(start);
  const DeviceSpan<float> state[]{on_device(Values(1000, 0.25F))};
  DeviceUpdate update{.kind = math::RuleKind::kMomentum, .step = {}, .scale = 0.5F};
  update.step.rate = 0.1F;
  update.step.momentum = 0.9F;
  backend->apply_update(*stream, update, gradients, values, state);
  Values out(1000);
  backend->copy_to_host(*stream, values, out);
  stream->finish();

  Values expected = start;
  Values velocity(1000, 0.25F);
  float* const arrays[]{velocity.data()};
  const math::GradientView views[]{{std::as_bytes(std::span(first)).data(), 0.5F},
                                   {std::as_bytes(std::span(second)).data(), 1.0F}};
  math::apply_update(update.kind, update.step, views, 0.5F, start, expected, arrays);
  CHECK(out == expected);

  const DeviceSpan<const float> parts[]{gradients[0].values, gradients[1].values};
  CHECK(backend->sum_of_squares(*stream, parts) ==
        math::sum_of_squares(first) + math::sum_of_squares(second));
  double later = 0;
  backend->copy_squares_to_host(*stream, parts[1], later);
  stream->finish();
  CHECK(later == math::sum_of_squares(second));
}

TEST_CASE("copies, fills and sums work on a named stream", "[backend]") {
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

TEST_CASE("a tensor is read back in Caffe's order as it was written", "[backend]") {
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
