// What comes first on a machine with a GPU, in less than a minute: one of each thing that all else
// needs.
#include <algorithm>
#include <string>
#include <vector>

#include "common/net/shared_arena.hpp"
#include "tests/gpu/compare.hpp"
#include "tests/gpu/tested_cuda.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/layers/layer_bench.hpp"
#include "worker/engine/cuda/cuda_backend.hpp"

using namespace taut;
using namespace taut::test;

namespace {

/// A layer's output and gradients, on a backend.
std::vector<Values> run(std::shared_ptr<Backend> backend, const std::string& definition,
                        const std::vector<std::vector<std::int64_t>>& bottoms) {
  LayerBench bench(definition, bottoms, {.backend = std::move(backend)});
  fill_randomly(bench, 7, 0, 0);
  bench.forward(Clock(5));
  bench.backward();
  return results_of(bench, true);
}

void compare(const std::string& definition, const std::vector<std::vector<std::int64_t>>& bottoms,
             Precision precision, double tolerance) {
  const auto device = cuda_device();
  device->set_math({.precision = precision});
  const auto found = run(device, definition, bottoms);
  device->set_math({});
  const auto expected = run(cpu(), definition, bottoms);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(relative_error(found[i], expected[i]) <= tolerance);
  }
}

}  // namespace

TEST_CASE("a device is found, with its versions", "[smoke]") {
  // Printed on a machine that its developers never see.
  WARN(cuda_device()->description());
  CHECK_FALSE(cuda_device()->description().empty());
}

TEST_CASE("a convolution and a product work in each precision", "[smoke]") {
  struct Row {
    Precision precision;
    double tolerance;
  };
  for (const Row& row : {Row{Precision::kFloat32, 1e-4}, Row{Precision::kTf32, 5e-3},
                         Row{Precision::kBfloat16, 3e-2}, Row{Precision::kFloat16, 5e-3}}) {
    INFO("precision " << static_cast<int>(row.precision));
    compare(
        "type: 'Convolution' convolution_param { num_output: 8 kernel_size: 3 pad: 1 "
        "weight_filler { type: 'xavier' } }",
        {{4, 6, 12, 12}}, row.precision, row.tolerance);
    compare(
        "type: 'InnerProduct' inner_product_param { num_output: 10 weight_filler { type: "
        "'xavier' } }",
        {{8, 30}}, row.precision, row.tolerance);
  }
}

TEST_CASE("a recurrent layer works on the library's kernels", "[smoke]") {
  compare("type: 'LSTM' recurrent_param { num_output: 12 weight_filler { type: 'xavier' } }",
          {{6, 4, 9}}, Precision::kFloat32, 1e-3);
}

TEST_CASE("what is recorded is replayed", "[smoke]") {
  const auto backend = cuda_device();
  const auto stream = backend->make_stream();
  const DeviceBuffer memory = backend->allocate_floats(1000);
  const DeviceBuffer one = backend->allocate_floats(1000);
  backend->fill(*stream, memory.as<float>(), 0);
  backend->fill(*stream, one.as<float>(), 1);
  constexpr int kPasses = 6;
  for (int pass = 0; pass < kPasses; ++pass) {
    if (!backend->begin_repeat(*stream, 77, Clock(pass))) continue;
    backend->add(*stream, one.as<float>(), memory.as<float>());
    backend->end_repeat(*stream);
  }
  Values values(1000);
  backend->copy_to_host(*stream, memory.as<float>(), values);
  stream->finish();
  CHECK(values == Values(1000, kPasses));
}

TEST_CASE("buffers of an arena that grew are copied, whichever part they are in", "[smoke]") {
  const auto backend = cuda_device();
  const auto stream = backend->make_stream();
  constexpr std::size_t kFloats = (20UL << 20U) / sizeof(float);
  const DeviceBuffer memory = backend->allocate_floats(kFloats);
  backend->fill(*stream, memory.as<float>(), 2);
  std::vector<std::span<std::byte>> parts;
  const auto arena = SharedArena::create(Bytes(0), [&](std::span<std::byte> part) {
                       backend->pin_host(part);
                       parts.push_back(part);
                     }).value();
  std::vector<std::span<float>> buffers;
  for (int i = 0; i < 5; ++i) {
    buffers.emplace_back(static_cast<float*>(arena->allocate(kFloats * sizeof(float))), kFloats);
    backend->copy_to_host(*stream, memory.as<float>(), buffers.back());
  }
  stream->finish();
  CHECK(parts.size() > 1);
  for (const std::span<float> buffer : buffers) {
    CHECK(std::ranges::all_of(buffer, [](float value) { return value == 2; }));
    arena->deallocate(buffer.data(), buffer.size_bytes());
  }
  for (const std::span<std::byte> part : parts) backend->unpin_host(part);
}

TEST_CASE("NCCL exchanges with one rank", "[smoke]") {
  const auto backend = cuda_device();
  const auto stream = backend->make_stream();
  const DeviceGroup::Member member{backend.get(), stream.get()};
  const auto group = make_cuda_group(std::span(&member, 1));
  if (!group) {
    WARN("no exchange: " << group.error().message);
    return;
  }
  WARN(group.value()->description());
  const DeviceBuffer from = backend->allocate_floats(1000);
  const DeviceBuffer into = backend->allocate_floats(1000);
  backend->fill(*stream, from.as<float>(), 4);
  backend->fill(*stream, into.as<float>(), 0);
  const DeviceSpan<const float> parts[] = {from.as<float>()};
  group.value()->mean(parts, into.as<float>());
  Values values(1000);
  backend->copy_to_host(*stream, into.as<float>(), values);
  stream->finish();
  CHECK(values == Values(1000, 4.0F));
}
