#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/check.hpp"
#include "common/math/codec.hpp"
#include "common/math/filler.hpp"
#include "common/ssp/row_buckets.hpp"
#include "proto/config/job_state.hpp"
#include "proto/wire_version.hpp"
#include "server/shard.hpp"
#include "server/ungreeted.hpp"
#include "tests/fuzz/script.hpp"

// A shard, members of its jobs, and what others may send to it, for fuzzers of its state machine.
namespace taut::server::fuzzed {

using fuzz::Script;

constexpr std::uint32_t kMembers = 3;
constexpr std::uint64_t kValues = 6;
constexpr std::uint32_t kTables = 3;
constexpr TableId kRowTable(2);  // the one that is kept by rows
constexpr std::uint32_t kRows = 40;
constexpr std::uint32_t kBuckets = 2;
constexpr std::uint32_t kRowWidth = 2;
constexpr std::uint64_t kStrangers = 100;  // the first of their connections
constexpr std::uint32_t kHosts = 3;        // that keep images of each other's shards
constexpr std::uint64_t kHostPeers = 90;   // the first of their connections

/// The connection to a host, and from it.
inline PeerId peer_of(std::uint32_t host) {
  return PeerId(kHostPeers + host);
}

inline std::string address_of(std::uint32_t host) {
  return "127.0.0.1:" + std::to_string(host + 1);
}

/// A job whose members are w0, w1 and so on, of incarnation 100, 101 and so on.
inline pb::ServerJob make_job(JobId id, Slack slack) {
  pb::ServerJob job;
  job.set_job(id.value());
  job.set_revision(1);
  job.mutable_definition()->mutable_solver_param()->set_base_lr(0.5F);
  job.mutable_definition()->mutable_solver_param()->set_momentum(0.9F);
  job.mutable_definition()->mutable_solver_param()->set_max_iter(1000);
  for (std::uint32_t i = 0; i < kMembers; ++i) {
    pb::Member& member = *job.add_members();
    member.set_worker(i);
    member.set_name("w" + std::to_string(i));
    member.set_incarnation(100 + i);
    member.set_leave_clock(Clock::never().value());
  }
  job.add_modes()->set_mode(slack == Slack(0) ? pb::ModeChange::AGGREGATE
                                              : pb::ModeChange::ON_ARRIVAL);
  job.set_slack(slack.clocks());
  job.set_hold_from(Clock::never().value());
  job.add_shards()->set_shard(0);
  return job;
}

inline TableSpec make_table(std::uint32_t id) {
  TableSpec table;
  table.id = TableId(id);
  table.name = "table" + std::to_string(id);
  table.shape = {static_cast<std::int64_t>(kValues)};
  table.filler = {math::Filler::Kind::kUniform, -1.0F, 1.0F};
  if (table.id == kRowTable) {
    table.shape = {kRows, kRowWidth};
    table.rows = RowTable{.buckets = kBuckets, .max_rows = 10, .idle_clocks = 4};
  }
  return table;
}

/// The payload of a push of these rows, with values that `stream` draws, or of a read: the numbers.
inline Frame row_payload(const std::vector<std::uint64_t>& rows, bool pushes,
                         const std::string& stream, std::uint64_t width = kRowWidth) {
  std::vector<float> values(pushes ? rows.size() * width : 0);
  math::fill({math::Filler::Kind::kGaussian, 0.0F, 1.0F}, 3, stream, 0, values);
  std::string bytes(rows.size() * sizeof(std::uint64_t) + values.size() * sizeof(float), '\0');
  if (!rows.empty()) std::memcpy(bytes.data(), rows.data(), rows.size() * sizeof(std::uint64_t));
  if (!values.empty()) {
    std::memcpy(bytes.data() + rows.size() * sizeof(std::uint64_t), values.data(),
                values.size() * sizeof(float));
  }
  return Frame::copy_of(bytes);
}

/// A shard, and what it tells the members of a job.
class Side {
 public:
  /// What is on its way to another host.
  struct Sent {
    std::uint32_t to = 0;
    DataMessage message;
  };

