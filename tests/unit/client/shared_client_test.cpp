#include <algorithm>
#include <random>

#include "proto/session/shared_handshake.hpp"
#include "proto/wire_version.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/client/served_job.hpp"

using namespace taut;
using namespace taut::test;

namespace {

constexpr std::uint64_t kSmall = 1500;
constexpr std::uint64_t kLarge = 600'000;  // three slices

std::vector<TableSpec> tables_of_both_sizes() {
  std::vector<TableSpec> tables(2);
  for (std::uint32_t i = 0; i < 2; ++i) {
    tables[i].id = TableId(i);
    tables[i].name = i == 0 ? "small" : "large";
    tables[i].shape = {static_cast<std::int64_t>(i == 0 ? kSmall : kLarge)};
  }
  return tables;
}

std::unique_ptr<Client> client_of(ServedJob& served, std::uint32_t worker, bool shared) {
  ClientOptions options = served.options(WorkerId(worker));
  if (shared) options.shared_memory = SharedArena::create().value();
  return std::make_unique<Client>(served.context.make_endpoint(), options);
}

void push_noise(Client& client, std::uint32_t worker, std::int64_t clock) {
  for (const TableSpec& table : tables_of_both_sizes()) {
    const Buffer gradient = client.gradient_buffer(table.id);
    std::mt19937 random(worker * 1000 + static_cast<std::uint32_t>(clock) * 10 + table.id.value());
    for (float& value : gradient.floats()) value = static_cast<float>(random()) * 1e-9F;
    client.push(table.id, Clock(clock), gradient);
  }
}

/// What a table holds after ten clocks of two workers, who let their updates wait for each other.
std::vector<float> after_ten_clocks(bool first_shares, bool second_shares) {
  ServedJob served(JobMaker(2, Slack(0), 2));
  const auto one = client_of(served, 0, first_shares);
  const auto two = client_of(served, 1, second_shares);
  REQUIRE(one->open(tables_of_both_sizes(), kDeadline).has_value());
  REQUIRE(two->open(tables_of_both_sizes(), kDeadline).has_value());
  std::vector<float> values(kLarge);
  for (std::int64_t clock = 0; clock < 10; clock += 2) {
    // Two clocks of one worker are held back before the other's come.
    push_noise(*one, 0, clock);
    push_noise(*one, 0, clock + 1);
    REQUIRE(one->flush(kDeadline).has_value());
    push_noise(*two, 1, clock);
    push_noise(*two, 1, clock + 1);
    for (Client* client : {one.get(), two.get()}) {
      client->read(TableId(1), Clock(clock + 2), values);
      REQUIRE(client->wait(TableId(1), Clock(clock + 2), kDeadline).has_value());
    }
  }
  return values;
}

}  // namespace

TEST_CASE("through shared memory and through TCP, training ends in the same bits", "[shared]") {
  const auto bytes = after_ten_clocks(false, false);
  CHECK(same_bits(after_ten_clocks(true, true), bytes));
  CHECK(same_bits(after_ten_clocks(true, false), bytes));
}

TEST_CASE("an update that a shard holds back is not overwritten by the next", "[shared]") {
  ServedJob served(JobMaker(2));
  const auto fast = client_of(served, 0, true);
  const auto slow = client_of(served, 1, true);
  REQUIRE(fast->open(tables_of_both_sizes(), kDeadline).has_value());
  REQUIRE(slow->open(tables_of_both_sizes(), kDeadline).has_value());
  const std::byte* place = nullptr;
  {
    const Buffer first = fast->gradient_buffer(TableId(0));
    std::ranges::fill(first.floats(), 1.0F);
    place = first.data();
    fast->push(TableId(0), Clock(0), first);
  }
  REQUIRE(fast->flush(kDeadline).has_value());
  // All was acknowledged, and nothing applied: its memory is still the shard's to read.
  for (int i = 0; i < 4; ++i) {
    const Buffer next = fast->gradient_buffer(TableId(0));
    CHECK(next.data() != place);
    CHECK(next.size() == kSmall * sizeof(float));
  }
  push_noise(*slow, 1, 0);
  std::vector<float> values(kSmall);
  fast->read(TableId(0), Clock(1), values);
  REQUIRE(fast->wait(TableId(0), Clock(1), kDeadline).value().version == Clock(1));
}

