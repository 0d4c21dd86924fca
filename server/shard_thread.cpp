#include "server/shard_thread.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <limits>
#include <type_traits>
#include <utility>

#include "common/failpoint.hpp"
#include "common/log.hpp"
#include "common/timeline.hpp"
#include "proto/rights.hpp"
#include "proto/wire_version.hpp"
#include "server/ungreeted.hpp"

namespace taut::server {
namespace {

constexpr Duration kIdle{100'000};
constexpr Bytes kKeptBytes{1ULL << 30U};
// How many bytes a peer may leave unread in addition to the size of all the shard's values: a
// worker that is suspended for a while has asked for each of them once.
constexpr std::uint64_t kUnreadBytes = 64ULL << 20U;
// Limits on what has arrived from a peer and was not read: two messages, and of an incomplete one
// as much as one may have. Clients and backups send 5 MiB in one at most, so that a busy shard does
// not close their connections. Empty frames take twice their bytes on the wire under CURVE and 32
// times those on a plain plane, which this does not bound well: docs/SECURITY.md, "Not yet".
constexpr Bytes kMessageBytes{12ULL << 20U};
constexpr std::size_t kArrivedMessages = 2;
// The most connections that are known to have said hello; beyond this, all must say it again.
constexpr std::size_t kMaxGreeted = 65536;

/// Writes a number that only this thread writes.
template <class Number>
void note(std::atomic<Number>& number, std::type_identity_t<Number> value) {
  number.store(value, std::memory_order_relaxed);
}

void count(std::atomic<std::uint64_t>& number, std::uint64_t more) {
  note(number, number.load(std::memory_order_relaxed) + more);
}

void log_opened(const OpenedTables& opened) {
  const auto mib = [](std::uint64_t bytes) {
    return static_cast<double>(bytes) / (1024.0 * 1024.0);
  };
  const std::string more =
      opened.compensation == 0
          ? ""
          : fmt::format(", of which delay compensation may take up to {:.1f} MiB",
                        mib(opened.compensation));
  log::info("job {}: its tables take {:.1f} MiB here{}", opened.job.value(), mib(opened.bytes),
            more);
}

}  // namespace

Result<std::unique_ptr<ShardThread>> ShardThread::start(ZmqContext& context,
                                                        const std::string& address, Options options,
                                                        OnReport on_report) {
  EndpointLimits limits;
  limits.unread = Bytes(std::numeric_limits<std::uint64_t>::max());  // may_send() limits it
  limits.frame = kMessageBytes;
  limits.arrived_messages = kArrivedMessages;
  auto endpoint = context.make_data_endpoint(limits);
  TAUT_TRY(std::string bound, endpoint->bind(address));
  std::shared_ptr<SharedArena> arena;
  if (options.shared_memory) {
    // The end of a job returns its memory. Those that read it trust a server.
    if (auto created = SharedArena::create(Bytes(0), {}, ArenaPages::kReturned)) {
      arena = std::move(created.value());
    } else {
      log::warn("payloads travel as bytes, on one machine too: {}", created.error().message);
    }
  }
  return std::unique_ptr<ShardThread>(new ShardThread(std::move(endpoint), std::move(bound),
                                                      std::move(options), std::move(arena),
                                                      std::move(on_report)));
}

ShardThread::ShardThread(std::unique_ptr<Endpoint> endpoint, std::string address, Options options,
                         std::shared_ptr<SharedArena> arena, OnReport on_report)
    : endpoint_(std::move(endpoint)),
      address_(std::move(address)),
      options_(std::move(options)),
      on_report_(std::move(on_report)),
      shared_(arena),
      images_(arena),
      pool_(kKeptBytes, arena ? std::move(arena) : host_allocator()),
      shard_(ShardId(static_cast<std::uint32_t>(options_.index)), pool_,
             SliceLayout::kSliceElements, options_.initial) {
  shard_.limit_memory(options_.memory);
  shard_.set_dial({.connect =
                       [this](const std::string& address) {
                         auto peer = endpoint_->connect(address);
                         if (peer) images_.add(peer.value());
                         if (peer) return peer.value();
                         log::warn("no images can be sent to {}: {}", address,
                                   peer.error().message);
                         return PeerId(0);
                       },
                   .disconnect =
                       [this](PeerId peer) {
                         images_.remove(peer);
                         endpoint_->disconnect(peer);
                       }});
  thread_ = std::thread([this] { run(); });
}

ShardThread::~ShardThread() {
  stopping_ = true;
  commands_.close();
  endpoint_->wake();
  thread_.join();
  images_.abandon_memory();
}

void ShardThread::set_job(ShardId id, std::shared_ptr<const JobView> view,
                          std::shared_ptr<ShardImages> begin) {
  // A queue that stays full belongs to a shard that hangs; the coordinator will send again.
  if (!commands_.push({id, std::move(view), std::move(begin)}, Duration(1'000'000))) return;
  endpoint_->wake();
}

pb::ShardLoad ShardThread::load() const {
  pb::ShardLoad load;
  load.set_messages_in(load_.messages_in);
  load.set_messages_out(load_.messages_out);
  load.set_bytes_in(load_.bytes_in);
  load.set_bytes_out(load_.bytes_out);
  load.set_busy_s(1e-6 * static_cast<double>(load_.busy_us));
  load.set_dropped_updates(load_.dropped_updates);
  load.set_dynamic_job(load_.dynamic_job);
  load.set_dynamic_slack(load_.dynamic_slack);
  load.set_unproven_messages(load_.unproven);
  load.set_rows(load_.rows);
  load.set_address(address_);
  const std::scoped_lock lock(positions_mutex_);
  // If the thread hangs, the last known lag has grown since.
  const Duration since = steady_now() - lags_at_;
  for (const BackupLag& lag : lags_) {
    pb::BackupLag& one = *load.add_backup_lags();
    one.set_job(lag.job.value());
    one.set_shard(lag.shard.value());
    one.set_term(lag.term);
    one.set_choice(lag.choice);
    one.set_behind_s(lag.time > Duration::zero() ? seconds(lag.time + since) : 0.0);
    one.set_behind_clocks(lag.clocks);
  }
  if (!positions_) return load;
  pb::JobClocks& clocks = *load.mutable_clocks();
  clocks.set_job(positions_->job.value());
  clocks.set_version(positions_->version.value());
  for (const auto& [worker, position] : positions_->members) {
    pb::JobClocks::MemberClock& member = *clocks.add_members();
    member.set_worker(worker.value());
    member.set_clock(position.clock.value());
    member.set_waits(position.waits);
  }
  return load;
}

ShardQueues ShardThread::queues() const {
  return {load_.parked_reads,      load_.held_updates, load_.held_bytes,
          load_.postponed_updates, load_.rows,         load_.dropped_rows};
}

void ShardThread::run() {
  log::set_context(static_cast<std::int64_t>(options_.index), -1);
  timeline::set_lane(static_cast<std::int32_t>(options_.index));
  while (!stopping_) {
    while (auto command = commands_.pop(Duration::zero())) execute(*command);
    while (auto one = replies_.pop(Duration::zero())) {
      send({{one->first, DataMessage{JobId(), WorkerId(), Incarnation(), std::move(one->second)}}});
    }
    if (auto incoming = endpoint_->receive(kIdle)) {
      const TimePoint begin = steady_now();
      count(load_.messages_in, 1);
      receive(*incoming);
      const TimePoint end = steady_now();
      count(load_.busy_us, static_cast<std::uint64_t>((end - begin).count()));
      if (end >= positions_due_) note_positions(end);
    } else {
      note_positions(steady_now());
      shard_.yield_spares();
      hand_captures_out();
    }
    note(load_.unproven, misused_ + endpoint_->unadmitted());
    send(shard_.take_images(steady_now()));
    report_changes();
    shared_.sweep(steady_now());
    images_.sweep(steady_now());
  }
}

/// Reports to the coordinator what has changed under the same revision.
void ShardThread::report_changes() {
  for (const JobId job : shard_.take_changed()) {
    on_report_(options_.index, shard_.report(job));
    failpoint("change reported");
  }
}

void ShardThread::execute(const Command& command) {
  shard_.set_id(command.id);
  send(shard_.set_job(command.view, command.begin ? std::move(*command.begin) : ShardImages()));
  note_state();
  ShardReport report = shard_.report(command.view->job);
  if (command.view->finished) {
    report.job = command.view->job;
    report.revision = command.view->revision;
  }
  on_report_(options_.index, std::move(report));
  hand_captures_out();
}

void ShardThread::hand_captures_out() {
  for (SpareStock& stock : shard_.take_stocks()) {
    if (options_.on_stock) options_.on_stock(std::move(stock));
  }
  for (SpareExcess& excess : shard_.take_excesses()) {
    if (options_.on_excess) options_.on_excess(std::move(excess));
  }
  for (ShardCapture& capture : shard_.take_captures()) {
    failpoint("checkpoint captured");
    if (options_.on_capture) options_.on_capture(options_.index, std::move(capture));
  }
}

void ShardThread::reply(PeerId to, DataPartReply answer) {
  if (!replies_.push({to, std::move(answer)}, Duration::zero())) return;
  endpoint_->wake();
}

bool ShardThread::take_part_request(const Incoming& incoming, DataMessage& message) {
  auto* request = std::get_if<DataPartRequest>(&message.body);
  if (request == nullptr) return false;
  if (std::string refusal = refusal_of(incoming.sender.get(), message, ""); !refusal.empty()) {
    DataPartReply refused;
    refused.head.set_request(request->head.request());
    refused.head.set_error(std::move(refusal));
    send({{incoming.from, DataMessage{JobId(), WorkerId(), Incarnation(), std::move(refused)}}});
  } else if (options_.on_part_request) {
    options_.on_part_request(*this, incoming.from, std::move(*request));
  }
  return true;
}

bool ShardThread::is_misuse(const Incoming& incoming, const DataMessage& message) {
  if (!incoming.scope) return false;
  const std::string reason = shard_.misuse_of(*incoming.scope, message);
  if (reason.empty()) return false;
  // The 1st, 2nd, 4th, 8th ...: a peer cannot fill the log.
  if (std::has_single_bit(++misused_)) {
    log::warn("dropped a message at {} with the secret of \"{}\" ({} so far): {}", address_,
              incoming.sender->name, misused_, reason);
  }
  return true;
}

bool ShardThread::may_decode(const Incoming& incoming) {
  // On a plain plane the secret in the message proves more than a hello.
  if (incoming.scope || greeted_.contains(incoming.from)) return true;
  const auto envelope = envelope_of(incoming.message);
  // A message without a header is refused when it is decoded.
  if (!envelope || may_decode_ungreeted(*envelope, incoming.sender.get())) return true;
  // Most likely a client whose connection was replaced without its knowledge.
  pb::DataHelloReply reply;
  reply.set_wire_version(kWireVersion);
  reply.set_build(build_name());
  reply.set_reason("say hello first");
  reply.set_greet_again(true);
  send({{incoming.from, DataMessage{envelope->job, WorkerId(), Incarnation(), std::move(reply)}}});
  return false;
}

/// Opens what a peer of this machine offers once its hello was accepted.
void ShardThread::hear_offer(const Incoming& incoming, const DataMessage& hello,
                             const std::vector<Outgoing>& answers) {
  const bool is_accepted = std::ranges::any_of(answers, [](const Outgoing& one) {
    const auto* reply = std::get_if<pb::DataHelloReply>(&one.message.body);
    return reply != nullptr && reply->accepted();
  });
  if (!is_accepted) return;
  if (greeted_.size() >= kMaxGreeted) greeted_.clear();
  greeted_.insert(incoming.from);
  shared_.hear(incoming.from, hello);
}

/// Takes images out of their primary's memory, if they are for this shard.
bool ShardThread::take_lent(const Incoming& incoming, JobId job, DataImages& images) {
  if (!images.lent_to) return true;
  const Envelope envelope{job, pb::DataHeader::kImages};
  if (!may_decode_ungreeted(envelope, incoming.sender.get())) return false;
  if (!shard_.expects(job, images)) {
    images_.give_back(images);
    return false;
  }
  const timeline::Span span(timeline::Row::kPush, "copy images");
  const auto taken = images_.take(images);
  if (!taken) note_dropped(taken.error());
  return taken.has_value();
}

void ShardThread::note_dropped(const Error& why) {
  // The 1st, 2nd, 4th, 8th ...: a peer cannot fill the log.
  if (!std::has_single_bit(++undecodable_)) return;
  log::warn("dropped a message at {} ({} so far): {}", address_, undecodable_, why.message);
}

void ShardThread::receive(const Incoming& incoming) {
  shared_.collect();
  if (!may_decode(incoming)) return;
  auto message = [&] {
    const timeline::Span span(timeline::Row::kPush, "receive");
    return decode_data(incoming.message, shared_.link(incoming.from));
  }();
  if (!message) return note_dropped(message.error());
  if (is_misuse(incoming, message.value())) return;
  const bool is_part = std::holds_alternative<DataPartRequest>(message.value().body);
  if (is_part) count(load_.bytes_in, payload_bytes(message.value()));
  if (take_part_request(incoming, message.value())) return;
  std::optional<pb::SharedMemory> offer;  // of a primary that lends nothing yet
  if (auto* sent = std::get_if<DataImages>(&message.value().body)) {
    if (!take_lent(incoming, message.value().job, *sent)) return;
    if (!sent->lent_to) offer = sent->memory;
  } else if (auto* reply = std::get_if<pb::SliceImagesReply>(&message.value().body)) {
    images_.hear(incoming.from, *reply);
  }
  count(load_.bytes_in, payload_bytes(message.value()));
  std::optional<DataMessage> hello;
  if (std::holds_alternative<pb::DataHello>(message.value().body)) {
    hello = message.value();
  } else {
    shared_.hear(incoming.from, message.value());
  }
  std::vector<Outgoing> answers;
  {
    const timeline::Span span(timeline::Row::kUpdate, "update");
    answers = shard_.handle(incoming.from, std::move(message.value()), steady_now(),
                            incoming.sender.get());
  }
  if (hello) hear_offer(incoming, *hello, answers);
  for (Outgoing& one : answers) {
    auto* reply = std::get_if<pb::SliceImagesReply>(&one.message.body);
    if (offer && reply != nullptr) images_.answer(*offer, *reply);
  }
  note_state();
  for (const OpenedTables& opened : shard_.take_opened()) log_opened(opened);
  // Here, what was applied of the message has been released: a worker that has its answer has its
  // memory back.
  failpoint("answers made");
  send(std::move(answers));
  hand_captures_out();
}

/// Publishes what waits, what was not accepted, and the slack of a job whose slack is dynamic.
void ShardThread::note_state() {
  note(load_.dropped_updates, shard_.dropped_updates());
  const ShardQueues& queues = shard_.queues();
  note(load_.postponed_updates, queues.postponed_updates);
  note(load_.parked_reads, queues.parked_reads);
  note(load_.held_updates, queues.held_updates);
  note(load_.held_bytes, queues.held_bytes);
  note(load_.rows, queues.rows);
  note(load_.dropped_rows, queues.dropped_rows);
  const auto moving = shard_.moving_slack();
  note(load_.dynamic_job, moving ? moving->job.value() : 0);
  note(load_.dynamic_slack, moving ? moving->slack.clocks() : 0);
}

/// Takes at most a hundredth of the thread's time, whatever the number of slices and members.
void ShardThread::note_positions(TimePoint now) {
  constexpr Duration kBetween{100'000};
  auto positions = shard_.positions();
  auto lags = shard_.backup_lags(now);
  const TimePoint end = steady_now();
  positions_due_ = end + std::max(kBetween, 100 * (end - now));
  const std::scoped_lock lock(positions_mutex_);
  positions_ = std::move(positions);
  lags_ = std::move(lags);
  lags_at_ = now;
}

/// Whether a peer has read enough of its answers to get another one. Values that a peer has not
/// read outlive their replacement by newer ones, so they could take unlimited memory.
bool ShardThread::may_send(const Outgoing& one, SharedLink* link) {
  const auto waiting = [&] {
    return endpoint_->unread(one.to) + (link == nullptr ? 0 : link->bytes_on_loan());
  };
  const bool has_values = std::holds_alternative<DataItems>(one.message.body);
  const std::uint64_t more = has_values ? payload_bytes(one.message) : 0;
  if (waiting() + more <= kUnreadBytes) return true;
  if (link != nullptr) link->collect();
  if (waiting() + more <= kUnreadBytes + shard_.value_bytes()) return true;
  // The 1st, 2nd, 4th, 8th ...: a peer cannot fill the log.
  if (std::has_single_bit(++unread_)) {
    log::warn("dropped an answer at {} ({} so far): the peer has not read {} bytes", address_,
              unread_, waiting());
  }
  return false;
}

/// The link by which a message's payloads are lent; nullptr if they are sent as bytes.
SharedLink* ShardThread::link_for(Outgoing& one) {
  auto* const images = std::get_if<DataImages>(&one.message.body);
  return images == nullptr ? shared_.link(one.to) : images_.offer(one.to, *images);
}

void ShardThread::send(std::vector<Outgoing> messages) {
  if (messages.empty()) return;
  const timeline::Span span(timeline::Row::kPull, "answer");
  for (Outgoing& one : messages) {
    // A peer that has gone returns as another one and repeats its request.
    shared_.answer(one.to, one.message);
    SharedLink* link = link_for(one);
    // The link itself limits what is lent of images.
    const bool are_images = std::holds_alternative<DataImages>(one.message.body);
    if (!may_send(one, are_images ? nullptr : link)) continue;
    count(load_.messages_out, 1);
    count(load_.bytes_out, payload_bytes(one.message));
    const std::uint64_t lent = link == nullptr ? 0 : link->lent_so_far();
    if (auto sent = endpoint_->send(one.to, encode(one.message, link)); !sent) {
      log::debug("{}", sent.error().message);
      if (link != nullptr) link->undo_since(lent);
    }
    failpoint("answer sent");
  }
}

}  // namespace taut::server
