#include "worker/collective/gossip_graph.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "tests/unit/collective/toy_group.hpp"
#include "worker/collective/neighbour_mix.hpp"
#include "worker/collective/pair_mix.hpp"

namespace taut::collective {
namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix mixing_matrix(Graph graph, std::uint32_t ranks) {
  Matrix matrix(ranks, std::vector<double>(ranks));
  for (std::uint32_t i = 0; i < ranks; ++i) {
    double left = 1;
    for (const auto& [from, weight] : neighbours_of(graph, Rank(i), ranks).from) {
      matrix[i][from.value()] = static_cast<double>(weight);
      left -= static_cast<double>(weight);
    }
    matrix[i][i] = left;
  }
  return matrix;
}

/// The factor by which the distance from the mean shrinks at least: |W - 1/n|, by power iteration.
double contraction(const Matrix& matrix) {
  const std::size_t n = matrix.size();
  std::mt19937 random(3);
  std::vector<double> x(n);
  for (double& one : x) one = std::uniform_real_distribution<double>(-1, 1)(random);
  double norm = 0;
  for (int round = 0; round < 3000; ++round) {
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(n);
    for (double& one : x) one -= mean;
    std::vector<double> y(n);
    std::vector<double> z(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) y[i] += matrix[i][j] * x[j];
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) z[j] += matrix[i][j] * y[i];
    }
    norm = std::sqrt(std::inner_product(z.begin(), z.end(), z.begin(), 0.0));
    if (norm < 1e-12) return 0;
    for (std::size_t i = 0; i < n; ++i) x[i] = z[i] / norm;
  }
  return std::sqrt(norm);
}

std::size_t reached_from_first(Graph graph, std::uint32_t ranks) {
  std::set<std::uint32_t> reached{0};
  std::vector<std::uint32_t> pending{0};
  while (!pending.empty()) {
    const Rank rank(pending.back());
    pending.pop_back();
    for (const Rank to : neighbours_of(graph, rank, ranks).to) {
      if (reached.insert(to.value()).second) pending.push_back(to.value());
    }
  }
  return reached.size();
}

/// Ranks in one thread that exchange in any order.
class ToyGossip {
 public:
  ToyGossip(Graph graph, const std::vector<std::vector<float>>& values, std::uint64_t chunk)
      : count_(values.front().size()), chunk_(chunk), values_(values) {
    const auto ranks = static_cast<std::uint32_t>(values.size());
    for (std::uint32_t i = 0; i < ranks; ++i) {
      neighbours.push_back(neighbours_of(graph, Rank(i), ranks));
    }
    sent.resize(ranks);
  }

  void clock(std::mt19937& random) {
    std::vector<Buffer> buffers;
    std::vector<std::unique_ptr<AllReduce>> ranks;
    std::vector<test::ToyGroup::Sent> under_way;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      buffers.push_back(pool_.acquire(count_ * (1 + neighbours[i].from.size()) * sizeof(float)));
      std::ranges::copy(values_[i], buffers.back().floats().begin());
      ranks.push_back(std::make_unique<AllReduce>(exchange_schedule(neighbours[i], count_),
                                                  buffers.back(), chunk_, count_));
      for (ChunkTo& one : ranks.back()->start(TimePoint())) {
        ++sent[i].messages;
        sent[i].bytes += one.chunk.payload.size();
        under_way.push_back({Rank(static_cast<std::uint32_t>(i)), std::move(one)});
      }
    }
    std::ranges::shuffle(under_way, random);
    for (const auto& [from, what] : under_way) {
      REQUIRE(ranks[what.to.value()]->receive(from, what.chunk, TimePoint()).has_value());
    }
    for (std::size_t i = 0; i < values_.size(); ++i) {
      REQUIRE(ranks[i]->is_done());
      const std::span<const float> all = buffers[i].floats();
      mix(all.first(count_), all.subspan(count_), neighbours[i].from, values_[i]);
    }
  }

  /// The mean over ranks of the squared distance from the mean.
  [[nodiscard]] double consensus_error() const {
    double error = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      const double middle = mean(i);
      for (const auto& one : values_) error += std::pow(static_cast<double>(one[i]) - middle, 2);
    }
    return error / static_cast<double>(values_.size());
  }
  [[nodiscard]] double mean(std::size_t element) const {
    double sum = 0;
    for (const auto& one : values_) sum += static_cast<double>(one[element]);
    return sum / static_cast<double>(values_.size());
  }
  [[nodiscard]] const std::vector<std::vector<float>>& values() const { return values_; }

  std::vector<Neighbours> neighbours;
  std::vector<Cost> sent;  // by each rank, without steps

 private:
  const std::size_t count_;
  const std::uint64_t chunk_;
  std::vector<std::vector<float>> values_;
  BufferPool pool_;
};

}  // namespace

