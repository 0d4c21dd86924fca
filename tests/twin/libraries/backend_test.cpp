// The CUDA backend as programs load it, on the twin: what its libraries' failures and numbers come
// to.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/device_error.hpp"
#include "tests/support/catch.hpp"
#include "tests/twin/counts.hpp"
#include "tests/twin/libraries/broken_rule.hpp"
#include "tests/twin/runtime/seed.hpp"
#include "tests/twin/stream_queue.hpp"
#include "worker/engine/cuda/module.hpp"
#include "worker/engine/ops/linear.hpp"
#include "worker/engine/plan/planned_backend.hpp"

using namespace taut;

namespace {

// Read when the first call requests the number of devices.
const int two_devices =
    setenv("TAUTLINE_TWIN_DEVICES", "2", 1) | setenv("TAUTLINE_CACHE", "off", 1);

using Values = std::vector<float>;

/// One device behind the module.
struct Device {
  explicit Device(int index) {
    REQUIRE(two_devices == 0);
    BackendOptions options;
    options.cuda_device = index;
    Result<std::unique_ptr<Backend>> opened = make_error(ErrorCode::kUnavailable, "not opened");
    function<decltype(taut_cuda_module_open)>("taut_cuda_module_open")(options, opened);
    REQUIRE(opened.has_value());
    backend = std::move(opened.value());
    stream = backend->make_stream();
  }
  template <class Function>
  static Function* function(const char* name) {
    static void* const module = dlopen(TAUT_TWIN_MODULE, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(module != nullptr);
    return reinterpret_cast<Function*>(dlsym(module, name));
  }
  DeviceBuffer put(const Values& values) {
    DeviceBuffer buffer = backend->allocate_floats(values.size());
    backend->copy_to_device(*stream, values, buffer.as<float>());
    stream->finish();
    return buffer;
  }
  Values get(DeviceSpan<const float> from) {
    Values values(from.size());
    backend->copy_to_host(*stream, from, values);
    stream->finish();
    return values;
  }
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Stream> stream;
};

/// A 1 x 1 convolution of one channel: its weight's gradient is the sum of products over all
/// places.
ConvolutionSpec one_weight(std::int64_t images, std::int64_t side) {
  ConvolutionSpec spec;
  spec.bottom = {.n = images, .c = 1, .h = side, .w = side};
  spec.top = spec.bottom;
  spec.bias = false;
  return spec;
}

}  // namespace

TEST_CASE("a deconvolution's gradients are not lost to float16", "[twin]") {
  Device device(0);
  device.backend->set_math({.precision = Precision::kFloat16});
  ConvolutionSpec spec = one_weight(2, 8);
  spec.runs_backwards = true;
  const auto op = device.backend->make(spec);
  const Values gradients(128, 1e-9F);
  const DeviceBuffer gradient = device.put(gradients);
  const DeviceBuffer weight = device.put({2.0F});
  const DeviceBuffer out = device.backend->allocate_floats(128);
  // Its way back is the convolution's forward.
  op->forward(*device.stream, gradient.as<float>(), weight.as<float>(), {}, out.as<float>());
  for (const float value : device.get(out.as<float>())) CHECK(value == Approx(2e-9F).epsilon(2e-3));
}

TEST_CASE("float16 weight gradients are finite over large images", "[twin]") {
  Device device(0);
  device.backend->set_math({.precision = Precision::kFloat16});
  const auto op = device.backend->make(one_weight(16, 256));
  const std::size_t places = 16UL * 256 * 256;
  for (const float value : {1.0F, 1000.0F}) {
    const DeviceBuffer bottom = device.put(Values(places, value));
    const DeviceBuffer gradient = device.put(Values(places, 1.0F));
    const DeviceBuffer weight_gradient = device.backend->allocate_floats(1);
    op->backward_parameters(*device.stream, bottom.as<float>(), gradient.as<float>(),
                            weight_gradient.as<float>(), {});
    const float found = device.get(weight_gradient.as<float>())[0];
    CHECK(found == Approx(static_cast<double>(places) * value).epsilon(2e-3));
  }
}

TEST_CASE("an operation's workspace keeps to a share of the budget", "[twin]") {
  Device device(0);
  const auto workspace_of = [&](std::int64_t channels) {
    ConvolutionSpec spec = one_weight(2, 12);
    spec.bottom.c = channels;
    spec.top.c = 8;
    spec.window = {.kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
    return device.backend->make(spec)->own_memory().scratch.value();
  };
  constexpr std::uint64_t kSlack = 512;  // of the alignment of parts
  constexpr std::uint64_t kBudget = 160'000;
  std::uint64_t largest = 0;
  for (std::int64_t channels = 1; channels <= 40; ++channels) {
    device.backend->set_math({});
    largest = std::max(largest, workspace_of(channels));
    device.backend->set_math({.budget = Bytes(kBudget)});
    const std::uint64_t searched = twin::calls_of("cudnnFindConvolutionForwardAlgorithm");
    CHECK(workspace_of(channels) <= kBudget / 8 + kSlack);
    // A measurement would take memory outside of the budget.
    CHECK(twin::calls_of("cudnnFindConvolutionForwardAlgorithm") == searched);
    // Where bits have to be the same, the choice is the same as well.
    device.backend->set_math({.deterministic = true});
    const std::uint64_t unlimited = workspace_of(channels);
    device.backend->set_math({.deterministic = true, .budget = Bytes(kBudget)});
    CHECK(workspace_of(channels) == unlimited);
  }
  CHECK(largest > kBudget / 8 + kSlack);
  device.backend->set_math({.budget = Bytes(1U << 20U)});
  InnerProductSpec product;
  product.rows = 4;
  product.inputs = 8;
  product.outputs = 8;
  const auto op = device.backend->make(product);
  CHECK(op->own_memory().scratch.value() <= (1U << 20U) / 8 + kSlack);
}

TEST_CASE("a gradient is converted to 16 bits once for both of its uses, within a budget too",
          "[twin]") {
  const Precision precision = GENERATE(Precision::kBfloat16, Precision::kFloat16);
  Device device(0);
  constexpr std::int64_t kSide = 64;
  const InnerProductSpec spec{
      .bottom = {kSide, kSide}, .rows = kSide, .inputs = kSide, .outputs = kSide, .bias = false};
  Values values(kSide * kSide);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  const auto converted = [] { return twin::launches_by_name()["kernel to_half"]; };
  const auto gradients = [&](Backend& backend) {
    backend.set_math({.precision = precision, .deterministic = true});
    const auto op = backend.make(spec);
    const auto stream = backend.make_stream();
    std::vector<DeviceBuffer> memory;
    for (int i = 0; i < 5; ++i) {
      memory.push_back(backend.allocate_floats(values.size()));
      backend.copy_to_device(*stream, values, memory.back().as<float>());
      stream->finish();
    }
    const auto at = [&](std::size_t i) { return memory[i].as<float>(); };
    Values found(2 * values.size());
    const std::span<float> into = found;
    for (int clock = 0; clock < 3; ++clock) {
      const std::uint64_t before = converted();
      backend.begin_cycle(*stream, "clock");
      op->backward_parameters(*stream, at(0), at(1), at(2), {});
      op->backward_bottom(*stream, at(1), at(3), at(4));
      backend.copy_to_host(*stream, at(2), into.first(values.size()));
      backend.copy_to_host(*stream, at(4), into.last(values.size()));
      stream->finish();
      backend.end_cycle();
      // Both bottoms' and weights' values, and the gradient.
      if (clock > 0) CHECK(converted() - before == 3);
    }
    return found;
  };
  PlannedBackend planned(*device.backend, {.budget = Bytes(1U << 20U), .poison = true});
  CHECK(gradients(*device.backend) == gradients(planned));
}

TEST_CASE("a convolution whose result is too large for float16 says so", "[twin]") {
  Device device(0);
  device.backend->set_math({.precision = Precision::kFloat16});
  const auto op = device.backend->make(one_weight(1, 2));
  const DeviceBuffer bottom = device.put({1, 2, 400, 3});
  const DeviceBuffer weight = device.put({300.0F});
  const DeviceBuffer top = device.backend->allocate_floats(4);
  op->forward(*device.stream, bottom.as<float>(), weight.as<float>(), {}, top.as<float>());
  CHECK_THROWS_WITH(device.stream->finish(),
                    Catch::Matchers::Contains("element 2") && Catch::Matchers::Contains("65504"));
  CHECK_NOTHROW(device.stream->finish());
}

TEST_CASE("a deconvolution whose result is too large for float16 says so", "[twin]") {
  Device device(0);
  device.backend->set_math({.precision = Precision::kFloat16});
  ConvolutionSpec spec = one_weight(1, 2);
  spec.runs_backwards = true;
  const auto op = device.backend->make(spec);
  const DeviceBuffer bottom = device.put({1, 2, 400, 3});
  const DeviceBuffer weight = device.put({300.0F});
  const DeviceBuffer top = device.backend->allocate_floats(4);
  // Its forward is the convolution's way back.
  op->backward_bottom(*device.stream, bottom.as<float>(), weight.as<float>(), top.as<float>());
  CHECK_THROWS_WITH(device.stream->finish(),
                    Catch::Matchers::Contains("element 2") && Catch::Matchers::Contains("65504"));
  CHECK_NOTHROW(device.stream->finish());
}

TEST_CASE("an event that is not ready leaves no error behind", "[twin]") {
  twin::set_seed(1);  // nothing runs before it is waited for
  Device device(0);
  const DeviceBuffer memory = device.backend->allocate_floats(100);
  const auto event = device.backend->make_event();
  int polls = 0;
  do {
    device.backend->fill(*device.stream, memory.as<float>(), 1);
    event->record(*device.stream);
    // The check of a launch that follows an answer of "not ready" finds nothing.
    for (; !event->query(); ++polls) device.backend->fill(*device.stream, memory.as<float>(), 2);
  } while (polls == 0);
  CHECK(polls > 0);
}

TEST_CASE("memory is unpinned while another thread records, which the recording survives",
          "[twin]") {
  Device device(0);
  std::vector<float> host(1024, 1);
  const auto bytes = std::as_writable_bytes(std::span(host));
  const DeviceBuffer memory = device.backend->allocate_floats(1024);
  for (int pass = 0; pass < 4; ++pass) {
    device.backend->pin_host(bytes);
    if (!device.backend->begin_repeat(*device.stream, 1, Clock(pass))) {
      device.backend->unpin_host(bytes);
      continue;
    }
    std::thread other([&] { device.backend->unpin_host(bytes); });
    device.backend->fill(*device.stream, memory.as<float>(), 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    device.backend->end_repeat(*device.stream);
    other.join();
  }
  CHECK(device.get(memory.as<float>()) == Values(1024, 3.0F));
}

TEST_CASE("an overrun of separate memory is found when it is given back", "[twin]") {
  const auto overrun = [](std::size_t floats) {
    setenv("TAUTLINE_DEVICE_MEMORY", "separate", 1);
    Device device(0);
    {
      const DeviceBuffer memory = device.backend->allocate_floats(100, "a small block");
      const DeviceSpan<float> longer(memory.as<float>().address(), floats);
      device.backend->fill(*device.stream, longer, 1);
    }
    setenv("TAUTLINE_DEVICE_MEMORY", "shared", 1);
  };
  overrun(100);
  REQUIRE_BROKEN("a write outside of a block of device memory", { overrun(101); });
}

// Last: a lost device stays lost.
TEST_CASE("the memory of an aborted exchange is never taken for its result", "[twin]") {
  Device healthy(0);
  Device failing(1);
  const DeviceGroup::Member members[] = {{healthy.backend.get(), healthy.stream.get()},
                                         {failing.backend.get(), failing.stream.get()}};
  Result<std::unique_ptr<DeviceGroup>> group = make_error(ErrorCode::kUnavailable, "not made");
  Device::function<decltype(taut_cuda_module_group)>("taut_cuda_module_group")(
      std::span<const DeviceGroup::Member>(members), group);
  REQUIRE(group.has_value());
  const DeviceBuffer first = healthy.put(Values(100, 1.0F));
  const DeviceBuffer second = failing.put(Values(100, 3.0F));
  const DeviceBuffer mean = healthy.backend->allocate_floats(100);
  const DeviceSpan<const float> parts[] = {first.as<float>(), second.as<float>()};
  const auto exchanged = healthy.backend->make_event();
  group.value()->mean(parts, mean.as<float>());
  exchanged->record(*healthy.stream);
  twin::fail_device(1, cudaErrorIllegalAddress);
  const auto result = [&] {
    exchanged->finish();
    return healthy.get(mean.as<float>());
  };
  // Where the exchange was over before, its result is ready; else the waiting thread gets an error.
  try {
    const Values found = result();
    CHECK(found == Values(100, 2.0F));
  } catch (const DeviceError& failure) {
    CHECK(std::string(failure.what()).find("not used") != std::string::npos);
    CHECK_THROWS_AS(healthy.stream->finish(), DeviceError);
  }
  CHECK_NOTHROW(healthy.backend->check_usable());
  CHECK_THROWS_AS(failing.backend->check_usable(), DeviceError);
}
