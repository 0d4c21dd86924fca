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

/// Of a slice as a matrix.
constexpr std::uint32_t kToyRows = 4;
/// Where workers apply it.
constexpr float kToyMomentum = 0.5F;

[[nodiscard]] bool workers_apply_momentum(const pb::Compression& compression);

/// How the updates of toy tables are encoded, which are of fewer than 1000 values.
[[nodiscard]] pb::PushCompression push_of(const pb::Compression& compression);
/// How their values are where members read them.
[[nodiscard]] pb::PullCompression pull_of(const pb::Compression& compression);

/// Draws a compression; the job's policies are drawn already.
/// fixed  the scheme of updates; nullopt: drawn, and in most runs none
[[nodiscard]] pb::Compression draw_compression(Random& random, const pb::Consistency& policies,
                                               const std::optional<Scheme>& fixed);
/// Errors    invalid: an unknown name
[[nodiscard]] Result<Scheme> find_scheme(const std::string& name);

/// Whether updates and values arrive with the numbers by which a slice's values say how many of
/// whose updates they hold.
/// clocks  of the job
[[nodiscard]] bool keeps_counts(const pb::Compression& compression, std::int64_t clocks);

/// Whose update, and of what.
struct Sender {
  std::uint64_t seed = 0;
  std::uint32_t slot = 0;
  TableId table;
  SliceId slice;
  std::int64_t clock = 0;
  bool is_plain = false;  // not encoded: its last one, with all that was left out before
};

/// What a member keeps of a slice between its updates; each empty while it is zeros.
struct Kept {
  std::vector<float> residual;  // what earlier updates have left out
  std::vector<float> velocity;  // where workers apply the momentum
  std::vector<float> factor;    // with which POWER_SGD begins
};

/// Makes of an update what its shard must read of it, as the scheme's formula says; shares no code
/// with the worker's or the shard's but the random numbers.
void arrive(const pb::Compression& compression, const Sender& sender, std::vector<float>& update,
            Kept& kept);

/// Makes of a slice's values what a member must read of them.
/// applications  of updates, that have made the values
void encode_for_members(const pb::Compression& compression, std::uint64_t seed, TableId table,
                        SliceId slice, std::int64_t applications, std::vector<float>& values);

}  // namespace taut::sim
