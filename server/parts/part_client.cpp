#include "server/parts/part_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace taut::server {
namespace {

constexpr Duration kStep{50'000};

}  // namespace

pb::PartRequest part_request(pb::PartRequest::Kind kind, std::uint64_t token,
                             const std::string& folder, const std::string& file) {
  pb::PartRequest request;
  request.set_kind(kind);
  request.set_token(token);
  request.set_folder(folder);
  request.set_file(file);
  return request;
}

Result<std::uint64_t> PartClient::send(std::uint64_t owner, const std::string& address,
                                       pb::PartRequest request, Frame payload) {
  const auto [peer, is_new] = peers_.try_emplace(address);
  if (is_new) {
    auto connected = endpoint_->connect(address);
    if (!connected) {
      peers_.erase(address);
      return connected.error();
    }
    peer->second = connected.value();
  }
  const std::uint64_t id = next_++;
  request.set_request(id);
  Pending& pending = pending_[id];
  pending.owner = owner;
  pending.address = address;
  pending.peer = peer->second;
  pending.bytes = payload.size();
  pending.begun = pending.sent = steady_now();
  pending.message.body = DataPartRequest{std::move(request), std::move(payload)};
  // If the queue is full, it is sent again later.
  (void)endpoint_->send(pending.peer, encode(pending.message));
  return id;
}

void PartClient::receive(const Incoming& incoming) {
  auto message = decode_data(incoming.message);
  if (!message) return;
  auto* reply = std::get_if<DataPartReply>(&message.value().body);
  if (reply == nullptr) return;
  const std::uint64_t id = reply->head.request();
  const auto found = pending_.find(id);
  if (found == pending_.end() || found->second.peer != incoming.from) return;
  heard_[found->second.address] = steady_now();
  if (reply->head.working()) return;
  if (reply->head.error().empty()) {
    end(id, std::move(*reply));
  } else {
    end(id, make_error(ErrorCode::kIo, reply->head.error()));
  }
}

void PartClient::end(std::uint64_t id, Result<DataPartReply> result) {
  const std::uint64_t owner = pending_.at(id).owner;
  pending_.erase(id);
  if (owner == 0) {
    answers_.emplace(id, std::move(result));
  } else if (!result) {
    failed_.emplace(owner, result.error());
  }
}

std::string PartClient::why_lost(const Pending& pending, TimePoint now) const {
  const auto heard = heard_.find(pending.address);
  const TimePoint since =
      heard == heard_.end() ? pending.begun : std::max(pending.begun, heard->second);
  if (now - since >= silence_) {
    return fmt::format("the server at {} has not answered for {:g} s", pending.address,
                       seconds(silence_));
  }
  if (now - pending.begun >= kMaxRequestTime) {
    return fmt::format("the disk of the server at {} has worked at a request for {:g} s",
                       pending.address, seconds(kMaxRequestTime));
  }
  return "";
}

Result<void> PartClient::step() {
  if (stopping_) return make_error(ErrorCode::kClosed, "the server ends");
  if (auto incoming = endpoint_->receive(kStep)) {
    receive(*incoming);
    return ok();
  }
  const TimePoint now = steady_now();
  std::vector<std::pair<std::uint64_t, std::string>> lost;
  for (auto& [id, pending] : pending_) {
    if (std::string why = why_lost(pending, now); !why.empty()) {
      lost.emplace_back(id, std::move(why));
      continue;
    }
    if (now - pending.sent < kAgain) continue;
    pending.sent = now;
    (void)endpoint_->send(pending.peer, encode(pending.message));
  }
  for (auto& [id, why] : lost) end(id, make_error(ErrorCode::kTimeout, std::move(why)));
  return ok();
}

Result<DataPartReply> PartClient::ask(const std::string& address, pb::PartRequest request,
                                      Frame payload) {
  const std::scoped_lock lock(mutex_);
  TAUT_TRY(const std::uint64_t id, send(0, address, std::move(request), std::move(payload)));
  while (true) {
    const auto found = answers_.find(id);
    if (found != answers_.end()) {
      Result<DataPartReply> reply = std::move(found->second);
      answers_.erase(found);
      return reply;
    }
    if (auto stepped = step(); !stepped) {
      pending_.erase(id);
      return stepped.error();
    }
  }
}

bool PartClient::is_settled(std::uint64_t owner, std::uint64_t bytes) const {
  std::uint64_t waiting = 0;
  for (const auto& [id, pending] : pending_) {
    if (pending.owner != owner) continue;
    if (bytes == 0) return false;
    waiting += pending.bytes;
  }
  return waiting <= bytes;
}

Result<void> PartClient::settle_below(std::uint64_t owner, std::uint64_t bytes) {
  while (!failed_.contains(owner) && !is_settled(owner, bytes)) {
    TAUT_TRY(step());
  }
  const auto failed = failed_.find(owner);
  if (failed == failed_.end()) return ok();
  Error error = std::move(failed->second);
  failed_.erase(failed);
  std::erase_if(pending_, [owner](const auto& entry) { return entry.second.owner == owner; });
  return error;
}

Result<void> PartClient::post(std::uint64_t owner, const std::string& address,
                              pb::PartRequest request, Frame payload) {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t bytes = payload.size();
  // Requests without a payload do not fill the window.
  if (bytes > 0) {
    TAUT_TRY(settle_below(owner, std::max<std::uint64_t>(kWindow - std::min(kWindow, bytes), 1)));
  }
  TAUT_TRY(send(owner, address, std::move(request), std::move(payload)));
  return ok();
}

Result<void> PartClient::settle(std::uint64_t owner) {
  const std::scoped_lock lock(mutex_);
  return settle_below(owner, 0);
}

void PartClient::discard(std::uint64_t owner) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(pending_, [owner](const auto& entry) { return entry.second.owner == owner; });
  failed_.erase(owner);
}

}  // namespace taut::server
