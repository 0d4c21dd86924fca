#include "worker/model/unsupported.hpp"

#include <fmt/format.h>

#include <string_view>
#include <vector>

namespace taut::model {
namespace {

Result<void> check_absent(const google::protobuf::Message& message, std::string_view what,
                          const std::vector<std::string_view>& fields) {
  const auto* reflection = message.GetReflection();
  for (const std::string_view name : fields) {
    const auto* field = message.GetDescriptor()->FindFieldByName(std::string(name));
    const bool given = field->is_repeated() ? reflection->FieldSize(message, field) > 0
                                            : reflection->HasField(message, field);
    if (given) {
      return invalid(
          fmt::format("{}: {} is not supported by this version; leave it out", what, name));
    }
  }
  return ok();
}

}  // namespace

Result<void> check_supported(const pb::Job& job) {
  TAUT_TRY(
      check_absent(job.solver_param(), "solver",
                   {"iter_size",     "lr_reference_batch",   "net_param",         "train_net",
                    "test_net",      "train_net_param",      "test_net_param",    "train_state",
                    "test_state",    "snapshot_after_train", "precision",         "loss_scale",
                    "deterministic", "snapshot_format",      "snapshot_diff",     "device_id",
                    "debug_info",    "layer_wise_reduce",    "test_compute_loss", "solver_type"}));
  TAUT_TRY(check_absent(job.consistency(), "consistency",
                        {"dynamic_slack", "elastic_averaging", "periodic_averaging"}));
  return check_absent(job, "job", {"checkpoint", "resume"});
}

}  // namespace taut::model
