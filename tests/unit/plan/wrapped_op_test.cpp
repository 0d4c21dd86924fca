// What a wrapped operation's calls read, write and keep, as its interface declares it.
#include "worker/engine/plan/wrapped_op.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"
#include "worker/engine/plan/cycle_trace.hpp"

namespace taut {
namespace {

/// The CPU, with every call's operands recorded instead of computed. Addresses are virtual ones.
class Recorder final : public WrappedBackend {
 public:
  using WrappedBackend::allocate;
  using WrappedBackend::WrappedBackend;

  DeviceBuffer allocate(Bytes size, BufferKind /*kind*/, std::string_view name) override {
    if (size == Bytes(0)) return {};
    names_.emplace_back(name);
    return {virtual_address(names_.size() - 1), size, [](void*, void*) noexcept {}};
  }
  void on_call(Stream& /*stream*/, DeviceCall call) override {
    last = std::string(call.what);
    uses.clear();
    for (const Operand& operand : call.operands) {
      uses[names_[place_of(operand.address).buffer]] = operand.mode;
    }
    ++calls;
  }

  std::string last;
  std::map<std::string, AccessMode> uses;  // of the last call, by the buffers' names
  int calls = 0;

 private:
  std::vector<std::string> names_;
};

struct Fixture {
  std::unique_ptr<Backend> host = make_cpu_backend({.device = DeviceKind::kCpu, .threads = 1});
  Recorder backend{*host};
  std::unique_ptr<Stream> stream = backend.make_stream();
  std::vector<DeviceBuffer> memory;

