#include "tests/unit/coordinator/fake_etcd.hpp"

#include <algorithm>
#include <utility>

#include "common/check.hpp"
#include "server/coordinator/etcd/etcd_client.hpp"

namespace taut {

using Json = nlohmann::json;

namespace {

/// Keys are ordered by their bytes, not by base64.
std::string key_in(const Json& request, const char* name = "key") {
  return from_base64(request.value(name, "")).value();
}

// etcd's limits, by default.
constexpr std::size_t kMaxOperations = 128;
constexpr std::size_t kMaxBytes = 1536U << 10U;

/// Why etcd refuses a transaction of this size; empty if it accepts it.
std::string why_too_large(const Json& request) {
  const Json writes = request.value("success", Json::array());
  if (writes.size() > kMaxOperations) return "etcdserver: too many operations in txn request";
  std::size_t bytes = 0;
  for (const Json& one : writes) {
    const Json put = one.value("requestPut", Json::object());
    bytes += put.value("key", "").size() + put.value("value", "").size();
  }
  return bytes > kMaxBytes ? "etcdserver: request is too large" : "";
}

}  // namespace

FakeEtcd::FakeEtcd() {
  http::Server::Options options;
  options.address = "127.0.0.1:0";
  options.limits.body_bytes = 2U << 20U;
  auto started = http::Server::start(
      options, [this](const http::Request& request) { return handle(request); });
  TAUT_CHECK(started.has_value(), "the fake etcd listens");
  server_ = std::move(started.value());
}

void FakeEtcd::lose_answers(bool on) {
  const std::scoped_lock lock(mutex_);
  loses_ = on;
}

void FakeEtcd::delay(bool on) {
  const std::scoped_lock lock(mutex_);
  delays_ = on;
}

std::size_t FakeEtcd::delayed() {
  const std::scoped_lock lock(mutex_);
  return delayed_.size();
}

void FakeEtcd::hide(bool on) {
  const std::scoped_lock lock(mutex_);
  hides_ = on;
}

void FakeEtcd::answer_keepalive(std::optional<http::Response> response) {
  const std::scoped_lock lock(mutex_);
  keepalive_ = std::move(response);
}

int FakeEtcd::failed_keepalives() {
  const std::scoped_lock lock(mutex_);
  return keepalives_;
}

int FakeEtcd::revoked() {
  const std::scoped_lock lock(mutex_);
  return revoked_;
}

int FakeEtcd::carry_out_delayed() {
  const std::scoped_lock lock(mutex_);
  int succeeded = 0;
  for (const Json& request : std::exchange(delayed_, {})) {
    if (!lacks_lease(request) && transact(request).value("succeeded", false)) ++succeeded;
  }
  return succeeded;
}

std::string FakeEtcd::value(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = pairs_.find(key);
  return found == pairs_.end() ? "" : from_base64(found->second.value).value();
}

void FakeEtcd::remove(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  pairs_.erase(key);
  ++revision_;
}

void FakeEtcd::expire_leases() {
  const std::scoped_lock lock(mutex_);
  while (!leases_.empty()) drop_lease(std::string(leases_.begin()->first));
}

http::Response FakeEtcd::handle(const http::Request& request) {
  const std::scoped_lock lock(mutex_);
  drop_expired();
  const Json content = Json::parse(request.body, nullptr, false);
  if (!content.is_object()) return http::json_response(400, R"({"error":"no JSON object"})");
  if (request.path == "/v3/lease/keepalive" && keepalive_) {
    ++keepalives_;
    return *keepalive_;
  }
  const bool transacts = request.path == "/v3/kv/txn";
  if (const std::string reason = transacts ? why_too_large(content) : ""; !reason.empty()) {
    return http::json_response(400, Json{{"error", reason}}.dump());
  }
  if (transacts && delays_) {
    delayed_.push_back(content);
    return http::json_response(503, R"({"error":"etcdserver: request timed out"})");
  }
  if (transacts && lacks_lease(content)) {
    return http::json_response(404, R"({"error":"etcdserver: requested lease not found"})");
  }
  const Json reply = answer(request.path, content);
  if (transacts && loses_) {
    return http::json_response(503, R"({"error":"etcdserver: request timed out"})");
  }
  return http::json_response(200, reply.dump());
}

Json FakeEtcd::answer(const std::string& path, const Json& request) {
  if (path == "/v3/kv/range") return hides_ ? Json::object() : range(request);
  if (path == "/v3/kv/txn") return transact(request);
  const std::string id = request.value("ID", "");
  if (path == "/v3/lease/grant") {
    const std::string granted = std::to_string(next_lease_++);
    lengths_[granted] = std::chrono::seconds(std::stoll(request.value("TTL", "0")));
    leases_[granted] = steady_now() + lengths_[granted];
    return {{"ID", granted}, {"TTL", request.value("TTL", "0")}};
  }
  if (path == "/v3/lease/keepalive") {
    const auto lease = leases_.find(id);
    if (lease == leases_.end()) return {{"result", {{"ID", id}}}};
    lease->second = steady_now() + lengths_[id];
    return {{"result", {{"ID", id}, {"TTL", "2"}}}};
  }
  if (path == "/v3/lease/revoke") {
    drop_lease(id);
    ++revoked_;
  }
  return Json::object();
}

Json FakeEtcd::range(const Json& request) const {
  const std::string from = key_in(request);
  const bool is_one = !request.contains("range_end");
  const auto limit = static_cast<std::size_t>(std::stoll(request.value("limit", "0")));
  Json reply = {{"header", {{"revision", std::to_string(revision_)}}}};
  // As with the gateway, an empty list and false are omitted.
  for (auto pair = pairs_.lower_bound(from); pair != pairs_.end(); ++pair) {
    if (is_one ? pair->first != from : pair->first >= key_in(request, "range_end")) break;
    if (limit > 0 && reply.contains("kvs") && reply["kvs"].size() == limit) {
      reply["more"] = true;
      break;
    }
    reply["kvs"].push_back({{"key", to_base64(pair->first)},
                            {"value", pair->second.value},
                            {"create_revision", std::to_string(pair->second.created)},
                            {"mod_revision", std::to_string(pair->second.modified)}});
  }
  return reply;
}

Json FakeEtcd::transact(const Json& request) {
  bool succeeded = true;
  for (const Json& compare : request.value("compare", Json::array())) {
    succeeded = succeeded && holds(compare);
  }
  Json responses = Json::array();
  bool writes = false;
  for (const Json& one : request.value(succeeded ? "success" : "failure", Json::array())) {
    if (one.contains("requestRange")) {
      responses.push_back({{"response_range", range(one.at("requestRange"))}});
    } else if (one.contains("requestPut")) {
      if (!std::exchange(writes, true)) ++revision_;
      const Json& put = one.at("requestPut");
      Pair& pair = pairs_[key_in(put)];
      if (pair.created == 0) pair.created = revision_;
      pair.modified = revision_;
      pair.value = put.value("value", "");
      pair.lease = put.value("lease", "");
    } else if (one.contains("requestDeleteRange")) {
      if (!std::exchange(writes, true)) ++revision_;
      pairs_.erase(key_in(one.at("requestDeleteRange")));
    }
  }
  Json reply = {{"header", {{"revision", std::to_string(revision_)}}}, {"responses", responses}};
  // Nor for false.
  if (succeeded) reply["succeeded"] = true;
  return reply;
}

/// Whether it would put a key under a lease that does not exist.
bool FakeEtcd::lacks_lease(const Json& request) const {
  for (const Json& compare : request.value("compare", Json::array())) {
    if (!holds(compare)) return false;
  }
  const Json writes = request.value("success", Json::array());
  return std::ranges::any_of(writes, [this](const Json& one) {
    const std::string lease = one.value("requestPut", Json::object()).value("lease", "");
    return !lease.empty() && !leases_.contains(lease);
  });
}

bool FakeEtcd::holds(const Json& compare) const {
  const auto found = pairs_.find(key_in(compare));
  const bool exists = found != pairs_.end();
  if (compare.value("target", "") == "CREATE") {
    return (exists ? found->second.created : 0) ==
           std::stoll(compare.value("create_revision", "0"));
  }
  return (exists ? found->second.modified : 0) == std::stoll(compare.value("mod_revision", "0"));
}

void FakeEtcd::drop_lease(const std::string& id) {
  leases_.erase(id);
  std::erase_if(pairs_, [&](const auto& pair) { return pair.second.lease == id && !id.empty(); });
  ++revision_;
}

void FakeEtcd::drop_expired() {
  for (auto lease = leases_.begin(); lease != leases_.end();) {
    const auto next = std::next(lease);
    if (lease->second <= steady_now()) drop_lease(std::string(lease->first));
    lease = next;
  }
}

}  // namespace taut
