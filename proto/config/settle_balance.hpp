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

/// The first field of a job that cannot be combined with `balance`, as far as its text shows;
/// nullopt if there is none, or the job does not balance.
[[nodiscard]] std::optional<FieldMisfit> misfit_of_balance(const pb::Job& job);

/// Checks that a whole job, with its net and solver, may balance.
/// Errors    invalid: the misfit; a net without a batch, or that keeps state between batches
[[nodiscard]] Result<void> check_balance(const pb::Job& job);

/// The shares of a job that balances, with the changes that were announced.
/// slots   how many the job has
/// Errors  invalid: no batch can be divided like this
[[nodiscard]] Result<BatchShares> to_batch_shares(
    const pb::Job& job, std::uint32_t slots,
    const google::protobuf::RepeatedPtrField<pb::BatchShares>& changes);

}  // namespace taut
