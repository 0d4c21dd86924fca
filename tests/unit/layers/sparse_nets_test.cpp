// The nets of configs/models/sparse against their formulas in double.
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "common/files/file.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/layers/layer_bench.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"
#include "worker/layers/net.hpp"

using namespace taut;
using namespace taut::test;

namespace {

constexpr std::size_t kPlaces = 14;    // of a record
constexpr std::size_t kNumbers = 123;  // features

/// A net of the configurations, with its tables whole and one record a batch.
class SparseNet {
 public:
  explicit SparseNet(const std::string& name)
      : backend_(cpu()),
        stream_(backend_->make_stream()),
        graph_(graph_of(name)),
        net_(graph_, *backend_, {}) {
    for (std::size_t i = 0; i < net_.parameters().size(); ++i) {
      const std::size_t count = net_.parameters()[i].count();
      memory_.push_back(backend_->allocate_floats(2 * count));
      const auto both = memory_.back().as<float>();
      values.push_back(host_view(both.subspan(0, count)));
      gradients.push_back(host_view(both.subspan(count, count)));
      const Values drawn = random_values(count, 3 + i);
      std::copy(drawn.begin(), drawn.end(), values[i].begin());
      net_.bind_value(i, both.subspan(0, count));
      net_.bind_gradient(i, both.subspan(count, count));
    }
  }

  double pass(const Values& numbers, const Values& features, float label) {
    net_.set_batch(*stream_, {numbers, features, std::span(&label, 1)});
    for (std::size_t i = 0; i < net_.layer_count(); ++i) net_.forward(i, *stream_, Clock(0));
    const double loss = net_.loss(*stream_);
    for (std::size_t i = net_.layer_count(); i-- > 0;) net_.backward(i, *stream_);
    return loss;
  }

  std::vector<std::span<float>> values, gradients;

 private:
  static model::Graph graph_of(const std::string& name) {
    std::string text =
        read_file(std::filesystem::path(TAUT_SOURCE_FOLDER) / "configs/models/sparse" / name)
            .value();
    for (std::size_t at = text.find("by_rows: true"); at != std::string::npos;
         at = text.find("by_rows: true")) {
      text.replace(at, 13, "");
    }
    const RecordField each{.shape = {kPlaces}};
    return settle(text, pb::TRAIN, {.record = {each, each, {}}, .batch = 1});
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  model::Graph graph_;
  Net net_;
  std::vector<DeviceBuffer> memory_;
};

/// A record of 11 features, the last three places unused.
struct Record {
  Values numbers = Values(kPlaces);
  Values features = random_values(kPlaces, 9);
  float label = 1;

  explicit Record(std::size_t first) : label(first % 2 == 0 ? 1.0F : 0.0F) {
    for (std::size_t k = 0; k < kPlaces; ++k) {
      const bool is_used = k < 11;
      numbers[k] = is_used ? static_cast<float>((first + 11 * k) % kNumbers) : 0;
      if (!is_used) features[k] = 0;
    }
  }
  [[nodiscard]] std::size_t number(std::size_t k) const {
    return static_cast<std::size_t>(numbers[k]);
  }
};

double loss_of(double logit, float label) {
  return std::log1p(std::exp(label > 0 ? -logit : logit));
}

}  // namespace

TEST_CASE("the logistic net is a bias and the sum of weights times values", "[configs]") {
  SparseNet net("logistic.prototxt");
  REQUIRE(net.values.size() == 2);
  for (std::size_t first = 1; first < 6; ++first) {
    const Record record(first);
    double logit = net.values[1][0];
    for (std::size_t k = 0; k < kPlaces; ++k) {
      logit += double{net.values[0][record.number(k)]} * record.features[k];
    }
    CHECK(net.pass(record.numbers, record.features, record.label) ==
          Approx(loss_of(logit, record.label)).epsilon(1e-5));
    const double slope = 1 / (1 + std::exp(-logit)) - record.label;
    CHECK(net.gradients[1][0] == Approx(slope).epsilon(1e-4));
    for (std::size_t k = 0; k < 11; ++k) {
      CHECK(net.gradients[0][record.number(k)] ==
            Approx(slope * record.features[k]).epsilon(1e-4).margin(1e-6));
    }
  }
}

TEST_CASE("the factorization machine is Rendle's equation over all pairs", "[configs]") {
  constexpr std::size_t kFactors = 8;
  SparseNet net("fm.prototxt");
  REQUIRE(net.values.size() == 3);
  const std::span<float> factors = net.values[1];
  REQUIRE(factors.size() == kNumbers * kFactors);
  for (std::size_t first = 1; first < 6; ++first) {
    const Record record(first);
    double logit = net.values[2][0];
    for (std::size_t k = 0; k < kPlaces; ++k) {
      logit += double{net.values[0][record.number(k)]} * record.features[k];
      for (std::size_t other = k + 1; other < kPlaces; ++other) {
        double inner = 0;
        for (std::size_t f = 0; f < kFactors; ++f) {
          inner += double{factors[record.number(k) * kFactors + f]} *
                   factors[record.number(other) * kFactors + f];
        }
        logit += inner * record.features[k] * record.features[other];
      }
    }
    CHECK(net.pass(record.numbers, record.features, record.label) ==
          Approx(loss_of(logit, record.label)).epsilon(1e-4).margin(1e-6));
    const double slope = 1 / (1 + std::exp(-logit)) - record.label;
    for (std::size_t k = 0; k < 11; ++k) {
      double others = 0;
      for (std::size_t other = 0; other < kPlaces; ++other) {
        if (other == k) continue;
        others += double{factors[record.number(other) * kFactors + 5]} * record.features[other];
      }
      CHECK(net.gradients[1][record.number(k) * kFactors + 5] ==
            Approx(slope * record.features[k] * others).epsilon(1e-3).margin(1e-5));
    }
  }
}
