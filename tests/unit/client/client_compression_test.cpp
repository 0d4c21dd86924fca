#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "proto/config/settle_compression.hpp"
#include "tests/unit/client/served_job.hpp"
#include "tests/unit/client/two_tables.hpp"
#include "worker/client/client.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

using test::JobMaker;
using test::kDeadline;
using test::kTable;
using test::push;
using test::same_bits;
using test::ServedJob;
using test::two_tables;

void push_and_read_all(Client& client, std::uint32_t worker, const std::vector<TableSpec>& tables,
                       std::span<float> into) {
  push(client, worker, 0, TableId(1));
  const Buffer gradient = client.gradient_buffer(kTable);
  const auto values = test::gradient_of(worker, 0, tables[0].count());
  std::ranges::copy(values, gradient.floats().begin());
  client.push_and_read(kTable, Clock(0), gradient, into);
}

}  // namespace

TEST_CASE("values are read as the job's compression says, as bytes and in shared memory",
          "[client]") {
  constexpr std::size_t kCount = 6000;
  for (const auto scheme :
       {pb::PullCompression::FP16, pb::PullCompression::BF16, pb::PullCompression::INT8}) {
    for (const bool shares : {false, true}) {
      JobMaker maker(1);
      auto& pull = *maker.state.mutable_definition()->mutable_compression()->add_pull();
      pull.set_scheme(scheme);
      pull.set_min_values(100);
      ServedJob served(std::move(maker));
      const Compression compression = to_compression(served.job.state.definition()).value();
      const std::vector<TableSpec> tables = {test::make_table(0, {kCount}),
                                             test::make_table(1, {50})};
      const math::Encoding encoding = compression.of_pull(tables[0]);
      ClientOptions options = served.options(WorkerId(0));
      options.encoding = {compression, 42, 0};
      if (shares) options.shared_memory = SharedArena::create().value();
      Client client(served.context.make_endpoint(), options);
      REQUIRE(client.open(tables, kDeadline).has_value());
      std::vector<float> values(kCount);
      std::vector<float> small(50);
      client.read(kTable, Clock(0), values);
      client.read(TableId(1), Clock(0), small);
      REQUIRE(client.wait(kTable, Clock(0), kDeadline).has_value());
      REQUIRE(client.wait(TableId(1), Clock(0), kDeadline).has_value());
      std::vector<float> exact(kCount);
      REQUIRE(client.snapshot(kTable, exact, kDeadline).has_value());
      std::vector<std::byte> bytes(math::encoded_bytes(encoding, kCount));
      math::encode(encoding, exact, math::draw_of(42, 0, 65535, 0, 0), bytes.data());
      std::vector<float> expected(kCount);
      math::decode(encoding, bytes.data(), kCount, 0, expected);
      CHECK(same_bits(values, expected));
      CHECK_FALSE(same_bits(values, exact));
      const Client::Traffic traffic = client.traffic();
      CHECK(traffic.read == bytes.size() + (kCount + 50) * sizeof(float));
      CHECK(traffic.read_saved == kCount * sizeof(float) - bytes.size());
    }
  }
}

TEST_CASE("an encoding that is longer than what it encodes saves nothing", "[client]") {
  JobMaker maker(1);
  pb::Compression& chosen = *maker.state.mutable_definition()->mutable_compression();
  chosen.add_push()->set_scheme(pb::PushCompression::INT8);
  chosen.mutable_push(0)->set_min_values(1);
  chosen.add_pull()->set_scheme(pb::PullCompression::INT8);
  chosen.mutable_pull(0)->set_min_values(1);
  ServedJob served(std::move(maker));
  ClientOptions options = served.options(WorkerId(0));
  options.encoding = {to_compression(served.job.state.definition()).value(), 42, 0};
  Client client(served.context.make_endpoint(), options);
  const std::vector<TableSpec> tables = {test::make_table(0, {1})};
  REQUIRE(client.open(tables, kDeadline).has_value());
  std::vector<float> value(1);
  client.push_and_read(kTable, Clock(0), client.gradient_buffer(kTable), value);
  REQUIRE(client.wait(kTable, Clock(1), kDeadline).has_value());
  const Client::Traffic traffic = client.traffic();
  CHECK(traffic.pushed == 5);
  CHECK(traffic.read == 5);
  CHECK(traffic.saved == 0);
  CHECK(traffic.read_saved == 0);
}

