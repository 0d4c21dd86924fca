#include <fmt/format.h>

#include "common/files/file.hpp"
#include "worker/data/text_source.hpp"
#include "worker/model/job/job_data.hpp"
#include "worker/text_sampler.hpp"
#include "worker/tools/trained_net.hpp"

namespace taut::worker {
namespace {

constexpr Bytes kMaxVocabulary{64ULL << 20U};

/// The vocabulary: from a file that training wrote, or made from the text again.
Result<data::Vocabulary> vocabulary_of(const pb::ToolRequest& request, const pb::Job& job) {
  if (!request.vocabulary().empty()) {
    TAUT_TRY(const std::string file, read_file(request.vocabulary(), kMaxVocabulary));
    return data::Vocabulary::parse(file, request.vocabulary());
  }
  TAUT_TRY(const auto layers, model::data_of(job, pb::TEST));
  for (const model::LayerData& layer : layers) {
    if (layer.layer.data_param().backend() != pb::DataParameter::TEXT) continue;
    auto vocabulary = data::text_vocabulary(layer.layer.text_param(), layer.place.folder);
    if (vocabulary) return vocabulary;
    return make_error(vocabulary.error().code,
                      fmt::format("{}; --vocabulary names the vocabulary_LAYER.txt of the run's "
                                  "folder instead",
                                  vocabulary.error().message));
  }
  return invalid("the net has no Data layer of backend TEXT: text is sampled from nets over text");
}

}  // namespace

Result<void> sample_text(const pb::ToolRequest& request, Backend& backend) {
  TAUT_TRY(const OpenedModel opened, open_model(request));
  TAUT_TRY(const model::Graph graph, sampling_graph(opened.job.net_param()));
  TAUT_TRY(const model::ReadTable values, opened.saved.tables_of(graph));
  TAUT_TRY(data::Vocabulary vocabulary, vocabulary_of(request, opened.job));
  const auto fill = [&](const TableSpec& table, std::span<float> into) {
    return values(table.id.value(), 0, into);
  };
  TAUT_TRY(const auto sampler, TextSampler::create(graph, std::move(vocabulary), fill, backend));
  SampleOptions options;
  options.prompt = request.prompt();
  options.length = request.length();
  options.temperature = request.temperature();
  options.seed = request.seed();
  TAUT_TRY(const std::string text, sampler->sample(options));
  fmt::print("{}\n", text);
  return ok();
}

}  // namespace taut::worker
