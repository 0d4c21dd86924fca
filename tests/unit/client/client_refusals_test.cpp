#include <string>
#include <vector>

#include "tests/unit/client/served_job.hpp"
#include "tests/unit/client/two_tables.hpp"
#include "worker/client/client.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

using test::JobMaker;
using test::kDeadline;
using test::kSoon;
using test::push;
using test::ServedJob;
using test::two_tables;

}  // namespace

TEST_CASE("all workers must name the same tables: other ones are refused with both names",
          "[client]") {
  ServedJob served(JobMaker(2));
  const auto one = served.client(0);
  const auto two = served.client(1);
  REQUIRE(one->open(two_tables(), kDeadline).has_value());
  auto other = two_tables();
  other[1].shape = {7};
  const auto refused = two->open(other, kDeadline);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kMismatch);
  CHECK_THAT(refused.error().message, Contains("6 elements") && Contains("7 elements"));
}

TEST_CASE("a client of another job is refused with both hashes", "[client]") {
  ServedJob served(JobMaker(1));
  ClientOptions options = served.options(WorkerId(0));
  options.job_hash = std::string(64, 'd');
  Client client(served.context.make_endpoint(), options);
  const auto refused = client.open(two_tables(), kDeadline);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kMismatch);
  CHECK_THAT(refused.error().message,
             Contains("dddddddddddd") && Contains(served.job.hash().substr(0, 12)));
}

TEST_CASE("a worker that was declared lost learns it from its next message", "[client]") {
  ServedJob served(JobMaker(2));
  const auto client = served.client(1);
  REQUIRE(client->open(two_tables(), kDeadline).has_value());
  served.job.leave(WorkerId(1), Clock(0));
  served.change();
  push(*client, 1, 0);
  const auto refused = client->flush(kDeadline);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kStale);
  CHECK_THAT(refused.error().message, Contains("stale incarnation"));
}

TEST_CASE("a client without reachable shards fails at its deadline", "[client]") {
  ServedJob served(JobMaker(1));
  ClientOptions options = served.options(WorkerId(0));
  options.shards[0].address = "127.0.0.1:1";
  Client client(served.context.make_endpoint(), options);
  const auto refused = client.open(two_tables(), 4 * kSoon);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kTimeout);
  CHECK_THAT(refused.error().message, Contains("shard 0 at 127.0.0.1:1 has not answered for"));
  REQUIRE(options.load->silent().has_value());
  CHECK(options.load->silent()->shard == ShardId(0));
  const TimePoint begin = steady_now();
  client.close();
  CHECK(steady_now() - begin < Duration(5'000'000));
}

TEST_CASE("a shard that opens large tables may be silent while it makes their values", "[client]") {
  ServedJob served(JobMaker(1));
  ClientOptions options = served.options(WorkerId(0));
  options.shards.resize(1);
  options.shards[0].address = "127.0.0.1:1";
  Client client(served.context.make_endpoint(), options);
  std::vector<TableSpec> tables = two_tables();
  tables[0].shape = {1024, 4096};  // 16 MiB: a second
  const TimePoint begin = steady_now();
  const auto refused = client.open(tables, Duration(10'000));
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message, Contains("shard 0 at 127.0.0.1:1 has not answered for 1."));
  CHECK(steady_now() - begin >= Duration(1'000'000));
}

}  // namespace taut