TEST_CASE("updates arrive as the job's compression says, as bytes and in shared memory",
          "[client]") {
  constexpr std::size_t kCount = 6000;
  for (const auto scheme :
       {pb::PushCompression::FP16, pb::PushCompression::BF16, pb::PushCompression::INT8,
        pb::PushCompression::ONE_BIT, pb::PushCompression::TOP_K, pb::PushCompression::RANDOM_K}) {
    for (const bool shares : {false, true}) {
      JobMaker maker(2);
      auto& push = *maker.state.mutable_definition()->mutable_compression()->add_push();
      push.set_scheme(scheme);
      push.set_min_values(100);
      ServedJob served(std::move(maker));
      const Compression compression = to_compression(served.job.state.definition()).value();
      const std::vector<TableSpec> tables = {test::make_table(0, {kCount}),
                                             test::make_table(1, {50})};
      const math::Encoding encoding = compression.of_push(tables[0]);
      std::vector<std::unique_ptr<Client>> clients;
      std::vector<std::vector<float>> values(2, std::vector<float>(kCount));
      std::vector<float> mean(kCount, 0.0F);
      for (std::uint32_t i = 0; i < 2; ++i) {
        ClientOptions options = served.options(WorkerId(i));
        options.encoding = {compression, 42, i};
        if (shares) options.shared_memory = SharedArena::create().value();
        clients.push_back(std::make_unique<Client>(served.context.make_endpoint(), options));
        REQUIRE(clients[i]->open(tables, kDeadline).has_value());
        clients[i]->read(kTable, Clock(0), values[i]);
        REQUIRE(clients[i]->wait(kTable, Clock(0), kDeadline).has_value());
        // What a shard must read of it.
        const auto gradient = test::gradient_of(i, 0, kCount);
        std::vector<std::byte> bytes(math::encoded_bytes(encoding, kCount));
        std::vector<float> state(math::state_values(encoding, kCount));
        math::encode(encoding, gradient, math::draw_of(42, 0, i, 0, 0), bytes.data(), state);
        std::vector<float> read(kCount);
        math::decode(encoding, bytes.data(), kCount, 0, read);
        CHECK_FALSE(same_bits(read, gradient));
        for (std::size_t k = 0; k < kCount; ++k) mean[k] += read[k];
      }
      const std::vector<float> before = values[0];
      for (std::uint32_t i = 0; i < 2; ++i) {
        push_and_read_all(*clients[i], i, tables, values[i]);
      }
      for (std::uint32_t i = 0; i < 2; ++i) {
        REQUIRE(clients[i]->wait(kTable, Clock(1), kDeadline).has_value());
        REQUIRE(clients[i]->flush(kDeadline).has_value());
        const Client::Traffic traffic = clients[i]->traffic();
        CHECK(traffic.pushed == math::encoded_bytes(encoding, kCount) + 50 * sizeof(float));
        CHECK(traffic.pushed + traffic.saved == (kCount + 50) * sizeof(float));
      }
      CHECK(same_bits(values[0], values[1]));
      for (std::size_t k = 0; k < kCount; ++k) {
        CHECK(values[0][k] == Approx(before[k] - 0.25F * mean[k]).margin(1e-5));
      }
    }
  }
}

TEST_CASE("an update in another encoding than the job's ends its client with both names",
          "[client]") {
  JobMaker maker(1);
  auto& given = *maker.state.mutable_definition()->mutable_compression()->add_push();
  given.set_scheme(pb::PushCompression::INT8);
  given.set_min_values(1);
  ServedJob served(std::move(maker));
  const auto client = served.client(0);
  REQUIRE(client->open(two_tables(), kDeadline).has_value());
  push(*client, 0, 0);
  const auto flushed = client->flush(kDeadline);
  REQUIRE_FALSE(flushed.has_value());
  CHECK_THAT(
      flushed.error().message,
      Contains("table 0 is pushed as FLOAT32 at clock 0; by the job's compression it is INT8"));
}

}  // namespace taut
