#include "proto/node_check/node_examiner.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/keys/key_file.hpp"
#include "common/keys/key_folder.hpp"
#include "common/log.hpp"
#include "common/system/host_name.hpp"
#include "common/system/memory.hpp"
#include "common/unix_time.hpp"
#include "proto/node_check/link_facts.hpp"
#include "proto/node_check/path_facts.hpp"
#include "proto/session/control_client.hpp"
#include "proto/wire_version.hpp"

namespace taut {
namespace {

constexpr Duration kLinksWithin = std::chrono::seconds(20);
constexpr Duration kCoordinatorWithin = std::chrono::seconds(3);
constexpr int kReadings = 8;

/// Each process starts at a different place in the list, so that not all reach the same shard
/// first.
std::vector<std::string> shards_to_reach(const pb::NodeCheck& check, const NodeSelf& self) {
  std::vector<std::string> shards;
  for (const std::string& address : check.shards()) {
    if (std::ranges::find(self.own_shards, address) == self.own_shards.end()) {
      shards.push_back(address);
    }
  }
  if (shards.empty()) return shards;
  const std::size_t first = static_cast<std::size_t>(::getpid()) % shards.size();
  std::rotate(shards.begin(), shards.begin() + static_cast<std::ptrdiff_t>(first), shards.end());
  return shards;
}

}  // namespace

NodeExaminer::NodeExaminer(ZmqContext& context, NodeSelf self)
    : context_(context), self_(std::move(self)) {}

NodeExaminer::~NodeExaminer() {
  {
    // Both under the lock, where a check that begins clears given_up_ unless stops_ is set.
    const std::scoped_lock lock(mutex_);
    stops_ = true;
    given_up_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void NodeExaminer::begin(const pb::NodeCheck& check, const std::optional<DataToken>& secret) {
  {
    const std::scoped_lock lock(mutex_);
    ordered_ = check;
    secret_ = secret;
    facts_.reset();
    given_up_ = true;
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void NodeExaminer::add_facts(pb::Heartbeat& heartbeat) const {
  const std::scoped_lock lock(mutex_);
  if (facts_) *heartbeat.mutable_facts() = *facts_;
}

void NodeExaminer::run() {
  while (true) {
    pb::NodeCheck check;
    std::optional<DataToken> secret;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stops_ || ordered_.has_value(); });
      if (stops_) return;
      check = std::move(*std::exchange(ordered_, std::nullopt));
      secret = secret_;
      given_up_ = false;
    }
    log::info("examined, as tautline doctor --cluster ordered");
    pb::NodeFacts facts = examine(check, secret);
    const std::scoped_lock lock(mutex_);
    if (!ordered_) facts_ = std::move(facts);
  }
}

pb::NodeFacts NodeExaminer::examine(const pb::NodeCheck& check,
                                    const std::optional<DataToken>& secret) {
  pb::NodeFacts facts;
  facts.set_number(check.number());
  facts.set_is_server(self_.is_server);
  facts.set_host(host_name());
  facts.set_build(build_name());
  facts.set_available_bytes(available_memory().value());
  if (self_.add_memory) self_.add_memory(facts);
  read_clock(facts);
  look_at_keys(*facts.mutable_keys());
  for (const std::string& path : check.paths()) *facts.add_paths() = describe_path(path);
  for (pb::LinkFacts& link :
       examine_links(context_, secret, shards_to_reach(check, self_), check.transfer_bytes(),
                     steady_now() + kLinksWithin, given_up_)) {
    *facts.add_links() = std::move(link);
  }
  return facts;
}

void NodeExaminer::read_clock(pb::NodeFacts& facts) {
  auto client =
      ControlClient::connect(context_.make_endpoint(), self_.coordinator, kCoordinatorWithin);
  for (int i = 0; client && i < kReadings && !given_up_; ++i) {
    const double sent = unix_time_s();
    const auto time = client.value().time();
    if (!time) return;
    pb::NodeClockReading& reading = *facts.add_clock();
    reading.set_sent(sent);
    reading.set_received(unix_time_s());
    reading.set_coordinator_s(time.value());
  }
}

void NodeExaminer::look_at_keys(pb::KeyFacts& facts) const {
  facts.set_insecure(self_.insecure);
  if (self_.insecure) return;
  std::filesystem::path folder = self_.keys_folder;
  if (folder.empty()) {
    const auto own = own_key_folder();
    if (own) folder = own.value();
  }
  std::error_code failed;
  folder = std::filesystem::absolute(folder, failed).lexically_normal();
  facts.set_folder(folder.string());
  struct stat found = {};
  if (::stat(folder.c_str(), &found) == 0) facts.set_mode(found.st_mode & 07777U);
  if (!self_.is_server) return;
  const auto keys = list_keys(folder);
  if (!keys) {
    facts.set_error(keys.error().message);
    return;
  }
  for (const AdmittedKey& key : keys.value()) {
    facts.add_admitted(fmt::format("{} {}", key.identity.name, role_name(key.identity.role)));
  }
}

}  // namespace taut
