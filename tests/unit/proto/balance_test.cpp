#include <string>
#include <utility>

#include "proto/config/job_misfit.hpp"
#include "proto/config/settle_balance.hpp"
#include "proto/config/text.hpp"
#include "proto/session/share_orders.hpp"
#include "tests/support/catch.hpp"

namespace taut {
namespace {

using Catch::Matchers::StartsWith;

pb::Job balanced_job(const std::string& text) {
  pb::Job job;
  REQUIRE(parse_text(text, "job", job).has_value());
  return job;
}

/// What is wrong with a job's text.
std::string place_of(const std::string& text) {
  const auto checked = check_places(balanced_job(text), text, "job");
  return checked ? std::string() : checked.error().message;
}

constexpr const char* kNet = R"(
workers: 2 balance: true
solver_param { type: "SGD" }
net_param {
  name: "n"
  layer { name: "d" type: "Data" top: "x" data_param { batch_size: 8 } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "x" }
})";

/// The state of a worker of a job that balances.
pb::WorkerJob state_of(std::uint64_t revision, std::int64_t hold = 0) {
  pb::WorkerJob state;
  *state.mutable_definition() = balanced_job(kNet);
  state.set_slot(1);
  state.set_slots(2);
  state.set_revision(revision);
  state.set_hold_from(hold);
  return state;
}

void add_shares(pb::WorkerJob& state, std::int64_t first, std::uint32_t a, std::uint32_t b) {
  pb::BatchShares& shares = *state.add_shares();
  shares.set_first_clock(first);
  shares.add_records(a);
  shares.add_records(b);
}

}  // namespace

TEST_CASE("what cannot be combined with balance is named with its place", "[balance]") {
  CHECK(place_of("workers: 2\nbalance: true").empty());
  CHECK(place_of("name: \"n\"\nbalance: true") ==
        "job:2:1: balance: the job must say how many workers share the batch; give workers");
  const std::string two = "workers: 2\n  balance: true\n";
  CHECK_THAT(place_of(two + "external_members: true"),
             StartsWith("job:2:3: balance: the members are programs"));
  const std::pair<const char*, const char*> policies[] = {
      {"mode: BSP backup_workers: 1", "backup_workers"},
      {"mode: BSP periodic_averaging {}", "periodic_averaging }"},
      {"elastic_averaging {}", "elastic_averaging }"},
      {"delay_compensation {}", "delay_compensation }"},
      {"look_ahead: true", "look_ahead }"}};
  for (const auto& [consistency, named] : policies) {
    CHECK_THAT(place_of(two + "consistency { " + consistency + " }"),
               StartsWith(std::string("job:2:3: balance: cannot be combined with consistency { ") +
                          named));
  }
  CHECK_THAT(place_of(two + "compression { push { scheme: FP16 } }"),
             StartsWith("job:2:3: balance: cannot be combined with compression { push }"));
  CHECK(place_of(two + "solver_param { type: \"Adam\" }") ==
        "job:2:3: balance: solver type Adam makes a step of each update in mode SSP, whatever its "
        "share; choose mode: BSP, or type SGD or Nesterov");
  CHECK(place_of(two + "solver_param { type: \"Adam\" } consistency { mode: BSP }").empty());
}

TEST_CASE("a net whose batch cannot be divided is refused", "[balance]") {
  CHECK(check_balance(balanced_job(kNet)).has_value());
  pb::Job job = balanced_job(kNet);
  job.set_global_batch(true);
  job.set_workers(3);
  CHECK(check_balance(job).error().message ==
        "balance: a batch of 8 cannot be divided into 3 shares");
  job = balanced_job(kNet);
  job.mutable_net_param()->mutable_layer(1)->mutable_loss_param()->set_normalization(
      pb::LossParameter::NONE);
  CHECK_THAT(check_balance(job).error().message,
             StartsWith("balance: layer \"loss\" adds losses up"));
  job = balanced_job(kNet);
  pb::LayerParameter& recurrent = *job.mutable_net_param()->mutable_layer(1);
  recurrent.set_type("LSTM");
  CHECK(check_balance(job).has_value());
  recurrent.add_bottom("cont");
  CHECK_THAT(check_balance(job).error().message,
             StartsWith("balance: layer \"loss\" carries state"));
  recurrent.mutable_recurrent_param()->set_carry_state(false);
  CHECK(check_balance(job).has_value());
  job = balanced_job(kNet);
  pb::LayerParameter& sum = *job.mutable_net_param()->mutable_layer(1);
  sum.set_type("Reduction");
  CHECK(check_balance(job).has_value());
  sum.add_loss_weight(0.5F);
  CHECK_THAT(check_balance(job).error().message,
             StartsWith("balance: layer \"loss\" is a loss that adds records up (operation: SUM)"));
  sum.mutable_reduction_param()->set_operation(pb::ReductionParameter::MEAN);
  CHECK(check_balance(job).has_value());
  job.mutable_net_param()->clear_layer();
  CHECK(check_balance(job).error().message ==
        "balance: no data layer of net \"n\" gives a batch_size");
}

TEST_CASE("a clock that is held is begun under a later state, and an older one takes nothing back",
          "[balance]") {
  ShareOrders orders;
  pb::Progress progress;
  orders.report(progress);
  CHECK(progress.begun() == 0);
  orders.take(state_of(1));
  CHECK(orders.begin(Clock(0)).value() == BatchShares::Part{8, 8, 16});
  orders.take(state_of(2, 3));
  CHECK(orders.begin(Clock(2)).value().has_value());
  CHECK_FALSE(orders.begin(Clock(3)).value().has_value());
  CHECK_FALSE(orders.begin(Clock(4)).value().has_value());
  orders.report(progress);
  CHECK(progress.begun() == 3);
  pb::WorkerJob changed = state_of(3);
  add_shares(changed, 3, 12, 4);
  orders.take(changed);
  orders.take(state_of(2, 3));
  CHECK(orders.begin(Clock(3)).value() == BatchShares::Part{4, 12, 16});
  CHECK(orders.weight(Clock(2)) == 1.0F);
  CHECK(orders.weight(Clock(3)) == 0.5F);
  orders.report(progress);
  CHECK(progress.begun() == 4);
  CHECK(progress.share() == 4);
}

TEST_CASE("shares from a message that are no batch end the run and not the process", "[balance]") {
  ShareOrders orders;
  pb::WorkerJob state = state_of(1);
  add_shares(state, 3, 12, 5);
  orders.take(state);
  CHECK(orders.begin(Clock(0)).error().message ==
        "balance: the shares have 17 records in total, a batch has 16");
  pb::Progress progress;
  orders.report(progress);
  CHECK(progress.share() == 0);
}

}  // namespace taut
