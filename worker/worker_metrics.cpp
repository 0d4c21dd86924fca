#include "worker/worker_metrics.hpp"

#include <fmt/format.h>

#include <map>
#include <vector>

namespace taut::worker {
namespace {

const std::vector<double> kStalenessBounds{0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128};

}  // namespace

void add_progress(metrics::Scrape& scrape, const std::string& worker,
                  const pb::Progress& progress) {
  if (progress.job() == 0) return;
  const metrics::Labels labels{{"job", fmt::format("{}", progress.job())}, {"worker", worker}};
  const auto with = [&](const char* direction) {
    metrics::Labels all = labels;
    all.emplace_back("direction", direction);
    return all;
  };
  scrape.gauge("worker_clock", "Clocks that this worker has finished.",
               static_cast<double>(progress.clock()), labels);
  scrape.gauge("worker_loss", "The training loss, averaged as the solver says.", progress.loss(),
               labels);
  scrape.counter("worker_images_total", "Images that this worker has computed on.",
                 static_cast<double>(progress.images()), labels);
  scrape.counter("worker_compute_seconds_total", "Time in clocks, without waiting.",
                 progress.compute_s(), labels);
  scrape.counter("worker_wait_seconds_total", "Time spent waiting for parameters and data.",
                 progress.wait_s(), labels);
  scrape.counter("worker_bytes_total", "Payload bytes of the data plane at a worker.",
                 static_cast<double>(progress.pushed_bytes()), with("out"));
  scrape.counter("worker_bytes_total", "Payload bytes of the data plane at a worker.",
                 static_cast<double>(progress.read_bytes()), with("in"));
  std::map<std::int64_t, std::uint64_t> reads;
  for (const pb::StalenessBin& bin : progress.staleness()) reads[bin.staleness()] += bin.reads();
  scrape.histogram("worker_read_staleness_clocks",
                   "Of each read: its clock minus the version it got.", reads, kStalenessBounds,
                   labels);
  if (progress.evaluations_size() == 0) return;
  const pb::Evaluation& test = progress.evaluations(progress.evaluations_size() - 1);
  scrape.gauge("worker_test_accuracy", "The newest test accuracy.", test.accuracy(), labels);
  scrape.gauge("worker_test_loss", "The newest test loss.", test.loss(), labels);
}

}  // namespace taut::worker
