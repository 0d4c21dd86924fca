#include <algorithm>
#include <cmath>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/log.hpp"
#include "common/net/faulty_endpoint.hpp"
#include "proto/wire_version.hpp"
#include "tests/support/listed_keys.hpp"
#include "tests/unit/collective/threaded_group.hpp"

using namespace taut;
using namespace taut::collective;
using namespace taut::test;

namespace {

const std::vector<std::string> kNone4(4);

}  // namespace

TEST_CASE("four processes' sums over sockets have the bits of the sums in one thread",
          "[collective][group]") {
  const auto algorithm = GENERATE(from_range(std::begin(kAlgorithms), std::end(kAlgorithms)));
  const bool shares_memory = GENERATE(false, true);
  CAPTURE(to_string(algorithm), shares_memory);
  constexpr std::uint64_t kCounts[] = {0, 1, 3, 5000, 70'001};
  constexpr std::uint64_t kSums = 15;
  ThreadedGroup threads(4);
  std::vector<GroupOptions> options = all_alike(threads, algorithm);
  if (shares_memory) {
    for (GroupOptions& one : options) one.shared_memory = SharedArena::create().value();
  }
  std::vector<std::vector<std::vector<float>>> sums(4);
  std::vector<std::size_t> shared_with(4);
  std::vector<AllReduceGroup::Counts> sent(4);
  const auto errors = threads.run(
      options, [&](std::uint32_t rank, AllReduceGroup& group, BufferPool& pool) -> Result<void> {
        std::vector<Buffer> values;
        std::vector<AllReduceGroup::SumId> begun;
        // Several are under way at once; the memory of the first is used again.
        for (std::uint64_t i = 0; i < kSums; ++i) {
          values.push_back(pool.acquire(kCounts[i % 5] * sizeof(float)));
          fill(values.back(), rank, i);
          TAUT_TRY(const auto sum, group.begin(values.back()));
          begun.push_back(sum);
          if (i % 3 == 2) {
            TAUT_TRY(group.wait(sum));
          }
        }
        for (std::uint64_t i = 0; i < kSums; ++i) {
          TAUT_TRY(group.wait(begun[i]));
          sums[rank].emplace_back(values[i].floats().begin(), values[i].floats().end());
        }
        for (const Buffer& one : values) {
          TAUT_TRY(group.wait_until_free(one));
        }
        fill(values[4], rank, 99);
        TAUT_TRY(group.all_reduce(values[4]));
        sums[rank].emplace_back(values[4].floats().begin(), values[4].floats().end());
        shared_with[rank] = group.shares_memory_with();
        sent[rank] = group.sent();
        return ok();
      });
  CHECK(errors == kNone4);

  std::vector<std::uint32_t> hosts;
  for (const GroupMember& member : threads.members) hosts.push_back(member.host);
  std::vector<AllReduceGroup::Counts> formula(4);
  for (std::uint64_t i = 0; i <= kSums; ++i) {
    const std::uint64_t count = i == kSums ? kCounts[4] : kCounts[i % 5];
    std::vector<std::vector<float>> values;
    BufferPool pool;
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      const Buffer one = pool.acquire(count * sizeof(float));
      fill(one, rank, i == kSums ? 99 : i);
      values.emplace_back(one.floats().begin(), one.floats().end());
      const Cost cost = cost_of(algorithm, {Rank(rank), hosts}, count, 1024);
      formula[rank].messages += cost.messages;
      formula[rank].bytes += cost.bytes;
    }
    ToyGroup alone(algorithm, hosts, 1024, values);
    alone.start();
    alone.run_in_steps();
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      CAPTURE(i, rank);
      REQUIRE(sums[rank].size() == kSums + 1);
      CHECK(std::ranges::equal(sums[rank][i], alone.buffers[0].floats()));
    }
  }
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    CHECK((shared_with[rank] > 0) == shares_memory);
    CHECK(sent[rank].messages == formula[rank].messages);
    CHECK(sent[rank].bytes == formula[rank].bytes);
  }
}

