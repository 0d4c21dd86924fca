#include "worker/worker_metrics.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace taut::worker {
namespace {

const std::vector<double> kStalenessBounds{0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128};

metrics::Labels labels_of(const std::string& worker, std::uint64_t job) {
  return {{"job", fmt::format("{}", job)}, {"worker", worker}};
}

metrics::Labels with(metrics::Labels labels, const char* name, std::string value) {
  labels.emplace_back(name, std::move(value));
  return labels;
}

}  // namespace

void add_progress(metrics::Scrape& scrape, const std::string& worker,
                  const pb::Progress& progress) {
  if (progress.job() == 0) return;
  const metrics::Labels labels = labels_of(worker, progress.job());
  scrape.gauge("worker_clock", "Clocks that this worker has finished.",
               static_cast<double>(progress.clock()), labels);
  scrape.gauge("worker_loss", "The training loss, averaged over average_loss clocks.",
               progress.loss(), labels);
  scrape.counter("worker_images_total", "Images or sequences that this worker has trained on.",
                 static_cast<double>(progress.images()), labels);
  scrape.counter("worker_compute_seconds_total", "Time in clocks, without waiting.",
                 progress.compute_s(), labels);
  scrape.counter("worker_wait_seconds_total", "Time spent waiting for parameters and data.",
                 progress.wait_s(), labels);
  scrape.counter("worker_bytes_total", "Payload bytes of the data plane at a worker.",
                 static_cast<double>(progress.pushed_bytes()), with(labels, "direction", "out"));
  scrape.counter("worker_bytes_total", "Payload bytes of the data plane at a worker.",
                 static_cast<double>(progress.read_bytes()), with(labels, "direction", "in"));
  scrape.counter("worker_saved_bytes_total",
                 "Payload bytes that compression has spared this worker's updates.",
                 static_cast<double>(progress.saved_bytes()), labels);
  scrape.counter("worker_read_saved_bytes_total",
                 "Payload bytes that compression has spared the values that this worker read.",
                 static_cast<double>(progress.read_saved_bytes()), labels);
  scrape.counter("worker_resent_requests_total",
                 "Pushes and reads that this worker sent again, as no answer came in time.",
                 static_cast<double>(progress.resent_requests()), labels);
  std::map<std::int64_t, std::uint64_t> reads;
  for (const pb::StalenessBin& bin : progress.staleness()) reads[bin.staleness()] += bin.reads();
  scrape.histogram("worker_read_staleness_clocks",
                   "For each read: its clock minus the version that it returned.", reads,
                   kStalenessBounds, labels);
  if (progress.evaluations_size() == 0) return;
  const pb::Evaluation& test = progress.evaluations(progress.evaluations_size() - 1);
  if (!std::isnan(test.accuracy())) {
    scrape.gauge("worker_test_accuracy", "The newest test accuracy.", test.accuracy(), labels);
  }
  scrape.gauge("worker_test_loss", "The newest test loss.", test.loss(), labels);
}

void add_device(metrics::Scrape& scrape, const std::string& worker, const DeviceMemoryUse& use,
                Bytes budget) {
  const metrics::Labels labels{{"worker", worker}};
  scrape.gauge("worker_device_memory_used_bytes", "Device memory that the worker has allocated.",
               static_cast<double>(use.used.value()), labels);
  scrape.gauge("worker_device_memory_free_bytes", "Device memory that is not allocated.",
               static_cast<double>(use.free.value()), labels);
  if (budget == Bytes(0)) return;
  scrape.gauge("worker_device_memory_budget_bytes", "Limit of the worker's device memory.",
               static_cast<double>(budget.value()), labels);
}

void add_client(metrics::Scrape& scrape, const std::string& worker, std::uint64_t job,
                const ClientFigures& figures) {
  const metrics::Labels labels = labels_of(worker, job);
  scrape.counter("worker_messages_total", "Messages of the data plane at a worker.",
                 static_cast<double>(figures.messages_out), with(labels, "direction", "out"));
  scrape.counter("worker_messages_total", "Messages of the data plane at a worker.",
                 static_cast<double>(figures.messages_in), with(labels, "direction", "in"));
  for (const auto& [shard, under_way] : figures.under_way) {
    scrape.gauge("worker_updates_under_way",
                 "Updates of slices that were sent to a shard and are not acknowledged.",
                 static_cast<double>(under_way.updates),
                 with(labels, "shard", fmt::format("{}", shard.value())));
  }
  for (const auto& [shard, under_way] : figures.under_way) {
    scrape.gauge("worker_under_way_bytes", "Payload bytes of these updates.",
                 static_cast<double>(under_way.bytes),
                 with(labels, "shard", fmt::format("{}", shard.value())));
  }
  scrape.gauge("worker_updates_waiting", "Updates of slices that are not sent yet.",
               static_cast<double>(figures.updates_waiting), labels);
}

}  // namespace taut::worker
