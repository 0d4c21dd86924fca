#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "common/math/codec.hpp"
#include "common/math/update_kernels.hpp"
#include "common/math/update_rules.hpp"
#include "tests/gpu/tested_cuda.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/layers/layer_bench.hpp"

using namespace taut;
using namespace taut::test;
using math::RuleKind;

namespace {

struct Outcome {
  Values values;
  std::vector<Values> state;
};

struct Case {
  RuleKind kind = RuleKind::kSgd;
  std::size_t count = 10'007;
  std::size_t gradients = 3;
  bool l1 = false;
};

math::UpdateStep step_of(const Case& test) {
  math::UpdateStep step;
  step.rate = 0.05F;
  step.decay = 0.001F;
  step.momentum = 0.9F;
  step.momentum2 = 0.99F;
  step.delta = 1e-6F;
  step.l1 = test.l1;
  return step;
}

/// Three applications in a row, so that states that were written are read again.
Outcome apply(Backend& backend, const Case& test) {
  const auto stream = backend.make_stream();
  std::vector<DeviceBuffer> memory;
  const auto on_device = [&](const Values& values) {
    memory.push_back(backend.allocate_floats(values.size()));
    backend.copy_to_device(*stream, values, memory.back().as<float>());
    stream->finish();
    return memory.back().as<float>();
  };
  std::vector<DeviceGradient> gradients;
  gradients.reserve(test.gradients);
  for (std::size_t g = 0; g < test.gradients; ++g) {
    gradients.push_back({on_device(random_values(test.count, 20 + g)), g == 1 ? 0.25F : 1.0F});
  }
  const DeviceSpan<float> values = on_device(random_values(test.count, 10));
  std::vector<DeviceSpan<float>> state(
      static_cast<std::size_t>(math::info_of(test.kind).state_count));
  for (DeviceSpan<float>& one : state) one = on_device(Values(test.count));
  const DeviceUpdate update{.kind = test.kind, .step = step_of(test), .scale = 0.5F};
  for (int i = 0; i < 3; ++i) backend.apply_update(*stream, update, gradients, values, state);
  Outcome outcome{Values(test.count), {}};
  backend.copy_to_host(*stream, values, outcome.values);
  for (const DeviceSpan<float>& one : state) {
    outcome.state.emplace_back(test.count);
    backend.copy_to_host(*stream, one, outcome.state.back());
  }
  stream->finish();
  return outcome;
}

/// The bytes of two updates in a row, and the residual after them.
std::vector<std::byte> encoded(Backend& backend, const math::Encoding& encoding) {
  constexpr std::size_t kCount = 5003;
  const auto stream = backend.make_stream();
  const std::size_t bytes = math::encoded_bytes(encoding, kCount);
  const std::size_t kept = math::state_values(encoding, kCount);
  const DeviceBuffer values = backend.allocate_floats(kCount);
  const DeviceBuffer out = backend.allocate_floats((bytes + 3) / 4);
  const DeviceBuffer state = backend.allocate_floats(std::max<std::size_t>(kept, 1));
  const DeviceSpan<float> residual = state.as<float>().subspan(0, kept);
  backend.fill(*stream, state.as<float>(), 0);
  std::vector<std::byte> all;
  for (std::uint64_t clock = 0; clock < 2; ++clock) {
    const Values given = random_values(kCount, 30 + clock);
    backend.copy_to_device(*stream, given, values.as<float>());
    backend.encode(*stream, {encoding, math::draw_of(5, clock, 1, 2, 3)}, values.as<float>(),
                   out.as<float>(), residual);
    Values copied((bytes + 3) / 4);
    backend.copy_to_host(*stream, out.as<float>(), copied);
    stream->finish();
    const auto read = std::as_bytes(std::span(copied)).first(bytes);
    all.insert(all.end(), read.begin(), read.end());
  }
  Values left(kept);
  if (kept > 0) backend.copy_to_host(*stream, residual, left);
  stream->finish();
  const auto read = std::as_bytes(std::span(left));
  all.insert(all.end(), read.begin(), read.end());
  return all;
}

}  // namespace

