#include "lab/schedule/policies.hpp"

namespace taut::schedule {
namespace {

constexpr PolicyEntry kPolicies[] = {
    {"fifo", "in the order of submission, one after the other", make_fifo},
    {"backfill", "in that order; later jobs fill gaps if they delay no earlier one", make_backfill},
    {"shortest", "what ends soonest goes first, nothing is stopped", make_shortest},
    {"las", "what has had least goes first, nothing is stopped", make_las},
    {"srtf", "what ends soonest has devices, others are stopped", make_srtf},
    {"srtf-predicted", "the same, by what jobs like it took", make_srtf_predicted},
    {"tiresias", "least attained service in two queues", make_tiresias},
};

}  // namespace

std::span<const PolicyEntry> policies() {
  return kPolicies;
}

std::unique_ptr<Policy> make_policy(std::string_view name) {
  for (const PolicyEntry& entry : kPolicies) {
    if (entry.name == name) return entry.make();
  }
  return nullptr;
}

}  // namespace taut::schedule
