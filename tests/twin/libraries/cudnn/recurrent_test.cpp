// The twin's cuDNN recurrent layers: values against plain loops, gradients against differences of
// those, and what they object to.
#include <cudnn.h>

#include <array>
#include <cmath>
#include <functional>
#include <span>

#include "tests/support/catch.hpp"
#include "tests/twin/libraries/broken_rule.hpp"
#include "tests/twin/libraries/device_values.hpp"
#include "tests/twin/stream_queue.hpp"

using namespace taut::twin;
using namespace taut::twin::test;

namespace {

constexpr int kSteps = 4, kStreams = 3, kInputs = 5, kHidden = 6;
constexpr std::size_t kRows = std::size_t{kSteps} * kStreams;
constexpr std::size_t kState = std::size_t{kStreams} * kHidden;
constexpr cudnnStatus_t kFine = CUDNN_STATUS_SUCCESS;

struct Layer {
  explicit Layer(cudnnRNNMode_t of, cudnnRNNBiasMode_t bias = CUDNN_RNN_DOUBLE_BIAS,
                 cudnnMathType_t math = CUDNN_FMA_MATH)
      : mode(of) {
    REQUIRE(cudnnCreate(&library) == kFine);
    REQUIRE(cudnnCreateDropoutDescriptor(&dropout) == kFine);
    REQUIRE(cudnnSetDropoutDescriptor(dropout, library, 0, nullptr, 0, 0) == kFine);
    REQUIRE(cudnnCreateRNNDescriptor(&layer) == kFine);
    REQUIRE(cudnnSetRNNDescriptor_v8(layer, CUDNN_RNN_ALGO_STANDARD, of, bias, CUDNN_UNIDIRECTIONAL,
                                     CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, math,
                                     kInputs, kHidden, kHidden, 1, dropout, 0) == kFine);
    const std::array<int, kStreams> lengths{kSteps, kSteps, kSteps};
    for (auto* data : {&x_is, &y_is}) REQUIRE(cudnnCreateRNNDataDescriptor(data) == kFine);
    REQUIRE(set_data(x_is, kInputs, lengths) == kFine);
    REQUIRE(set_data(y_is, kHidden, lengths) == kFine);
    REQUIRE(cudnnCreateTensorDescriptor(&state_is) == kFine);
    const std::array extents{1, kStreams, kHidden}, strides{kStreams * kHidden, kHidden, 1};
    REQUIRE(cudnnSetTensorNdDescriptor(state_is, CUDNN_DATA_FLOAT, 3, extents.data(),
                                       strides.data()) == kFine);
    REQUIRE(cudnnGetRNNWeightSpaceSize(library, layer, &weight_bytes) == kFine);
    REQUIRE(cudnnGetRNNTempSpaceSizes(library, layer, CUDNN_FWD_MODE_TRAINING, x_is,
                                      &workspace_bytes, &reserve_bytes) == kFine);
  }
  ~Layer() {
    cudnnDestroyTensorDescriptor(state_is);
    cudnnDestroyRNNDataDescriptor(x_is);
    cudnnDestroyRNNDataDescriptor(y_is);
    cudnnDestroyRNNDescriptor(layer);
    cudnnDestroyDropoutDescriptor(dropout);
    cudnnDestroy(library);
  }
  static cudnnStatus_t set_data(cudnnRNNDataDescriptor_t data, int width,
                                std::span<const int> lengths) {
    return cudnnSetRNNDataDescriptor(data, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
                                     kSteps, kStreams, width, lengths.data(), nullptr);
  }
  [[nodiscard]] int gates() const { return mode == CUDNN_LSTM ? 4 : mode == CUDNN_GRU ? 3 : 1; }