  DeviceSpan<float> floats(std::size_t count, const std::string& name) {
    memory.push_back(backend.allocate_floats(count, name));
    return memory.back().as<float>();
  }
};

using Uses = std::map<std::string, AccessMode>;

/// A product that needs scratch memory.
class Product final : public LinearOp {
 public:
  OpMemory own_memory() const override { return {{}, Bytes(64)}; }
  void forward(Stream&, DeviceSpan<const float>, DeviceSpan<const float>, DeviceSpan<const float>,
               DeviceSpan<float>) override {}
  void backward_bottom(Stream&, DeviceSpan<const float>, DeviceSpan<const float>,
                       DeviceSpan<float>) override {}
  void backward_parameters(Stream&, DeviceSpan<const float>, DeviceSpan<const float>,
                           DeviceSpan<float>, DeviceSpan<float>) override {}
};

}  // namespace

TEST_CASE("a wrapped activation reads the bottom or the top, according to its spec", "[plan]") {
  Fixture f;
  const auto x = f.floats(4, "x");
  const auto y = f.floats(4, "y");
  const auto dy = f.floats(4, "dy");
  const auto dx = f.floats(4, "dx");
  const auto relu = f.backend.make(ActivationSpec{.kind = ActivationKind::kRelu});
  relu->forward(*f.stream, x, y);
  CHECK(f.backend.last == "activation forward");
  CHECK(f.backend.uses == Uses{{"x", AccessMode::kRead}, {"y", AccessMode::kWrite}});
  relu->backward(*f.stream, x, y, dy, dx);
  CHECK(f.backend.last == "activation backward");
  CHECK(f.backend.uses ==
        Uses{{"y", AccessMode::kRead}, {"dy", AccessMode::kRead}, {"dx", AccessMode::kWrite}});
  const auto log = f.backend.make(ActivationSpec{.kind = ActivationKind::kLog});
  log->backward(*f.stream, x, y, dy, dx);
  CHECK(f.backend.uses ==
        Uses{{"x", AccessMode::kRead}, {"dy", AccessMode::kRead}, {"dx", AccessMode::kWrite}});
}

TEST_CASE("a wrapped affine map reads its bottom only for the factors' gradient", "[plan]") {
  Fixture f;
  const auto op = f.backend.make(AffineSpec{.shape = {2, 3}, .axis = 1, .factors = {3}});
  const auto x = f.floats(6, "x");
  const auto factors = f.floats(3, "factors");
  const auto dy = f.floats(6, "dy");
  const auto dx = f.floats(6, "dx");
  const auto gradient = f.floats(3, "factors' gradient");
  op->backward(*f.stream, x, factors, dy, dx, gradient, {});
  CHECK(f.backend.uses.contains("x"));
  op->backward(*f.stream, x, factors, dy, dx, {}, {});
  CHECK(f.backend.uses == Uses{{"factors", AccessMode::kRead},
                               {"dy", AccessMode::kRead},
                               {"dx", AccessMode::kWrite}});
}

TEST_CASE("a wrapped call that would write nothing is not made", "[plan]") {
  Fixture f;
  const auto product = f.backend.make(
      InnerProductSpec{.bottom = {2, 3}, .rows = 2, .inputs = 3, .outputs = 4, .bias = true});
  const auto x = f.floats(6, "x");
  const auto dy = f.floats(8, "dy");
  const auto db = f.floats(4, "db");
  product->backward_parameters(*f.stream, x, dy, {}, {});
  CHECK(f.backend.calls == 0);
  product->backward_parameters(*f.stream, x, dy, {}, db);
  CHECK(f.backend.calls == 1);
  CHECK(f.backend.last == "product backward to the weights");
}

TEST_CASE("a wrapped operation writes its kept memory in a forward, and reads it in a backward",
          "[plan]") {
  Fixture f;
  const auto op = f.backend.make(
      RecurrentSpec{.cell = CellKind::kLstm, .steps = 2, .streams = 1, .inputs = 3, .hidden = 2});
  const auto x = f.floats(6, "x");
  const auto state = f.floats(4, "state");
  const auto y = f.floats(4, "y");
  const auto weight = f.floats(24, "weight_x");
  const auto bias = f.floats(8, "bias_x");
  const auto hidden = f.floats(16, "weight_h");
  const RecurrentParameters<const float> parameters{weight, bias, hidden, {}};
  const std::string kept = "workspace that a forward leaves to its backward";
  op->forward(*f.stream, x, {}, {}, parameters, state, y);
  CHECK(f.backend.uses.at("state") == AccessMode::kReadWrite);
  CHECK(f.backend.uses.at("weight_h") == AccessMode::kRead);
  CHECK(f.backend.uses.at(kept) == AccessMode::kWrite);
  const auto dx = f.floats(6, "dx");
  op->backward(*f.stream, x, {}, parameters, y, {}, {}, {}, dx);
  CHECK(f.backend.uses.at(kept) == AccessMode::kReadWrite);
  CHECK(f.backend.uses.at("dx") == AccessMode::kWrite);
}

TEST_CASE("a wrapped product's scratch memory is kept for the bottom's gradient after the weights'",
          "[plan]") {
  Fixture f;
  const auto op = wrapped::wrap(f.backend, InnerProductSpec{}, std::make_unique<Product>());
  const auto x = f.floats(6, "x");
  const auto w = f.floats(12, "w");
  const auto y = f.floats(8, "y");
  const auto use = [&] { return f.backend.uses.at("workspace of an operation"); };
  const auto to_weights = [&](DeviceSpan<float> gradient) {
    op->backward_parameters(*f.stream, x, y, gradient, {});
  };
  const auto to_bottom = [&] { op->backward_bottom(*f.stream, y, w, x); };
  to_weights(w);
  CHECK(use() == AccessMode::kWrite);
  to_bottom();
  CHECK(use() == AccessMode::kReadWrite);
  to_bottom();
  CHECK(use() == AccessMode::kWrite);
  to_weights(w);
  op->forward(*f.stream, x, w, {}, y);
  CHECK(use() == AccessMode::kWrite);
  to_bottom();
  CHECK(use() == AccessMode::kWrite);
  // Weights that do not train leave nothing.
  to_weights({});
  to_bottom();
  CHECK(use() == AccessMode::kWrite);
}

TEST_CASE("a wrapped deconvolution's forward keeps no scratch memory from the clock before",
          "[plan]") {
  Fixture f;
  ConvolutionSpec spec;
  spec.runs_backwards = true;
  const auto op = wrapped::wrap(f.backend, spec, std::make_unique<Product>());
  const auto top = f.floats(8, "top");
  const auto w = f.floats(12, "w");
  const auto bottom = f.floats(6, "bottom");
  const auto use = [&] { return f.backend.uses.at("workspace of an operation"); };
  for (int clock = 0; clock < 2; ++clock) {
    op->backward_bottom(*f.stream, bottom, w, top);  // forward
    CHECK(use() == AccessMode::kWrite);
    op->backward_parameters(*f.stream, top, bottom, w, {});
    CHECK(use() == AccessMode::kWrite);
  }
}

TEST_CASE("a wrapped operation over a list names every bottom", "[plan]") {
  Fixture f;
  const auto op = f.backend.make(EltwiseSpec{EltwiseKind::kMax});
  const auto a = f.floats(4, "a");
  const auto b = f.floats(4, "b");
  const auto y = f.floats(4, "y");
  const DeviceSpan<const float> bottoms[]{a, b};
  op->forward(*f.stream, bottoms, y);
  CHECK(f.backend.uses ==
        Uses{{"a", AccessMode::kRead}, {"b", AccessMode::kRead}, {"y", AccessMode::kWrite}});
}

}  // namespace taut
