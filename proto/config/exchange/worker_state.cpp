#include "proto/config/exchange/worker_state.hpp"

#include <algorithm>

#include "proto/config/exchange/settle_exchange.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/settle_compression.hpp"

namespace taut {

bool carries_state(const pb::Job& job) {
  if (keeps_residuals(job)) return true;
  // Workers that average keep the solver's state, and what they train between two meetings.
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

}  // namespace taut