TEST_CASE("an update on the device has the bits of the CPU's", "[gpu][kernel]") {
  std::vector<Case> cases = {{.kind = RuleKind::kSgd, .l1 = true},
                             {.kind = RuleKind::kMomentum, .count = 3},
                             {.kind = RuleKind::kMomentum, .gradients = 1}};
  for (std::size_t kind = 0; kind < math::kRuleCount; ++kind) {
    math::with_rule(static_cast<RuleKind>(kind), [&](auto rule) {
      if (!math::kIsScaledBySlice<decltype(rule)>) cases.push_back({static_cast<RuleKind>(kind)});
    });
  }
  for (const Case& test : cases) {
    INFO("rule " << math::info_of(test.kind).name << ", " << test.count << " elements");
    const Outcome device = apply(*cuda_device(), test);
    const Outcome host = apply(*cpu(), test);
    CHECK(device.values == host.values);
    CHECK(device.state == host.state);
  }
}

TEST_CASE("a slice is encoded on the device with the bytes and residual of the CPU's",
          "[gpu][kernel]") {
  REQUIRE(cuda_device()->encodes());
  const std::array kEncodings{
      math::Encoding{math::Codec::kFloat16},
      math::Encoding{math::Codec::kInt8},
      math::Encoding{math::Codec::kOneBit},
      math::Encoding{math::Codec::kRandomK, 7},
      math::Encoding{math::Codec::kTopK, 10},
      math::Encoding{.codec = math::Codec::kLowRank, .rank = 2, .columns = 30}};
  for (const math::Encoding& encoding : kEncodings) {
    CAPTURE(math::to_string(encoding));
    CHECK(encoded(*cuda_device(), encoding) == encoded(*cpu(), encoding));
  }
}

TEST_CASE("updates of many tables at once have the bits of one after the other", "[gpu][kernel]") {
  const auto backend = cuda_device();
  const auto stream = backend->make_stream();
  std::vector<DeviceBuffer> memory;
  const auto on_device = [&](const Values& values) {
    memory.push_back(backend->allocate_floats(values.size()));
    backend->copy_to_device(*stream, values, memory.back().as<float>());
    stream->finish();
    return memory.back().as<float>();
  };
  for (const RuleKind kind : {RuleKind::kMomentum, RuleKind::kAdam, RuleKind::kLamb}) {
    INFO("rule " << math::info_of(kind).name);
    // More than the shorter list takes, then more than one launch, of lengths that do not divide
    // by 4; one has two gradients.
    std::vector<TableUpdate> listed;
    std::vector<TableUpdate> single;
    const std::size_t tables = kind == RuleKind::kAdam ? 350 : 40;
    for (std::size_t table = 0; table < tables; ++table) {
      const std::size_t count = 1 + 37 * (table % 40);
      for (auto* const list : {&listed, &single}) {
        TableUpdate update;
        update.update = {.kind = kind, .step = step_of({}), .scale = 0.5F};
        update.update.step.rate = 0.01F * static_cast<float>(table + 1);
        for (std::size_t g = 0; g < (table == 7 ? 2U : 1U); ++g) {
          update.gradients.push_back({on_device(random_values(count, 50 + table + g)), 0.75F});
        }
        update.values = on_device(random_values(count, 100 + table));
        for (int i = 0; i < math::info_of(kind).state_count; ++i) {
          update.state.push_back(on_device(Values(count)));
        }
        list->push_back(update);
      }
    }
    for (int clock = 0; clock < 2; ++clock) {
      backend->apply_updates(*stream, listed);
      for (const TableUpdate& one : single) {
        backend->apply_update(*stream, one.update, one.gradients, one.values, one.state);
      }
    }
    for (std::size_t table = 0; table < listed.size(); ++table) {
      Values found(listed[table].values.size());
      Values expected(found.size());
      backend->copy_to_host(*stream, listed[table].values, found);
      backend->copy_to_host(*stream, single[table].values, expected);
      stream->finish();
      CHECK(found == expected);
    }
  }
}

