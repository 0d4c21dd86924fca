// Readers that follow a job.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "worker/follower/follower.hpp"
#include "worker/library/guarded.hpp"
#include "worker/library/library_keys.hpp"

struct tautline_follower {
  std::unique_ptr<taut::Follower> follower;
};

struct tautline_model {
  std::shared_ptr<const taut::Model> model;
};

using namespace taut;           // NOLINT(google-build-using-namespace): what follows is C
using namespace taut::library;  // NOLINT(google-build-using-namespace)

namespace {

// The size in a program that was built with the first version of the structure.
constexpr std::size_t kFirstSize = offsetof(tautline_follow_options, relay);

bool has_text(const char* text) {
  return text != nullptr && *text != '\0';
}

/// A bounded follower needs a worker's key; one that relays models a server's, since it listens.
Result<Security> follower_keys(const char* keys, const FollowerOptions& options) {
  if (options.bounded) {
    TAUT_TRY(Security security, member_keys(keys, options.name));
    if (options.relay.empty()) return security;
  }
  return options.relay.empty() ? user_keys(keys) : relay_keys(keys, options.name);
}

}  // namespace

tautline_code tautline_follow(const char* address, const char* keys, uint64_t job,
                              const tautline_follow_options* options,
                              tautline_follower** follower) {
  return guarded([&]() -> Result<void> {
    if (address == nullptr || follower == nullptr) return invalid("an argument is NULL");
    if (job == 0) return invalid("job 0 does not exist; jobs are counted from 1");
    if (options != nullptr && options->size < kFirstSize) {
      return invalid(
          fmt::format("the options of a follower have size {}; it must be sizeof of "
                      "their structure, {}",
                      options->size, sizeof(tautline_follow_options)));
    }
    prepare_process();
    FollowerOptions follower_options;
    follower_options.coordinator = address;
    follower_options.job = JobId(job);
    const bool has_name = options != nullptr && has_text(options->name);
    follower_options.name = has_name ? options->name : default_name();
    follower_options.bounded = options != nullptr && options->bounded != 0;
    const bool has_relay = options != nullptr && options->size > kFirstSize;
    if (has_relay && has_text(options->relay)) follower_options.relay = options->relay;
    TAUT_TRY(follower_options.security, follower_keys(keys, follower_options));
    auto opened = std::make_unique<tautline_follower>();
    TAUT_TRY(opened->follower, Follower::open(follower_options));
    *follower = opened.release();
    return ok();
  });
}

tautline_code tautline_follow_pull(tautline_follower* follower, int64_t at_least,
                                   int64_t max_behind, double wait_s, tautline_model** model) {
  return guarded_wait([&]() -> Result<bool> {
    if (follower == nullptr || model == nullptr) return invalid("an argument is NULL");
    if (!(wait_s >= 0)) return invalid(fmt::format("a wait of {} s is invalid", wait_s));
    Wish wish{Clock(std::max<std::int64_t>(at_least, 0))};
    if (max_behind >= 0) wish.max_behind = max_behind;
    constexpr double kMaxWait_s = 1e9;
    TAUT_TRY(auto pulled, follower->follower->pull(wish, from_seconds(std::min(wait_s, kMaxWait_s)),
                                                   patience()));
    if (!pulled) return false;
    *model = std::make_unique<tautline_model>(tautline_model{std::move(pulled)}).release();
    return true;
  });
}

tautline_code tautline_follow_traffic(tautline_follower* follower, uint64_t* received,
                                      uint64_t* passed) {
  return guarded([&]() -> Result<void> {
    if (follower == nullptr) return invalid("an argument is NULL");
    const FollowerProtocol::Traffic traffic = follower->follower->traffic();
    if (received != nullptr) *received = traffic.received;
    if (passed != nullptr) *passed = traffic.passed;
    return ok();
  });
}

void tautline_unfollow(tautline_follower* follower) {
  const std::unique_ptr<tautline_follower> owned(follower);
}

int64_t tautline_model_version(const tautline_model* model) {
  return model == nullptr ? -1 : model->model->version.value();
}

tautline_code tautline_model_table(const tautline_model* model, size_t index,
                                   tautline_table_info* info, const float** values,
                                   uint64_t* count) {
  return guarded([&]() -> Result<void> {
    if (model == nullptr) return invalid("an argument is NULL");
    const auto& tables = *model->model->tables;
    if (index >= tables.size()) {
      return make_error(ErrorCode::kNotFound,
                        fmt::format("table {} does not exist; there are {}", index, tables.size()));
    }
    const TableSpec& table = tables[index];
    if (info != nullptr) {
      *info = {table.name.c_str(), table.shape.data(), table.shape.size(),
               table.kind == TableKind::kAveraged ? TAUTLINE_AVERAGED : TAUTLINE_TRAINED};
    }
    if (values != nullptr) *values = model->model->values[index].floats().data();
    if (count != nullptr) *count = table.count();
    return ok();
  });
}

void tautline_model_free(tautline_model* model) {
  const std::unique_ptr<tautline_model> owned(model);
}
