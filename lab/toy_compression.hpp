#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "common/types.hpp"
#include "lab/random.hpp"
#include "proto/job.pb.h"

namespace taut::sim {

using Scheme = pb::PushCompression::Scheme;

/// The rows of a slice as a matrix.
constexpr std::uint32_t kToyRows = 4;
/// The momentum where workers apply it.
constexpr float kToyMomentum = 0.5F;

[[nodiscard]] bool workers_apply_momentum(const pb::Compression& compression);

/// How the updates of toy tables, which have fewer than 1000 values, are encoded.
[[nodiscard]] pb::PushCompression push_of(const pb::Compression& compression);
/// How their values are encoded where members read them.
[[nodiscard]] pb::PullCompression pull_of(const pb::Compression& compression);

/// Draws a compression; the job's policies are drawn already.
/// fixed  the scheme of updates; nullopt: drawn, and none in most runs
[[nodiscard]] pb::Compression draw_compression(Random& random, const pb::Consistency& policies,
                                               const std::optional<Scheme>& fixed);
/// Errors    invalid: an unknown name
[[nodiscard]] Result<Scheme> find_scheme(const std::string& name);

/// Whether encoding keeps the numbers by which a slice's values show how many updates of each
/// worker they hold.
/// clocks  of the job
[[nodiscard]] bool keeps_counts(const pb::Compression& compression, std::int64_t clocks);

/// An update's worker and place.
struct Sender {
  std::uint64_t seed = 0;
  std::uint32_t slot = 0;
  TableId table;
  SliceId slice;
  std::int64_t clock = 0;
  bool is_plain = false;  // not encoded: its last one, with everything left out before
};

/// What a member keeps for a slice between its updates; each is empty while it is zeros.
struct Kept {
  std::vector<float> residual;  // what earlier updates have left out
  std::vector<float> velocity;  // where workers apply the momentum
  std::vector<float> factor;    // that POWER_SGD starts from
};

/// Turns an update into what its shard must decode, by the scheme's formula; shares no code with
/// the worker or the shard but the random numbers.
void arrive(const pb::Compression& compression, const Sender& sender, std::vector<float>& update,
            Kept& kept);

/// Turns a slice's values into what a member must decode.
/// applications  of updates that have made the values
void encode_for_members(const pb::Compression& compression, std::uint64_t seed, TableId table,
                        SliceId slice, std::int64_t applications, std::vector<float>& values);

}  // namespace taut::sim