TEST_CASE("averages of many tables at once have the CPU's bits", "[gpu][kernel]") {
  const auto move_all = [](Backend& backend) {
    const auto stream = backend.make_stream();
    std::vector<DeviceBuffer> memory;
    const auto put = [&](const Values& values) {
      memory.push_back(backend.allocate_floats(values.size()));
      backend.copy_to_device(*stream, values, memory.back().as<float>());
      stream->finish();
      return memory.back().as<float>();
    };
    // More than one launch lists; some of several contributions, more than a launch takes or with
    // factors, and one of another share.
    std::vector<TableAverage> listed;
    for (std::size_t table = 0; table < 400; ++table) {
      TableAverage& one = listed.emplace_back();
      const std::size_t count = table == 5 ? 0 : 1 + 3 * (table % 50);
      const std::size_t contributions = table < 200 ? 1 : table < 380 ? 3 : 9;
      for (std::size_t g = 0; g < contributions; ++g) {
        const float factor = table == 300 && g == 1 ? 0.5F : 1.0F;
        one.contributions.push_back({put(random_values(count, 50 + table + g)), factor});
      }
      one.share = table == 100 ? 0.25F : 1.0F;
      one.values = put(random_values(count, 100 + table));
    }
    backend.apply_averages(*stream, listed);
    std::vector<Values> moved;
    for (const TableAverage& one : listed) {
      backend.copy_to_host(*stream, one.values, moved.emplace_back(one.values.size()));
      stream->finish();
    }
    return moved;
  };
  const std::vector<Values> device = move_all(*cuda_device());
  const std::vector<Values> host = move_all(*cpu());
  REQUIRE(device.size() == host.size());
  for (std::size_t table = 0; table < host.size(); ++table) {
    INFO("table " << table);
    if (table < 380) {
      CHECK(device[table] == host[table]);
    } else {
      for (std::size_t i = 0; i < host[table].size(); ++i) {
        CHECK(device[table][i] == Approx(host[table][i]).margin(1e-5));
      }
    }
  }
}

TEST_CASE("more gradients than one launch takes are summed correctly", "[gpu][kernel]") {
  const Case test{.kind = RuleKind::kMomentum, .gradients = 20};
  const Outcome device = apply(*cuda_device(), test);
  const Outcome host = apply(*cpu(), test);
  for (std::size_t i = 0; i < test.count; ++i) {
    REQUIRE(device.values[i] == Approx(host.values[i]).margin(1e-5));
  }
}

TEST_CASE("LAMB's norms differ from the CPU's by rounding alone", "[gpu][kernel]") {
  const Case test{.kind = RuleKind::kLamb};
  const Outcome device = apply(*cuda_device(), test);
  const Outcome host = apply(*cpu(), test);
  CHECK(device.state == host.state);
  for (std::size_t i = 0; i < test.count; ++i) {
    REQUIRE(device.values[i] == Approx(host.values[i]).epsilon(1e-5).margin(1e-7));
  }
}

TEST_CASE("a sum of squares over several parts is the CPU's to the last digits", "[gpu][kernel]") {
  const auto backend = cuda_device();
  const auto stream = backend->make_stream();
  std::vector<DeviceBuffer> memory;
  std::vector<DeviceSpan<const float>> parts;
  double expected = 0;
  for (const std::size_t count : {1U, 1000U, 3'000'001U}) {
    const Values values = random_values(count, count);
    expected += math::sum_of_squares(values);
    memory.push_back(backend->allocate_floats(count));
    backend->copy_to_device(*stream, values, memory.back().as<float>());
    stream->finish();
    parts.emplace_back(memory.back().as<float>());
  }
  CHECK(backend->sum_of_squares(*stream, parts) == Approx(expected).epsilon(1e-12));
  // The same bits every time: partial sums are added in one order.
  CHECK(backend->sum_of_squares(*stream, parts) == backend->sum_of_squares(*stream, parts));
}

TEST_CASE("sums of squares that no thread waits for equal those that are waited for",
          "[gpu][kernel]") {
  const auto backend = cuda_device();
  const auto stream = backend->make_stream();
  const std::vector<std::size_t> counts = {1, 1000, 3'000'001};
  const HostBuffer sums = backend->allocate_host(Bytes(counts.size() * sizeof(double)));
  std::vector<DeviceBuffer> memory;
  std::deque<Values> gradients;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    gradients.push_back(random_values(counts[i], counts[i]));
    memory.push_back(backend->allocate_floats(counts[i]));
    backend->copy_to_device(*stream, gradients.back(), memory.back().as<float>());
    backend->copy_squares_to_host(*stream, memory.back().as<float>(), sums.as<double>()[i]);
    // What comes behind it in the stream is no part of the sum.
    backend->fill(*stream, memory.back().as<float>(), 7);
  }
  stream->finish();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    backend->copy_to_device(*stream, gradients[i], memory[i].as<float>());
    const DeviceSpan<const float> of = memory[i].as<float>();
    CHECK(sums.as<double>()[i] == backend->sum_of_squares(*stream, std::span(&of, 1)));
  }
}
