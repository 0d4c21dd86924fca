#include "proto/config/experiment_check.hpp"

#include <fmt/format.h>
#include <google/protobuf/repeated_field.h>

#include <cstdint>

#include "proto/config/exchange/worker_state.hpp"
#include "proto/config/text.hpp"

namespace taut {
namespace {

constexpr double kHour_ms = 3.6e6;

Result<void> check_range(const std::string& field, double value, double low, double high) {
  if (value >= low && value <= high) return ok();
  return invalid(fmt::format("{} is {}; it must be between {} and {}", field, value, low, high));
}

Result<void> check_burst(const pb::Straggler::Burst& burst, const std::string& field) {
  if (burst.length() < 1 || burst.length() > burst.period()) {
    return invalid(
        fmt::format("{} lasts {} of {} clocks; give a period, and a length from 1 to the period",
                    field, burst.length(), burst.period()));
  }
  if (burst.random() && burst.has_offset()) {
    return invalid(fmt::format("{} gives offset {} and random; give one", field, burst.offset()));
  }
  if (burst.offset() >= burst.period()) {
    return invalid(fmt::format("{} has offset {}, beyond its period of {} clocks", field,
                               burst.offset(), burst.period()));
  }
  return ok();
}

Result<void> check_targets(const pb::Straggler& straggler, const std::string& field,
                           std::uint32_t workers, bool alone) {
  if (alone && (straggler.worker_size() > 0 || straggler.rotate() > 0)) {
    return invalid(fmt::format(
        "{} names {}: a worker's own configuration applies to that worker only; set it in the job",
        field,
        straggler.worker_size() > 0 ? fmt::format("worker {}", straggler.worker(0)) : "rotate"));
  }
  for (const std::uint32_t worker : straggler.worker()) {
    if (workers > 0 && worker >= workers) {
      return invalid(fmt::format("{} names worker {}; the job has {}, counted from 0", field,
                                 worker, workers));
    }
  }
  return ok();
}

/// workers  of the job; 0: not known yet
/// alone    whether it is a worker's own config
Result<void> check_stragglers(const google::protobuf::RepeatedPtrField<pb::Straggler>& stragglers,
                              const std::string& where, std::uint32_t workers, bool alone) {
  for (int i = 0; i < stragglers.size(); ++i) {
    const pb::Straggler& one = stragglers[i];
    const std::string field = fmt::format("{}straggler[{}]", where, i);
    TAUT_TRY(check_range(field + ".slowdown", one.slowdown(), 1, 1e4));
    TAUT_TRY(check_range(field + ".delay_ms", one.delay_ms(), 0, kHour_ms));
    TAUT_TRY(check_range(field + ".rate", one.rate(), 0, 1));
    if (one.has_burst()) {
      TAUT_TRY(check_burst(one.burst(), field + ".burst"));
    }
    TAUT_TRY(check_targets(one, field, workers, alone));
  }
  return ok();
}

Result<void> check_resources(const pb::Job& job) {
  constexpr std::uint32_t kMaxDevices = 64;
  constexpr std::uint64_t kMaxBytes = 1UL << 50U;
  const pb::Resources& resources = job.resources();
  if (resources.devices() > kMaxDevices) {
    return invalid(fmt::format("resources: devices is {}; at most {} are possible",
                               resources.devices(), kMaxDevices));
  }
  for (const std::uint64_t bytes : {resources.memory(), resources.server_memory()}) {
    if (bytes <= kMaxBytes) continue;
    return invalid(
        fmt::format("resources: {} bytes are more than {}, the limit", bytes, kMaxBytes));
  }
  if (job.external_members() && (resources.memory() > 0 || resources.devices() > 0)) {
    return invalid(
        "resources: the members of a job with external_members are programs that are started by "
        "others; omit memory and devices");
  }
  return ok();
}

Result<void> check_network_faults(const pb::NetworkFaults& faults, const std::string& where) {
  constexpr double kMinute_ms = 60e3;
  TAUT_TRY(check_range(where + "network.delay_ms", faults.delay_ms(), 0, kMinute_ms));
  TAUT_TRY(check_range(where + "network.jitter_ms", faults.jitter_ms(), 0, kMinute_ms));
  // If all are lost a job never ends, and each loss costs a second.
  return check_range(where + "network.loss", faults.loss(), 0, 0.9);
}

}  // namespace

Result<void> check_min_workers(const pb::Job& job) {
  if (job.min_workers() <= job.workers()) return ok();
  return invalid(fmt::format(
      "min_workers: {} is above workers: {}, which is the number of shares of the data; raise "
      "workers",
      job.min_workers(), job.workers()));
}

Result<void> check_experiment(const pb::Job& job) {
  // The number of workers may be given later.
  if (job.workers() > 0) {
    TAUT_TRY(check_min_workers(job));
  }
  TAUT_TRY(check_resources(job));
  TAUT_TRY(check_stragglers(job.straggler(), "", job.workers(), false));
  TAUT_TRY(check_range("clock_time_ms", job.clock_time_ms(), 0, kHour_ms));
  constexpr double kMaxRestarts = 1000;
  constexpr double kMaxExpected_s = 1e9;
  TAUT_TRY(check_range("restart", job.restart(), 0, kMaxRestarts));
  TAUT_TRY(check_range("priority", job.priority(), -kMaxPriority, kMaxPriority));
  TAUT_TRY(check_range("expected_s", job.expected_s(), 0, kMaxExpected_s));
  constexpr double kMaxFollowerSlack = 1e6;
  constexpr double kMinLease_s = 0.5;
  constexpr double kDay_s = 86400;
  TAUT_TRY(check_range("followers.slack", job.followers().slack(), 0, kMaxFollowerSlack));
  if (job.followers().lease_s() != 0) {
    TAUT_TRY(check_range("followers.lease_s", job.followers().lease_s(), kMinLease_s, kDay_s));
  }
  if (job.has_followers() && job.consistency().backup_workers() > 0) {
    // Slices may then stay at different versions forever, and each would wait for a follower that
    // waits for one version of all of them.
    return invalid(
        "followers: training with backup_workers ends clocks at each slice by itself, so there may "
        "be no whole model to wait for; omit one of them (followers without a bound need no "
        "field)");
  }
  return check_network_faults(job.network(), "");
}

Result<void> check_checkpoints(const pb::Job& job) {
  const pb::CheckpointOptions& options = job.checkpoint();
  if (!options.has_coded()) return ok();
  const pb::CodedCheckpoints& coded = options.coded();
  if (coded.data() < 1 || coded.data() > kMaxDataParts || coded.parity() < 1 ||
      coded.parity() > kMaxParityParts) {
    return invalid(fmt::format(
        "checkpoint: coded has data: {} and parity: {}; they must be from 1 to {} and from 1 to {}",
        coded.data(), coded.parity(), kMaxDataParts, kMaxParityParts));
  }
  if (options.incremental()) {
    return invalid("checkpoint: incremental and coded do not go together; omit one of them");
  }
  if (carries_state(job)) {
    return invalid(
        "checkpoint: coded cannot be combined with state that workers keep (a recurrent net's "
        "carry_state, compression with error feedback, a solver's where workers average), as "
        "workers write no parts; omit coded");
  }
  return ok();
}

Result<pb::Straggler> parse_straggler(const std::string& text, const std::string& option) {
  pb::Straggler straggler;
  TAUT_TRY(parse_text(text, option, straggler));
  return straggler;
}

Result<void> check_experiment(const pb::WorkerConfig& worker, const std::string& where) {
  TAUT_TRY(check_stragglers(worker.straggler(), where, 0, true));
  TAUT_TRY(check_range(where + "clock_time_ms", worker.clock_time_ms(), 0, kHour_ms));
  return check_network_faults(worker.network(), where);
}

}  // namespace taut
