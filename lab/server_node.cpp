#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "lab/nodes.hpp"
#include "proto/config/job_state.hpp"
#include "proto/wire_version.hpp"

namespace taut::sim {
namespace {

std::string shard_address(std::uint32_t server, std::uint32_t shard) {
  return fmt::format("server{}:{}", server, 100 + shard);
}

constexpr Duration kImages{20'000};

/// The rows of a bucket's image, ascending; their values are added to `values`. A duplicate row is
/// returned twice, and an image with a wrong row count adds a row that does not exist.
std::vector<std::uint64_t> image_rows(const server::SliceImage& image, std::vector<float>& values) {
  std::multimap<std::uint64_t, std::span<const float>> rows;
  for (const auto& chunk : image.rows.chunks) {
    const std::size_t floats = chunk->floats.size() / chunk->numbers.size();
    for (std::size_t i = 0; i < chunk->numbers.size(); ++i) {
      if (chunk->updated[i] == server::RowChunk::kFree) continue;
      rows.emplace(chunk->numbers[i],
                   std::span(chunk->floats).subspan(i * floats, image.place.count));
    }
  }
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, row] : rows) {
    numbers.push_back(number);
    values.insert(values.end(), row.begin(), row.end());
  }
  if (numbers.size() != image.rows.rows) {
    numbers.push_back(std::numeric_limits<std::uint64_t>::max());
  }
  return numbers;
}

/// A message's pushes of rows that must be sent again, according to their answers.
std::set<History::Push> postponed_rows(const DataMessage& message, PeerId from,
                                       const std::vector<server::Outgoing>& answers) {
  const auto* requests = std::get_if<DataItems>(&message.body);
  std::set<History::Push> held;
  for (const server::Outgoing& out : answers) {
    const auto* items = std::get_if<DataItems>(&out.message.body);
    if (items == nullptr || requests == nullptr || out.to != from) continue;
    for (const DataItem& item : items->items) {
      if (item.refusal == pb::DataItem::HELD) held.emplace(item.table, item.slice, item.clock);
    }
  }
  std::set<History::Push> postponed;
  if (requests == nullptr) return postponed;
  for (const DataItem& item : requests->items) {
    const History::Push push{item.table, item.slice, item.clock};
    if (item.by_rows && item.kind == pb::DataItem::PUSH && held.contains(push)) {
      postponed.insert(push);
    }
  }
  return postponed;
}

/// An image's values, followed by done(w) of each member; and the rows of a bucket's image.
std::pair<std::vector<float>, std::vector<std::uint64_t>> contents_of(
    const server::SliceImage& image) {
  const auto floats = image.values.floats();
  std::vector<float> values(floats.begin(), floats.end());
  auto rows = image_rows(image, values);
  const std::size_t count = values.size();
  values.resize(count + kMembers, -1.0F);
  for (const auto& [worker, done] : image.done) {
    values[count + worker.value()] = static_cast<float>(done.value());
  }
  return {std::move(values), std::move(rows)};
}

ControlIdentity identity(const Plan& plan, std::uint32_t number, std::uint64_t session) {
  ControlIdentity identity;
  identity.role = pb::ROLE_SERVER;
  identity.name = fmt::format("server{}", number);
  identity.session = session;
  if (plan.machines > 0) identity.host = fmt::format("machine{}", number % plan.machines);
  for (std::uint32_t i = 0; i < plan.shards_each; ++i) {
    identity.shard_addresses.push_back(shard_address(number, i));
  }
  return identity;
}

}  // namespace

ServerNode::ServerNode(World& world, std::uint32_t number, std::uint64_t session)
    : ControlNode(world.network, world.plan.server_node(number),
                  identity(world.plan, number, session), control_timings(world.plan)),
      world_(world),
      jobs_(world.plan.shards_each) {
  // In every second run no memory is left for copies of rows that the disk still writes.
  constexpr Bytes kMemory{1UL << 50U};
  const auto memory = std::make_shared<server::TableMemory>(kMemory);
  if (!world.plan.job.rows.empty() && world.plan.seed % 2 == 0) {
    others_ = memory->take_spare(kMemory);
  }
  for (std::uint32_t i = 0; i < world.plan.shards_each; ++i) {
    OneShard one{world.network.open(node_),
                 std::make_unique<server::Shard>(ShardId(i), world.pool, kSliceElements),
                 {},
                 {}};
    world.network.listen(one.socket, shard_address(number, i));
    const SocketId socket = one.socket;
    if (others_) one.shard->limit_memory(memory);
    one.shard->set_dial({.connect =
                             [this, socket](const std::string& address) {
                               return world_.network.connect(socket, address);
                             },
                         .disconnect = [this](PeerId peer) { world_.network.disconnect(peer); },
                         .again = world.plan.heartbeat_limit / 4});
    shards_.push_back(std::move(one));
  }
}

