#include "worker/text_sampler.hpp"

#include <algorithm>
#include <string>

#include "proto/config/job_state.hpp"
#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "worker/cache/local_cache.hpp"
#include "worker/data/text_source.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"
#include "worker/training/trainer.hpp"

using namespace taut;
using worker::SampleOptions;
using worker::TextSampler;

namespace {

constexpr const char* kData = R"(
  layer { name: "text" type: "Data" top: "data" top: "label" top: "cont"
    data_param { batch_size: 8 backend: TEXT } text_param { steps: 4 } }
  layer { name: "embed" type: "Embed" bottom: "data" top: "embed"
    embed_param { input_dim: 5 num_output: 5 bias_term: false } }
)";
constexpr const char* kScores = R"(
  layer { name: "scores" type: "InnerProduct" bottom: "h" top: "scores"
    inner_product_param { num_output: 5 axis: 2 bias_term: false } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss"
    softmax_param { axis: 2 } }
)";
const std::string kNoState = "layer { name: 'h' type: 'GELU' bottom: 'embed' top: 'h' }";
const std::string kLstm =
    "layer { name: 'h' type: 'LSTM' bottom: 'embed' bottom: 'cont' top: 'h' recurrent_param { "
    "num_output: 5 } }";

/// <unk>, line's end, a, b, c.
data::Vocabulary letters() {
  return data::Vocabulary::of("abc\n", data::TextUnit::kCharacters, 0);
}

struct Generated {
  std::unique_ptr<Backend> backend = make_cpu_backend({.device = DeviceKind::kCpu, .threads = 1});
  std::unique_ptr<TextSampler> sampler;
  std::string refusal;
};

Generated make(const std::string& hidden, const TextSampler::Values& values) {
  pb::NetParameter net;
  REQUIRE(parse_text(kData + hidden + kScores, "net", net).has_value());
  Generated generated;
  const auto graph = worker::sampling_graph(net);
  if (!graph) {
    generated.refusal = graph.error().message;
    return generated;
  }
  auto created = TextSampler::create(graph.value(), letters(), values, *generated.backend);
  if (created) {
    generated.sampler = std::move(created).value();
  } else {
    generated.refusal = created.error().message;
  }
  return generated;
}

/// Each unit is followed by the next one: the scores are a row of a shifted identity.
Result<void> next_unit(const TableSpec& table, std::span<float> values) {
  std::ranges::fill(values, 0.0F);
  for (std::size_t i = 0; i < 5; ++i) {
    const std::size_t row = table.name == "scores/weight" ? (i == 4 ? 1 : i + 1) : i;
    values[5 * row + i] = 3;
  }
  return ok();
}

Result<void> some_values(const TableSpec&, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i * 7919 % 13) / 6.0F - 1;
  }
  return ok();
}

std::string text_of(TextSampler& sampler, const SampleOptions& options) {
  return sampler.sample(options).value();
}

}  // namespace

TEST_CASE("at temperature 0 the likeliest unit follows", "[sample]") {
  const Generated generated = make(kNoState, next_unit);
  REQUIRE(generated.refusal.empty());
  CHECK(text_of(*generated.sampler, {.prompt = "b", .length = 6, .temperature = 0}) == "bc\nabc\n");
  CHECK(text_of(*generated.sampler, {.prompt = "", .length = 3, .temperature = 0}) == "abc");
}

TEST_CASE("a seed gives the same text again, and another seed another one", "[sample]") {
  const Generated generated = make(kLstm, some_values);
  REQUIRE(generated.refusal.empty());
  const SampleOptions options{.prompt = "ab", .length = 60, .temperature = 1, .seed = 5};
  const std::string text = text_of(*generated.sampler, options);
  CHECK(text.size() == 62);
  CHECK(text.substr(0, 2) == "ab");
  CHECK(text == text_of(*generated.sampler, options));
  CHECK(text != text_of(*generated.sampler, {.prompt = "ab", .length = 60, .seed = 6}));
}

TEST_CASE("a low temperature draws almost only the likeliest unit", "[sample]") {
  const Generated generated = make(kNoState, next_unit);
  CHECK(text_of(*generated.sampler, {.prompt = "a", .length = 7, .temperature = 0.05F}) ==
        "abc\nabc\n");
}

