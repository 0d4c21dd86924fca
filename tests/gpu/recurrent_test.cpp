// A recurrent layer's kernels over whole sequences, and those that go step by step, against the
// CPU's.
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/compare.hpp"
#include "tests/gpu/tested_cuda.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::test;

namespace {

constexpr RecurrentSpec kShape{.steps = 7, .streams = 5, .inputs = 9, .hidden = 12};

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

/// The numbers that one layer works on, drawn again from a seed. Weights are small, so that states
/// stay where cells are far from flat, and errors do not grow from step to step.
struct Sequence {
  Sequence(const RecurrentSpec& spec, std::uint64_t seed) {
    const std::int64_t gates = gate_count(spec.cell) * spec.hidden;
    const std::int64_t rows = spec.steps * spec.streams;
    bottom = random_values(size(rows * spec.inputs), ++seed);
    state = random_values(size((spec.cell == CellKind::kLstm ? 2 : 1) * spec.streams * spec.hidden),
                          ++seed);
    top_gradient = random_values(size(rows * spec.hidden), ++seed);
    tables = {random_values(size(gates * spec.inputs), ++seed), random_values(size(gates), ++seed),
              random_values(size(gates * spec.hidden), ++seed)};
    if (spec.cell == CellKind::kGru) tables.push_back(random_values(size(gates), ++seed));
    for (Values& table : tables) {
      for (float& value : table) value *= 0.3F;
    }
  }
  Values bottom, state, top_gradient, cont;
  std::vector<Values> tables;
};

/// One layer on one backend.
class Run {
 public:
  Run(Backend& backend, const RecurrentSpec& spec, const Sequence& given)
      : backend_(backend),
        stream_(backend.make_stream()),
        op(backend.make(spec)),
        bottom_(on_device(given.bottom)),
        cont_(on_device(given.cont)),
        state_(on_device(given.state)),
        top_(backend.allocate_floats(given.top_gradient.size())),
        top_gradient_(on_device(given.top_gradient)),
        bottom_gradient_(backend.allocate_floats(given.bottom.size())) {
    for (const Values& table : given.tables) {
      tables_.push_back(on_device(table));
      gradients_.push_back(backend.allocate_floats(table.size()));
    }
  }

  void forward() {
    op->forward(*stream_, floats(bottom_), floats(cont_), {}, values(), floats(state_),
                floats(top_));
  }
  /// bottom  whether its gradient is wanted
  void backward(bool bottom = true) {
    // A reader of the top may have overwritten it.
    backend_.fill(*stream_, floats(top_), 1e6F);
    op->backward(*stream_, floats(bottom_), floats(cont_), values(), floats(top_gradient_),
                 gradients(), {}, {}, bottom ? floats(bottom_gradient_) : DeviceSpan<float>());
  }

  Values top() { return on_host(top_); }
  Values state() { return on_host(state_); }
  Values bottom_gradient() { return on_host(bottom_gradient_); }
  std::vector<Values> table_gradients() {
    std::vector<Values> all;
    for (const DeviceBuffer& gradient : gradients_) all.push_back(on_host(gradient));
    return all;
  }

  /// All that a forward and a backward write.
  std::vector<Values> results() {
    forward();
    std::vector<Values> all{top(), state()};
    backward();
    all.push_back(bottom_gradient());
    for (Values& gradient : table_gradients()) all.push_back(std::move(gradient));
    return all;
  }

 private:
  static DeviceSpan<float> floats(const DeviceBuffer& buffer) { return buffer.as<float>(); }
  DeviceBuffer on_device(const Values& values) {
    DeviceBuffer buffer = backend_.allocate_floats(values.size());
    if (!values.empty()) backend_.copy_to_device(*stream_, values, floats(buffer));
    stream_->finish();
    return buffer;
  }
  Values on_host(const DeviceBuffer& buffer) {
    Values values(floats(buffer).size());
    backend_.copy_to_host(*stream_, floats(buffer), values);
    stream_->finish();
    return values;
  }
  [[nodiscard]] RecurrentParameters<const float> values() const {
    return {floats(tables_[0]), floats(tables_[1]), floats(tables_[2]),
            tables_.size() > 3 ? floats(tables_[3]) : DeviceSpan<float>()};
  }
  [[nodiscard]] RecurrentParameters<float> gradients() const {
    return {floats(gradients_[0]), floats(gradients_[1]), floats(gradients_[2]),
            gradients_.size() > 3 ? floats(gradients_[3]) : DeviceSpan<float>()};
  }

  Backend& backend_;
  std::unique_ptr<Stream> stream_;

 public:
  std::unique_ptr<RecurrentOp> op;

 private:
  DeviceBuffer bottom_, cont_, state_, top_, top_gradient_, bottom_gradient_;
  std::vector<DeviceBuffer> tables_, gradients_;
};

void check_close(const std::vector<Values>& actual, const std::vector<Values>& expected,
                 double tolerance) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("result " << i << " of " << expected.size());
    CHECK(relative_error(actual[i], expected[i]) <= tolerance);
  }
}

