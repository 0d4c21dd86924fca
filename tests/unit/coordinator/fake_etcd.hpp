#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/http/server.hpp"
#include "common/time.hpp"

namespace taut {

/// One member of etcd, as far as coordinators use it: keys, transactions and leases behind the JSON
/// gateway, with its limits for a transaction. It loses answers and delays requests when told to.
/// Thread    any
class FakeEtcd {
 public:
  FakeEtcd();

  [[nodiscard]] const std::string& address() const { return server_->address(); }

  /// Further transactions are carried out, and answered as failures of the server.
  void lose_answers(bool on);
  /// Further transactions are kept, and answered as failures of the server.
  void delay(bool on);
  /// How many are kept.
  [[nodiscard]] std::size_t delayed();
  /// Further reads of keys outside of transactions find none.
  void hide(bool on);
  /// Further requests to keep a lease alive are answered so; nullopt: as they should.
  void answer_keepalive(std::optional<http::Response> response);
  /// How many were answered so.
  [[nodiscard]] int failed_keepalives();
  /// How many leases were given up.
  [[nodiscard]] int revoked();
  /// Carries out what was kept. Returns how many of them succeeded.
  int carry_out_delayed();

  /// The value of a key; "" if there is none.
  [[nodiscard]] std::string value(const std::string& key);
  void remove(const std::string& key);
  /// Ends a lease, as silence would.
  void expire_leases();

 private:
  struct Pair {
    std::string value;  // base64, as keys are
    std::int64_t created = 0;
    std::int64_t modified = 0;
    std::string lease;
  };

  http::Response handle(const http::Request& request);
  nlohmann::json answer(const std::string& path, const nlohmann::json& request);
  nlohmann::json range(const nlohmann::json& request) const;
  nlohmann::json transact(const nlohmann::json& request);
  bool lacks_lease(const nlohmann::json& request) const;
  bool holds(const nlohmann::json& compare) const;
  void drop_lease(const std::string& id);
  void drop_expired();

  std::mutex mutex_;  // guards the rest
  std::map<std::string, Pair> pairs_;
  std::map<std::string, TimePoint> leases_;
  std::map<std::string, Duration> lengths_;
  std::int64_t revision_ = 1;
  std::int64_t next_lease_ = 100;
  bool loses_ = false;
  bool delays_ = false;
  bool hides_ = false;
  std::optional<http::Response> keepalive_;
  int keepalives_ = 0;  // answered with it
  int revoked_ = 0;
  std::vector<nlohmann::json> delayed_;
  std::unique_ptr<http::Server> server_;
};

}  // namespace taut
