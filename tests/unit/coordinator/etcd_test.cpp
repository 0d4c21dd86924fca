#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <thread>

#include "server/coordinator/etcd/etcd_leadership.hpp"
#include "server/coordinator/etcd/etcd_store.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/fake_etcd.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace taut {
namespace {

bool wait_until(const std::function<bool()>& condition) {
  const TimePoint deadline = steady_now() + 20s;
  while (steady_now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

EtcdOptions options_of(const FakeEtcd& etcd) {
  return {.members = {etcd.address()}, .prefix = "test"};
}

CoordinatorChanges change_of(std::uint64_t job, const std::string& message) {
  CoordinatorChanges changes;
  changes.counters.emplace().set_next_job(job + 1);
  pb::StoredJob& stored = changes.jobs[JobId(job)];
  stored.set_job(job);
  stored.set_message(message);
  stored.mutable_definition()->set_name("net" + std::to_string(job));
  return changes;
}

/// A member whose machine has vanished: connections to it are accepted, and nothing is answered.
class SilentMember {
 public:
  [[nodiscard]] std::string address() const {
    return "127.0.0.1:" + std::to_string(listener_.local_endpoint().port());
  }

 private:
  boost::asio::io_context context_;
  boost::asio::ip::tcp::acceptor listener_{context_, {boost::asio::ip::address_v4::loopback(), 0}};
};

/// A leader and its store.
struct Leader {
  explicit Leader(const FakeEtcd& etcd, const std::string& address = "a:1", Duration lease = 60s)
      : leadership(std::make_shared<EtcdLeadership>(options_of(etcd), address, lease)),
        store(make_etcd_store(options_of(etcd), leadership)) {}
  bool leads() const {
    return wait_until([this] { return leadership->term().has_value(); });
  }

  std::shared_ptr<EtcdLeadership> leadership;
  std::unique_ptr<CoordinatorStore> store;
};

}  // namespace

TEST_CASE("base64 gives back every byte", "[etcd]") {
  for (std::size_t size = 0; size < 40; ++size) {
    std::string bytes;
    for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(37 * i + size);
    CHECK(from_base64(to_base64(bytes)).value() == bytes);
  }
  for (const char* text : {"abc", "ab=c", "====", "a\n=="}) CHECK_FALSE(from_base64(text));
}

TEST_CASE("what one leader saved, the next one finds", "[etcd]") {
  FakeEtcd etcd;
  std::int64_t term = 0;
  {
    const Leader first(etcd);
    REQUIRE(first.leads());
    term = *first.leadership->term();
    CHECK(first.leadership->leader() == "a:1");
    REQUIRE(first.store->load().value().jobs.empty());
    REQUIRE(first.store->save(change_of(1, "runs")).has_value());
    REQUIRE(first.store->save(change_of(2, "waits")).has_value());
    CoordinatorChanges changes = change_of(1, "has ended");
    changes.forgotten.insert(JobId(2));
    REQUIRE(first.store->save(changes).has_value());
  }
  // The leadership was given up, not left to the lease of a minute.
  const Leader second(etcd, "b:2");
  REQUIRE(second.leads());
  CHECK(*second.leadership->term() > term);
  const auto records = second.store->load();
  REQUIRE(records.has_value());
  REQUIRE(records.value().jobs.size() == 1);
  const pb::StoredJob& job = records.value().jobs.at(JobId(1));
  CHECK(job.message() == "has ended");
  CHECK(job.definition().name() == "net1");
  CHECK(records.value().counters.next_job() == 2);
  CHECK(etcd.value("test/definitions/2").empty());
}

TEST_CASE("what was chosen for a job's compression replaces what its definition left open",
          "[etcd][auto]") {
  FakeEtcd etcd;
  const auto compression_of = [](const Leader& leader) {
    return leader.store->load().value().jobs.at(JobId(1)).definition().compression();
  };
  CoordinatorChanges changes = change_of(1, "runs");
  pb::StoredJob& job = changes.jobs.at(JobId(1));
  pb::PushCompression& push = *job.mutable_definition()->mutable_compression()->add_push();
  push.set_scheme(pb::PushCompression::AUTO);
  {
    const Leader first(etcd);
    REQUIRE(first.leads());
    REQUIRE(first.store->load().has_value());
    REQUIRE(first.store->save(changes).has_value());
    CHECK(compression_of(first).push(0).scheme() == pb::PushCompression::AUTO);
  }
  push.set_scheme(pb::PushCompression::INT8);
  job.mutable_compression()->set_text("push INT8");
  {
    const Leader second(etcd);
    REQUIRE(second.leads());
    CHECK(compression_of(second).push(0).scheme() == pb::PushCompression::AUTO);
    REQUIRE(second.store->save(changes).has_value());
    CHECK(compression_of(second).push(0).scheme() == pb::PushCompression::INT8);
    REQUIRE(second.store->save(changes).has_value());
  }
  const Leader third(etcd);
  REQUIRE(third.leads());
  CHECK(compression_of(third).push(0).scheme() == pb::PushCompression::INT8);
}

TEST_CASE("of two, one leads and the other knows its address", "[etcd]") {
  FakeEtcd etcd;
  auto first = std::make_unique<Leader>(etcd, "a:1");
  REQUIRE(first->leads());
  const Leader second(etcd, "b:2");
  REQUIRE(wait_until([&] { return second.leadership->leader() == "a:1"; }));
  CHECK_FALSE(second.leadership->term());
  CHECK(second.store->load().error().code == ErrorCode::kClosed);
  first.reset();
  CHECK(second.leads());
  CHECK(second.leadership->leader() == "b:2");
}

TEST_CASE("a save of a term that is over is refused, and changes nothing", "[etcd]") {
  FakeEtcd etcd;
  const Leader first(etcd);
  REQUIRE(first.leads());
  REQUIRE(first.store->load().has_value());
  REQUIRE(first.store->save(change_of(1, "of the first")).has_value());
  // As if its lease had ended and another had led, before it noticed.
  etcd.expire_leases();
  const Leader second(etcd, "b:2");
  REQUIRE(second.leads());
  const auto late = first.store->save(change_of(1, "of a deposed one"));
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().code == ErrorCode::kClosed);
  CHECK(second.store->load().value().jobs.at(JobId(1)).message() == "of the first");
}

TEST_CASE("a leader whose lease has ended stops leading, and stands again", "[etcd]") {
  FakeEtcd etcd;
  const Leader only(etcd, "a:1", 1s);
  REQUIRE(only.leads());
  const std::int64_t term = *only.leadership->term();
  etcd.expire_leases();
  REQUIRE(wait_until([&] {
    const auto now = only.leadership->term();
    return now && *now > term;
  }));
}

TEST_CASE("an answer of another form than expected does not end a leader", "[etcd]") {
  const auto [status, body] = GENERATE(table<int, std::string>({
      {503, R"({"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader"}})"},
      {500, R"({"error":["no leader"]})"},
      {200, R"({"result":"none"})"},
      {200, R"({"result":{"TTL":{}}})"},
  }));
  FakeEtcd etcd;
  const Leader only(etcd, "a:1", 1s);
  REQUIRE(only.leads());
  etcd.answer_keepalive(http::json_response(static_cast<unsigned>(status), body));
  REQUIRE(wait_until([&] { return etcd.failed_keepalives() > 1 || !only.leadership->term(); }));
  etcd.answer_keepalive(std::nullopt);
  REQUIRE(only.leads());
}

TEST_CASE("the reason of a streamed request's failure is named", "[etcd]") {
  FakeEtcd etcd;
  etcd.answer_keepalive(
      http::json_response(503, R"({"error":{"grpc_code":14,"message":"etcdserver: no leader"}})"));
  EtcdClient client(options_of(etcd));
  const auto answer = client.call("/v3/lease/keepalive", {{"ID", "100"}});
  CHECK(answer.error().code == ErrorCode::kUnavailable);
  CHECK_THAT(answer.error().message, Contains("status 503: etcdserver: no leader"));
}

TEST_CASE("a leader that resigns stops leading at once, and another one leads", "[etcd]") {
  FakeEtcd etcd;
  const Leader first(etcd, "a:1");
  REQUIRE(first.leads());
  const std::int64_t term = *first.leadership->term();
  const Leader second(etcd, "b:2");
  first.leadership->resign();
  CHECK_FALSE(first.leadership->term());
  REQUIRE(second.leads());
  CHECK(*second.leadership->term() > term);
  REQUIRE(wait_until([&] { return first.leadership->leader() == "b:2"; }));
  // One that does not lead has nothing to resign.
  first.leadership->resign();
  CHECK(second.leadership->term().has_value());
}

TEST_CASE("a process whose lease ended while it stood for election leads under a new one",
          "[etcd]") {
  FakeEtcd etcd;
  etcd.delay(true);
  const Leader only(etcd);
  REQUIRE(wait_until([&] { return etcd.delayed() > 0; }));
  etcd.expire_leases();
  etcd.delay(false);
  REQUIRE(only.leads());
  CHECK(etcd.carry_out_delayed() == 0);
}

TEST_CASE("a process that lost an election leads after the winner", "[etcd]") {
  FakeEtcd etcd;
  auto first = std::make_unique<Leader>(etcd, "a:1");
  REQUIRE(first->leads());
  // As if the key had appeared between the look and the election.
  etcd.hide(true);
  const Leader second(etcd, "b:2", 1s);
  REQUIRE(wait_until([&] { return etcd.revoked() > 0; }));
  etcd.hide(false);
  first.reset();
  REQUIRE(second.leads());
}

TEST_CASE("a save whose answer is lost is settled by the next one", "[etcd]") {
  FakeEtcd etcd;
  const Leader leader(etcd);
  REQUIRE(leader.leads());
  REQUIRE(leader.store->load().has_value());
  etcd.lose_answers(true);
  const auto unknown = leader.store->save(change_of(1, "first"));
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().code == ErrorCode::kIo);
  CHECK_THAT(unknown.error().message, Contains("request timed out"));
  etcd.lose_answers(false);
  CHECK(etcd.value("test/fence") == "1");
  REQUIRE(leader.store->save(change_of(1, "second")).has_value());
  CHECK(etcd.value("test/fence") == "2");
  CHECK(leader.store->load().value().jobs.at(JobId(1)).message() == "second");
}