TEST_CASE("ranks with keys sum, and a process under another rank's name is not heard",
          "[collective][group]") {
  const KeyPair cluster = make_key_pair();
  const auto keys = std::make_shared<ListedKeys>();
  std::vector<Security> security;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const KeyPair own = make_key_pair();
    keys->admit(own.public_key, {"worker-" + std::to_string(rank), KeyRole::kServer});
    security.push_back({own, cluster.public_key, cluster.secret_key, keys});
  }
  ThreadedGroup threads(std::move(security));
  const auto sum = [](std::uint32_t, AllReduceGroup& group, BufferPool& pool) -> Result<void> {
    const Buffer values = pool.acquire(40'000);
    std::ranges::fill(values.floats(), 1.5F);
    TAUT_TRY(group.all_reduce(values));
    if (!std::ranges::all_of(values.floats(), [](float one) { return one == 3; })) {
      return invalid("another sum");
    }
    return ok();
  };
  CHECK(threads.run(all_alike(threads, Algorithm::kRing), sum) == std::vector<std::string>(2));

  // The second process says that it is rank 0 of another pair.
  std::vector<GroupOptions> swapped = all_alike(threads, Algorithm::kRing);
  std::swap(threads.members[0].name, threads.members[1].name);
  for (GroupOptions& one : swapped) {
    one.group = 78;
    one.members = threads.members;
  }
  std::vector<std::string> errors(2);
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      AllReduceGroup group(*threads.endpoints[rank], swapped[rank]);
      const auto done = group.connect(std::chrono::milliseconds(500));
      if (!done) errors[rank] = done.error().message;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  CHECK(errors[0].starts_with("rank 1 (worker-0 at " + threads.members[1].address +
                              ") did not answer within 0.5 s: "));
  CHECK(errors[1].starts_with("rank 0 (worker-1 at " + threads.members[0].address +
                              ") did not answer within 0.5 s: "));
}

TEST_CASE("a rank that does not answer is named by all, with what is waited for",
          "[collective][group]") {
  REQUIRE(log::start({.role = "worker", .name = "w0", .file = ""}).has_value());
  ThreadedGroup threads(4);
  std::vector<GroupOptions> options = all_alike(threads, Algorithm::kRing);
  for (GroupOptions& one : options) one.silence_limit = std::chrono::milliseconds(1200);
  const std::uint64_t before = log::position();
  const auto errors = threads.run(
      options, [&](std::uint32_t rank, AllReduceGroup& group, BufferPool& pool) -> Result<void> {
        const Buffer values = pool.acquire(4000);
        fill(values, rank, 0);
        TAUT_TRY(group.all_reduce(values));
        // It ends here, between two sums.
        if (rank == 2) return ok();
        return group.all_reduce(values);
      });
  CHECK(errors[2].empty());
  // The next one in the ring names it; the others are told.
  CHECK(errors[3].starts_with("rank 2 (worker-2 at " + threads.members[2].address +
                              ") has not sent elements [500, 750) as a partial sum of sum 1 for "
                              "1."));
  CHECK(!errors[3].ends_with("does not answer"));
  // Long before that the log names it.
  const std::string text = log::read_from(before, 1U << 18U).text;
  CHECK(text.find(" s for rank 2 (worker-2 at " + threads.members[2].address +
                  "): it computes or hangs") != std::string::npos);
  const std::string told =
      "it waits for rank 2 (worker-2 at " + threads.members[2].address + "), which does not answer";
  for (const std::uint32_t rank : {0U, 1U}) {
    CAPTURE(rank, errors[rank]);
    CHECK(errors[rank].ends_with(told));
  }
}

TEST_CASE("a rank that is reached and does not answer is said to compute", "[collective][group]") {
  ThreadedGroup threads(2);
  AllReduceGroup group(*threads.endpoints[0], threads.options(0));
  const auto done = group.connect(std::chrono::seconds(1));
  REQUIRE(!done.has_value());
  CHECK(group.unreached() == "");
  CHECK(done.error().message ==
        "rank 1 (worker-1 at " + threads.members[1].address +
            ") did not answer within 1.0 s: it is reached, so it computes or hangs");
}