TEST_CASE("a character LSTM learns a text by heart and writes it", "[sample]") {
  const test::TempFolder folder;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "hello world\n";  // what follows an l takes a memory
  folder.write("input.txt", text);
  pb::Job job;
  REQUIRE(
      parse_text("seed: 3 net_param { "
                 "layer { name: 'text' type: 'Data' top: 'data' top: 'label' top: 'cont' "
                 "  data_param { batch_size: 4 backend: TEXT } text_param { steps: 8 } } "
                 "layer { name: 'embed' type: 'Embed' bottom: 'data' top: 'embed' embed_param { "
                 "  input_dim: 10 num_output: 10 weight_filler { type: 'gaussian' } } } "
                 "layer { name: 'lstm' type: 'LSTM' bottom: 'embed' bottom: 'cont' top: 'lstm' "
                 "  recurrent_param { num_output: 24 weight_filler { type: 'xavier' } } } "
                 "layer { name: 'scores' type: 'InnerProduct' bottom: 'lstm' top: 'scores' "
                 "  inner_product_param { num_output: 10 axis: 2 weight_filler { type: 'xavier' "
                 "  } } } "
                 "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'label' "
                 "  top: 'loss' softmax_param { axis: 2 } } } "
                 "solver_param { type: 'Adam' base_lr: 0.02 momentum: 0.9 max_iter: 150 } "
                 "data { folder: '" +
                     folder.path().string() + "' }",
                 "job", job)
          .has_value());
  const auto backend = make_cpu_backend({.device = DeviceKind::kCpu, .threads = 1});
  const auto assets = worker::JobAssets::open(job, 1).value();
  std::vector<worker::Replica> replicas;
  replicas.push_back(assets.make_replica(*backend, 0, 1, Clock(0)).value());
  LocalCache::Options options;
  options.seed = job.seed();
  options.rule = to_update_rule(job.solver_param()).value();
  LocalCache cache(*backend, assets.train_graph().parameters, options);
  worker::Trainer::Options until;
  until.end = Clock(150);
  worker::ProgressBoard board;
  worker::Trainer trainer(replicas, cache, nullptr, until, board);
  const std::atomic<bool> stop = false;
  REQUIRE(trainer.run(stop).has_value());
  CHECK(board.read().loss < 0.1);

  const auto values = [&](const TableSpec& table, std::span<float> into) -> Result<void> {
    TAUT_TRY(cache.snapshot(table.id, into));
    return ok();
  };
  const auto sampler = worker::TextSampler::create(
      worker::sampling_graph(job.net_param()).value(),
      data::text_vocabulary(job.net_param().layer(0).text_param(), folder.path()).value(), values,
      *backend);
  REQUIRE(sampler.has_value());
  CHECK(text_of(*sampler.value(), {.prompt = "he", .length = 22, .temperature = 0}) ==
        "hello world\nhello world\n");
}

TEST_CASE("a net that text cannot be sampled from is refused", "[sample]") {
  CHECK(
      make("layer { name: 'h' type: 'LSTM' bottom: 'embed' top: 'h' recurrent_param { num_output: "
           "5 } }",
           some_values)
          .refusal ==
      "layer \"h\" (LSTM) carries no state from one step to the next; text is "
      "sampled from recurrent layers with cont and carry_state, without expose_hidden");
  CHECK(make("layer { name: 'h' type: 'MultiHeadAttention' bottom: 'embed' top: 'h' }", some_values)
            .refusal.find("layer \"h\" (MultiHeadAttention) carries no state") == 0);
  pb::NetParameter net;
  REQUIRE(parse_text(kData + kLstm + kScores, "net", net).has_value());
  const auto backend = make_cpu_backend({.device = DeviceKind::kCpu, .threads = 1});
  const auto other = TextSampler::create(worker::sampling_graph(net).value(),
                                         data::Vocabulary::of("ab", data::TextUnit::kCharacters, 0),
                                         some_values, *backend);
  REQUIRE_FALSE(other.has_value());
  CHECK(other.error().message == "the net scores 5 units, and the vocabulary has 3 entries");
  for (pb::LayerParameter& layer : *net.mutable_layer()) {
    if (layer.has_inner_product_param()) layer.mutable_inner_product_param()->set_num_output(1);
  }
  const auto empty = TextSampler::create(worker::sampling_graph(net).value(),
                                         data::Vocabulary::of("", data::TextUnit::kCharacters, 0),
                                         some_values, *backend);
  REQUIRE_FALSE(empty.has_value());
  CHECK(empty.error().message ==
        "the vocabulary has no entry but the one for unknown units, which is not drawn");
  const Generated generated = make(kLstm, some_values);
  CHECK(generated.sampler->sample({.prompt = "a", .temperature = -1}).error().message ==
        "the temperature is -1; it must be at least 0");
}