  cudnnRNNMode_t mode;
  cudnnHandle_t library = nullptr;
  cudnnDropoutDescriptor_t dropout = nullptr;
  cudnnRNNDescriptor_t layer = nullptr;
  cudnnRNNDataDescriptor_t x_is = nullptr, y_is = nullptr;
  cudnnTensorDescriptor_t state_is = nullptr;
  std::size_t weight_bytes = 0, workspace_bytes = 0, reserve_bytes = 0;
};

/// Where a linear layer's matrix and bias are in the weight space, in floats.
struct Place {
  std::ptrdiff_t matrix = 0, bias = -1;
};
std::vector<Place> places_of(const Layer& layer, const DeviceValues& weights) {
  cudnnTensorDescriptor_t matrix_is = nullptr, bias_is = nullptr;
  REQUIRE(cudnnCreateTensorDescriptor(&matrix_is) == kFine);
  REQUIRE(cudnnCreateTensorDescriptor(&bias_is) == kFine);
  std::vector<Place> places;
  for (int linear = 0; linear < 2 * layer.gates(); ++linear) {
    void *matrix = nullptr, *bias = nullptr;
    REQUIRE(cudnnGetRNNWeightParams(layer.library, layer.layer, 0, layer.weight_bytes,
                                    weights.get(), linear, matrix_is, &matrix, bias_is,
                                    &bias) == kFine);
    Place place{static_cast<float*>(matrix) - weights.floats(), -1};
    if (bias != nullptr) place.bias = static_cast<float*>(bias) - weights.floats();
    places.push_back(place);
  }
  cudnnDestroyTensorDescriptor(matrix_is);
  cudnnDestroyTensorDescriptor(bias_is);
  return places;
}

using Doubles = std::vector<double>;

/// The sums of one gate's linear layer at one step.
double linear(const Doubles& weights, const Place& place, std::size_t unit, const double* from,
              std::size_t width) {
  double sum = place.bias < 0 ? 0 : weights[static_cast<std::size_t>(place.bias) + unit];
  for (std::size_t i = 0; i < width; ++i) {
    sum += weights[static_cast<std::size_t>(place.matrix) + unit * width + i] * from[i];
  }
  return sum;
}

/// What the documentation's formulas make of it: y, [kRows, kHidden].
Doubles formulas(const Layer& layer, const std::vector<Place>& places, const Doubles& weights,
                 const Doubles& x, const Doubles& hx, const Doubles& cx) {
  const auto gates = static_cast<std::size_t>(layer.gates());
  const auto sigmoid = [](double value) { return 1 / (1 + std::exp(-value)); };
  Doubles y, h = hx, c = cx;
  for (std::size_t t = 0; t < kSteps; ++t) {
    Doubles next(kState);
    for (std::size_t i = 0; i < kState; ++i) {
      const std::size_t stream = i / kHidden, unit = i % kHidden;
      Doubles in, back;
      for (std::size_t gate = 0; gate < gates; ++gate) {
        in.push_back(linear(weights, places[gate], unit,
                            x.data() + (t * kStreams + stream) * kInputs, kInputs));
        back.push_back(
            linear(weights, places[gates + gate], unit, h.data() + stream * kHidden, kHidden));
      }
      if (layer.mode == CUDNN_LSTM) {
        c[i] =
            sigmoid(in[1] + back[1]) * c[i] + sigmoid(in[0] + back[0]) * std::tanh(in[2] + back[2]);
        next[i] = sigmoid(in[3] + back[3]) * std::tanh(c[i]);
      } else if (layer.mode == CUDNN_GRU) {
        const double keep = sigmoid(in[1] + back[1]);
        const double fresh = std::tanh(in[2] + sigmoid(in[0] + back[0]) * back[2]);
        next[i] = (1 - keep) * fresh + keep * h[i];
      } else {
        next[i] = std::tanh(in[0] + back[0]);
      }
    }
    h = next;
    y.insert(y.end(), h.begin(), h.end());
  }
  return y;
}

Doubles wide(const Values& values) {
  return {values.begin(), values.end()};
}

/// All that the three calls work on.
struct Memory {
  explicit Memory(const Layer& layer)
      : weights(some_values(layer.weight_bytes / 4, 1)),
        x(some_values(kRows * kInputs, 2)),
        hx(some_values(kState, 3)),
        cx(some_values(kState, 4)),
        dy(some_values(kRows * kHidden, 5)),
        y(kRows * kHidden),
        hy(kState),
        cy(kState),
        dx(kRows * kInputs),
        dhx(kState),
        dcx(kState),
        dw(Values(layer.weight_bytes / 4, 0.0F)),
        workspace(layer.workspace_bytes / 4),
        reserve((layer.reserve_bytes + 3) / 4) {}
  DeviceValues weights, x, hx, cx, dy, y, hy, cy, dx, dhx, dcx, dw, workspace, reserve;
};

cudnnStatus_t forward(const Layer& layer, const Memory& at) {
  return cudnnRNNForward(layer.library, layer.layer, CUDNN_FWD_MODE_TRAINING, nullptr, layer.x_is,
                         at.x.get(), layer.y_is, at.y.get(), layer.state_is, at.hx.get(),
                         at.hy.get(), layer.state_is, at.cx.get(), at.cy.get(), layer.weight_bytes,
                         at.weights.get(), layer.workspace_bytes, at.workspace.get(),
                         layer.reserve_bytes, at.reserve.get());
}
cudnnStatus_t backward_data(const Layer& layer, const Memory& at) {
  return cudnnRNNBackwardData_v8(
      layer.library, layer.layer, nullptr, layer.y_is, at.y.get(), at.dy.get(), layer.x_is,
      at.dx.get(), layer.state_is, at.hx.get(), nullptr, at.dhx.get(), layer.state_is, at.cx.get(),
      nullptr, at.dcx.get(), layer.weight_bytes, at.weights.get(), layer.workspace_bytes,
      at.workspace.get(), layer.reserve_bytes, at.reserve.get());
}
cudnnStatus_t backward_weights(const Layer& layer, const Memory& at,
                               cudnnWgradMode_t mode = CUDNN_WGRAD_MODE_ADD) {
  return cudnnRNNBackwardWeights_v8(layer.library, layer.layer, mode, nullptr, layer.x_is,
                                    at.x.get(), layer.state_is, at.hx.get(), layer.y_is, at.y.get(),
                                    layer.weight_bytes, at.dw.get(), layer.workspace_bytes,
                                    at.workspace.get(), layer.reserve_bytes, at.reserve.get());
}

constexpr std::array kModes{CUDNN_RNN_TANH, CUDNN_LSTM, CUDNN_GRU};

}  // namespace