  explicit Side(const pb::ServerJob& job, ShardId host = ShardId(0))
      : job_(job.job()), shard_(host, pool_) {
    shard_.set_dial({[](const std::string& address) {
                       for (std::uint32_t to = 0; to < kHosts; ++to) {
                         if (address == address_of(to)) return peer_of(to);
                       }
                       return peer_of(kHosts);  // none hears it
                     },
                     [](PeerId) {}});
    shard_.limit_memory(memory_);
    set(job);
  }
  void set(const pb::ServerJob& job) {
    auto view = make_job_view(job);
    TAUT_CHECK(view.has_value(), "the job can be served");
    hear(shard_.set_job(view.value()));
  }
  void handle(PeerId from, const DataMessage& message, TimePoint now, const Identity& sender) {
    hear(shard_.handle(from, message, now, &sender));
  }
  /// What it has sent to other hosts since the last call.
  [[nodiscard]] std::vector<Sent> take_sent() { return std::exchange(sent_, {}); }
  /// All that a daemon asks of it between messages.
  void look(JobId job) {
    (void)shard_.report(job);
    (void)shard_.positions();
    (void)shard_.moving_slack();
    (void)shard_.take_captures();
    (void)shard_.take_stocks();
    (void)shard_.take_excesses();
  }
  void tick(TimePoint now) { hear(shard_.take_images(now)); }
  /// What the members were told since the last call, and how far their job is.
  [[nodiscard]] std::string take() {
    const ShardReport report = shard_.report(job_);
    TAUT_CHECK(shard_.value_bytes() <= memory_->taken().value(),
               "values take more memory than was reserved for them");
    told_ += "|" + std::to_string(report.max_done.value()) + "," +
             std::to_string(report.min_version.value()) + "," + report.error;
    return std::exchange(told_, {});
  }
  /// What the shard counts of all jobs.
  [[nodiscard]] std::string counts() const {
    const ShardQueues& queues = shard_.queues();
    return std::to_string(queues.parked_reads) + "," + std::to_string(queues.held_updates) + "," +
           std::to_string(queues.postponed_updates) + "," + std::to_string(shard_.value_bytes()) +
           "," + std::to_string(memory_->taken().value());
  }

 private:
  void hear(const std::vector<Outgoing>& answers) {
    for (const Outgoing& one : answers) {
      for (std::uint32_t to = 0; to < kHosts; ++to) {
        if (one.to == peer_of(to)) sent_.push_back({to, one.message});
      }
      if (one.to.value() >= kStrangers || one.message.job != job_) continue;
      for (const Frame& frame : encode(one.message).frames) told_ += frame.text();
    }
  }

  const JobId job_;
  BufferPool pool_;
  std::shared_ptr<TableMemory> memory_ = std::make_shared<TableMemory>(Bytes(1 << 18));
  Shard shard_;
  std::string told_;
  std::vector<Sent> sent_;
};

/// A worker of the job: it greets, opens its tables, and then pushes a clock and reads the next.
class Worker {
 public:
  /// pushed  as which it sends the updates of tables that are not kept by rows
  Worker(JobId job, std::uint32_t number, std::uint32_t shard = 0, std::uint64_t term = 0,
         const math::Encoding& pushed = {})
      : job_(job), number_(number), shard_(shard), term_(term), pushed_(pushed) {}

  [[nodiscard]] DataMessage next(const std::string& hash) {
    DataMessage message{job_, WorkerId(number_), Incarnation(100 + number_), {}};
    if (step_ == 0) {
      pb::DataHello hello = hello_of(hash);
      hello.set_shard(shard_);
      hello.set_term(term_);
      message.body = hello;
    } else if (step_ == 1) {
      pb::OpenTables open;
      for (std::uint32_t i = 0; i < kTables; ++i) *open.add_tables() = to_wire(make_table(i));
      message.body = open;
    } else {
      const int clock = (step_ - 2) / 2;
      const bool pushes = step_ % 2 == 0;
      DataItems items;
      for (std::uint32_t table = 0; table < 2; ++table) {
        DataItem& item = items.items.emplace_back();
        item.kind = pushes ? pb::DataItem::PUSH : pb::DataItem::READ;
        item.table = TableId(table);
        item.count = kValues;
        item.clock = Clock(pushes ? clock : clock + 1);
        if (!pushes) continue;
        item.encoding = pushed_;
        item.payload = gradient(table, clock);
      }
      for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
        DataItem& item = items.items.emplace_back();
        item.kind = pushes ? pb::DataItem::PUSH : pb::DataItem::READ;
        item.table = kRowTable;
        item.slice = SliceId(bucket);
        item.offset = bucket;
        item.count = kRowWidth;
        item.clock = Clock(pushes ? clock : clock + 1);
        name_rows(item, bucket, clock, pushes);
      }
      message.body = std::move(items);
    }
    ++step_;
    return message;
  }

  static pb::DataHello hello_of(const std::string& hash) {
    pb::DataHello hello;
    hello.set_wire_version(kWireVersion);
    hello.set_role("worker");
    hello.set_job_hash(hash);
    hello.set_shard(0);
    return hello;
  }

