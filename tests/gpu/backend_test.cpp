#include "worker/engine/backend.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/gpu/tested_cuda.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/layers/layer_bench.hpp"

using namespace taut;
using namespace taut::test;
using Catch::Matchers::Contains;

namespace {

DeviceBuffer on_device(Backend& backend, Stream& stream, const Values& values) {
  DeviceBuffer buffer = backend.allocate_floats(values.size());
  backend.copy_to_device(stream, values, buffer.as<float>());
  stream.finish();  // the values may be a temporary's
  return buffer;
}

Values on_host(Backend& backend, Stream& stream, DeviceSpan<const float> span) {
  Values values(span.size(), std::numeric_limits<float>::quiet_NaN());
  backend.copy_to_host(stream, span, values);
  stream.finish();
  return values;
}

}  // namespace

TEST_CASE("a CUDA device describes itself, and does not share the host's memory", "[gpu]") {
  CHECK_THAT(cuda_device()->description(), Contains("CUDA device 0"));
  CHECK_FALSE(cuda_device()->shares_host_memory());
}

TEST_CASE("an index that no device has is refused in one line", "[gpu]") {
  const auto choice = make_backend({.device = DeviceKind::kCuda, .cuda_device = 1000});
  REQUIRE_FALSE(choice);
  CHECK_THAT(choice.error().message, Contains("device_index 1000"));
}

TEST_CASE("missing device memory is reported, with the bytes required and free", "[gpu]") {
  const auto backend = cuda_device();
  CHECK_THROWS_AS(backend->allocate(Bytes(std::uint64_t{1} << 47U), "gradient of fc6"),
                  DeviceError);
  CHECK_THROWS_WITH(
      backend->allocate(Bytes(std::uint64_t{1} << 47U), "gradient of fc6"),
      Contains("gradient of fc6") && Contains("134217728.0 MiB") && Contains("free on the device"));
  // The device is as usable as before.
  CHECK(backend->allocate_floats(1000).as<float>().size() == 1000);
}