TEST_CASE("cuDNN's recurrent layers are those of its formulas and their derivatives",
          "[twin][cudnn]") {
  for (const cudnnRNNMode_t mode : kModes) {
    for (const auto bias : {CUDNN_RNN_DOUBLE_BIAS, CUDNN_RNN_SINGLE_INP_BIAS}) {
      const Layer layer(mode, bias);
      const Memory at(layer);
      REQUIRE(forward(layer, at) == kFine);
      REQUIRE(backward_data(layer, at) == kFine);
      REQUIRE(backward_weights(layer, at) == kFine);
      const auto places = places_of(layer, at.weights);
      Doubles given[] = {wide(at.weights.read()), wide(at.x.read()), wide(at.hx.read()),
                         wide(at.cx.read())};
      const auto run = [&] {
        return formulas(layer, places, given[0], given[1], given[2], given[3]);
      };
      CHECK(difference(at.y.read(), run()) < 1e-5);
      const Values dy = at.dy.read();
      const auto loss = [&] {
        const Doubles y = run();
        double sum = 0;
        for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
        return sum;
      };
      const Values found[] = {at.dw.read(), at.dx.read(), at.dhx.read(), at.dcx.read()};
      for (std::size_t part = 0; part < (mode == CUDNN_LSTM ? 4U : 3U); ++part) {
        Doubles slopes(given[part].size());
        for (std::size_t i = 0; i < slopes.size(); ++i) {
          const double before = given[part][i];
          given[part][i] = before + 1e-5;
          slopes[i] = loss();
          given[part][i] = before - 1e-5;
          slopes[i] = (slopes[i] - loss()) / 2e-5;
          given[part][i] = before;
        }
        CHECK(difference(found[part], slopes) < 2e-5);
      }
    }
  }
}