ServerNode::~ServerNode() {
  for (const OneShard& one : shards_) world_.network.close(one.socket);
}

TimePoint ServerNode::wake() const {
  return std::min(ControlNode::wake(), images_due_);
}

/// Sends due images, and what the coordinator must know about them.
void ServerNode::send_images(TimePoint now) {
  if (images_due_ == TimePoint::never()) return;
  images_due_ = now + kImages;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    server::Shard& shard = *shards_[i].shard;
    say(shards_[i], shard.take_images(now), now);
    for (const JobId job : shard.take_changed()) jobs_.take_report(i, shard.report(job));
  }
}

void ServerNode::step(TimePoint now) {
  send_images(now);
  if (auto news = jobs_.take_news()) report(std::move(*news), true);
  ControlNode::step(now);
}

void ServerNode::on_data(SocketId socket, PeerId from, DataMessage message, TimePoint now) {
  const auto found = std::ranges::find(shards_, socket, &OneShard::socket);
  if (found == shards_.end()) return;
  auto answers = found->shard->handle(from, message, now);
  world_.history.add_items(Event::Kind::kRequest, now, found->shard->id(), from, message,
                           postponed_rows(message, from, answers));
  say(*found, std::move(answers), now);
  // A worker waits until the backup has its update.
  if (world_.plan.answers_wait()) images_due_ = std::min(images_due_, now);
  record_captures(static_cast<std::size_t>(found - shards_.begin()), now);
}

/// Checks that an image that the disk still writes does not change with its bucket.
void ServerNode::check_written(TimePoint now) {
  constexpr int kMessages = 20;  // that arrive in the meantime
  for (Written& one : written_) {
    if (++one.messages < kMessages) continue;
    const auto [values, rows] = contents_of(one.image);
    if (values == one.values && rows == one.rows) continue;
    one.event.at = now;
    world_.history.add(one.event, values, rows);
  }
  std::erase_if(written_, [](const Written& one) { return one.messages >= kMessages; });
}

/// Records what a shard has captured, and acts as the disk, which writes slices at once, and
/// buckets within some messages.
void ServerNode::record_captures(std::size_t number, TimePoint now) {
  check_written(now);
  for (const server::ShardCapture& capture : shards_[number].shard->take_captures()) {
    Event event;
    event.at = now;
    event.shard = capture.shard;
    event.clock = capture.order.clock;
    event.view = static_cast<std::uint32_t>(capture.order.number);
    if (capture.missed) {
      event.kind = Event::Kind::kMissed;
      world_.history.add(event);
    }
    for (const server::SliceImage& image : capture.slices) {
      event.kind = Event::Kind::kPutAside;
      event.table = image.place.table;
      event.slice = image.place.slice;
      event.version = image.version;
      auto [values, rows] = contents_of(image);
      world_.history.add(event, values, rows);
      if (image.rows.rows > 0) {
        written_.push_back({event, image, std::move(values), std::move(rows)});
      }
    }
    server::ShardPart part;
    part.number = capture.order.number;
    part.missed = capture.missed;
    part.files.emplace_back().set_name(fmt::format("shard{}", capture.shard.value()));
    part.tables = capture.tables;
    jobs_.take_part(number, capture.job, std::move(part));
  }
  // No memory is prepared here, and released memory is freed at once.
  (void)shards_[number].shard->take_stocks();
  (void)shards_[number].shard->take_excesses();
}

/// Sends a shard's messages; items are recorded.
void ServerNode::say(OneShard& one, std::vector<server::Outgoing> messages, TimePoint now) {
  Event step;
  step.at = now;
  step.shard = one.shard->id();
  for (server::Outgoing& out : messages) {
    world_.history.add_items(Event::Kind::kReply, now, one.shard->id(), out.to, out.message);
    Event event = step;
    event.peer = out.to;
    const auto* opened = std::get_if<pb::OpenTablesReply>(&out.message.body);
    const auto* greeted = std::get_if<pb::DataHelloReply>(&out.message.body);
    if (opened != nullptr && opened->accepted()) {
      event.kind = Event::Kind::kOpened;
      world_.history.add(event);
    } else if (greeted != nullptr && greeted->accepted()) {
      event.kind = Event::Kind::kGreeted;
      world_.history.add(event);
    }
    world_.network.send(one.socket, out.to, std::move(out.message));
  }
  world_.history.add(step);
}