TEST_CASE("a rank that does not answer is named in the log each minute", "[collective][group]") {
  /// Passes two hundred times as fast as the machine's.
  class FasterTime final : public TimeSource {
   public:
    [[nodiscard]] TimePoint now() const override {
      return TimePoint(200 * steady_now().since_origin());
    }
    void sleep(Duration) override {}
  };
  REQUIRE(log::start({.role = "worker", .name = "w0", .file = ""}).has_value());
  FasterTime time;
  ThreadedGroup threads(2);
  GroupOptions options = threads.options(0);
  options.time = &time;
  const std::uint64_t before = log::position();
  AllReduceGroup group(*threads.endpoints[0], options);
  REQUIRE(!group.connect(std::chrono::minutes(5)).has_value());
  const std::string text = log::read_from(before, 1U << 18U).text;
  const std::string line =
      "rank 1 (worker-1 at " + threads.members[1].address + ") has not answered for ";
  std::size_t lines = 0;
  for (std::size_t at = text.find(line); at != std::string::npos; at = text.find(line, at + 1)) {
    ++lines;
  }
  CHECK(lines >= 2);
  CHECK(lines <= 5);
}

TEST_CASE("a rank that does not exist is named when a group connects", "[collective][group]") {
  ThreadedGroup threads(2);
  GroupOptions options = threads.options(0);
  options.members[1].address = "127.0.0.1:1";
  AllReduceGroup group(*threads.endpoints[0], options);
  const auto done = group.connect(std::chrono::milliseconds(200));
  REQUIRE(!done.has_value());
  CHECK(done.error().code == ErrorCode::kTimeout);
  CHECK(done.error().message ==
        "rank 1 (worker-1 at 127.0.0.1:1) did not answer within 0.2 s: each worker must reach the "
        "others at these addresses");
  // What failed stays so.
  CHECK(group.poll().error().message == done.error().message);
  CHECK(group.begin(Buffer()).error().message == done.error().message);
}

TEST_CASE("ranks that are set up differently refuse each other and say how",
          "[collective][group]") {
  ThreadedGroup threads(2);
  std::vector<GroupOptions> options = all_alike(threads, Algorithm::kRing);
  options[1].message = Bytes(8192);
  const auto errors = threads.run(options, [](auto, auto&, auto&) -> Result<void> { return ok(); });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error.find("a group is set up alike at every rank") != std::string::npos);
    CHECK(error.find("RING of 2 ranks, at most 1024 elements in a message, on hosts 0 0") !=
          std::string::npos);
    CHECK(error.find("at most 2048 elements in a message") != std::string::npos);
  }
}

TEST_CASE("ranks that sum values of different sizes get an error that names both",
          "[collective][group]") {
  ThreadedGroup threads(2);
  std::vector<GroupOptions> options = all_alike(threads, Algorithm::kHalving);
  for (GroupOptions& one : options) one.silence_limit = std::chrono::seconds(2);
  const auto errors = threads.run(
      options, [](std::uint32_t rank, AllReduceGroup& group, BufferPool& pool) -> Result<void> {
        const Buffer values = pool.acquire(rank == 0 ? 4000 : 400);
        fill(values, rank, 0);
        return group.all_reduce(values);
      });
  const std::string in_0 = "sums 100 elements and this one 1000";
  const std::string in_1 = "sums 1000 elements and this one 100";
  CAPTURE(errors);
  CHECK((errors[0].find(in_0) != std::string::npos || errors[1].find(in_1) != std::string::npos));
  CHECK((!errors[0].empty() && !errors[1].empty()));
}