TEST_CASE("cuDNN adds weights' gradients and knows no other way", "[twin][cudnn]") {
  const Layer layer(CUDNN_LSTM);
  const Memory at(layer);
  REQUIRE(forward(layer, at) == kFine);
  REQUIRE(backward_data(layer, at) == kFine);
  CHECK(backward_weights(layer, at, CUDNN_WGRAD_MODE_SET) == CUDNN_STATUS_NOT_SUPPORTED);
  REQUIRE(backward_weights(layer, at) == kFine);
  const Values once = at.dw.read();
  REQUIRE(backward_weights(layer, at) == kFine);
  Doubles twice = wide(once);
  for (double& value : twice) value *= 2;
  CHECK(difference(at.dw.read(), twice) < 1e-6);
}

TEST_CASE("cuDNN has no recurrent bias if the only bias is the input's", "[twin][cudnn]") {
  const Layer layer(CUDNN_LSTM, CUDNN_RNN_SINGLE_INP_BIAS);
  const Memory at(layer);
  const auto places = places_of(layer, at.weights);
  for (std::size_t i = 0; i < places.size(); ++i) CHECK((places[i].bias >= 0) == (i < 4));
}

TEST_CASE("cuDNN refuses sequences that are not the layer's", "[twin][cudnn]") {
  const Layer layer(CUDNN_LSTM);
  const Memory at(layer);
  const std::array<int, kStreams> lengths{kSteps, kSteps, kSteps};
  REQUIRE(Layer::set_data(layer.x_is, kInputs + 1, lengths) == kFine);
  const int status = forward(layer, at);
  CHECK(CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_BAD_PARAM);
  const std::array<int, kStreams> rising{1, 2, 3};
  CHECK(Layer::set_data(layer.x_is, kInputs, rising) == CUDNN_STATUS_BAD_PARAM);
}

TEST_CASE("the way back to the weights follows that to the data", "[twin][cudnn]") {
  const Layer layer(CUDNN_GRU);
  const Memory at(layer);
  REQUIRE(forward(layer, at) == kFine);
  REQUIRE_BROKEN("cudnn.rnn-order", {
    (void)backward_weights(layer, at);
    (void)finish(nullptr);
  });
}

TEST_CASE("the reserve space must be passed on unchanged", "[twin][cudnn]") {
  const Layer layer(CUDNN_LSTM);
  Memory at(layer);
  REQUIRE(forward(layer, at) == kFine);
  REQUIRE_BROKEN("cudnn.rnn-reserve", {
    Values bytes = at.reserve.read();
    bytes[bytes.size() / 2] += 1;
    at.reserve.write(bytes);
    (void)backward_data(layer, at);
    (void)finish(nullptr);
  });
}

TEST_CASE("a reserve space is a forward's before it is used", "[twin][cudnn]") {
  const Layer layer(CUDNN_LSTM);
  const Memory at(layer);
  REQUIRE_BROKEN("cudnn.rnn-reserve", {
    (void)backward_data(layer, at);
    (void)finish(nullptr);
  });
}

TEST_CASE("backward calls must use the forward's operands", "[twin][cudnn]") {
  const Layer layer(CUDNN_LSTM);
  Memory at(layer);
  REQUIRE(forward(layer, at) == kFine);
  REQUIRE(backward_data(layer, at) == kFine);
  REQUIRE_BROKEN("cudnn.rnn-data", {
    at.x.write(some_values(kRows * kInputs, 9));
    (void)backward_weights(layer, at);
    (void)finish(nullptr);
  });
}

TEST_CASE("a recurrent layer's outputs that were written over are found", "[twin][cudnn]") {
  const Layer layer(CUDNN_RNN_TANH);
  Memory at(layer);
  REQUIRE(forward(layer, at) == kFine);
  REQUIRE_BROKEN("cudnn.rnn-data", {
    at.y.write(some_values(kRows * kHidden, 9));
    (void)backward_data(layer, at);
    (void)finish(nullptr);
  });
}