 private:
  /// The rows that it names at a clock and that are in one bucket.
  void name_rows(DataItem& item, std::uint32_t bucket, int clock, bool pushes) const {
    std::vector<std::uint64_t> rows;
    for (std::uint64_t row = 0; row < kRows; ++row) {
      const bool is_named = (row + static_cast<std::uint64_t>(clock) + number_) % 5 == 0;
      if (is_named && bucket_of(row, kBuckets) == bucket) rows.push_back(row);
    }
    item.by_rows = true;
    item.rows = static_cast<std::uint32_t>(rows.size());
    item.payload = row_payload(rows, pushes, std::to_string(number_) + std::to_string(clock));
  }
  [[nodiscard]] Frame gradient(std::uint32_t table, int clock) const {
    std::vector<float> values(kValues);
    const std::string stream =
        std::to_string(number_) + "/" + std::to_string(table) + "/" + std::to_string(clock);
    math::fill({math::Filler::Kind::kGaussian, 0.0F, 1.0F}, 3, stream, 0, values);
    std::string bytes(math::encoded_bytes(pushed_, kValues), '\0');
    std::vector<float> state(math::state_values(pushed_, kValues));
    math::encode(pushed_, values, math::draw_of(1, 2, number_, table, 0),
                 std::as_writable_bytes(std::span(bytes)).data(), state);
    return Frame::copy_of(bytes);
  }

  const JobId job_;
  const std::uint32_t number_;
  const std::uint32_t shard_;
  const std::uint64_t term_;
  const math::Encoding pushed_;
  int step_ = 0;
};

/// Of updates, in a job that compresses them.
constexpr math::Encoding kSparse{math::Codec::kTopK, 2};

/// Most often none, then the one that a job may have, and any other.
inline math::Encoding strange_encoding(Script& script) {
  const std::uint32_t kind = script.pick(4);
  if (kind > 1) return {};
  if (kind == 1) return kSparse;
  math::Encoding encoding{static_cast<math::Codec>(script.pick(math::kCodecs))};
  if (encoding.is_sparse()) encoding.every = 2 + script.pick(8);
  if (encoding.codec == math::Codec::kLowRank) {
    encoding.rank = 1 + script.pick(3);
    encoding.columns = 1 + script.pick(8);
  }
  return encoding;
}

/// Any values in it; nothing where there would be too many.
inline Frame strange_payload(Script& script, const math::Encoding& encoding, std::uint64_t count) {
  if (count >= 64) return {};
  std::string bytes(math::encoded_bytes(encoding, count), '\0');
  const auto given = script.bytes(bytes.size());
  if (!given.empty()) std::memcpy(bytes.data(), given.data(), given.size());
  return Frame::copy_of(bytes);
}

/// Rows of any numbers and order, in an item of any kind.
inline void strange_rows(Script& script, DataItem& item) {
  item.by_rows = true;
  const bool pushes = item.kind == pb::DataItem::PUSH || item.kind == pb::DataItem::PUSH_READ;
  if (script.pick(8) > 0) item.count = kRowWidth;
  if (item.count >= 64) return;
  if (item.slice == SliceId(0)) item.slice = SliceId(script.pick(kBuckets + 1));
  if (item.offset == 0) item.offset = item.slice.value();
  std::vector<std::uint64_t> rows(script.pick(16));
  std::uint64_t row = script.pick(4);
  for (std::uint64_t& number : rows) {
    number = row;
    // The next one of the bucket, most often.
    const std::uint32_t kind = script.pick(16);
    if (kind == 0) continue;
    do ++row;
    while (kind > 2 && row < kRows && bucket_of(row, kBuckets) != item.slice.value());
    if (kind == 1) row = script.number();
  }
  item.rows = static_cast<std::uint32_t>(rows.size());
  if (script.pick(16) == 0) item.rows = static_cast<std::uint32_t>(script.number());
  item.payload = row_payload(rows, pushes, "strange", item.count);
}

inline DataItem strange_item(Script& script) {
  DataItem item;
  item.kind = static_cast<DataItem::Kind>(script.pick(pb::DataItem::Kind_ARRAYSIZE));
  const bool is_near = script.pick(4) > 0;
  item.table = TableId(is_near ? script.pick(3) : static_cast<std::uint32_t>(script.number()));
  item.slice = SliceId(is_near ? 0 : static_cast<std::uint32_t>(script.number()));
  item.offset = is_near ? 0 : script.number();
  item.count = script.pick(2) == 0 ? kValues : script.number();
  item.clock = Clock(static_cast<std::int64_t>(script.number()));
  item.version = Clock(static_cast<std::int64_t>(script.number()));
  item.done = Clock(static_cast<std::int64_t>(script.number()));
  item.encoding = strange_encoding(script);
  if (script.pick(8) == 0) item.weight = static_cast<float>(script.pick(4)) / 2;
  item.payload = strange_payload(script, item.encoding, item.count);
  const bool by_rows =
      item.table == kRowTable ? script.pick(8) > 0 : !is_near && script.pick(2) > 0;
  if (by_rows) strange_rows(script, item);
  return item;
}