TEST_CASE("each graph mixes by a doubly stochastic matrix, and is connected, for any number",
          "[collective][gossip]") {
  const Graph graph = GENERATE(from_range(std::begin(test::kGraphs), std::end(test::kGraphs)));
  const std::uint32_t ranks = GENERATE(range(1U, 35U));
  CAPTURE(to_string(graph), ranks);
  const Matrix matrix = mixing_matrix(graph, ranks);
  CHECK(reached_from_first(graph, ranks) == ranks);
  for (std::uint32_t i = 0; i < ranks; ++i) {
    double column = 0;
    for (std::uint32_t j = 0; j < ranks; ++j) {
      column += matrix[j][i];
      CHECK(matrix[i][j] >= -1e-6);
      CHECK((graph == Graph::kExponential || matrix[i][j] == Approx(matrix[j][i])));
    }
    CHECK(column == Approx(1));
    CHECK(matrix[i][i] > 0.1);
    const Neighbours neighbours = neighbours_of(graph, Rank(i), ranks);
    for (const Rank to : neighbours.to) {
      CHECK(std::ranges::any_of(neighbours_of(graph, to, ranks).from,
                                [i](const auto& source) { return source.rank == Rank(i); }));
    }
  }
}

TEST_CASE("the spectral gap of each graph is the known one", "[collective][gossip]") {
  for (const std::uint32_t ranks : {4U, 5U, 8U, 9U, 16U, 31U, 32U}) {
    CAPTURE(ranks);
    const double angle = 2 * std::numbers::pi / ranks;
    CHECK(1 - contraction(mixing_matrix(Graph::kRing, ranks)) ==
          Approx(2.0 / 3 * (1 - std::cos(angle))).margin(1e-5));
  }
  for (const std::uint32_t log : {1U, 2U, 3U, 4U, 5U}) {
    CAPTURE(log);
    const double expected = log == 1 ? 1 : 2.0 / (log + 1);
    CHECK(1 - contraction(mixing_matrix(Graph::kHypercube, 1U << log)) ==
          Approx(expected).margin(1e-5));
    CHECK(1 - contraction(mixing_matrix(Graph::kExponential, 1U << log)) ==
          Approx(expected).margin(1e-5));
  }
  // An even number that is not a power of two: ceil(log2 n) neighbours.
  CHECK(1 - contraction(mixing_matrix(Graph::kExponential, 12)) == Approx(2.0 / 5).margin(1e-5));
  // For a torus, the sum of two rings' Laplacians, over 5: that of the longer side is smaller.
  CHECK(1 - contraction(mixing_matrix(Graph::kTorus, 25)) ==
        Approx(2.0 / 5 * (1 - std::cos(2 * std::numbers::pi / 5))).margin(1e-5));
}

TEST_CASE("a torus is as square as its number allows, and a ring where that is a prime",
          "[collective][gossip]") {
  CHECK(torus_rows(1) == 1);
  CHECK(torus_rows(7) == 1);
  CHECK(torus_rows(12) == 3);
  CHECK(torus_rows(16) == 4);
  const auto degree = [](Graph graph, std::uint32_t ranks) {
    return neighbours_of(graph, Rank(0), ranks).to.size();
  };
  CHECK(degree(Graph::kTorus, 16) == 4);
  CHECK(degree(Graph::kTorus, 6) == 3);  // of two rows, up and down are one
  CHECK(degree(Graph::kTorus, 7) == 2);
  CHECK(degree(Graph::kHypercube, 8) == 3);
  CHECK(degree(Graph::kExponential, 9) == 4);
  CHECK(degree(Graph::kRing, 2) == 1);
  CHECK(degree(Graph::kRing, 1) == 0);
}

TEST_CASE("a clock of gossip sends the model once for each neighbour, and no more",
          "[collective][gossip]") {
  std::mt19937 random(7);
  const Graph graph = GENERATE(from_range(std::begin(test::kGraphs), std::end(test::kGraphs)));
  for (const std::uint32_t ranks : {1U, 2U, 3U, 4U, 7U, 8U, 12U}) {
    const std::uint64_t count = 1 + test::pick(random, 500);
    const std::uint64_t chunk = 1 + test::pick(random, 200);
    CAPTURE(to_string(graph), ranks, count, chunk);
    ToyGossip group(graph, test::random_values(ranks, count, random), chunk);
    group.clock(random);
    for (std::uint32_t i = 0; i < ranks; ++i) {
      Cost expected = exchange_cost(group.neighbours[i], count, chunk);
      CHECK(expected.bytes == group.neighbours[i].to.size() * count * sizeof(float));
      expected.steps = 0;
      CHECK(group.sent[i] == expected);
    }
  }
}