/// Which slices are served here under a new view, and from which state on.
void ServerNode::take_job(const pb::ServerJob& job, const server::JobView& view, OneShard& one,
                          TimePoint now) {
  const ShardId host = one.shard->id();
  std::set<ShardId> served;
  std::set<ShardId> taken;
  for (const server::ShardPlace& place : view.places) {
    if (place.host != host) continue;
    served.insert(place.shard);
    if (place.term > 1 && !one.served.contains(place.shard)) taken.insert(place.shard);
  }
  const std::set<ShardId> before = std::exchange(one.served, std::move(served));
  one.places.clear();
  const SliceLayout layout(toy_tables(world_.plan.job), view.shards, kSliceElements);
  for (const Slice& slice : layout.slices()) {
    if (one.served.contains(slice.shard)) one.places.push_back(slice);
    const bool was_here = before.contains(slice.shard) && !one.served.contains(slice.shard);
    if (!taken.contains(slice.shard) && !was_here) continue;
    Event event;
    event.kind = was_here ? Event::Kind::kGaveAway : Event::Kind::kTookOver;
    event.at = now;
    event.shard = host;
    event.table = slice.table;
    event.slice = slice.slice;
    world_.history.add(event);
  }
  if (!taken.empty()) {
    // Images bring the tables, even of a shard that has no slice.
    Event opened;
    opened.kind = Event::Kind::kOpened;
    opened.at = now;
    opened.shard = host;
    world_.history.add(opened);
  }
  if (job.replication_interval() > 0) images_due_ = std::min(images_due_, now);
}

void ServerNode::on_event(const ControlEvent& event, TimePoint now) {
  if (std::holds_alternative<control_event::DeclaredLost>(event)) {
    for (const auto& over : jobs_.clear()) {
      pb::ServerJob forgotten;
      forgotten.set_job(over->job.value());
      forgotten.set_finished(true);
      for (OneShard& one : shards_) {
        if (over->job == kToyJobId) world_.history.add_view(now, one.shard->id(), forgotten);
        (void)one.shard->set_job(over);
      }
    }
    for (OneShard& one : shards_) one.served.clear();
    return;
  }
  const auto* job = std::get_if<pb::ServerJob>(&event);
  if (job == nullptr) return;
  const auto view = jobs_.take_job(*job);
  if (!view) return;
  if (view->job != kToyJobId) {
    // A job that only takes workers away: nothing of it is checked.
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      say(shards_[i], shards_[i].shard->set_job(view), now);
      server::ShardReport report = shards_[i].shard->report(view->job);
      report.revision = view->revision;
      jobs_.take_report(i, std::move(report));
    }
    return;
  }
  if (view->finished) read_all(now);  // before the shards forget
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    OneShard& one = shards_[i];
    one.shard->set_id(ShardId(job->first_shard() + static_cast<std::uint32_t>(i)));
    world_.history.add_view(now, one.shard->id(), *job);
    if (!view->finished) {
      job_ = view->job;
      hash_ = view->hash;
      take_job(*job, *view, one, now);
    }
    say(one, one.shard->set_job(view), now);
    record_captures(i, now);
    server::ShardReport report = one.shard->report(view->job);
    report.revision = view->revision;
    jobs_.take_report(i, std::move(report));
  }
}

bool ServerNode::serves(ShardId host, ShardId shard) const {
  return std::ranges::any_of(shards_, [&](const OneShard& one) {
    return one.shard->id() == host && one.served.contains(shard);
  });
}

bool ServerNode::has_images(ShardId host, ShardId shard, std::uint64_t choice) const {
  return std::ranges::any_of(shards_, [&](const OneShard& one) {
    if (one.shard->id() != host) return false;
    const auto copies = one.shard->report(kToyJobId).copies;
    return std::ranges::any_of(copies, [&](const server::ShardReport::Copy& copy) {
      return copy.shard == shard && copy.choice == choice && copy.is_complete;
    });
  });
}

void ServerNode::read_all(TimePoint now) {
  const PeerId reader(0);  // not a process: messages to it are dropped
  for (OneShard& one : shards_) {
    DataMessage message{job_, {}, {}, {}};
    pb::DataHello hello;
    hello.set_wire_version(kWireVersion);
    hello.set_job_hash(hash_);
    message.body = hello;
    say(one, one.shard->handle(reader, message, now), now);
    DataItems items;
    for (const Slice& slice : one.places) {
      DataItem item;
      item.kind = pb::DataItem::SNAPSHOT;
      item.table = slice.table;
      item.slice = slice.slice;
      if (const ToyRows* table = world_.plan.job.rows_of(slice.table)) {
        const auto rows = table->rows_of(slice.slice);
        item.by_rows = true;
        item.rows = static_cast<std::uint32_t>(rows.size());
        item.count = table->width;
        item.payload = Frame::copy_of(std::as_bytes(std::span(rows)));
      }
      items.items.push_back(item);
    }
    if (items.items.empty()) continue;
    message.body = std::move(items);
    auto answers = one.shard->handle(reader, message, now);
    if (answers.empty()) continue;
    const auto* values = std::get_if<DataItems>(&answers.front().message.body);
    // A job that never opened its tables, or is already forgotten.
    if (values == nullptr || values->items.front().kind != pb::DataItem::SNAPSHOT_VALUE) continue;
    world_.history.add_items(Event::Kind::kRequest, now, one.shard->id(), reader, message);
    say(one, std::move(answers), now);
  }
}

}  // namespace taut::sim
