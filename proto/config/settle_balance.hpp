#pragma once

#include <cstdint>
#include <optional>

#include <google/protobuf/repeated_ptr_field.h>

#include "common/result.hpp"
#include "common/ssp/batch_shares.hpp"
#include "proto/config/settle_averaging.hpp"
#include "proto/control.pb.h"
#include "proto/job.pb.h"

namespace taut {

/// The first of a job that cannot be combined with `balance`, as far as its text says; nullopt: all
/// of it can, or the job does not balance.
[[nodiscard]] std::optional<FieldMisfit> misfit_of_balance(const pb::Job& job);

/// Whether a whole job may balance, with its net and solver.
/// Errors    invalid: the misfit; a net without a batch, or that keeps state between batches
[[nodiscard]] Result<void> check_balance(const pb::Job& job);

/// The shares of a job that balances, with the changes that were announced.
/// slots   of the job
/// Errors  invalid: no batch can be divided so
[[nodiscard]] Result<BatchShares> to_batch_shares(
    const pb::Job& job, std::uint32_t slots,
    const google::protobuf::RepeatedPtrField<pb::BatchShares>& changes);

}  // namespace taut
