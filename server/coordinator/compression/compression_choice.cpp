#include "server/coordinator/compression/compression_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/config/settle_compression.hpp"
#include "proto/config/settle_policies.hpp"
#include "server/coordinator/compression/scheme_choice.hpp"

namespace taut {
namespace {

void make_choice(pb::StoredJob& job, pb::CompressionChoice choice) {
  *job.mutable_definition()->mutable_compression() = choice.compression();
  *job.mutable_compression() = std::move(choice);
}

/// Clocks from one push to the next.
std::uint32_t interval_of(const pb::Job& definition) {
  const auto& consistency = definition.consistency();
  return consistency.has_periodic_averaging()
             ? static_cast<std::uint32_t>(consistency.periodic_averaging().interval())
             : 1;
}

}  // namespace

void advance_compression(JobRecord& job, Notes& notes) {
  const pb::StoredJob& stored = job.stored();
  if (!chooses_compression(stored.definition())) return;
  SchemeQuestion question;
  for (const pb::StoredMember& member : stored.members()) {
    if (!job.works(member)) continue;
    if (!member.progress().has_measured()) return;
    question.workers.push_back(member.progress().measured());
  }
  if (question.workers.empty()) return;
  question.compression = stored.definition().compression();
  question.clocks = interval_of(stored.definition());
  const int hosts = std::max(stored.shards_size(), 1);
  question.shards = static_cast<std::uint32_t>(hosts);
  make_choice(job.change(), choose_schemes(question));
  job.revise();
  for (int i = 0; i < stored.members_size(); ++i) {
    if (!job.works(stored.members(i))) continue;
    // Its servers must know how its updates are encoded.
    job.change().mutable_members(i)->set_since(stored.revision());
    job.revise_worker(i);
  }
  notes.add(JobId(stored.job()),
            fmt::format("compression AUTO is {}", stored.compression().text()));
}

void keep_compression(pb::StoredJob& job) {
  if (!chooses_compression(job.definition()) || !job.resume().has_compression()) return;
  auto kept = keep_schemes(job.definition().compression(), job.resume().compression());
  if (kept) make_choice(job, std::move(*kept));
}

}  // namespace taut
