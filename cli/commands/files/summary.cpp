#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>

#include "cli/commands/shared_options.hpp"
#include "cli/job_records.hpp"
#include "cli/views/net_summary.hpp"
#include "worker/model/job/job_nets.hpp"
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
               "warning: the records of {} have an unknown size; the shapes assume what "
               "the layer says, or a common size\n",
               fmt::join(known.unknown, ", "));
  }
  const pb::Phase phase = options.phase == "test" ? pb::TEST : pb::TRAIN;
  model::GraphOptions graph_options = known.records.graph_options(phase);
  graph_options.batch = options.batch;
  TAUT_TRY(const model::Graph graph, model::build_graph(model::net_of(job, phase), graph_options));
  if (options.json) {
    fmt::print("{}\n", net_summary_json(graph));
    return ok();
  }
  for (const std::string& line : net_summary(graph)) fmt::print("{}\n", line);
  return ok();
}

}  // namespace

void add_summary(Command& command, int& status) {
  constexpr std::uint64_t kMaxBatch = 1 << 20;
  auto options = std::make_shared<SummaryOptions>();
  command.text("NET", options->file, "A net, solver or job file").required().value("FILE");
  command.whole_number("--batch", options->batch, "Records in a batch (default: the net's own)", 1,
                       kMaxBatch);
  command.one_of("--phase", options->phase, "The phase whose layers are shown", {"train", "test"})
      .by_default(options->phase);
  command.flag("--json", options->json, "Prints one JSON object on a line");
  command.on_run([options, &status] {
    const Result<void> done = summarize(*options);
    if (!done) status = fail("summary", done.error().message);
  });
}

}  // namespace taut::cli