/// Images and updates as a primary sends them, true ones at times.
inline DataImages strange_images(Script& script) {
  DataImages images;
  images.shard = ShardId(static_cast<std::uint32_t>(script.number()));
  images.term = script.number();
  images.copy = script.number();
  for (std::uint32_t i = script.pick(3); i > 0; --i) {
    images.tables.push_back(to_wire(make_table(script.pick(3))));
  }
  for (std::uint32_t i = script.pick(3); i > 0; --i) {
    ImageItem& image = images.images.emplace_back();
    image.table = TableId(script.pick(3));
    image.slice = SliceId(script.pick(2));
    image.sequence = script.number();
    image.version = Clock(static_cast<std::int64_t>(script.number()));
    image.applications = static_cast<std::int64_t>(script.number());
    for (std::uint32_t w = script.pick(4); w > 0; --w) {
      image.done[WorkerId(w)] = Clock(static_cast<std::int64_t>(script.number()));
    }
    image.values = strange_payload(script, {}, kValues);
    for (std::uint32_t s = script.pick(3); s > 0; --s) image.states.push_back(image.values);
  }
  for (std::uint32_t i = script.pick(3); i > 0; --i) {
    LoggedUpdate& logged = images.logged.emplace_back();
    logged.table = TableId(script.pick(3));
    logged.slice = SliceId(script.pick(2));
    logged.worker = WorkerId(script.pick(kMembers + 1));
    logged.number = script.number();
    logged.count = kValues;
    logged.update.clock = Clock(static_cast<std::int64_t>(script.number()));
    logged.update.encoding = strange_encoding(script);
    logged.update.gradient = strange_payload(script, logged.update.encoding, kValues);
  }
  return images;
}

/// What a sender may try that follows no protocol, in the name of worker `worker`.
inline DataMessage strange_message(Script& script, JobId job, std::uint32_t worker,
                                   const std::string& hash) {
  DataMessage message{
      script.pick(8) == 0 ? JobId(script.number()) : job,
      WorkerId(worker),
      script.pick(8) == 0 ? Incarnation(script.number()) : Incarnation(100 + worker),
      {}};
  switch (script.pick(6)) {
    case 0: {
      pb::DataHello hello = Worker::hello_of(hash);
      if (script.pick(4) == 0) {
        hello.set_wire_version(static_cast<std::uint32_t>(script.number()));
      }
      if (script.pick(2) == 0) hello.set_shard(script.pick(2));
      if (script.pick(2) == 0) hello.set_term(script.pick(3));
      if (script.pick(8) == 0) hello.set_job_hash("none");
      if (script.pick(4) == 0) hello.clear_shard();
      if (script.pick(4) == 0) hello.set_term(script.number());
      message.body = hello;
      break;
    }
    case 1: {
      pb::OpenTables open;
      for (std::uint32_t i = script.pick(4); i > 0; --i) {
        pb::TableSpec& table = *open.add_tables() = to_wire(make_table(script.pick(3)));
        if (script.pick(2) == 0) table.set_shape(0, static_cast<std::int64_t>(script.number()));
        if (script.pick(8) == 0) {
          table.mutable_rows()->set_buckets(static_cast<std::uint32_t>(script.number()));
          table.mutable_rows()->set_max_rows(script.number());
          table.mutable_rows()->set_idle_clocks(static_cast<std::int64_t>(script.number()));
        }
      }
      for (std::uint32_t i = script.pick(4); i > 0; --i) {
        open.add_sent(static_cast<std::int64_t>(script.number()));
      }
      message.body = open;
      break;
    }
    case 2: {
      DataItems items;
      for (std::uint32_t i = script.pick(4); i > 0; --i) {
        items.items.push_back(strange_item(script));
      }
      message.body = std::move(items);
      break;
    }
    case 3:
      message.body = strange_images(script);
      break;
    case 4: {
      if (script.pick(2) == 0) {
        message.body = pb::Describe();
        break;
      }
      pb::Confirm confirm;
      confirm.set_follower(script.number());
      confirm.set_version(static_cast<std::int64_t>(script.number()));
      message.body = confirm;
      break;
    }
    default: {
      pb::SliceImagesReply reply;
      reply.set_shard(static_cast<std::uint32_t>(script.number()));
      reply.set_term(script.number());
      reply.set_copy(script.number());
      message.body = reply;
    }
  }
  return message;
}

/// What a shard's thread hears of a message; nullopt: it does not decode. What it reads of one
/// before that, where the connection has not said hello, says the same.
inline std::optional<DataMessage> hear(const DataMessage& message, const Identity& sender) {
  const Message bytes = encode(message);
  const auto envelope = envelope_of(bytes);
  if (envelope) (void)may_decode_ungreeted(*envelope, &sender);
  auto decoded = decode_data(bytes);
  if (!decoded) return std::nullopt;
  TAUT_CHECK(envelope && envelope->job == decoded.value().job, "a message has the job it names");
  return std::move(decoded.value());
}

}  // namespace taut::server::fuzzed
