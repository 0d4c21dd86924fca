#include "proto/config/settle_compression.hpp"

#include <fmt/format.h>

namespace taut {
namespace {

using pb::PushCompression;

math::Codec codec_of(PushCompression::Scheme scheme) {
  switch (scheme) {
    case PushCompression::FP16:
      return math::Codec::kFloat16;
    case PushCompression::BF16:
      return math::Codec::kBfloat16;
    case PushCompression::INT8:
      return math::Codec::kInt8;
    default:
      return math::Codec::kFloat32;
  }
}

Misfit misfit(int push, const char* field, const std::string& what) {
  return {push, field, fmt::format("compression.push[{}].{}: {}", push, field, what)};
}

/// Workers that average send differences of parameters.
std::optional<Misfit> misfit_with_averaging(const pb::Job& job, int index) {
  const pb::Consistency& consistency = job.consistency();
  const char* averaging = consistency.has_periodic_averaging()  ? "periodic_averaging"
                          : consistency.has_elastic_averaging() ? "elastic_averaging"
                                                                : nullptr;
  if (averaging == nullptr) return std::nullopt;
  return misfit(
      index, "scheme",
      fmt::format("{} does not go with consistency {{ {} }}, whose workers send differences of "
                  "parameters and no gradients; omit one",
                  PushCompression::Scheme_Name(job.compression().push(index).scheme()), averaging));
}

}  // namespace

std::optional<Misfit> misfit_of_compression(const pb::Job& job) {
  std::uint64_t before = 0;
  for (int i = 0; i < job.compression().push_size(); ++i) {
    const PushCompression& push = job.compression().push(i);
    if (push.min_values() < 1) {
      return misfit(i, "min_values", "must be at least 1, is 0");
    }
    if (push.min_values() <= before) {
      return misfit(i, "min_values",
                    fmt::format("must be greater than {}, that of the push before it, is {}",
                                before, push.min_values()));
    }
    before = push.min_values();
    if (push.scheme() == PushCompression::FLOAT32) continue;
    if (auto found = misfit_with_averaging(job, i)) return found;
  }
  return std::nullopt;
}

Result<Compression> to_compression(const pb::Job& job) {
  if (const auto found = misfit_of_compression(job)) return invalid(found->what);
  Compression compression;
  for (const PushCompression& push : job.compression().push()) {
    compression.add(push.min_values(), {codec_of(push.scheme())});
  }
  return compression;
}

}  // namespace taut
