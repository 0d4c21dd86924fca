#include "server/coordinator/queue/job_demand.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "proto/config/external_job.hpp"
#include "server/coordinator/epoch_change.hpp"

namespace taut {
namespace {

/// How many workers must have joined before the job starts.
std::size_t required_workers(const pb::Job& definition) {
  const std::uint32_t least =
      definition.min_workers() > 0 ? definition.min_workers() : definition.workers();
  return std::max(least, 1U);
}

/// The workers that have joined and could ever work for a job.
std::vector<const Participant*> able_workers(const JobRecord& job, const Registry& registry) {
  const PlaceDemand demand = place_demand(job.stored().definition());
  std::vector<const Participant*> workers = registry.available_for(job.takes());
  std::erase_if(workers, [&demand](const Participant* one) {
    const bool has_memory = one->memory_bytes == 0 || one->memory_bytes >= demand.memory;
    return one->devices < demand.devices || !has_memory;
  });
  return workers;
}

/// The most that any of these workers has: "1 GPU, 31.2 GiB".
std::string best_of(const std::vector<const Participant*>& workers, const PlaceDemand& demand) {
  std::uint32_t devices = 0;
  std::uint64_t memory = 0;
  for (const Participant* worker : workers) {
    devices = std::max(devices, worker->devices);
    memory = std::max(memory, worker->memory_bytes);
  }
  std::string words;
  if (demand.devices > 0) words = fmt::format("{} GPU{}", devices, devices == 1 ? "" : "s");
  if (demand.memory > 0) words += (words.empty() ? "" : ", ") + in_gib(memory);
  return words;
}

}  // namespace

PlaceDemand place_demand(const pb::Job& definition) {
  return {definition.resources().memory(), definition.resources().devices()};
}

std::string in_gib(std::uint64_t bytes) {
  constexpr double kGib = 1UL << 30U;
  const double gib = static_cast<double>(bytes) / kGib;
  return bytes > 0 && gib < 0.1 ? fmt::format("{:.1f} MiB", gib * 1024)
                                : fmt::format("{:.1f} GiB", gib);
}

std::string words_of(const PlaceDemand& demand) {
  std::string words;
  if (demand.devices > 0) {
    words = fmt::format("{} GPU{}", demand.devices, demand.devices == 1 ? "" : "s");
  }
  if (demand.memory == 0) return words;
  return fmt::format("{}{}{} of memory", words, words.empty() ? "" : " and ",
                     in_gib(demand.memory));
}

WorkerDemand worker_demand(const JobRecord& job, const Registry& registry, std::uint32_t limit) {
  const pb::Job& definition = job.stored().definition();
  const auto required = static_cast<std::uint32_t>(required_workers(definition));
  if (definition.workers() > 0) return {required, definition.workers()};
  // The job takes every worker that has joined.
  const auto joined = static_cast<std::uint32_t>(able_workers(job, registry).size());
  const std::uint32_t all = std::max(required, limit == 0 ? joined : std::min(joined, limit));
  return {all, all};
}

std::uint32_t min_running_workers(const JobRecord& job) {
  const pb::Job& definition = job.stored().definition();
  return definition.workers() == 0 ? job.stored().slots()
                                   : static_cast<std::uint32_t>(required_workers(definition));
}

bool may_grow(const JobRecord& job) {
  const pb::StoredJob& stored = job.stored();
  const bool runs =
      stored.state() == pb::RUNNING && !stored.closing() && !stored.stops_when_saved();
  return runs && job.takes() == JobId() && !job.has_finished_members() && has_clocks_left(job);
}

std::string waits_for(const JobRecord& job, const Registry& registry) {
  if (registry.available(pb::ROLE_SERVER).empty()) return "waits for a server to join";
  const std::size_t able = able_workers(job, registry).size();
  const std::size_t required = required_workers(job.stored().definition());
  if (able >= required) return "";
  const std::string what =
      fmt::format("waits for {} more {}{}", required - able,
                  job.takes() == JobId() ? "worker" : "member", required - able == 1 ? "" : "s");
  const PlaceDemand demand = place_demand(job.stored().definition());
  if (demand.none()) return fmt::format("{}: {} required, {} joined", what, required, able);
  const auto joined = registry.available_for(job.takes());
  return fmt::format(
      "{} with {}: {} required, {} of {} joined ha{} that; the most that one has is {}", what,
      words_of(demand), required, able, joined.size(), able == 1 ? "s" : "ve",
      best_of(joined, demand));
}

}  // namespace taut
