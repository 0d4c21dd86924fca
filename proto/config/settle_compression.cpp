#include "proto/config/settle_compression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/math/update_rules.hpp"
#include "proto/config/external_job.hpp"

namespace taut {
namespace {

using pb::PullCompression;
using pb::PushCompression;

constexpr float kMinKeep = 0.0001F;
constexpr float kMaxKeep = 0.5F;
constexpr std::uint32_t kMaxWarmUp = 1'000'000'000;

bool is_sparse(PushCompression::Scheme scheme) {
  return scheme == PushCompression::TOP_K || scheme == PushCompression::RANDOM_K ||
         scheme == PushCompression::DGC;
}

bool has_feedback(PushCompression::Scheme scheme) {
  return is_sparse(scheme) || scheme == PushCompression::ONE_BIT ||
         scheme == PushCompression::POWER_SGD;
}

bool is_auto(const PushCompression& push) {
  return push.scheme() == PushCompression::AUTO;
}

/// Whether `is_such` holds for its scheme, or for one that may be chosen.
bool may_be(const PushCompression& push, bool (*is_such)(PushCompression::Scheme)) {
  return is_such(push.scheme()) ||
         (is_auto(push) && std::ranges::any_of(push.allow(), [&](int one) {
            return is_such(static_cast<PushCompression::Scheme>(one));
          }));
}

bool may_keep(const PushCompression& push) {
  return may_be(push, has_feedback);
}

constexpr const char* kPush = "push";
constexpr const char* kPull = "pull";

Misfit misfit(const char* list, int index, const char* field, const std::string& what) {
  return {list, index, field, fmt::format("compression.{}[{}].{}: {}", list, index, field, what)};
}
Misfit misfit(int push, const char* field, const std::string& what) {
  return misfit(kPush, push, field, what);
}

/// A worker and the shards move towards each other by the same difference, each in its own values.
std::optional<Misfit> misfit_with_elastic(const pb::Job& job, const char* list, int index,
                                          const std::string& scheme) {
  if (!job.consistency().has_elastic_averaging()) return std::nullopt;
  return misfit(list, index, "scheme",
                fmt::format("{} cannot be combined with consistency {{ elastic_averaging }}, in "
                            "which workers and servers move by the same difference; omit one",
                            scheme));
}

/// min_values of a list ascend.
template <typename List>
std::optional<Misfit> misfit_of_sizes(const List& list, const char* name) {
  std::uint64_t before = 0;
  for (int i = 0; i < list.size(); ++i) {
    const std::uint64_t values = list.Get(i).min_values();
    if (values < 1) return misfit(name, i, "min_values", "must be at least 1, is 0");
    if (values <= before) {
      return misfit(name, i, "min_values",
                    fmt::format("must be greater than {}, that of the {} before it, is {}", before,
                                name, values));
    }
    before = values;
  }
  return std::nullopt;
}

/// A field of schemes that the push does not have.
Misfit misfit_of_other(const PushCompression& push, int index, const char* field,
                       const char* schemes) {
  return misfit(index, field,
                fmt::format("is for {}, and the scheme is {}; omit it", schemes,
                            PushCompression::Scheme_Name(push.scheme())));
}

std::optional<Misfit> misfit_of_fields(const PushCompression& push, int index) {
  if (push.has_keep() && !may_be(push, is_sparse)) {
    return misfit_of_other(push, index, "keep", "TOP_K, RANDOM_K and DGC");
  }
  if (push.has_warm_up() && push.scheme() != PushCompression::DGC) {
    return misfit_of_other(push, index, "warm_up", "DGC");
  }
  if (push.allow_size() > 0 && !is_auto(push)) return misfit_of_other(push, index, "allow", "AUTO");
  const auto has_rank = [](auto scheme) { return scheme == PushCompression::POWER_SGD; };
  if (push.has_rank() && !may_be(push, has_rank)) {
    return misfit_of_other(push, index, "rank", "POWER_SGD");
  }
  if (!(push.keep() >= kMinKeep && push.keep() <= kMaxKeep)) {
    return misfit(index, "keep",
                  fmt::format("must be from {} to {}, is {}", kMinKeep, kMaxKeep, push.keep()));
  }
  if (push.warm_up() > kMaxWarmUp) {
    return misfit(index, "warm_up",
                  fmt::format("must be at most {}, is {}", kMaxWarmUp, push.warm_up()));
  }
  if (push.rank() < 1 || push.rank() > math::kMaxRank) {
    return misfit(index, "rank",
                  fmt::format("must be from 1 to {}, is {}", math::kMaxRank, push.rank()));
  }
  return std::nullopt;
}

/// Choosing among the allowed schemes must change nothing but the scheme.
std::optional<Misfit> misfit_of_allowed(const PushCompression& push, int index) {
  for (int i = 0; i < push.allow_size(); ++i) {
    const std::string& name = PushCompression::Scheme_Name(push.allow(i));
    if (push.allow(i) == PushCompression::DGC) {
      return misfit(index, "allow",
                    "DGC applies the momentum at the workers, which is no choice between ways to "
                    "send; name it as the scheme, or allow TOP_K");
    }
    if (!has_feedback(push.allow(i))) {
      return misfit(index, "allow",
                    fmt::format("{} {}; it is for ONE_BIT, TOP_K, RANDOM_K and POWER_SGD", name,
                                push.allow(i) == PushCompression::AUTO ? "is not a scheme to choose"
                                                                       : "may be chosen anyway"));
    }
    if (std::find(push.allow().begin(), push.allow().begin() + i, push.allow(i)) !=
        push.allow().begin() + i) {
      return misfit(index, "allow", fmt::format("{} is given twice", name));
    }
  }
  return std::nullopt;
}

/// A choice is made once, in a job whose workers measure.
std::optional<Misfit> misfit_of_choice(const pb::Job& job, const char* list, int index, int size) {
  if (job.external_members()) {
    return misfit(list, index, "scheme",
                  "AUTO is chosen from what workers that train a net measure, which external "
                  "members do not; name a scheme");
  }
  if (size == 1) return std::nullopt;
  return misfit(list, index, "scheme",
                fmt::format("AUTO is chosen for all tables from min_values on, and there are {} "
                            "of {}; give one, or name the schemes",
                            size, list));
}

std::optional<Misfit> misfit_of_pull(const pb::Job& job, int index) {
  const PullCompression& pull = job.compression().pull(index);
  if (pull.scheme() == PullCompression::FLOAT32) return std::nullopt;
  if (pull.scheme() == PullCompression::AUTO) {
    const int size = job.compression().pull_size();
    if (auto found = misfit_of_choice(job, kPull, index, size)) return found;
  }
  const std::string& scheme = PullCompression::Scheme_Name(pull.scheme());
  if (auto found = misfit_with_elastic(job, kPull, index, scheme)) return found;
  if (!job.consistency().has_delay_compensation()) return std::nullopt;
  return misfit(
      kPull, index, "scheme",
      fmt::format("{} cannot be combined with consistency {{ delay_compensation }}, which "
                  "compares what a worker has read with the servers' values; omit one",
                  scheme));
}

/// With DGC workers have a velocity, and the servers have none.
std::optional<Misfit> misfit_of_momentum(const pb::Job& job, int index) {
  const pb::SolverParameter& solver = job.solver_param();
  if (solver.type() != "SGD") {
    return misfit(
        index, "scheme",
        fmt::format("DGC is for solver type SGD, of which workers apply the momentum; the "
                    "type is {}; choose TOP_K",
                    solver.type()));
  }
  if (!(solver.momentum() >= 0 && solver.momentum() < 1)) {
    return misfit(index, "scheme",
                  fmt::format("DGC needs a solver's momentum from 0 up to but not including 1, it "
                              "is {}",
                              solver.momentum()));
  }
  if (!job.consistency().look_ahead()) return std::nullopt;
  return misfit(
      index, "scheme",
      "DGC cannot be combined with consistency { look_ahead }, which follows a velocity of the "
      "servers; omit one, or choose TOP_K");
}

/// A part of an update that arrives later must still count as it would have: with the same weight,
/// and in the same sum.
std::optional<Misfit> misfit_of_feedback(const pb::Job& job, int index, const char* field,
                                         PushCompression::Scheme scheme) {
  if (job.external_members()) {
    return misfit(
        index, field,
        fmt::format("{} keeps what it leaves out of updates in checkpoints, in which external "
                    "members have no part; choose FP16, BF16 or INT8",
                    PushCompression::Scheme_Name(scheme)));
  }
  const pb::SolverParameter& solver = job.solver_param();
  const auto rule = math::rule_of_type(solver.type());
  std::string other;
  if (job.consistency().backup_workers() > 0) {
    other =
        "consistency { backup_workers }, which drops updates, and with them what earlier ones "
        "have left out";
  } else if (job.consistency().has_periodic_averaging()) {
    other =
        "consistency { periodic_averaging }, whose updates start again where the last meeting has "
        "ended";
  } else if (job.consistency().has_delay_compensation()) {
    other =
        "consistency { delay_compensation }, which multiplies values of an update by each "
        "other";
  } else if (solver.clip_gradients() > 0 && !workers_apply_momentum(job)) {
    other =
        "clip_gradients, which scales an update by the norm of its own clock's gradient (with "
        "DGC workers clip)";
  } else if (rule && !math::info_of(*rule).is_linear) {
    other = fmt::format("solver type {}, whose step is not linear in the gradient", solver.type());
  } else {
    return std::nullopt;
  }
  return misfit(
      index, field,
      fmt::format(
          "{} adds what an update leaves out to the next one, which cannot be combined with {}; "
          "omit one, or choose FP16, BF16 or INT8",
          PushCompression::Scheme_Name(scheme), other));
}

}  // namespace

std::optional<Misfit> misfit_of_compression(const pb::Job& job) {
  const pb::Compression& compression = job.compression();
  if (auto found = misfit_of_sizes(compression.push(), kPush)) return found;
  if (auto found = misfit_of_sizes(compression.pull(), kPull)) return found;
  for (int i = 0; i < compression.push_size(); ++i) {
    const PushCompression& push = compression.push(i);
    if (auto found = misfit_of_fields(push, i)) return found;
    if (push.scheme() == PushCompression::FLOAT32) continue;
    const std::string& scheme = PushCompression::Scheme_Name(push.scheme());
    if (auto found = misfit_with_elastic(job, kPush, i, scheme)) return found;
    if (is_auto(push)) {
      if (auto found = misfit_of_choice(job, kPush, i, compression.push_size())) return found;
      if (auto found = misfit_of_allowed(push, i)) return found;
      if (push.allow_size() == 0) continue;
      if (auto found = misfit_of_feedback(job, i, "allow", push.allow(0))) return found;
    }
    if (!has_feedback(push.scheme())) continue;
    if (auto found = misfit_of_feedback(job, i, "scheme", push.scheme())) return found;
    if (push.scheme() != PushCompression::DGC) continue;
    if (auto found = misfit_of_momentum(job, i)) return found;
  }
  for (int i = 0; i < compression.pull_size(); ++i) {
    if (auto found = misfit_of_pull(job, i)) return found;
  }
  return std::nullopt;
}

bool workers_apply_momentum(const pb::Job& job) {
  return std::ranges::any_of(job.compression().push(), [](const PushCompression& push) {
    return push.scheme() == PushCompression::DGC;
  });
}

bool keeps_residuals(const pb::Job& job) {
  return std::ranges::any_of(job.compression().push(), may_keep);
}

bool chooses_compression(const pb::Job& job) {
  const pb::Compression& compression = job.compression();
  return std::ranges::any_of(compression.push(), is_auto) ||
         std::ranges::any_of(compression.pull(), [](const PullCompression& pull) {
           return pull.scheme() == PullCompression::AUTO;
         });
}

std::vector<PushCompression::Scheme> candidates(const PushCompression& push) {
  if (!is_auto(push)) return {push.scheme()};
  std::vector<PushCompression::Scheme> schemes = {PushCompression::FLOAT32, PushCompression::FP16,
                                                  PushCompression::BF16, PushCompression::INT8};
  for (const int allowed : push.allow()) {
    schemes.push_back(static_cast<PushCompression::Scheme>(allowed));
  }
  return schemes;
}

std::vector<PullCompression::Scheme> candidates(const PullCompression& pull) {
  if (pull.scheme() != PullCompression::AUTO) return {pull.scheme()};
  return {PullCompression::FLOAT32, PullCompression::FP16, PullCompression::BF16,
          PullCompression::INT8};
}

PushCompression with_scheme(const PushCompression& push, PushCompression::Scheme scheme) {
  PushCompression chosen = push;
  if (!is_auto(push)) return chosen;
  chosen.set_scheme(scheme);
  chosen.clear_allow();
  if (!is_sparse(scheme)) chosen.clear_keep();
  if (scheme != PushCompression::POWER_SGD) chosen.clear_rank();
  return chosen;
}

PullCompression with_scheme(const PullCompression& pull, PullCompression::Scheme scheme) {
  PullCompression chosen = pull;
  if (pull.scheme() == PullCompression::AUTO) chosen.set_scheme(scheme);
  return chosen;
}

math::Encoding encoding_of(const PushCompression& push) {
  const auto every = static_cast<std::uint32_t>(std::lround(1 / push.keep()));
  switch (push.scheme()) {
    case PushCompression::FP16:
      return {math::Codec::kFloat16};
    case PushCompression::BF16:
      return {math::Codec::kBfloat16};
    case PushCompression::INT8:
      return {math::Codec::kInt8};
    case PushCompression::ONE_BIT:
      return {math::Codec::kOneBit};
    case PushCompression::TOP_K:
    case PushCompression::DGC:
      return {math::Codec::kTopK, every};
    case PushCompression::RANDOM_K:
      return {math::Codec::kRandomK, every};
    case PushCompression::POWER_SGD:
      return {.codec = math::Codec::kLowRank, .rank = push.rank()};
    default:
      return {};
  }
}

math::Encoding encoding_of(const PullCompression& pull) {
  switch (pull.scheme()) {
    case PullCompression::FP16:
      return {math::Codec::kFloat16};
    case PullCompression::BF16:
      return {math::Codec::kBfloat16};
    case PullCompression::INT8:
      return {math::Codec::kInt8};
    default:
      return {};
  }
}

Result<Compression> to_compression(const pb::Job& job) {
  if (const auto found = misfit_of_compression(job)) return invalid(found->what);
  Compression compression;
  if (is_seeded(job)) compression.expect_seeds();
  for (const PushCompression& push : job.compression().push()) {
    compression.add_push(push.min_values(), encoding_of(push), push.warm_up());
  }
  if (workers_apply_momentum(job)) {
    const pb::SolverParameter& solver = job.solver_param();
    compression.correct({solver.momentum(), solver.clip_gradients()});
  }
  for (const PullCompression& pull : job.compression().pull()) {
    compression.add_pull(pull.min_values(), encoding_of(pull));
  }
  return compression;
}

}  // namespace taut
