#include "proto/config/settle_balance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "common/math/update_rules.hpp"
#include "proto/config/net_state.hpp"

namespace taut {
namespace {

FieldMisfit misfit(const std::string& what) {
  return {{{"balance"}}, "balance: " + what};
}

bool compresses_updates(const pb::Job& job) {
  return std::ranges::any_of(job.compression().push(), [](const pb::PushCompression& push) {
    return push.scheme() != pb::PushCompression::FLOAT32;
  });
}

/// A policy that counts updates, is not linear in them, or makes workers train on their own.
const char* unfit_policy(const pb::Consistency& consistency) {
  if (consistency.backup_workers() > 0) return "backup_workers";
  if (consistency.has_periodic_averaging()) return "periodic_averaging";
  if (consistency.has_elastic_averaging()) return "elastic_averaging";
  if (consistency.has_delay_compensation()) return "delay_compensation";
  if (consistency.look_ahead()) return "look_ahead";
  return nullptr;
}

/// An update that is applied alone counts as much as its share only if the step is linear.
std::optional<FieldMisfit> misfit_of_rule(const pb::Job& job) {
  const auto rule = math::rule_of_type(job.solver_param().type());
  if (!rule || math::info_of(*rule).is_linear || is_bsp(job.consistency())) return std::nullopt;
  return misfit(
      fmt::format("solver type {} makes a step of each update in mode {}, whatever its share; "
                  "choose mode: BSP, or type SGD or Nesterov",
                  job.solver_param().type(), pb::Consistency::Mode_Name(job.consistency().mode())));
}

bool keeps_state(const pb::LayerParameter& layer) {
  const bool recurs = layer.type() == "RNN" || layer.type() == "LSTM" || layer.type() == "GRU";
  // Without cont markers, every batch starts from zeros.
  return recurs && layer.bottom_size() > 1 && layer.recurrent_param().carry_state();
}

bool sums_losses(const pb::LayerParameter& layer) {
  return layer.loss_param().normalization() == pb::LossParameter::NONE;
}

/// Whether a layer is a loss that grows with the batch.
bool sums_records(const pb::LayerParameter& layer) {
  const bool is_loss = std::ranges::any_of(layer.loss_weight(), [](float one) { return one != 0; });
  return is_loss && layer.type() == "Reduction" &&
         layer.reduction_param().operation() != pb::ReductionParameter::MEAN;
}

}  // namespace

std::optional<FieldMisfit> misfit_of_balance(const pb::Job& job) {
  if (!job.balance()) return std::nullopt;
  if (job.external_members()) {
    return misfit("the members are programs, which choose their batches themselves; omit it");
  }
  if (job.workers() == 0) {
    return misfit("the job must say how many workers share the batch; give workers");
  }
  if (const char* policy = unfit_policy(job.consistency())) {
    return misfit(fmt::format("cannot be combined with consistency {{ {} }}; omit one", policy));
  }
  if (compresses_updates(job)) {
    return misfit(
        "cannot be combined with compression { push }, whose updates would count by another share "
        "than "
        "what they bring of earlier ones; omit one");
  }
  return misfit_of_rule(job);
}

Result<void> check_balance(const pb::Job& job) {
  if (!job.balance()) return ok();
  if (const auto found = misfit_of_balance(job)) return invalid(found->what);
  const pb::NetState state = train_state(job);
  for (const pb::LayerParameter& layer : job.net_param().layer()) {
    if (!takes_part(layer, state)) continue;
    if (keeps_state(layer)) {
      return invalid(fmt::format(
          "balance: layer \"{}\" carries state from one batch to the next, so that its batch "
          "cannot change; omit carry_state or balance",
          layer.name()));
    }
    if (sums_losses(layer)) {
      return invalid(fmt::format(
          "balance: layer \"{}\" adds losses up (normalization: NONE), so that a larger share has "
          "more weight already; choose another normalization or omit balance",
          layer.name()));
    }
    if (sums_records(layer)) {
      return invalid(fmt::format(
          "balance: layer \"{}\" is a loss that adds records up (operation: {}), so that a larger "
          "share has more weight already; choose operation: MEAN or omit balance",
          layer.name(),
          pb::ReductionParameter::ReductionOp_Name(layer.reduction_param().operation())));
    }
  }
  const auto shares = to_batch_shares(job, job.workers(), {});
  if (!shares) return shares.error();
  return ok();
}

Result<BatchShares> to_batch_shares(
    const pb::Job& job, std::uint32_t slots,
    const google::protobuf::RepeatedPtrField<pb::BatchShares>& changes) {
  const auto batch = batch_of_text(job);
  if (!batch) return invalid("balance: " + batch.error().message);
  if (slots == 0) return invalid("balance: there are no shares");
  const std::int64_t divisor = job.global_batch() ? slots : 1;
  const std::int64_t equal = batch.value() / divisor;
  constexpr std::int64_t kMax = std::numeric_limits<std::uint32_t>::max() / 2;
  if (batch.value() % divisor != 0 || equal < 1 || equal > kMax / slots) {
    return invalid(fmt::format("balance: a batch of {} cannot be divided into {} shares",
                               batch.value(), slots));
  }
  BatchShares shares(static_cast<std::uint32_t>(equal), slots);
  for (const pb::BatchShares& change : changes) {
    std::vector<std::uint32_t> records(change.records().begin(), change.records().end());
    const Clock first(change.first_clock());
    if (const std::string why = shares.why_not(first, records); !why.empty()) {
      return invalid("balance: " + why);
    }
    shares.change(first, std::move(records));
  }
  return shares;
}

}  // namespace taut