TEST_CASE("without gradients the consensus error falls to 0 as the spectral gap says",
          "[collective][gossip]") {
  std::mt19937 random(11);
  const Graph graph = GENERATE(from_range(std::begin(test::kGraphs), std::end(test::kGraphs)));
  for (const std::uint32_t ranks : {2U, 3U, 6U, 8U}) {
    CAPTURE(to_string(graph), ranks);
    const double factor = std::pow(contraction(mixing_matrix(graph, ranks)), 2);
    ToyGossip group(graph, test::random_values(ranks, 50, random), 16);
    const double mean = group.mean(3);
    for (int clock = 0; clock < 200; ++clock) {
      const double before = group.consensus_error();
      group.clock(random);
      CHECK(group.consensus_error() <= factor * before * (1 + 1e-6) + 1e-10);
    }
    CHECK(group.consensus_error() < 1e-10);
    CHECK(group.mean(3) == Approx(mean).margin(1e-5));
  }
}

TEST_CASE(
    "models that are equal stay so to the bit, and others are mixed to the same bits each time",
    "[collective][gossip]") {
  std::mt19937 random(13);
  const Graph graph = GENERATE(from_range(std::begin(test::kGraphs), std::end(test::kGraphs)));
  CAPTURE(to_string(graph));
  const auto one = test::random_values(1, 40, random).front();
  ToyGossip equal(graph, std::vector(6, one), 16);
  equal.clock(random);
  for (const auto& values : equal.values()) CHECK(values == one);

  const auto values = test::random_values(6, 40, random);
  ToyGossip once(graph, values, 16);
  ToyGossip again(graph, values, 7);
  for (int clock = 0; clock < 20; ++clock) {
    once.clock(random);
    again.clock(random);
  }
  CHECK(once.values() == again.values());
}

TEST_CASE("for averages of two each graph has two colours, whose edges connect all",
          "[collective][gossip]") {
  const Graph graph = GENERATE(from_range(std::begin(test::kGraphs), std::end(test::kGraphs)));
  const std::uint32_t ranks = GENERATE(range(1U, 35U));
  CAPTURE(to_string(graph), ranks);
  std::set<std::uint32_t> reached{0};
  std::vector<std::uint32_t> pending{0};
  while (!pending.empty()) {
    const Rank rank(pending.back());
    pending.pop_back();
    for (const Rank partner : partners_of(graph, rank, ranks)) {
      CHECK(is_active(graph, rank, ranks) != is_active(graph, partner, ranks));
      const auto back = partners_of(graph, partner, ranks);
      CHECK(std::ranges::find(back, rank) != back.end());
      if (reached.insert(partner.value()).second) pending.push_back(partner.value());
    }
  }
  CHECK(reached.size() == ranks);
}

TEST_CASE("averages of two keep the sum, and bring all to the mean", "[collective][gossip]") {
  std::mt19937 random(17);
  const Graph graph = GENERATE(from_range(std::begin(test::kGraphs), std::end(test::kGraphs)));
  const std::uint32_t ranks = GENERATE(2U, 3U, 6U, 8U);
  CAPTURE(to_string(graph), ranks);
  auto values = test::random_values(ranks, 30, random);
  std::vector<double> means(30);
  for (const auto& one : values) {
    for (std::size_t i = 0; i < 30; ++i) means[i] += static_cast<double>(one[i]) / ranks;
  }
  for (int exchange = 0; exchange < 4000; ++exchange) {
    const Rank active(test::pick(random, ranks));
    const auto partners = partners_of(graph, active, ranks);
    if (!is_active(graph, active, ranks)) continue;
    std::vector<float>& one = values[active.value()];
    std::vector<float>& other = values[partners[test::pick(random, partners.size())].value()];
    std::vector<float> mixed(30);
    mix_two(one, other, mixed);
    mix_two(other, one, other);
    REQUIRE(other == mixed);
    one = mixed;
  }
  for (const auto& one : values) {
    for (std::size_t i = 0; i < 30; ++i) {
      REQUIRE(static_cast<double>(one[i]) == Approx(means[i]).margin(1e-5));
    }
  }
}

}  // namespace taut::collective
