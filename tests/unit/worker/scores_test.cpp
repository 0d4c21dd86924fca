#include "worker/tools/scores.hpp"

#include <cmath>

#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using worker::find_scores;
using worker::rank_classes;

namespace {

model::Graph graph_of(const std::string& layers) {
  pb::NetParameter net;
  REQUIRE(parse_text("layer { name: 'in' type: 'DummyData' top: 'x' top: 'y' dummy_data_param { "
                     "shape { dim: 4 dim: 3 } shape { dim: 4 } classes: 0 classes: 3 } }" +
                         layers,
                     "net", net)
              .has_value());
  auto graph = model::build_graph(net, {.phase = pb::TEST});
  INFO((graph ? std::string() : graph.error().message));
  REQUIRE(graph.has_value());
  return std::move(graph.value());
}

const std::string kScores =
    "layer { name: 's' type: 'InnerProduct' bottom: 'x' top: 's' inner_product_param { num_output: "
    "5 } }";
const std::string kLoss =
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'y' top: 'loss' }";

}  // namespace

TEST_CASE("scores are the loss's bottom, a Softmax's top, or the named blob", "[scores]") {
  const auto of_loss = find_scores(graph_of(kScores + kLoss), "").value();
  CHECK(of_loss.name == "s");
  CHECK((of_loss.items == 4 && of_loss.classes == 5 && !of_loss.is_probability));
  const std::string softmax = "layer { name: 'p' type: 'Softmax' bottom: 's' top: 'p' }";
  const auto of_softmax = find_scores(graph_of(kScores + softmax), "").value();
  CHECK((of_softmax.name == "p" && of_softmax.is_probability));
  CHECK(find_scores(graph_of(kScores + softmax), "s").value().name == "s");
  CHECK(find_scores(graph_of(kScores), "").error().message.find("--blob") != std::string::npos);
  CHECK(find_scores(graph_of(kScores), "t").error().message ==
        "the net's TEST phase has no blob \"t\"");
  CHECK(find_scores(graph_of(kScores + kLoss), "loss").error().message ==
        "blob \"loss\" has shape scalar, and scores are items x classes");
}

TEST_CASE("the best classes are first, with probabilities", "[scores]") {
  const std::vector<float> scores{0, 2, 1, 2};
  const auto ranked = rank_classes(scores, false, 3);
  REQUIRE(ranked.size() == 3);
  CHECK(ranked[0].number == 1);
  CHECK(ranked[1].number == 3);
  CHECK(ranked[2].number == 2);
  const double sum = std::exp(-2.0) + 1 + std::exp(-1.0) + 1;
  CHECK(ranked[0].score == Approx(1 / sum));
  CHECK(ranked[2].score == Approx(std::exp(-1.0) / sum));
  const auto as_they_are = rank_classes(std::vector<float>{0.25F, 0.75F}, true, 9);
  REQUIRE(as_they_are.size() == 2);
  CHECK(as_they_are[0].score == 0.75);
}

TEST_CASE("large scores do not overflow, and NaN is last", "[scores]") {
  const auto ranked = rank_classes(std::vector<float>{NAN, 500, 1000}, true, 3);
  CHECK(ranked[0].number == 2);
  CHECK(ranked[2].number == 0);
  CHECK(rank_classes(std::vector<float>{500, 1000}, false, 1)[0].score == Approx(1));
}
