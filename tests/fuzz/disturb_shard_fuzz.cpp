// What the holder of a key that is no member sends to a shard changes nothing for the members: two
// shards get the same members' messages, one of them the stranger's too, and their answers must be
// the same to the bit.
#include <google/protobuf/stubs/logging.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/check.hpp"
#include "common/math/filler.hpp"
#include "proto/config/job_state.hpp"
#include "proto/wire_version.hpp"
#include "server/shard.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/script.hpp"

namespace taut::server {
namespace {

using fuzz::Script;

constexpr std::uint32_t kMembers = 3;
constexpr std::uint64_t kValues = 6;
constexpr std::uint64_t kStrangers = 100;  // the first of their connections
constexpr JobId kJob{7};

// The first byte of a step.
constexpr std::uint8_t kMember = 0;
constexpr std::uint8_t kStranger = 1;
constexpr std::uint8_t kChange = 2;

pb::ServerJob make_job(Slack slack) {
  pb::ServerJob job;
  job.set_job(kJob.value());
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

TableSpec make_table(std::uint32_t id) {
  TableSpec table;
  table.id = TableId(id);
  table.name = "table" + std::to_string(id);
  table.shape = {static_cast<std::int64_t>(kValues)};
  table.filler = {math::Filler::Kind::kUniform, -1.0F, 1.0F};
  return table;
}

/// A shard, and what it tells the members.
class Side {
 public:
  explicit Side(const pb::ServerJob& job) : shard_(ShardId(0), pool_) {
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
  /// What the members were told since the last call, and what is counted of them.
  [[nodiscard]] std::string take() {
    const ShardReport report = shard_.report(kJob);
    const ShardQueues& queues = shard_.queues();
    told_ += "|" + std::to_string(report.max_done.value()) + "," +
             std::to_string(report.min_version.value()) + "," + report.error + "," +
             std::to_string(queues.parked_reads) + "," + std::to_string(queues.held_updates) + "," +
             std::to_string(queues.postponed_updates) + "," + std::to_string(shard_.value_bytes()) +
             "," + std::to_string(memory_->taken().value());
    return std::exchange(told_, {});
  }

 private:
  void hear(const std::vector<Outgoing>& answers) {
    for (const Outgoing& one : answers) {
      if (one.to.value() >= kStrangers) continue;
      for (const Frame& frame : encode(one.message).frames) told_ += frame.text();
    }
  }

  BufferPool pool_;
  std::shared_ptr<TableMemory> memory_ = std::make_shared<TableMemory>(Bytes(1 << 16));
  Shard shard_;
  std::string told_;
};

/// A worker of the job: it greets, opens its tables, and then pushes a clock and reads the next.
class Worker {
 public:
  explicit Worker(std::uint32_t number) : number_(number) {}

  [[nodiscard]] DataMessage next(const std::string& hash) {
    DataMessage message{kJob, WorkerId(number_), Incarnation(100 + number_), {}};
    if (step_ == 0) {
      message.body = hello_of(hash);
    } else if (step_ == 1) {
      pb::OpenTables open;
      for (std::uint32_t i = 0; i < 2; ++i) *open.add_tables() = to_wire(make_table(i));
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
        if (pushes) item.payload = gradient(table, clock);
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
  [[nodiscard]] Frame gradient(std::uint32_t table, int clock) const {
    std::vector<float> values(kValues);
    const std::string stream =
        std::to_string(number_) + "/" + std::to_string(table) + "/" + std::to_string(clock);
    math::fill({math::Filler::Kind::kGaussian, 0.0F, 1.0F}, 3, stream, 0, values);
    return Frame::copy_of(std::as_bytes(std::span(values)));
  }

  const std::uint32_t number_;
  int step_ = 0;
};

DataItem strange_item(Script& script) {
  DataItem item;
  item.kind = static_cast<DataItem::Kind>(script.pick(12));
  item.table = TableId(static_cast<std::uint32_t>(script.number()));
  item.slice = SliceId(static_cast<std::uint32_t>(script.number()));
  item.offset = script.number();
  item.count = script.pick(2) == 0 ? kValues : script.number();
  item.clock = Clock(static_cast<std::int64_t>(script.number()));
  item.version = Clock(static_cast<std::int64_t>(script.number()));
  item.done = Clock(static_cast<std::int64_t>(script.number()));
  if (item.count < 64) {
    std::vector<float> values(item.count);
    const auto bytes = script.bytes(values.size() * sizeof(float));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    item.payload = Frame::copy_of(std::as_bytes(std::span(values)));
  }
  return item;
}

/// What a sender without a part in the job may try.
DataMessage strange_message(Script& script, const std::string& hash) {
  const std::uint32_t worker = script.pick(kMembers + 1);
  DataMessage message{
      script.pick(8) == 0 ? JobId(script.number()) : kJob,
      WorkerId(worker),
      script.pick(8) == 0 ? Incarnation(script.number()) : Incarnation(100 + worker),
      {}};
  switch (script.pick(5)) {
    case 0: {
      pb::DataHello hello = Worker::hello_of(hash);
      if (script.pick(4) == 0) {
        hello.set_wire_version(static_cast<std::uint32_t>(script.number()));
      }
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
    case 3: {
      DataImages images;
      images.shard = ShardId(static_cast<std::uint32_t>(script.number()));
      images.term = script.number();
      images.copy = script.number();
      message.body = std::move(images);
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

void play(Script script) {
  constexpr std::array kSlacks = {0, 1, 3};
  pb::ServerJob job = make_job(Slack(kSlacks.at(script.pick(kSlacks.size()))));
  const std::string hash = job_hash(job.definition());
  Side disturbed(job);
  Side quiet(job);
  std::vector<Worker> workers;
  for (std::uint32_t i = 0; i < kMembers; ++i) workers.emplace_back(i);
  TimePoint now;
  while (!script.is_over()) {
    now = now + Duration(1000);
    switch (script.pick(3)) {
      case kMember: {
        const std::uint32_t which = script.pick(kMembers);
        const Identity self{"w" + std::to_string(which), KeyRole::kWorker};
        const DataMessage message = workers[which].next(hash);
        disturbed.handle(PeerId(1 + which), message, now, self);
        quiet.handle(PeerId(1 + which), message, now, self);
        break;
      }
      case kStranger: {
        constexpr std::array kRoles = {KeyRole::kView, KeyRole::kSubmit, KeyRole::kWorker};
        const Identity mallory{"mallory", kRoles.at(script.pick(kRoles.size()))};
        const PeerId from(kStrangers + script.pick(4));
        const auto message = decode_data(encode(strange_message(script, hash)));
        if (message) disturbed.handle(from, message.value(), now, mallory);
        break;
      }
      case kChange: {
        // A member is lost at times, which both hear.
        if (script.pick(16) != 0) break;
        job.set_revision(job.revision() + 1);
        job.mutable_members(static_cast<int>(script.pick(kMembers)))->set_fenced(true);
        disturbed.set(job);
        quiet.set(job);
        break;
      }
      default:
        break;
    }
    TAUT_CHECK(disturbed.take() == quiet.take(), "a stranger has changed what members see");
  }
}

}  // namespace
}  // namespace taut::server

std::vector<std::string> taut::fuzz::samples() {
  // Each member four times, with a stranger's message of each kind before.
  std::vector<std::string> samples;
  for (char slack = 0; slack < 3; ++slack) {
    std::string steps(1, slack);
    for (int round = 0; round < 12; ++round) {
      for (char member = 0; member < 3; ++member) {
        for (char kind = 0; kind < 5; ++kind) {
          steps += std::string{1, 2, 0, static_cast<char>(round % 4), 1, 1, kind};
          steps += std::string{2, 1, 1, 0, 1, 0, 0, 0, 1, 1, 0, 0};
        }
        steps += std::string{0, member};
      }
    }
    samples.push_back(steps);
  }
  return samples;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer silent;
  taut::server::play(taut::fuzz::Script({data, size}));
  return 0;
}
