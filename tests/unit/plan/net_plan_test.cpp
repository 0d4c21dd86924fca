#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/unit/plan/net_traces.hpp"
#include "tests/unit/plan/plan_player.hpp"
#include "tests/unit/plan/random_trace.hpp"
#include "worker/engine/plan/memory_plan.hpp"

namespace taut {
namespace {

constexpr double kMebi = 1024.0 * 1024.0;
double mebi(Bytes bytes) {
  return static_cast<double>(bytes.value()) / kMebi;
}

PlanOptions options_for(std::uint64_t budget, std::size_t lookahead) {
  PlanOptions options;
  options.budget = Bytes(budget);
  options.lookahead = lookahead;
  return options;
}

/// Prints one row of the table in docs/MEMORY_PLAN.md and returns the plan's bytes over the bound.
double print_row(const std::string& net, const AccessTrace& trace, const std::string& share,
                 const PlanOptions& options) {
  const std::clock_t start = std::clock();
  const auto plan = plan_memory(trace, options);
  const double took_ms = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  if (!plan) {
    CHECK(options.budget.value() < test::min_budget(trace, options.alignment.value()));
    std::printf("| %s | %s = %.1f | refused: %s |\n", net.c_str(), share.c_str(),
                mebi(options.budget), plan.error().message.c_str());
    return 1;
  }
  const MemoryPlan& found = plan.value();
  CHECK(test::check_addresses(trace, found, options) == "");
  const Bytes bound = transfer_lower_bound(trace, options).value();
  CHECK(bound <= found.moved_bytes());
  const double ratio = bound.value() == 0 ? 1 : mebi(found.moved_bytes()) / mebi(bound);
  std::printf("| %s | %s = %.1f | %zu | %.1f | %.1f | %.3f | %.1f | %zu / %zu | %.1f | %.1f |\n",
              net.c_str(), share.c_str(), mebi(options.budget), options.lookahead,
              mebi(found.moved_bytes()), mebi(bound), ratio, mebi(found.arena_bytes),
              found.hidden_copies, found.exposed_copies, mebi(found.packing_bytes), took_ms);
  return ratio;
}

/// All rows of a net; returns the largest ratio to the bound without lookahead.
double print_net(const std::string& net, const AccessTrace& trace) {
  const std::uint64_t need = total_bytes(trace).value();
  const std::uint64_t least = test::min_budget(trace, PlanOptions{}.alignment.value());
  const MemoryPlan whole = plan_memory(trace, options_for(4 * need, 0)).value();
  CHECK(whole.moved_bytes().value() == 0);
  std::printf(
      "\n%s: %zu steps, need %.1f MiB, sharing memory %.1f (live at once %.1f), no budget "
      "below %.1f\n",
      net.c_str(), trace.steps.size(), mebi(Bytes(need)), mebi(whole.arena_bytes),
      mebi(whole.peak_bytes), mebi(Bytes(least)));
  std::printf(
      "| net | budget, MiB | lookahead | moved, MiB | bound, MiB | ratio | arena, MiB | "
      "hidden / exposed copies | for addresses | ms |\n");
  double worst = 1;
  for (const std::uint64_t share : {2U, 4U, 8U}) {
    const std::string name = "1/" + std::to_string(share);
    worst = std::max(worst, print_row(net, trace, name, options_for(need / share, 0)));
    if (need / share >= least) print_row(net, trace, name, options_for(need / share, 1));
  }
  worst = std::max(worst, print_row(net, trace, "least", options_for(least, 0)));
  print_row(net, trace, "least", options_for(least, 1));
  return worst;
}

TEST_CASE("plans of real nets stay near the lower bound", "[memory_plan]") {
  CHECK(print_net("AlexNet b256", test::alexnet_trace(256)) < 1.25);
  CHECK(print_net("VGG-16 b64", test::vgg16_trace(64)) < 1.25);
  CHECK(print_net("LSTM 512x192 b64", test::lstm_trace(64, 512, 192)) < 1.25);
}

TEST_CASE("a small VGG-16 and LSTM within their smallest budgets lose no values", "[memory_plan]") {
  for (AccessTrace trace : {test::vgg16_trace(1), test::lstm_trace(4, 16, 40)}) {
    // A cell of the player represents many bytes.
    for (PlanBuffer& buffer : trace.buffers) buffer.bytes = Bytes(buffer.bytes.value() / 4096 + 1);
    PlanOptions options;
    options.alignment = Bytes(1);
    options.budget = Bytes(test::min_budget(trace, 1));
    const MemoryPlan plan = plan_memory(trace, options).value();
    test::PlanPlayer player(trace, plan, 3);
    for (int iteration = 0; iteration < 3; ++iteration) {
      REQUIRE(player.run_iteration() == "");
      REQUIRE(player.check_survivors() == "");
      REQUIRE(player.moved_bytes() == plan.moved_bytes().value());
    }
  }
}

}  // namespace
}  // namespace taut
