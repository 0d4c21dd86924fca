#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>

#include "cli/command.hpp"
#include "cli/net_summary.hpp"
#include "cli/record_shape.hpp"
#include "worker/model/saved_model.hpp"

namespace taut::cli {
namespace {

struct SummaryOptions {
  std::string file;
  std::int64_t batch = 0;  // 0: the net's own
  std::string phase = "train";
  bool json = false;
};

Result<void> summarize(const SummaryOptions& options) {
  TAUT_TRY(const pb::Job job, model::load_net_or_job(options.file));
  const JobRecords known = records_of(job);
  if (!known.unknown.empty()) {
    fmt::print(stderr,
               "warning: no data set says how large the records of {} are; the shapes take what "
               "the layer says, or a usual size\n",
               fmt::join(known.unknown, ", "));
  }
  const pb::Phase phase = options.phase == "test" ? pb::TEST : pb::TRAIN;
  model::GraphOptions graph_options = known.records.graph_options(phase);
  graph_options.batch = options.batch;
  TAUT_TRY(const model::Graph graph, model::build_graph(job.net_param(), graph_options));
  if (options.json) {
    fmt::print("{}\n", net_summary_json(graph));
    return ok();
  }
  for (const std::string& line : net_summary(graph)) fmt::print("{}\n", line);
  return ok();
}

}  // namespace

void add_summary(CLI::App& app, int& status) {
  auto options = std::make_shared<SummaryOptions>();
  CLI::App* command = app.add_subcommand(
      "summary", "Shows a net's layers, shapes, parameters, multiply-adds and memory");
  command->add_option("NET", options->file, "A net, solver or job file")->required();
  command->add_option("--batch", options->batch, "Records in a batch (default: the net's own)")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--phase", options->phase, "The phase whose layers take part")
      ->check(CLI::IsMember({"train", "test"}))
      ->capture_default_str();
  command->add_flag("--json", options->json, "One JSON object on a line");
  command->footer("Example: tautline summary configs/models/resnet50/train_val.prototxt --batch 1");
  command->callback([options, &status] {
    const Result<void> done = summarize(*options);
    if (!done) status = fail("summary", done.error().message);
  });
}

}  // namespace taut::cli