RecurrentSpec some_cell() {
  RecurrentSpec spec = kShape;
  spec.cell = GENERATE(CellKind::kRnn, CellKind::kLstm, CellKind::kGru);
  return spec;
}

/// Markers that let the sequences of the even streams start at the first step.
Values markers_at_start(const RecurrentSpec& spec) {
  Values cont(size(spec.steps * spec.streams), 1.0F);
  for (std::size_t n = 0; n < size(spec.streams); n += 2) cont[n] = 0;
  return cont;
}

}  // namespace

TEST_CASE("a recurrent layer agrees with the CPU's, fused and step by step", "[gpu][kernel]") {
  RecurrentSpec spec = some_cell();
  spec.resets = GENERATE(Resets::kAtStart, Resets::kAnywhere);
  const bool marked = GENERATE(false, true);
  Sequence given(spec, random_seed());
  if (marked) given.cont = markers_at_start(spec);
  INFO("cell " << static_cast<int>(spec.cell) << ", resets " << static_cast<int>(spec.resets)
               << ", marked " << marked);
  check_close(Run(*cuda_device(), spec, given).results(), Run(*cpu(), spec, given).results(), 1e-5);
}

TEST_CASE("a recurrent layer of one step and one stream agrees with the CPU's", "[gpu][kernel]") {
  RecurrentSpec spec = some_cell();
  spec.resets = Resets::kAtStart;
  spec.steps = 1;
  spec.streams = 1;
  const Sequence given(spec, random_seed());
  check_close(Run(*cuda_device(), spec, given).results(), Run(*cpu(), spec, given).results(), 1e-5);
}

TEST_CASE("a recurrent layer continues from its last state", "[gpu][kernel]") {
  RecurrentSpec spec = some_cell();
  spec.resets = Resets::kAtStart;
  const Sequence given(spec, random_seed());
  Run device(*cuda_device(), spec, given);
  const auto host = cpu();
  Run expected(*host, spec, given);
  device.forward();
  expected.forward();
  check_close(device.results(), expected.results(), 1e-5);
}

TEST_CASE("a recurrent layer's parameters have gradients even if the bottom has none",
          "[gpu][kernel]") {
  RecurrentSpec spec = some_cell();
  spec.resets = Resets::kAtStart;
  const Sequence given(spec, random_seed());
  Run device(*cuda_device(), spec, given);
  const auto host = cpu();
  Run expected(*host, spec, given);
  device.forward();
  device.backward(false);
  expected.forward();
  expected.backward();
  check_close(device.table_gradients(), expected.table_gradients(), 1e-5);
}

TEST_CASE("the kept memory of a fused recurrent layer may be elsewhere in its backward",
          "[gpu][kernel]") {
  RecurrentSpec spec = some_cell();
  spec.resets = Resets::kAtStart;
  const Sequence given(spec, random_seed());
  const auto backend = cuda_device();
  Run expected(*backend, spec, given);
  Run moved(*backend, spec, given);
  const OpMemory own = moved.op->own_memory();
  const auto stream = backend->make_stream();
  const DeviceBuffer first = backend->allocate(own.kept);
  const DeviceBuffer second = backend->allocate(own.kept);
  const DeviceBuffer scratch = backend->allocate(own.scratch);
  const std::vector<Values> as_it_was = expected.results();
  moved.op->lend(first.as<float>(), scratch.as<float>());
  moved.forward();
  std::vector<Values> actual{moved.top(), moved.state()};
  backend->copy(*stream, first.as<float>(), second.as<float>());
  backend->fill(*stream, first.as<float>(), 1e6F);
  backend->fill(*stream, scratch.as<float>(), 1e6F);
  stream->finish();
  moved.op->lend(second.as<float>(), scratch.as<float>());
  moved.backward();
  actual.push_back(moved.bottom_gradient());
  for (Values& gradient : moved.table_gradients()) actual.push_back(std::move(gradient));
  check_close(actual, as_it_was, 1e-6);
}

TEST_CASE("a recurrent layer in TF32 keeps to 11 bits of each factor", "[gpu]") {
  RecurrentSpec spec = some_cell();
  spec.resets = GENERATE(Resets::kAtStart, Resets::kAnywhere);
  const Sequence given(spec, 5);
  cuda_device()->set_math({.precision = Precision::kTf32});
  const std::vector<Values> actual = Run(*cuda_device(), spec, given).results();
  cuda_device()->set_math({});
  check_close(actual, Run(*cpu(), spec, given).results(), 5e-3);
}

TEST_CASE("a deterministic recurrent layer has the same bits twice", "[gpu]") {
  RecurrentSpec spec = some_cell();
  spec.resets = Resets::kAtStart;
  const Sequence given(spec, 6);
  cuda_device()->set_math({.deterministic = true});
  const std::vector<Values> once = Run(*cuda_device(), spec, given).results();
  const std::vector<Values> again = Run(*cuda_device(), spec, given).results();
  cuda_device()->set_math({});
  CHECK(once == again);
}
