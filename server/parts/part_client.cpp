#include "server/parts/part_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace taut::server {
namespace {

constexpr Duration kStep{50'000};

}  // namespace

Result<std::uint64_t> PartClient::send(const std::string& address, pb::PartRequest request,
                                       Frame payload, bool is_asked) {
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
  pending.address = address;
  pending.peer = peer->second;
  pending.bytes = payload.size();
  pending.begun = pending.sent = steady_now();
  pending.is_asked = is_asked;
  pending.message.body = DataPartRequest{std::move(request), std::move(payload)};
  waiting_bytes_ += pending.bytes;
  // A full queue: it is sent again.
  (void)endpoint_->send(pending.peer, encode(pending.message));
  return id;
}

void PartClient::receive(const Incoming& incoming) {
  auto message = decode_data(incoming.message);
  if (!message) return;
  auto* reply = std::get_if<DataPartReply>(&message.value().body);
  if (reply == nullptr) return;
  const auto found = pending_.find(reply->head.request());
  if (found == pending_.end() || found->second.peer != incoming.from) return;
  Pending pending = std::move(found->second);
  pending_.erase(found);
  waiting_bytes_ -= pending.bytes;
  heard_[pending.address] = steady_now();
  if (pending.is_asked) {
    answers_[reply->head.request()] = std::move(*reply);
  } else if (!reply->head.error().empty() && !failed_) {
    failed_ = make_error(ErrorCode::kIo, reply->head.error());
  }
}

Result<void> PartClient::step() {
  if (stopping_) return make_error(ErrorCode::kClosed, "the server ends");
  if (auto incoming = endpoint_->receive(kStep)) {
    receive(*incoming);
    return ok();
  }
  const TimePoint now = steady_now();
  for (auto& [id, pending] : pending_) {
    const auto heard = heard_.find(pending.address);
    const TimePoint since =
        heard == heard_.end() ? pending.begun : std::max(pending.begun, heard->second);
    if (now - since >= silence_) {
      Error error = make_error(ErrorCode::kTimeout,
                               fmt::format("the server at {} has not answered for {:g} s",
                                           pending.address, seconds(silence_)));
      forget_all();
      return error;
    }
    if (now - pending.sent < kAgain) continue;
    pending.sent = now;
    (void)endpoint_->send(pending.peer, encode(pending.message));
  }
  return ok();
}

void PartClient::forget_all() {
  pending_.clear();
  waiting_bytes_ = 0;
  answers_.clear();
  failed_.reset();
}

Result<DataPartReply> PartClient::ask(const std::string& address, pb::PartRequest request,
                                      Frame payload) {
  const std::scoped_lock lock(mutex_);
  TAUT_TRY(const std::uint64_t id, send(address, std::move(request), std::move(payload), true));
  while (true) {
    const auto found = answers_.find(id);
    if (found != answers_.end()) {
      DataPartReply reply = std::move(found->second);
      answers_.erase(found);
      if (!reply.head.error().empty()) return make_error(ErrorCode::kIo, reply.head.error());
      return reply;
    }
    TAUT_TRY(step());
  }
}

Result<void> PartClient::settle_below(std::uint64_t bytes) {
  while (!failed_ && waiting_bytes_ > bytes) {
    TAUT_TRY(step());
  }
  while (!failed_ && bytes == 0 && !pending_.empty()) {
    TAUT_TRY(step());
  }
  if (!failed_) return ok();
  Error error = *std::exchange(failed_, std::nullopt);
  forget_all();
  return error;
}

Result<void> PartClient::post(const std::string& address, pb::PartRequest request, Frame payload) {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t bytes = payload.size();
  TAUT_TRY(settle_below(kWindow - std::min(kWindow, bytes)));
  TAUT_TRY(send(address, std::move(request), std::move(payload), false));
  return ok();
}

Result<void> PartClient::settle() {
  const std::scoped_lock lock(mutex_);
  return settle_below(0);
}

}  // namespace taut::server