TEST_CASE(
    "an update on loan to a shard's last server is not overwritten before the next one answers",
    "[shared]") {
  ServedJob served(JobMaker(2));
  const auto fast = client_of(served, 0, true);
  const auto slow = client_of(served, 1, true);
  REQUIRE(fast->open(tables_of_both_sizes(), kDeadline).has_value());
  REQUIRE(slow->open(tables_of_both_sizes(), kDeadline).has_value());
  const std::byte* place = nullptr;
  {
    const Buffer first = fast->gradient_buffer(TableId(0));
    place = first.data();
    fast->push(TableId(0), Clock(0), first);
  }
  REQUIRE(fast->flush(kDeadline).has_value());
  // The last server may live, as a zombie, and read it.
  fast->move_shards({{ShardId(0), "127.0.0.1:1", 1}});
  std::vector<float> values(kSmall);
  fast->read(TableId(0), Clock(1), values);
  const auto read = fast->wait(TableId(0), Clock(1), Duration(200'000));
  REQUIRE_FALSE(read.has_value());
  REQUIRE_THAT(read.error().message, Catch::Matchers::Contains("127.0.0.1:1"));
  for (int i = 0; i < 4; ++i) CHECK(fast->gradient_buffer(TableId(0)).data() != place);
}

TEST_CASE("an update that is held back when its client has closed is applied as it was pushed",
          "[shared]") {
  std::vector<std::vector<float>> ends;
  for (const bool shared : {false, true}) {
    ServedJob served(JobMaker(2));
    auto fast = client_of(served, 0, shared);
    const auto slow = client_of(served, 1, shared);
    REQUIRE(fast->open(tables_of_both_sizes(), kDeadline).has_value());
    REQUIRE(slow->open(tables_of_both_sizes(), kDeadline).has_value());
    push_noise(*fast, 0, 0);
    REQUIRE(fast->flush(kDeadline).has_value());
    fast.reset();
    push_noise(*slow, 1, 0);
    for (const TableId table : {TableId(0), TableId(1)}) {
      std::vector<float> values(table == TableId(0) ? kSmall : kLarge);
      slow->read(table, Clock(1), values);
      REQUIRE(slow->wait(table, Clock(1), kDeadline).has_value());
      ends.push_back(values);
    }
  }
  CHECK(same_bits(ends[0], ends[2]));
  CHECK(same_bits(ends[1], ends[3]));
}

TEST_CASE(
    "a push in shared memory on a connection that the shard does not know is answered by greet "
    "again",
    "[shared]") {
  ServedJob served(JobMaker(1));
  const auto arena = SharedArena::create().value();
  const auto other = SharedArena::create().value();
  SharedLink link(arena);
  REQUIRE(link.open(SharedLink(other).offer()).has_value());
  link.start();
  BufferPool pool(Bytes(1UL << 20U), arena);
  DataItem push;
  push.kind = pb::DataItem::PUSH;
  push.count = kSmall;
  push.payload = Frame(pool.acquire(kSmall * sizeof(float)));
  const ClientOptions options = served.options(WorkerId(0));
  const Message frames =
      encode({options.job, options.worker, options.incarnation, DataItems{{push}}}, &link);
  REQUIRE(frames.frames.size() == 1);

  auto endpoint = served.context.make_endpoint();
  const PeerId shard = endpoint->connect(options.shards[0].address).value();
  REQUIRE(endpoint->send(shard, frames).has_value());
  const auto incoming = endpoint->receive(kDeadline);
  REQUIRE(incoming.has_value());
  const auto reply = decode_data(incoming->message);
  REQUIRE(reply.has_value());
  CHECK(std::get<pb::DataHelloReply>(reply.value().body).greet_again());
}

TEST_CASE("mapped memory shows when its owner has closed it, and can still be read", "[shared]") {
  std::shared_ptr<SharedView> view;
  {
    const auto arena = SharedArena::create().value();
    view = SharedView::open(arena->offer()).value();
    CHECK(view->owner_has_it());
  }
  CHECK_FALSE(view->owner_has_it());
  CHECK(view->bytes().front() == view->bytes().front());
}

TEST_CASE("a snapshot that its reader keeps is not overwritten", "[shared]") {
  ServedJob served(JobMaker(1, Slack(1)));
  const auto client = client_of(served, 0, true);
  REQUIRE(client->open(tables_of_both_sizes(), kDeadline).has_value());
  std::vector<float> before(kLarge);
  REQUIRE(client->snapshot(TableId(1), before, kDeadline).has_value());
  std::vector<float> values(kLarge);
  for (std::int64_t clock = 0; clock < 5; ++clock) {
    client->read(TableId(1), Clock(clock), values);
    push_noise(*client, 0, clock);
    REQUIRE(client->wait(TableId(1), Clock(clock), kDeadline).has_value());
  }
  std::vector<float> after(kLarge);
  REQUIRE(client->flush(kDeadline).has_value());
  REQUIRE(client->snapshot(TableId(1), after, kDeadline).has_value());
  CHECK_FALSE(same_bits(before, after));
}

namespace {

/// What a member that is offering memory gets as the answer to its hello.
pb::DataHelloReply reply_to_offer(const SharedLink::Offer& offer) {
  ServedJob served(JobMaker(1));
  auto endpoint = served.context.make_endpoint();
  const ClientOptions options = served.options(WorkerId(0));
  const PeerId shard = endpoint->connect(options.shards[0].address).value();
  pb::DataHello hello;
  hello.set_wire_version(kWireVersion);
  hello.set_job_hash(options.job_hash);
  *hello.mutable_shared_memory() = to_wire(offer);
  REQUIRE(endpoint->send(shard, encode({options.job, {}, {}, hello})).has_value());
  const auto incoming = endpoint->receive(kDeadline);
  REQUIRE(incoming.has_value());
  const auto reply = decode_data(incoming->message);
  REQUIRE(reply.has_value());
  const auto& body = std::get<pb::DataHelloReply>(reply.value().body);
  CHECK(body.accepted());
  return body;
}

}  // namespace

TEST_CASE("a hello that offers missing memory is accepted without it", "[shared]") {
  const auto arena = SharedArena::create().value();
  const SharedLink link(arena);
  SharedLink::Offer offer = link.offer();
  CHECK(reply_to_offer(offer).has_shared_memory());
  offer.memory.process = 0x7fffffff;
  CHECK_FALSE(reply_to_offer(offer).has_shared_memory());
}

TEST_CASE("a hello that offers memory whose pages its owner can remove is accepted without it",
          "[shared]") {
  const auto arena = SharedArena::create(Bytes(0), {}, ArenaPages::kReturned).value();
  const SharedLink link(arena);
  CHECK_FALSE(reply_to_offer(link.offer()).has_shared_memory());
}
