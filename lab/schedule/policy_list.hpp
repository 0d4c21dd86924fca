#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "lab/schedule/policy.hpp"

namespace taut::schedule {

struct PolicyEntry {
  std::string_view name;  // as it is typed
  std::string_view about;
  std::unique_ptr<Policy> (*make)();
};

/// Every policy, in the order in which tables list them.
[[nodiscard]] std::span<const PolicyEntry> policies();

/// nullptr if no policy has the name.
[[nodiscard]] std::unique_ptr<Policy> make_policy(std::string_view name);

// Each in its own file, policies/NAME.cpp, with the variants to compare it with.
[[nodiscard]] std::unique_ptr<Policy> make_fifo();
[[nodiscard]] std::unique_ptr<Policy> make_backfill();
[[nodiscard]] std::unique_ptr<Policy> make_shortest();
[[nodiscard]] std::unique_ptr<Policy> make_las();
[[nodiscard]] std::unique_ptr<Policy> make_srtf();
[[nodiscard]] std::unique_ptr<Policy> make_srtf_predicted();
[[nodiscard]] std::unique_ptr<Policy> make_tiresias();
[[nodiscard]] std::unique_ptr<Policy> make_themis();
[[nodiscard]] std::unique_ptr<Policy> make_gandiva();
[[nodiscard]] std::unique_ptr<Policy> make_allox();
[[nodiscard]] std::unique_ptr<Policy> make_gavel();
[[nodiscard]] std::unique_ptr<Policy> make_gavel_blind();
[[nodiscard]] std::unique_ptr<Policy> make_optimus();
[[nodiscard]] std::unique_ptr<Policy> make_lyra();
[[nodiscard]] std::unique_ptr<Policy> make_lyra_own();
[[nodiscard]] std::unique_ptr<Policy> make_muri();
[[nodiscard]] std::unique_ptr<Policy> make_network();
[[nodiscard]] std::unique_ptr<Policy> make_network_blind();

}  // namespace taut::schedule
