#include "cli/playback/playback_json.hpp"

#include <nlohmann/json.hpp>

#include "proto/config/lab/lab_cluster.hpp"
#include "tests/support/catch.hpp"

namespace taut::cli {

TEST_CASE("a playback tells a rack's link from the card of a host of the same name", "[lab]") {
  const auto cluster = parse_lab_cluster(
      "host { name: 's' workers: 0 servers: 1 link: 'card' }"
      "host { name: 'w' link: 'card' rack: 'r' }"
      "host { name: 'r' workers: 0 link: 'card' rack: 'r' }"
      "rack { name: 'r' link: 'up' }"
      "link { name: 'card' gbit_per_s: 8 latency_us: 0 }"
      "link { name: 'up' gbit_per_s: 4 latency_us: 0 }",
      "cluster");
  REQUIRE(cluster.has_value());
  const auto topology = lab::Topology::make(cluster.value(), 1, 1, 1).value();
  lab::Playback playback;
  playback.open(*topology, 1, 1, 1);
  topology->on_pass([&](const lab::Topology::Passage& passage) { playback.pass(passage); });
  (void)topology->arrival(topology->worker_node(0), topology->server_node(0), 100'000, TimePoint());
  lab::TrainingOutcome outcome;
  outcome.virtual_s = 1e-3;
  for (std::size_t i = 0; i < topology->pipes().size(); ++i) {
    const lab::Pipe& pipe = topology->pipes()[i];
    if (pipe.messages > 0) outcome.links.push_back({i, pipe.name, pipe.bytes, pipe.messages, 0.2});
  }
  const auto whole = nlohmann::json::parse(playback_json({}, outcome, playback, {}));
  const auto& links = whole.at("links");
  REQUIRE(links.size() == 3);
  CHECK(links[0].at("name") == "s in");
  CHECK(links[1].at("name") == "w out");
  // The card of the host "r" has carried nothing.
  CHECK(links[2].at("name") == "rack r out");
  CHECK(links[2].at("gbit_per_s") == 4);
  CHECK(links[2].at("bytes") == 100'000);
  // 200 us of it, in bins of 100 us.
  CHECK(links[2].at("load") == nlohmann::json({1000, 1000, 0, 0, 0, 0, 0, 0, 0, 0}));
}

}  // namespace taut::cli
