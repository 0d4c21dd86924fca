#include "server/coordinator/etcd/etcd_leadership.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/log.hpp"
#include "server/coordinator/etcd/etcd_number.hpp"

namespace taut {
namespace {

using Json = nlohmann::json;

constexpr Duration kLook{200'000};       // between two checks of which coordinator leads
constexpr Duration kAside = 10 * kLook;  // after a resignation

/// Shortens the wait so that one silent member does not cost the lease: others can be asked.
EtcdOptions settled(EtcdOptions options, Duration lease) {
  options.wait = std::min(options.wait, lease / 4);
  return options;
}

}  // namespace

EtcdLeadership::EtcdLeadership(EtcdOptions options, std::string address, Duration lease)
    : options_(settled(std::move(options), lease)),
      address_(std::move(address)),
      lease_(lease),
      client_(options_),
      thread_([this] { run(); }) {}

EtcdLeadership::~EtcdLeadership() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::optional<std::int64_t> EtcdLeadership::term() const {
  const std::scoped_lock lock(mutex_);
  if (term_ == 0 || resigns_ || steady_now() >= until_) return std::nullopt;
  return term_;
}

std::string EtcdLeadership::leader() const {
  const std::scoped_lock lock(mutex_);
  return leader_;
}

void EtcdLeadership::resign() {
  {
    const std::scoped_lock lock(mutex_);
    resigns_ = term_ != 0;
  }
  wake_.notify_all();
}

void EtcdLeadership::run() {
  while (true) {
    if (step_aside()) pause(kAside);
    const auto done = advance();
    {
      const std::scoped_lock lock(mutex_);
      const std::string trouble = done ? "" : done.error().message;
      if (!trouble.empty() && trouble_.empty()) {
        log::warn("which coordinator leads cannot be settled: {}", trouble);
      } else if (trouble.empty() && !trouble_.empty()) {
        log::info("etcd answers again");
      }
      trouble_ = trouble;
    }
    pause(has_lease_ && done ? lease_ / 4 : kLook);
    const std::scoped_lock lock(mutex_);
    if (stopping_) break;
  }
  revoke();
}

/// Ends this process's term if it resigns. Returns whether it does, so that others go first.
bool EtcdLeadership::step_aside() {
  {
    const std::scoped_lock lock(mutex_);
    if (!resigns_) return false;
  }
  revoke();
  lose("it was resigned");
  return true;
}

/// An answer of etcd in an unexpected form costs only one attempt.
Result<void> EtcdLeadership::advance() {
  try {
    return has_lease_ ? keep() : look();
  } catch (const Json::exception& failure) {
    return invalid(fmt::format("an answer of etcd cannot be used: {}", failure.what()));
  }
}

/// Finds out which coordinator leads, and campaigns if none does.
Result<void> EtcdLeadership::look() {
  const std::string key = to_base64(options_.prefix + "/leader");
  TAUT_TRY(const Json found, client_.call("/v3/kv/range", {{"key", key}}));
  const auto pairs = found.find("kvs");
  if (pairs == found.end() || pairs->empty()) return campaign();
  TAUT_TRY(std::string leader, from_base64(pairs->at(0).value("value", "")));
  // A key with our own address stems from an earlier life of this process and ends with its lease.
  const std::scoped_lock lock(mutex_);
  leader_ = std::move(leader);
  return ok();
}

Result<void> EtcdLeadership::campaign() {
  const TimePoint began = steady_now();
  if (lease_id_.empty()) {
    const std::int64_t whole = (lease_.count() + 999'999) / 1'000'000;
    TAUT_TRY(const Json granted, client_.call("/v3/lease/grant", {{"TTL", std::to_string(whole)}}));
    lease_id_ = granted.value("ID", "");
    if (lease_id_.empty()) return invalid("etcd granted a lease without a number");
  }
  const std::string key = to_base64(options_.prefix + "/leader");
  const Json absent = {
      {"key", key}, {"target", "CREATE"}, {"result", "EQUAL"}, {"create_revision", "0"}};
  const Json put = {
      {"requestPut", {{"key", key}, {"value", to_base64(address_)}, {"lease", lease_id_}}}};
  const Json get = {{"requestRange", {{"key", key}}}};
  const auto answer = client_.call("/v3/kv/txn", {{"compare", Json::array({absent})},
                                                  {"success", Json::array({put})},
                                                  {"failure", Json::array({get})}});
  // Without an answer it is not known whether the key was put under the lease.
  if (!answer && answer.error().code == ErrorCode::kUnavailable) return answer.error();
  if (!answer || !answer.value().value("succeeded", false)) {
    // The lease would end before the next election, in which it would then be refused.
    revoke();
    if (!answer) return answer.error();
    return ok();
  }
  const std::int64_t term = etcd_number(answer.value().at("header"), "revision");
  has_lease_ = true;
  const std::scoped_lock lock(mutex_);
  term_ = term;
  until_ = began + lease_ * 3 / 4;
  leader_ = address_;
  log::info("this process leads, term {}", term_);
  return ok();
}

/// Keeps the lease alive. A term that lapsed without an answer resumes if its lease has outlived
/// the silence: no other process can have led meanwhile.
Result<void> EtcdLeadership::keep() {
  const TimePoint began = steady_now();
  TAUT_TRY(const Json answer, client_.call("/v3/lease/keepalive", {{"ID", lease_id_}}));
  const Json result = answer.value("result", Json::object());
  if (etcd_number(result, "TTL") <= 0) {
    lose("the lease was not kept alive");
    return ok();
  }
  const std::scoped_lock lock(mutex_);
  until_ = began + lease_ * 3 / 4;
  return ok();
}

/// Ends the lease, if there is one: the next election needs a new one.
void EtcdLeadership::revoke() {
  if (lease_id_.empty()) return;
  const std::string id = std::exchange(lease_id_, {});
  [[maybe_unused]] const auto revoked = client_.call("/v3/lease/revoke", {{"ID", id}});
}

/// Ends the current term: the next one needs a new lease.
void EtcdLeadership::lose(const std::string& why) {
  has_lease_ = false;
  const std::scoped_lock lock(mutex_);
  log::warn("term {} is over: {}", term_, why);
  term_ = 0;
  resigns_ = false;
  leader_.clear();
  lease_id_.clear();
}

void EtcdLeadership::pause(Duration length) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, std::chrono::microseconds(length.count()),
                 [this] { return stopping_ || resigns_; });
}

}  // namespace taut
