#include "proto/config/exchange/worker_state.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "proto/config/exchange/settle_exchange.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/settle_compression.hpp"

namespace taut {

bool carries_state(const pb::Job& job) {
  if (keeps_residuals(job)) return true;
  // The solver's state is at workers that average, and what they train between two meetings.
  const pb::PeriodicAveraging& averaging = job.consistency().periodic_averaging();
  if (job.consistency().has_periodic_averaging() && !job.external_members()) {
    const auto rule = to_update_rule(job.solver_param());
    if (exchanges_at_workers(job) || averaging.fragments() > 1 ||
        (rule && rule.value().state_count() > 0))
      return true;
  }
  const auto& layers = job.net_param().layer();
  return std::any_of(layers.begin(), layers.end(), [](const pb::LayerParameter& layer) {
    const bool recurs = layer.type() == "RNN" || layer.type() == "LSTM" || layer.type() == "GRU";
    // Without cont markers, every batch starts from zeros.
    return recurs && layer.bottom_size() > 1 && layer.recurrent_param().carry_state();
  });
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
        "carry_state, compression with error feedback), as workers write no parts; omit coded");
  }
  return ok();
}

}  // namespace taut
