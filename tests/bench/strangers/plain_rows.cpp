// The rows of a shard whose data plane is plain: its peers prove themselves by secrets.
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/strangers/port_rows.hpp"

namespace taut::strangers {
namespace {

using test::GuardedCluster;
namespace request = test::request;

class PlainRows {
 public:
  explicit PlainRows(GuardedCluster& cluster) : cluster_(cluster) {}

  std::vector<Stranger> make() {
    add_right_ones();
    add_without_secret();
    add_unadmitted();
    add_others();
    return std::move(rows_);
  }

 private:
  /// What the shard says nothing to.
  Stranger& add(const char* who, const char* what, const DataMessage& message, const Security& key,
                std::optional<DataToken> token) {
    return rows_.emplace_back(Stranger{.port = "shard",
                                       .who = who,
                                       .what = what,
                                       .address = cluster_.shard(),
                                       .key = key,
                                       .message = saying(message),
                                       .is_granted = is_granted,
                                       .token = std::move(token),
                                       .is_dropped = true});
  }
  static void grant(Stranger& row, const std::function<Message()>& greeting = {}) {
    row.may = true;
    row.is_dropped = false;
    row.greeting = greeting;
  }

  void add_right_ones() {
    const auto right = cluster_.secret(member_);
    grant(add("worker0's secret", "hello", hello_, own_, right));
    const auto greeting = saying(hello_);
    grant(add("worker0's secret", "open tables as worker0", request::open_tables(0), own_, right),
          greeting);
    grant(add("worker0's secret", "push as worker0", push_, own_, right), greeting);
  }

  void add_without_secret() {
    add("a key, no secret", "hello", hello_, own_, std::nullopt);
    add("no key, no secret", "hello", hello_, Security::insecure(), std::nullopt);
  }

  /// Secrets that get no connection: each try is a new one.
  void add_unadmitted() {
    const auto refused = [&](const char* who, const Security& key,
                             const std::optional<DataToken>& token) {
      add(who, "hello", hello_, key, token).is_dropped = false;
    };
    refused("a secret of chance", own_,
            DataToken::from(std::string(DataToken::kRequestBytes, 'x'),
                            std::string(DataToken::kAnswerBytes, 'x')));
    refused("of another cluster", own_, TokenKey(make_key_pair().secret_key).make(member_));
    const auto secret = [&](const Security& key) {
      return cluster_.secret(GuardedCluster::member(key, 0));
    };
    const Security unknown = cluster_.with(make_key_pair());
    refused("of an unknown key", unknown, secret(unknown));
    const Security revoked = cluster_.admit("revoked", KeyRole::kOwner);
    cluster_.revoke(revoked);
    refused("of a revoked key", revoked, secret(revoked));
    const Security late = cluster_.admit("late", KeyRole::kOwner);
    add("revoked, connection open", "hello", hello_, late, secret(late)).revoke =
        [this_cluster = &cluster_, late] { this_cluster->revoke(late); };
  }

  /// Secrets that are right for something else.
  void add_others() {
    const Security other = cluster_.admit("worker1", KeyRole::kWorker);
    add("another's: worker1", "push as worker0", push_, other,
        cluster_.secret(GuardedCluster::member(other, 1)));
    TokenScope scope = member_;
    scope.incarnation = Incarnation(99);
    add("of an earlier life", "push as worker0", push_, own_, cluster_.secret(scope));
    scope = member_;
    scope.submission -= 1;
    add("of an earlier job", "push as worker0", push_, own_, cluster_.secret(scope));
    scope = member_;
    scope.use = TokenUse::kRead;
    add("a reader's", "push as worker0", push_, own_, cluster_.secret(scope));
    for (const auto& [who, use] : {std::pair("a server's", TokenUse::kServe),
                                   std::pair("of a check of links", TokenUse::kCheck)}) {
      add(who, "push as worker0", push_, own_,
          cluster_.secret({.use = use, .public_key = own_.own.public_key}));
    }
    const Security server = cluster_.admit("server2", KeyRole::kServer);
    grant(add("a server's", "part of a checkpoint", request::part(), server,
              cluster_.secret({.use = TokenUse::kServe, .public_key = server.own.public_key})));
    add("worker0's secret", "part of a checkpoint", request::part(), own_,
        cluster_.secret(member_));
  }

  GuardedCluster& cluster_;
  const Security own_ = cluster_.admit("worker0", KeyRole::kWorker);
  const TokenScope member_ = GuardedCluster::member(own_, 0);
  const DataMessage hello_ = request::data_hello();
  const DataMessage push_ = request::item(0, pb::DataItem::PUSH);
  std::vector<Stranger> rows_;
};

}  // namespace

std::vector<Stranger> plain_rows(GuardedCluster& cluster) {
  return PlainRows(cluster).make();
}

}  // namespace taut::strangers