TEST_CASE("a lost message is a sum that does not end, and its rank is named",
          "[collective][group]") {
  ThreadedGroup threads(2);
  std::vector<GroupOptions> options = all_alike(threads, Algorithm::kRing);
  for (GroupOptions& one : options) one.silence_limit = std::chrono::milliseconds(800);
  threads.endpoints[1] =
      std::make_unique<FaultyEndpoint>(std::move(threads.endpoints[1]), LinkFaults{.loss = 0.3}, 5);
  const auto errors = threads.run(
      options, [](std::uint32_t rank, AllReduceGroup& group, BufferPool& pool) -> Result<void> {
        const Buffer values = pool.acquire(1UL << 20U);
        fill(values, rank, 0);
        return group.all_reduce(values);
      });
  CHECK(errors[0].starts_with("rank 1 (worker-1"));
  CHECK(errors[1].starts_with("rank 0 (worker-0"));
}

TEST_CASE("what is under way to a rank that does not read is limited", "[collective][group]") {
  ThreadedGroup threads(2);
  std::vector<GroupOptions> options = all_alike(threads, Algorithm::kRing);
  for (GroupOptions& one : options) one.window = Bytes(40'000);
  std::promise<void> over;  // rank 1 stops reading
  const auto errors = threads.run(
      options, [&](std::uint32_t rank, AllReduceGroup& group, BufferPool& pool) -> Result<void> {
        if (rank == 1) {
          over.set_value();
          return ok();
        }
        over.get_future().wait();
        const Buffer values = pool.acquire(1UL << 20U);
        fill(values, rank, 0);
        TAUT_TRY(group.begin(values));
        return group.poll();
      });
  CHECK(errors == std::vector<std::string>(2));
  std::uint64_t bytes = 0;
  while (const auto incoming = threads.endpoints[1]->receive(std::chrono::milliseconds(200))) {
    const auto message = decode_peer(incoming->message);
    REQUIRE(message.has_value());
    if (const auto* chunk = std::get_if<SumChunk>(&message.value().body)) {
      bytes += chunk->payload.size();
    }
  }
  CHECK(bytes == 9 * 4096);
}

TEST_CASE("bytes that are no message of a rank are dropped, and a stranger's rank is none",
          "[collective][group]") {
  ThreadedGroup threads(2);
  ZmqContext context{Security::insecure()};
  const std::unique_ptr<Endpoint> stranger = context.make_endpoint();
  const PeerId to = stranger->connect(threads.members[0].address).value();
  const auto send = [&](Message message) {
    const Result<void> sent = stranger->send(to, std::move(message));
    REQUIRE(sent);
  };
  send({{Frame::copy_of("garbage")}});
  std::string prefix;
  append_prefix(Plane::kPeers, prefix);
  send({{Frame::copy_of(prefix + "\xff\xff\xff")}});
  send({{Frame::copy_of(prefix), Frame::copy_of("payload")}});
  SumChunk chunk{.sum = 0,
                 .is_final = false,
                 .total = 10,
                 .offset = 0,
                 .count = 5,
                 .payload = Frame::copy_of(std::string(20, 'x'))};
  send(encode({.group = 1, .rank = 1, .body = chunk}));   // of another group
  send(encode({.group = 77, .rank = 9, .body = chunk}));  // a rank that does not exist
  Message shorter = encode({.group = 77, .rank = 1, .body = chunk});
  shorter.frames[1] = shorter.frames[1].part(0, 19);
  send(shorter);
  pb::PeerWaits waits;
  waits.set_rank(1000);
  send(encode({.group = 77, .rank = 1, .body = waits}));

  const auto errors =
      threads.run(all_alike(threads, Algorithm::kRing),
                  [](std::uint32_t, AllReduceGroup& group, BufferPool& pool) -> Result<void> {
                    const Buffer values = pool.acquire(4000);
                    std::ranges::fill(values.floats(), 2.0F);
                    TAUT_TRY(group.all_reduce(values));
                    return values.floats()[0] == 4 ? Result<void>(ok()) : invalid("another sum");
                  });
  CHECK(errors == std::vector<std::string>(2));
}
