#include "lab/training/topology.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "proto/config/lab/lab_cluster.hpp"
#include "tests/support/catch.hpp"

using Catch::Matchers::Contains;

namespace taut::lab {
namespace {

constexpr TimePoint kStart;
// A link of 8 Gbit/s carries 1000 bytes in a microsecond.
constexpr const char* kStar =
    "host { name: \"s\" workers: 0 servers: 1 link: \"card\" }"
    "host { name: \"w\" count: 4 link: \"card\" }"
    "link { name: \"card\" gbit_per_s: 8 latency_us: 10 }";

std::unique_ptr<Topology> make(const std::string& text, std::uint32_t workers,
                               std::uint64_t seed = 1) {
  auto cluster = parse_lab_cluster(text, "cluster");
  if (!cluster) FAIL(cluster.error().message);
  auto topology = Topology::make(cluster.value(), 1, workers, seed);
  if (!topology) FAIL(topology.error().message);
  return std::move(topology.value());
}

std::int64_t us(TimePoint time) {
  return time.since_origin().count();
}

}  // namespace

TEST_CASE("hosts cost what they do while a process runs on them", "[lab]") {
  const auto cluster = parse_lab_cluster(
      "host { name: \"s\" count: 2 workers: 0 servers: 1 link: \"card\" price_per_hour: 0.5 }"
      "host { name: \"w\" count: 4 workers: 2 link: \"card\" price_per_hour: 3 }"
      "link { name: \"card\" gbit_per_s: 8 }",
      "cluster");
  REQUIRE(cluster.has_value());
  const auto price = [&](std::uint32_t servers, std::uint32_t workers) {
    return Topology::make(cluster.value(), servers, workers, 1).value()->price_per_hour();
  };
  CHECK(price(1, 1) == Approx(3.5));
  CHECK(price(2, 4) == Approx(13));
  // Two of them on each host.
  CHECK(price(1, 8) == Approx(12.5));
}

TEST_CASE("a message takes its bytes once and the latency of each card", "[lab]") {
  const auto star = make(kStar, 4);
  CHECK(us(star->arrival(star->worker_node(0), star->server_node(0), 100'000, kStart)) == 120);
}

TEST_CASE("workers that send to one server at once share its card", "[lab]") {
  const auto star = make(kStar, 4);
  std::int64_t last = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    last = us(star->arrival(star->worker_node(i), star->server_node(0), 100'000, kStart));
  }
  CHECK(last == 4 * 100 + 20);
}

TEST_CASE("workers that send at once share the server's card as the cluster's file says", "[lab]") {
  struct Sharing {
    const char* text;
    std::vector<std::int64_t> arrivals;
  };
  // Whole messages one after the other, or all four at a quarter of the speed.
  const Sharing sharing =
      GENERATE(Sharing{" sharing: MESSAGES", {120, 220, 320, 420}},
               Sharing{" sharing: FAIR", {420, 420, 420, 420}}, Sharing{"", {120, 220, 320, 420}});
  const auto star = make(std::string(kStar) + sharing.text, 4);
  sim::Network network(*star);
  const sim::SocketId server = network.open(star->server_node(0));
  network.listen(server, "server");
  for (std::uint32_t i = 0; i < 4; ++i) {
    const sim::SocketId worker = network.open(star->worker_node(i));
    const PeerId peer = network.connect(worker, "server");
    Message message;
    message.frames.push_back(Frame::copy_of(std::string(100'000, 'x')));
    network.send(worker, peer, std::move(message));
  }
  std::vector<std::int64_t> arrivals;
  while (network.next_due() != TimePoint::never()) {
    if (network.take_next()) arrivals.push_back(us(network.now()));
  }
  CHECK(arrivals == sharing.arrivals);
  for (const Pipe& pipe : star->pipes()) {
    if (pipe.name == "s in") CHECK(pipe.bytes == 400'000);
  }
}

TEST_CASE("a message that waits for its sender's card does not hold the receiver's", "[lab]") {
  const auto star = make(kStar, 4);
  sim::Network network(*star);
  const auto listen = [&](sim::NodeId node, const char* name) {
    network.listen(network.open(node), name);
  };
  listen(star->server_node(0), "server");
  listen(star->worker_node(2), "worker");
  const auto send = [&](sim::SocketId from, const char* to, std::size_t bytes) {
    Message message;
    message.frames.push_back(Frame::copy_of(std::string(bytes, 'x')));
    network.send(from, network.connect(from, to), std::move(message));
  };
  // The first worker's second message is on its card from 1000 us on; another worker's gets to the
  // server's before that, although it is sent after it.
  const sim::SocketId first = network.open(star->worker_node(0));
  send(first, "worker", 1'000'000);
  send(first, "server", 100'000);
  send(network.open(star->worker_node(1)), "server", 100'000);
  std::vector<std::int64_t> arrivals;
  while (network.next_due() != TimePoint::never()) {
    if (network.take_next()) arrivals.push_back(us(network.now()));
  }
  CHECK(arrivals == std::vector<std::int64_t>{120, 1020, 1120});
}

TEST_CASE("the two directions of a card do not share", "[lab]") {
  const auto star = make(kStar, 4);
  CHECK(us(star->arrival(star->worker_node(0), star->server_node(0), 100'000, kStart)) == 120);
  CHECK(us(star->arrival(star->server_node(0), star->worker_node(0), 100'000, kStart)) == 120);
}

TEST_CASE("processes of one host use its loopback alone", "[lab]") {
  const auto one = make(
      "host { name: \"h\" workers: 4 servers: 1 loopback: \"lo\" }"
      "link { name: \"lo\" gbit_per_s: 80 latency_us: 5 }",
      4);
  CHECK(us(one->arrival(one->worker_node(3), one->server_node(0), 100'000, kStart)) == 15);
}

TEST_CASE("workers on a host's devices share its card, and reach its server without it", "[lab]") {
  const auto islands = make(
      "host { name: \"h\" count: 2 workers: 4 servers: 1 devices: 4 island: \"fast\" link: "
      "\"card\" }"
      "link { name: \"card\" gbit_per_s: 8 latency_us: 10 }"
      "link { name: \"fast\" gbit_per_s: 80 latency_us: 1 }",
      8);
  const auto send = [&](std::uint32_t worker) {
    return us(
        islands->arrival(islands->worker_node(worker), islands->server_node(0), 100'000, kStart));
  };
  // On the server's host each device has its own way, and on the other one all share the card.
  for (const std::uint32_t near : {0U, 2U, 4U, 6U}) CHECK(send(near) == 11);
  CHECK(send(1) == 1 + 100 + 20);
  CHECK(send(3) == 1 + 200 + 20);
  CHECK(send(5) == 1 + 300 + 20);
  // And back: the card of the server's host has carried nothing in that direction yet.
  const auto back =
      islands->arrival(islands->server_node(0), islands->worker_node(7), 100'000, kStart);
  CHECK(us(back) == 100 + 20 + 1);
  CHECK(islands->device_of(islands->worker_node(0)) != islands->device_of(islands->worker_node(2)));
  CHECK_FALSE(islands->device_of(islands->server_node(0)).has_value());
}

TEST_CASE("more workers than a host has devices have them in turn", "[lab]") {
  const auto one = make("host { name: \"h\" workers: 5 servers: 1 devices: 2 }", 5);
  std::map<std::size_t, int> workers;
  for (std::uint32_t i = 0; i < 5; ++i) ++workers[one->device_of(one->worker_node(i)).value()];
  CHECK(workers == std::map<std::size_t, int>{{0, 3}, {1, 2}});
}

TEST_CASE("an oversubscribed rack is slower than its hosts' cards together", "[lab]") {
  const std::string racks =
      "host { name: \"s\" workers: 0 servers: 1 link: \"fat\" }"
      "host { name: \"w\" count: 4 link: \"card\" rack: \"r\" }"
      "rack { name: \"r\" oversubscription: 4 }"
      "link { name: \"card\" gbit_per_s: 8 latency_us: 0 }"
      "link { name: \"fat\" gbit_per_s: 800 latency_us: 0 }";
  const auto cluster = make(racks, 4);
  std::int64_t last = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    last = us(cluster->arrival(cluster->worker_node(i), cluster->server_node(0), 100'000, kStart));
  }
  // Four cards of 8 Gbit/s behind one of 8: 400 us, and what the server's card takes of the last.
  CHECK(last == 400);
}

TEST_CASE("jitter is drawn from the seed", "[lab]") {
  const std::string text = std::string(kStar) + "host { name: \"x\" link: \"wild\" }" +
                           "link { name: \"wild\" gbit_per_s: 8 latency_us: 0 jitter_us: 1000 }";
  const auto first = make(text, 5, 1);
  const auto again = make(text, 5, 1);
  const auto other = make(text, 5, 2);
  const auto arrival = [](Topology& one) {
    return us(one.arrival(one.worker_node(4), one.server_node(0), 1000, kStart));
  };
  const std::int64_t at = arrival(*first);
  CHECK(at >= 11);
  CHECK(at <= 1012);
  CHECK(arrival(*again) == at);
  CHECK(arrival(*other) != at);
}

TEST_CASE("processes are spread over the hosts that have places", "[lab]") {
  const auto two = make(
      "host { name: \"h\" count: 2 workers: 2 servers: 1 link: \"card\" }"
      "link { name: \"card\" gbit_per_s: 8 }",
      3);
  CHECK(two->host_of(two->worker_node(0)) == 0);
  CHECK(two->host_of(two->worker_node(1)) == 1);
  CHECK(two->host_of(two->worker_node(2)) == 0);
}

TEST_CASE("more workers than the hosts have places for are refused", "[lab]") {
  auto cluster = parse_lab_cluster(kStar, "cluster");
  REQUIRE(cluster.has_value());
  const auto topology = Topology::make(cluster.value(), 1, 5, 1);
  REQUIRE_FALSE(topology.has_value());
  CHECK_THAT(topology.error().message, Contains("places for 4 workers, 5 are requested"));
}

TEST_CASE("lost packets delay a message by a round trip, or by a timeout at its end", "[lab]") {
  constexpr int kMessages = 4000;
  const std::string text =
      "host { name: \"s\" workers: 0 servers: 1 link: \"good\" } host { name: \"w\" link: \"bad\" }"
      "link { name: \"good\" gbit_per_s: 8 latency_us: 10 }"
      "link { name: \"bad\" gbit_per_s: 8 latency_us: 10 loss: 0.001 }";
  const auto delays_of = [&](std::uint64_t bytes) {
    const auto lossy = make(text, 1);
    std::map<std::int64_t, int> delays;
    for (int i = 0; i < kMessages; ++i) {
      const TimePoint now = kStart + Duration(std::int64_t{i} * 1'000'000);
      const TimePoint at = lossy->arrival(lossy->worker_node(0), lossy->server_node(0), bytes, now);
      ++delays[(at - now).count()];
    }
    return delays;
  };
  // A packet in a thousand, and 20 us of a way of two links.
  auto small = delays_of(1000);
  CHECK(small.size() == 2);
  CHECK(small[200'021] > 0);
  CHECK(small[200'021] < kMessages / 300);
  auto large = delays_of(1'448'000);
  CHECK(large.size() == 3);
  CHECK(large[201'468] < kMessages / 100);
  // 1 - 0.999^1000 of the messages lose one.
  CHECK(large[1508] / double{kMessages} == Approx(0.63).margin(0.03));
}

}  // namespace taut::lab
