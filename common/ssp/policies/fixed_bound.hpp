#pragma once

#include "common/ssp/staleness_policy.hpp"

namespace taut {

/// Plain SSP: every read has the job's slack.
/// Source    Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter
///           Server", NIPS 2013, section 3
class FixedBound final : public ReadSlack {
 public:
  void set_members(const Membership& /*membership*/) override {}
  void note_push(WorkerId /*worker*/, Clock /*clock*/, TimePoint /*now*/) override {}
  [[nodiscard]] Slack slack_of_read(WorkerId /*worker*/, Clock /*clock*/, Slack set) override {
    return set;
  }
  [[nodiscard]] std::optional<Slack> moving() const override { return std::nullopt; }
};

}  // namespace taut