TEST_CASE("copies, fills and sums are correct at every length and offset", "[gpu]") {
  const auto backend = cuda_device();
  const auto stream = backend->make_stream();
  const std::size_t count = GENERATE(1U, 3U, 4U, 255U, 1024U, 100'003U);
  const std::size_t offset = GENERATE(0U, 1U);
  const Values first = random_values(count + offset, 1);
  const Values second = random_values(count + offset, 2);
  const DeviceBuffer a = on_device(*backend, *stream, first);
  const DeviceBuffer b = on_device(*backend, *stream, second);
  const DeviceBuffer out = backend->allocate_floats(count + offset);
  const auto part = [&](const DeviceBuffer& of) { return of.as<float>().subspan(offset, count); };

  backend->fill(*stream, part(out), 2.5F);
  CHECK(on_host(*backend, *stream, part(out)) == Values(count, 2.5F));
  backend->copy(*stream, part(a), part(out));
  backend->add(*stream, part(b), part(out));
  Values expected(count);
  for (std::size_t i = 0; i < count; ++i) expected[i] = first[i + offset] + second[i + offset];
  CHECK(on_host(*backend, *stream, part(out)) == expected);

  std::vector<Term> terms(11, Term{part(a), 0.5F});
  terms[7] = {part(out), 2.0F};  // the output's own memory, not first
  backend->weighted_sum(*stream, terms, part(out));
  const Values sums = on_host(*backend, *stream, part(out));
  for (std::size_t i = 0; i < count; ++i) {
    REQUIRE(sums[i] == Approx(2 * expected[i] + 5 * first[i + offset]).margin(1e-5));
  }
}

TEST_CASE("pinned memory, and memory that is pinned later, is copied from and to", "[gpu]") {
  const auto backend = cuda_device();
  const auto stream = backend->make_stream();
  const HostBuffer pinned = backend->allocate_host(Bytes(4000));
  const Values values = random_values(1000, 3);
  std::copy(values.begin(), values.end(), pinned.as<float>().begin());
  const DeviceBuffer device = backend->allocate_floats(1000);
  backend->copy_to_device(*stream, pinned.as<float>(), device.as<float>());
  stream->finish();
  std::vector<float> other(1U << 20U);
  const auto bytes = std::as_writable_bytes(std::span(other));
  backend->pin_host(bytes);
  backend->copy_to_host(*stream, device.as<float>(), std::span(other).subspan(5, 1000));
  stream->finish();
  backend->unpin_host(bytes);
  CHECK(Values(other.begin() + 5, other.begin() + 1005) == values);
}

TEST_CASE("a stream that waits for an event sees what was queued before it", "[gpu]") {
  const auto backend = cuda_device();
  const auto first = backend->make_stream();
  const auto second = backend->make_stream();
  const auto event = backend->make_event();
  CHECK(event->query());
  const std::size_t count = 1U << 24U;
  const DeviceBuffer data = backend->allocate_floats(count);
  for (int i = 0; i < 20; ++i) backend->fill(*first, data.as<float>(), static_cast<float>(i));
  event->record(*first);
  event->wait(*second);
  const DeviceBuffer copy = backend->allocate_floats(count);
  backend->copy(*second, data.as<float>(), copy.as<float>());
  const Values seen = on_host(*backend, *second, copy.as<float>());
  CHECK(seen.front() == 19);
  CHECK(seen.back() == 19);
  event->finish();
  CHECK(event->query());
}

TEST_CASE("a part of a tensor is copied into a part of another, along any axis", "[gpu]") {
  const auto backend = cuda_device();
  const auto host = cpu();
  const std::size_t axis = GENERATE(0U, 1U, 2U);
  const std::int64_t inner = GENERATE(5, 8);
  PartCopy part{.from = {4, 8, inner}, .to = {4, 8, inner}, .axis = axis};
  part.to[axis] += 4;
  part.from_offset = 1;
  part.to_offset = 2;
  part.length = 3;
  const auto run = [&](Backend& device) {
    const auto stream = device.make_stream();
    const DeviceBuffer from = on_device(device, *stream, random_values(count_of(part.from), 4));
    const DeviceBuffer to = on_device(device, *stream, random_values(count_of(part.to), 5));
    device.copy_part(*stream, part, from.as<float>(), to.as<float>());
    return on_host(device, *stream, to.as<float>());
  };
  CHECK(run(*backend) == run(*host));
}

TEST_CASE("a label that is no class is an error when the stream is waited for, and once", "[gpu]") {
  const auto backend = cuda_device();
  const auto stream = backend->make_stream();
  const auto op = backend->make(SoftmaxLossSpec{.shape = {4, 10}, .axis = 1, .ignore_label = 7});
  const DeviceBuffer scores = on_device(*backend, *stream, random_values(40, 6));
  const DeviceBuffer labels = on_device(*backend, *stream, {3, 7, 10, 9});
  const DeviceBuffer probabilities = backend->allocate_floats(40);
  const DeviceBuffer loss = backend->allocate_floats(1);
  op->forward(*stream, scores.as<float>(), labels.as<float>(), probabilities.as<float>(),
              loss.as<float>());
  CHECK_THROWS_WITH(stream->finish(), Contains("label 10 at position 2"));
  CHECK_NOTHROW(stream->finish());
  const auto embed = backend->make(EmbedSpec{.count = 2, .inputs = 5, .outputs = 10});
  const DeviceBuffer weights = on_device(*backend, *stream, random_values(50, 7));
  const DeviceBuffer numbers = on_device(*backend, *stream, {4, -1});
  embed->forward(*stream, numbers.as<float>(), weights.as<float>(), {},
                 probabilities.as<float>().subspan(0, 20));
  CHECK_THROWS_AS(stream->finish(), std::invalid_argument);
}