TEST_CASE("a step that changes more jobs than a transaction holds is saved", "[etcd]") {
  constexpr std::uint64_t kJobs = 200;
  FakeEtcd etcd;
  const Leader leader(etcd);
  REQUIRE(leader.leads());
  REQUIRE(leader.store->load().has_value());
  CoordinatorChanges changes;
  // More than 128 operations, and some larger than 1.5 MiB together.
  for (std::uint64_t id = 1; id <= kJobs; ++id) {
    changes.merge(change_of(id, std::string(id % 10 == 0 ? 150'000 : 10, 'm')));
  }
  REQUIRE(leader.store->save(changes).has_value());
  const auto records = leader.store->load();
  REQUIRE(records.has_value());
  CHECK(records.value().counters.next_job() == kJobs + 1);
  REQUIRE(records.value().jobs.size() == kJobs);
  for (const auto& [id, job] : records.value().jobs) {
    CHECK(job.SerializeAsString() == changes.jobs.at(id).SerializeAsString());
  }
  CoordinatorChanges removal;
  for (const auto& [id, job] : changes.jobs) removal.forgotten.insert(id);
  REQUIRE(leader.store->save(removal).has_value());
  CHECK(leader.store->load().value().jobs.empty());
}

TEST_CASE(
    "of a large step that is saved in part, a job is not apart from the one that continues it",
    "[etcd]") {
  FakeEtcd etcd;
  const Leader leader(etcd);
  REQUIRE(leader.leads());
  REQUIRE(leader.store->load().has_value());
  CoordinatorChanges changes;
  for (std::uint64_t id = 1; id <= 200; ++id) {
    changes.merge(change_of(id, "runs"));
    if (id <= 100) changes.jobs.at(JobId(id)).set_restarted_as(201 - id);
  }
  // The first transaction is carried out, and its answer is lost.
  etcd.lose_answers(true);
  REQUIRE_FALSE(leader.store->save(changes).has_value());
  etcd.lose_answers(false);
  const auto part = leader.store->load();
  REQUIRE(part.has_value());
  CHECK(part.value().counters.next_job() == 201);
  CHECK_FALSE(part.value().jobs.empty());
  CHECK(part.value().jobs.size() < 200);
  for (const auto& [id, job] : part.value().jobs) {
    CHECK(part.value().jobs.contains(JobId(201 - id.value())));
  }
  REQUIRE(leader.store->save(changes).has_value());
  CHECK(leader.store->load().value().jobs.size() == 200);
}

TEST_CASE("a save that arrives late changes nothing", "[etcd]") {
  FakeEtcd etcd;
  const Leader leader(etcd);
  REQUIRE(leader.leads());
  REQUIRE(leader.store->load().has_value());
  REQUIRE(leader.store->save(change_of(1, "first")).has_value());
  etcd.delay(true);
  REQUIRE_FALSE(leader.store->save(change_of(1, "delayed")).has_value());
  etcd.delay(false);
  REQUIRE(leader.store->save(change_of(1, "third")).has_value());
  CHECK(etcd.carry_out_delayed() == 0);
  CHECK(leader.store->load().value().jobs.at(JobId(1)).message() == "third");
}

TEST_CASE("a member that does not answer is passed over", "[etcd]") {
  FakeEtcd etcd;
  EtcdOptions options = options_of(etcd);
  options.members.insert(options.members.begin(), "127.0.0.1:1");
  EtcdClient client(options);
  const auto answer = client.call("/v3/kv/range", {{"key", to_base64("test/none")}});
  REQUIRE(answer.has_value());
  options.members.pop_back();
  EtcdClient nobody(options);
  const auto none = nobody.call("/v3/kv/range", {{"key", to_base64("test/none")}});
  CHECK(none.error().code == ErrorCode::kUnavailable);
  CHECK_THAT(none.error().message, Contains("no member of etcd answers: 127.0.0.1:1/v3/kv/range"));
}

TEST_CASE("a silent member is passed over, at once where another client has noticed it", "[etcd]") {
  const SilentMember silent;
  FakeEtcd etcd;
  EtcdOptions options = options_of(etcd);
  options.members.insert(options.members.begin(), silent.address());
  options.wait = 200ms;
  const nlohmann::json request = {{"key", to_base64("test/none")}};
  EtcdClient first(options);
  const TimePoint began = steady_now();
  REQUIRE(first.call("/v3/kv/range", request).has_value());
  CHECK(steady_now() - began >= options.wait);
  options.wait = 60s;
  const TimePoint noticed = steady_now();
  EtcdClient second(options);
  REQUIRE(second.call("/v3/kv/range", request).has_value());
  CHECK(steady_now() - noticed < options.wait / 2);
}

TEST_CASE("a process that is elected past a silent member reads the state without asking it",
          "[etcd]") {
  const SilentMember silent;
  FakeEtcd etcd;
  EtcdOptions options = options_of(etcd);
  options.members.insert(options.members.begin(), silent.address());
  options.wait = 60s;
  // It waits a quarter of its lease for each member.
  const auto leadership = std::make_shared<EtcdLeadership>(options, "a:1", 4s);
  REQUIRE(wait_until([&] { return leadership->term().has_value(); }));
  const TimePoint began = steady_now();
  CHECK(make_etcd_store(options, leadership)->load().has_value());
  CHECK(steady_now() - began < options.wait / 2);
}

}  // namespace taut
