#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proto/formats/checkpoint_reader.hpp"
#include "proto/wire_version.hpp"
#include "server/checkpoints/checkpoint_file.hpp"
#include "server/checkpoints/checkpoint_thread.hpp"
#include "server/checkpoints/resume_images.hpp"
#include "server/shard.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/proto/checkpoint_maker.hpp"
#include "tests/unit/server/counted_memory.hpp"
#include "tests/unit/server/job_maker.hpp"

namespace taut::server {
namespace {

namespace fs = std::filesystem;
using test::JobMaker;
using test::same_bits;

constexpr PeerId kPeer(1);

std::vector<TableSpec> tables() {
  std::vector<TableSpec> all{test::make_table(0, {6, 5}), test::make_table(1, {7}),
                             test::make_table(2, {9}, TableKind::kAveraged),
                             test::make_table(3, {4}, TableKind::kFrozen)};
  return all;
}

/// Counts the requests for memory to the system.
class CountingAllocator final : public BufferAllocator {
 public:
  void* allocate(std::size_t size) override {
    ++count;
    return host_allocator()->allocate(size);
  }
  void deallocate(void* memory, std::size_t size) noexcept override {
    if (std::this_thread::get_id() != home) ++freed_elsewhere;
    host_allocator()->deallocate(memory, size);
  }

  std::atomic<int> count = 0;
  std::atomic<int> freed_elsewhere = 0;  // on another thread than this one
  const std::thread::id home = std::this_thread::get_id();
};

/// A job on shards without sockets; every worker's pushes are a function of (worker, clock, slice).
class Service {
 public:
  Service(JobMaker maker, std::uint32_t shards, std::vector<ShardImages> begin = {},
          const std::shared_ptr<TableMemory>& memory = nullptr)
      : job(std::move(maker)) {
    job.state.clear_shards();
    for (std::uint32_t i = 0; i < shards; ++i) job.state.add_shards()->set_shard(i);
    const auto view = job.view();
    for (std::uint32_t i = 0; i < shards; ++i) {
      auto& shard = shards_.emplace_back(std::make_unique<Shard>(ShardId(i), pool_));
      shard->limit_memory(memory);
      (void)shard->set_job(view, begin.empty() ? ShardImages() : std::move(begin[i]));
      pb::DataHello hello;
      hello.set_wire_version(kWireVersion);
      hello.set_job_hash(job.hash());
      say(*shard, 0, hello);
      pb::OpenTables open;
      for (const TableSpec& table : tables()) *open.add_tables() = to_wire(table);
      const auto answers = say(*shard, 0, open);
      opened = std::get<pb::OpenTablesReply>(answers.at(0).message.body);
    }
    std::vector<ShardId> all;
    for (std::uint32_t i = 0; i < shards; ++i) all.emplace_back(i);
    layout_ = SliceLayout(tables(), all);
  }

  /// Publishes the job as it is in `job`.
  void publish() {
    const auto view = job.view();
    for (auto& shard : shards_) (void)shard->set_job(view);
  }
  void order(std::uint64_t number, std::int64_t clock, const std::string& folder = "") {
    pb::CheckpointOrder& order = *job.state.mutable_checkpoint();
    order.set_number(number);
    order.set_clock(clock);
    order.set_folder(folder);
    publish();
  }
  void push(std::uint32_t worker, std::int64_t clock) {
    for (const Slice& place : layout_.slices()) {
      if (tables()[place.table.value()].kind == TableKind::kFrozen) continue;
      DataItem item;
      item.kind = pb::DataItem::PUSH;
      item.table = place.table;
      item.slice = place.slice;
      item.offset = place.offset;
      item.count = place.count;
      item.clock = Clock(clock);
      const std::uint64_t seed = 50 + place.table.value();
      item.payload = test::frame_of(test::gradient_of(worker, clock, place.count, seed));
      const auto answers = say(*shards_[place.shard.value()], worker, DataItems{{std::move(item)}});
      CHECK(std::get<DataItems>(answers.at(0).message.body).items.at(0).kind == pb::DataItem::ACK);
    }
  }
  void push_all(std::int64_t first, std::int64_t end) {
    for (std::int64_t clock = first; clock < end; ++clock) {
      for (const pb::Member& member : job.state.members()) push(member.worker(), clock);
    }
  }
  std::vector<ShardCapture> captures() {
    std::vector<ShardCapture> all;
    for (auto& shard : shards_) {
      for (ShardCapture& one : shard->take_captures()) all.push_back(std::move(one));
    }
    return all;
  }
  std::vector<SpareStock> stocks() {
    std::vector<SpareStock> all;
    for (auto& shard : shards_) {
      for (SpareStock& one : shard->take_stocks()) all.push_back(std::move(one));
    }
    return all;
  }
  std::vector<SpareExcess> excesses() {
    std::vector<SpareExcess> all;
    for (auto& shard : shards_) {
      for (SpareExcess& one : shard->take_excesses()) all.push_back(std::move(one));
    }
    return all;
  }
  /// What a shard does that gets no messages.
  void idle() {
    for (auto& shard : shards_) shard->yield_spares();
  }
  [[nodiscard]] int freed_elsewhere() const { return allocator_->freed_elsewhere; }
  /// How often memory for values was asked of the system.
  [[nodiscard]] int allocations() const { return allocator_->count; }
  /// Bytes for values that are ready.
  [[nodiscard]] std::uint64_t ready() const { return pool_.usage().kept.value(); }

  std::vector<float> values() {
    std::vector<float> all;
    for (const Slice& place : layout_.slices()) {
      DataItem item;
      item.kind = pb::DataItem::SNAPSHOT;
      item.table = place.table;
      item.slice = place.slice;
      const auto answers = say(*shards_[place.shard.value()], 0, DataItems{{item}});
      const auto own =
          test::floats_of(std::get<DataItems>(answers.at(0).message.body).items.at(0).payload);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  JobMaker job;
  pb::OpenTablesReply opened;

 private:
  template <class Body>
  std::vector<Outgoing> say(Shard& shard, std::uint32_t worker, Body body) {
    return shard.handle(
        kPeer,
        DataMessage{JobId(7), WorkerId(worker), job.incarnation(WorkerId(worker)), std::move(body)},
        TimePoint());
  }

  std::shared_ptr<CountingAllocator> allocator_ = std::make_shared<CountingAllocator>();
  BufferPool pool_{Bytes(0), allocator_};  // keeps nothing but what a shard asks it to
  std::vector<std::unique_ptr<Shard>> shards_;
  SliceLayout layout_;
};

JobMaker job_of(int members, Slack slack, const char* type = "Adam") {
  JobMaker job(members, slack);
  job.solver().set_type(type);
  job.solver().set_momentum(0.9F);
  job.solver().set_base_lr(0.01F);
  return job;
}

/// Writes what a service has captured, with the manifest that a coordinator would write.
void write_checkpoint(Service& service, std::int64_t clock, const fs::path& folder) {
  pb::CheckpointManifest manifest;
  manifest.set_format(kCheckpointFormat);
  manifest.set_clock(clock);
  manifest.set_slots(static_cast<std::uint32_t>(service.job.state.members_size()));
  *manifest.mutable_definition() = service.job.state.definition();
  for (const pb::Member& from : service.job.state.members()) {
    pb::CheckpointMember& member = *manifest.add_members();
    member.set_worker(from.worker());
    member.set_slot(from.slot());
    member.set_leave_clock(from.leave_clock());
  }
  for (const TableSpec& table : tables()) *manifest.add_tables() = to_wire(table);
  for (ShardCapture& capture : service.captures()) {
    CHECK(!capture.missed);
    capture.order.folder = folder.string();
    auto files = write_shard_files(std::move(capture), false);
    REQUIRE(files.has_value());
    for (pb::CheckpointFile& file : files.value()) *manifest.add_files() = std::move(file);
  }
  test::put_file(folder / kManifestName, write_manifest(manifest));
}

/// The job that continues from there, with so many members.
JobMaker resumed(const JobMaker& before, int members, std::int64_t clock, const fs::path& folder,
                 std::uint32_t slots) {
  JobMaker job = before;
  job.state.clear_checkpoint();
  job.state.clear_members();
  for (int i = 0; i < members; ++i) {
    const WorkerId worker = job.join(Clock(clock));
    job.member(worker).set_slot(worker.value());
  }
  pb::ResumePoint& resume = *job.state.mutable_resume();
  resume.set_folder(folder.string());
  resume.set_clock(clock);
  resume.set_slots(slots);
  return job;
}

std::vector<ShardImages> read_images(const JobMaker& job, std::uint32_t shards) {
  pb::ServerJob state = job.state;
  state.clear_shards();
  for (std::uint32_t i = 0; i < shards; ++i) state.add_shards()->set_shard(i);
  auto images = read_shard_images(state, shards);
  INFO((images ? std::string() : images.error().message));
  REQUIRE(images.has_value());
  return std::move(images.value());
}

JobMaker with_slots(JobMaker job) {
  for (pb::Member& member : *job.state.mutable_members()) member.set_slot(member.worker());
  return job;
}

}  // namespace

TEST_CASE("a slice is captured when its V reaches the clock, and training continues",
          "[checkpoint]") {
  Service service(job_of(2, Slack(0)), 2);
  service.push_all(0, 3);
  service.order(1, 5);
  CHECK(service.captures().empty());
  service.push_all(3, 4);
  service.push(0, 4);
  CHECK(service.captures().empty());
  const std::vector<float> before = service.values();
  service.push(1, 4);
  const std::vector<float> at_five = service.values();
  CHECK(!same_bits(before, at_five));
  service.push_all(5, 8);
  const std::vector<ShardCapture> captures = service.captures();
  REQUIRE(captures.size() == 2);
  std::vector<float> held(at_five.size());
  std::size_t at = 0;
  for (const TableSpec& table : tables()) {
    for (const ShardCapture& capture : captures) {
      CHECK(capture.order.clock == Clock(5));
      CHECK(capture.tables == tables());
      for (const SliceImage& image : capture.slices) {
        if (image.place.table != table.id) continue;
        const auto values = image.values.floats();
        std::ranges::copy(values, held.begin() + static_cast<std::ptrdiff_t>(at));
        at += values.size();
        CHECK(image.states.size() == (table.kind == TableKind::kTrained ? 2 : 0));
        if (table.kind == TableKind::kFrozen) continue;
        CHECK(image.version == Clock(5));
        CHECK(image.applications == 5);
        CHECK(image.done.at(WorkerId(0)) == Clock(5));
        CHECK(image.done.at(WorkerId(1)) == Clock(5));
      }
    }
  }
  CHECK(same_bits(held, at_five));
  CHECK(service.captures().empty());
}

TEST_CASE("values that are not finite are not written", "[checkpoint]") {
  const test::TempFolder folder;
  Service service(job_of(1, Slack(0)), 1);
  service.order(1, 2);
  service.push_all(0, 2);
  std::vector<ShardCapture> captures = service.captures();
  REQUIRE(captures.size() == 1);
  captures[0].order.folder = folder.path().string();
  captures[0].slices[1].values.floats()[2] = std::numeric_limits<float>::infinity();
  const auto file = write_shard_files(std::move(captures[0]), false);
  REQUIRE_FALSE(file.has_value());
  CHECK(file.error().message.find("has values that are not finite") != std::string::npos);
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("an order at a clock that BSP has passed is missed, and the next one is not",
          "[checkpoint]") {
  Service service(job_of(1, Slack(0)), 1);
  service.push_all(0, 6);
  service.order(1, 5);
  std::vector<ShardCapture> captures = service.captures();
  REQUIRE(captures.size() == 1);
  CHECK(captures[0].missed);
  CHECK(captures[0].slices.empty());
  service.order(2, 6);
  captures = service.captures();
  REQUIRE(captures.size() == 1);
  CHECK(!captures[0].missed);
  CHECK(captures[0].slices.size() == 4);
}

TEST_CASE("on arrival a slice holds more than the clock, and reports which updates",
          "[checkpoint]") {
  Service service(job_of(2, Slack::unbounded(), "SGD"), 1);
  service.push_all(0, 2);
  for (std::int64_t clock = 2; clock < 6; ++clock) service.push(1, clock);
  service.order(1, 3);
  CHECK(service.captures().empty());
  service.push(0, 2);
  const auto captures = service.captures();
  REQUIRE(captures.size() == 1);
  for (const SliceImage& image : captures[0].slices) {
    if (tables()[image.place.table.value()].kind == TableKind::kFrozen) continue;
    CHECK(image.version == Clock(3));
    CHECK(image.done.at(WorkerId(0)) == Clock(3));
    CHECK(image.done.at(WorkerId(1)) == Clock(6));
  }
}

TEST_CASE("updates that a slice still holds back are not counted as done", "[checkpoint]") {
  Service service(job_of(2, Slack(0)), 1);
  service.order(1, 2);
  service.push_all(0, 1);
  service.push(1, 1);
  service.push(1, 2);  // held: worker 0 owes clock 1
  service.push(0, 1);
  const auto captures = service.captures();
  REQUIRE(captures.size() == 1);
  for (const SliceImage& image : captures[0].slices) {
    if (tables()[image.place.table.value()].kind == TableKind::kFrozen) continue;
    CHECK(image.done.at(WorkerId(1)) == Clock(2));
    CHECK(image.applications == 2);
  }
}

TEST_CASE("a job resumed in BSP ends in the same bits, on other numbers of shards too",
          "[checkpoint]") {
  for (const char* type : {"SGD", "Adam", "Nesterov"}) {
    const test::TempFolder folder;
    Service whole(with_slots(job_of(2, Slack(0), type)), 2);
    whole.order(1, 5);
    whole.push_all(0, 9);
    write_checkpoint(whole, 5, folder.path() / "x");
    for (const std::uint32_t shards : {1U, 2U, 3U}) {
      const JobMaker job = resumed(whole.job, 2, 5, folder.path() / "x", 2);
      Service rest(job, shards, read_images(job, shards));
      REQUIRE(rest.opened.accepted());
      rest.push_all(5, 9);
      CHECK(same_bits(rest.values(), whole.values()));
    }
  }
}

TEST_CASE("a job resumed on arrival drops updates that the checkpoint has already",
          "[checkpoint]") {
  const test::TempFolder folder;
  Service whole(with_slots(job_of(2, Slack::unbounded(), "SGD")), 2);
  for (std::int64_t clock = 0; clock < 8; ++clock) whole.push(1, clock);
  whole.order(1, 4);
  for (std::int64_t clock = 0; clock < 4; ++clock) whole.push(0, clock);
  write_checkpoint(whole, 4, folder.path() / "x");
  const std::vector<float> held = whole.values();

  const JobMaker job = resumed(whole.job, 2, 4, folder.path() / "x", 2);
  Service rest(job, 3, read_images(job, 3));
  for (std::int64_t clock = 4; clock < 8; ++clock) rest.push(1, clock);
  CHECK(same_bits(rest.values(), held));
  rest.push(1, 8);
  CHECK(!same_bits(rest.values(), held));
  whole.push(1, 8);
  whole.push_all(4, 4);
  for (std::int64_t clock = 4; clock < 9; ++clock) {
    whole.push(0, clock);
    rest.push(0, clock);
  }
  CHECK(same_bits(rest.values(), whole.values()));
}

TEST_CASE("with another number of workers all start at the checkpoint's clock", "[checkpoint]") {
  const test::TempFolder folder;
  Service whole(with_slots(job_of(2, Slack::unbounded(), "SGD")), 1);
  whole.push_all(0, 3);
  whole.push(1, 3);
  whole.order(1, 3);
  write_checkpoint(whole, 3, folder.path() / "x");
  const std::vector<float> held = whole.values();
  const JobMaker job = resumed(whole.job, 3, 3, folder.path() / "x", 2);
  Service rest(job, 1, read_images(job, 1));
  CHECK(same_bits(rest.values(), held));
  rest.push_all(3, 4);
  CHECK(!same_bits(rest.values(), held));
}

TEST_CASE("a resumed job with other tables or another rule is refused, with both sides",
          "[checkpoint]") {
  const test::TempFolder folder;
  Service whole(with_slots(job_of(1, Slack(0))), 1);
  whole.order(1, 2);
  whole.push_all(0, 2);
  write_checkpoint(whole, 2, folder.path() / "x");
  JobMaker job = resumed(whole.job, 1, 2, folder.path() / "x", 1);
  auto images = read_images(job, 1);
  images[0].tables[1].shape = {8};
  const Service other(job, 1, std::move(images));
  CHECK(!other.opened.accepted());
  CHECK(other.opened.reason() ==
        "the checkpoint holds table \"table1\" of 8, the job has \"table1\" of 7");
  job.solver().set_type("SGD");
  const auto refused = read_shard_images(job.state, 1);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().message.find("has 2 numbers with each value, and solver type SGD keeps "
                                     "1") != std::string::npos);
  job.solver().set_type("Adam");
  job.state.mutable_resume()->set_clock(3);
  CHECK(read_shard_images(job.state, 1).error().message.find("is of clock 2 now") !=
        std::string::npos);
}

TEST_CASE("a checkpoint whose tables have no room is not read", "[checkpoint]") {
  const test::TempFolder folder;
  Service whole(with_slots(job_of(1, Slack(0))), 1);
  whole.order(1, 2);
  whole.push_all(0, 2);
  write_checkpoint(whole, 2, folder.path() / "x");
  const JobMaker job = resumed(whole.job, 1, 2, folder.path() / "x", 1);
  const auto read = [&](const TableMemory& memory) {
    const OpenSaved open = [](const pb::ServerJob& state) {
      return CheckpointReader::open_to_resume(state.resume().folder());
    };
    return read_shard_images(job.state, 1, open, &memory);
  };
  // 50 values, 2 states of the 37 that are trained, and 4 slices.
  const std::uint64_t needed = (50 + 2 * 37) * sizeof(float) + 4 * kSliceBytes;
  CHECK(read(TableMemory(Bytes(needed))).has_value());
  const auto refused = read(TableMemory(Bytes(needed - 1)));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("table \"table3\" needs") == 0);
}

TEST_CASE("a server that ends reads no further slice of a checkpoint", "[checkpoint]") {
  const test::TempFolder folder;
  Service whole(with_slots(job_of(1, Slack(0))), 1);
  whole.order(1, 2);
  whole.push_all(0, 2);
  write_checkpoint(whole, 2, folder.path() / "x");
  const JobMaker job = resumed(whole.job, 1, 2, folder.path() / "x", 1);
  std::atomic<bool> stop = false;
  const OpenSaved open = [&](const pb::ServerJob& state) {
    stop = true;
    return CheckpointReader::open_to_resume(state.resume().folder());
  };
  const auto ended = read_shard_images(job.state, 1, open, nullptr, &stop);
  REQUIRE_FALSE(ended.has_value());
  CHECK(ended.error().code == ErrorCode::kClosed);
}

TEST_CASE("a resumed job's slices need no more memory than their images, and one slice",
          "[checkpoint]") {
  constexpr std::size_t kSlices = 16;
  constexpr std::uint64_t kElements = 256;
  const auto counted = std::make_shared<test::CountedMemory>();
  BufferPool pool(Bytes(0), counted);
  JobMaker job(1);
  const TableSpec table = test::make_table(0, {kSlices * kElements});
  ShardImages begin;
  begin.tables = {table};
  const SliceLayout layout(begin.tables, std::array{ShardId(0)}, kElements);
  for (const Slice& place : layout.slices()) {
    SliceImage& image = begin.slices[layout.index_of(place.table, place.slice)];
    image.place = place;
    image.done[WorkerId(0)] = Clock(0);
    image.values = pool.acquire(place.count * sizeof(float));
    std::ranges::fill(image.values.floats(), 1.0F);
  }
  REQUIRE(begin.slices.size() == kSlices);
  const std::size_t images = counted->used;
  Shard shard(ShardId(0), pool, kElements);
  (void)shard.set_job(job.view(), std::move(begin));
  const auto say = [&](auto body) {
    return shard.handle(
        kPeer, DataMessage{JobId(7), WorkerId(0), job.incarnation(WorkerId(0)), std::move(body)},
        TimePoint());
  };
  pb::DataHello hello;
  hello.set_wire_version(kWireVersion);
  hello.set_job_hash(job.hash());
  (void)say(hello);
  pb::OpenTables open;
  *open.add_tables() = to_wire(table);
  counted->peak = counted->used;
  const auto answers = say(open);
  CHECK(std::get<pb::OpenTablesReply>(answers.at(0).message.body).accepted());
  CHECK(counted->used == images);
  CHECK(counted->peak <= images + images / kSlices);
}

TEST_CASE("a resumed job's slice that was not read is no slice of initial values", "[checkpoint]") {
  BufferPool pool(Bytes(0));
  JobMaker job(1);
  const TableSpec table = test::make_table(0, {16});
  ShardImages begin;
  begin.tables = {table};
  Shard shard(ShardId(0), pool);
  (void)shard.set_job(job.view(), std::move(begin));
  const auto say = [&](auto body) {
    return shard.handle(
        kPeer, DataMessage{JobId(7), WorkerId(0), job.incarnation(WorkerId(0)), std::move(body)},
        TimePoint());
  };
  pb::DataHello hello;
  hello.set_wire_version(kWireVersion);
  hello.set_job_hash(job.hash());
  (void)say(hello);
  pb::OpenTables open;
  *open.add_tables() = to_wire(table);
  const auto answers = say(open);
  const auto& reply = std::get<pb::OpenTablesReply>(answers.at(0).message.body);
  CHECK_FALSE(reply.accepted());
  CHECK(reply.reason() == "shard 0 was given nothing that was saved of table \"table0\" slice 0");
}

TEST_CASE("memory for a checkpoint is prepared before its clock, and serves the next one too",
          "[checkpoint]") {
  Service service(job_of(2, Slack(0)), 1);
  service.push_all(0, 2);
  service.order(1, 4);
  const std::vector<SpareStock> stocks = service.stocks();
  REQUIRE(stocks.size() == 1);
  CHECK(service.ready() == 0);
  stocks[0].fill(false);
  // Two trained tables and an averaged one; no worker writes to the frozen one.
  CHECK(service.ready() == 3 * BufferPool::rounded_size(1));
  const int before = service.allocations();
  std::int64_t clock = 2;
  for (std::uint64_t number = 1; number < 4; ++number) {
    service.push_all(clock, clock + 2);
    clock += 2;
    std::vector<ShardCapture> captures = service.captures();
    REQUIRE(captures.size() == 1);
    CHECK_FALSE(captures[0].missed);
    service.push_all(clock, clock + 1);  // writes while the capture holds its copy
    CHECK(service.ready() == 0);
    captures.clear();
    CHECK(service.ready() == 3 * BufferPool::rounded_size(1));
    ++clock;
    service.order(number + 1, clock + 2);
    for (const SpareStock& stock : service.stocks()) stock.fill(false);
  }
  CHECK(service.allocations() == before);
}

TEST_CASE("memory that would be ready too late is not prepared", "[checkpoint]") {
  Service service(job_of(1, Slack(0)), 1);
  service.order(1, 1);
  const std::vector<SpareStock> stocks = service.stocks();
  REQUIRE(stocks.size() == 1);
  service.push_all(0, 1);
  const int before = service.allocations();
  stocks[0].fill(false);
  CHECK(service.allocations() == before);
  // The next order's is.
  CHECK(service.captures().size() == 1);
  service.order(2, 3);
  const std::vector<SpareStock> next = service.stocks();
  REQUIRE(next.size() == 1);
  next[0].fill(true);
  CHECK(service.allocations() == before);
}

TEST_CASE("memory is prepared only if the tables leave enough below the limit", "[checkpoint]") {
  // Adam: three numbers each for 37 trained elements, one each for 9 averaged and 4 frozen ones; in
  // four slices.
  const std::uint64_t tables_bytes = (3 * 37 + 9 + 4) * sizeof(float) + 4 * kSliceBytes;
  const std::uint64_t spare_bytes = (3 + 2 * 2) * BufferPool::rounded_size(1);
  const auto tight = std::make_shared<TableMemory>(Bytes(tables_bytes + spare_bytes - 1));
  Service without(job_of(1, Slack(0)), 1, {}, tight);
  REQUIRE(without.opened.accepted());
  without.order(1, 1);
  CHECK(without.stocks().empty());
  without.push_all(0, 1);
  CHECK(without.captures().size() == 1);

  const auto enough = std::make_shared<TableMemory>(Bytes(tables_bytes + spare_bytes));
  Service service(job_of(1, Slack(0)), 1, {}, enough);
  service.order(1, 2);
  const std::vector<SpareStock> stocks = service.stocks();
  REQUIRE(stocks.size() == 1);
  CHECK(stocks[0].bytes() == spare_bytes);
  stocks[0].fill(false);
  CHECK(service.ready() > 0);
  // Another job's tables come first: with the next message the memory is given back.
  const auto other = enough->take(std::array{TableNeed{"other", 1}});
  REQUIRE(other.has_value());
  service.push_all(0, 1);
  CHECK(service.ready() == 0);
  CHECK(enough->is_short());  // until it is the system's
  CHECK(service.excesses().size() == 1);
  CHECK_FALSE(enough->is_short());
  service.push_all(1, 2);
  CHECK(service.captures().size() == 1);
  service.order(2, 4);
  CHECK(service.stocks().empty());
  CHECK(service.excesses().empty());
  CHECK(service.ready() == 0);
  service.push_all(2, 5);
  const auto captures = service.captures();
  REQUIRE(captures.size() == 1);
  CHECK_FALSE(captures[0].missed);
}

TEST_CASE("a shard without messages gives prepared memory to tables too", "[checkpoint]") {
  const auto memory = std::make_shared<TableMemory>(Bytes(1 << 20));
  Service service(job_of(1, Slack(0)), 1, {}, memory);
  service.order(1, 2);
  for (const SpareStock& stock : service.stocks()) stock.fill(false);
  const std::uint64_t ready = service.ready();
  CHECK(ready > 0);
  service.idle();
  CHECK(service.ready() == ready);
  const std::uint64_t left = memory->limit().value() - memory->taken().value();
  const auto other = memory->take(std::array{TableNeed{"other", left}});
  REQUIRE(other.has_value());
  service.idle();
  CHECK(service.ready() == 0);
  CHECK(service.excesses().size() == 1);
  CHECK_FALSE(memory->is_short());
}

TEST_CASE("memory is not prepared if tables took it meanwhile", "[checkpoint]") {
  const auto memory = std::make_shared<TableMemory>(Bytes(1 << 20));
  Service service(job_of(1, Slack(0)), 1, {}, memory);
  service.order(1, 2);
  const std::vector<SpareStock> stocks = service.stocks();
  REQUIRE(stocks.size() == 1);
  const std::uint64_t left = memory->limit().value() - memory->taken().value();
  const auto other = memory->take(std::array{TableNeed{"other", left}});
  REQUIRE(other.has_value());
  service.idle();
  stocks[0].fill(false);
  CHECK(service.ready() == 0);
}

TEST_CASE("prepared memory is freed when no further checkpoint is ordered, and with the job",
          "[checkpoint]") {
  const bool ends = GENERATE(false, true);
  CAPTURE(ends);
  const auto memory = std::make_shared<TableMemory>(Bytes(1 << 20));
  Service service(job_of(1, Slack(0)), 1, {}, memory);
  service.order(1, 2);
  for (const SpareStock& stock : service.stocks()) stock.fill(false);
  CHECK(service.ready() > 0);
  if (ends) {
    service.job.state.set_finished(true);
  } else {
    service.job.state.clear_checkpoint();
  }
  service.publish();
  CHECK(service.ready() == 0);
  CHECK(service.excesses().size() == 1);
  const std::uint64_t left = memory->limit().value() - memory->taken().value();
  CHECK(memory->take_spare(Bytes(left)).has_value());
  if (ends) return;
  // The next order finds room again.
  service.order(2, 4);
  const std::vector<SpareStock> next = service.stocks();
  REQUIRE(next.size() == 1);
  next[0].fill(false);
  CHECK(service.ready() == 3 * BufferPool::rounded_size(1));
}

TEST_CASE("spare memory that is requested again for one order is taken once", "[checkpoint]") {
  const auto view = job_of(1, Slack(0)).view();
  const TableSpec table = test::make_table(0, {64});
  const SliceLayout layout(std::vector{table}, std::vector{ShardId(0)});
  BufferPool values(Bytes(0));
  BufferPool states(Bytes(0));
  const SliceState slice(table, layout.slices()[0], *view, values, PushSchedule{}, nullptr,
                         &states);
  const std::vector<const SliceState*> slices{&slice};
  const std::uint64_t spare_bytes = 3 * BufferPool::rounded_size(64 * sizeof(float));
  const auto memory = std::make_shared<TableMemory>(Bytes(spare_bytes));
  SpareMemory spares(values, states);
  for (int i = 0; i < 3; ++i) {
    const auto stock = spares.prepare(slices, memory);
    REQUIRE(stock.has_value());
    CHECK(stock->bytes() == spare_bytes);
    stock->fill(false);
    CHECK(values.usage().kept.value() + states.usage().kept.value() == spare_bytes);
  }
  CHECK(spares.give_back().has_value());
  CHECK_FALSE(spares.give_back().has_value());
  CHECK(values.usage().kept.value() + states.usage().kept.value() == 0);
  CHECK(memory->take_spare(Bytes(spare_bytes)).has_value());
}

TEST_CASE("prepared memory is freed by the checkpoint thread", "[checkpoint]") {
  Service service(job_of(1, Slack(0)), 1);
  service.order(1, 2);
  for (const SpareStock& stock : service.stocks()) stock.fill(false);
  service.job.state.clear_checkpoint();
  service.publish();
  BoundedQueue<bool> loaded(1);
  CheckpointThread thread(
      1, [](std::size_t, JobId, const ShardPart&) {},
      [&](const pb::ServerJob&, const Result<std::vector<ShardImages>>& images) {
        (void)loaded.push(images.has_value(), Duration::zero());
      });
  for (SpareExcess& excess : service.excesses()) thread.free(std::move(excess));
  // One after the other: this one is refused, as it names no checkpoint.
  thread.load(pb::ServerJob());
  CHECK(loaded.pop(Duration(10'000'000)) == false);
  CHECK(service.freed_elsewhere() == 3);
}

TEST_CASE("the checkpoint thread prepares the memory", "[checkpoint]") {
  Service service(job_of(1, Slack(0)), 1);
  service.order(1, 2);
  BoundedQueue<bool> loaded(1);
  CheckpointThread thread(
      1, [](std::size_t, JobId, const ShardPart&) {},
      [&](const pb::ServerJob&, const Result<std::vector<ShardImages>>& images) {
        (void)loaded.push(images.has_value(), Duration::zero());
      });
  for (SpareStock& stock : service.stocks()) thread.stock(std::move(stock));
  // One after the other: this one is refused, as it names no checkpoint.
  thread.load(pb::ServerJob());
  CHECK(loaded.pop(Duration(10'000'000)) == false);
  CHECK(service.ready() == 3 * BufferPool::rounded_size(1));
}

TEST_CASE("a folder that cannot be created fails the part and reports why", "[checkpoint]") {
  const test::TempFolder folder;
  const auto blocked = folder.write("blocked", "a file");
  Service service(job_of(1, Slack(0)), 1);
  service.order(4, 1, (blocked / "x").string());
  service.push_all(0, 1);
  BoundedQueue<ShardPart> parts(4);
  CheckpointThread thread(
      1,
      [&](std::size_t, JobId, ShardPart part) {
        (void)parts.push(std::move(part), Duration::zero());
      },
      [](const pb::ServerJob&, const Result<std::vector<ShardImages>>&) {});
  for (ShardCapture& capture : service.captures()) thread.write(0, std::move(capture));
  const auto part = parts.pop(Duration(10'000'000));
  REQUIRE(part.has_value());
  CHECK(part->number == 4);
  CHECK(!part->missed);
  CHECK(part->error.find("Not a directory") != std::string::npos);
}

TEST_CASE("what waits to be written is dropped when its checkpoint is withdrawn, with its folder",
          "[checkpoint]") {
  const test::TempFolder folder;
  const fs::path aside = folder.path() / "x_iter_1.part-7-4";
  Service service(job_of(1, Slack(0)), 2);
  service.order(4, 1, aside.string());
  service.push_all(0, 1);
  std::vector<ShardCapture> captures = service.captures();
  REQUIRE(captures.size() == 2);

  BoundedQueue<std::size_t> written(4);
  BoundedQueue<bool> removed(1);
  BoundedQueue<bool> loaded(1);
  CheckpointThread thread(
      2,
      [&](std::size_t shard, JobId, const ShardPart&) {
        (void)written.push(std::size_t{shard}, Duration::zero());
        (void)removed.pop(Duration(10'000'000));
      },
      [&](const pb::ServerJob&, const Result<std::vector<ShardImages>>& images) {
        (void)loaded.push(images.has_value(), Duration::zero());
      });
  for (std::size_t shard = 0; shard < 2; ++shard) {
    thread.write(shard, std::move(captures[shard]));
  }
  CHECK(written.pop(Duration(10'000'000)) == 0U);
  CHECK(fs::exists(aside));
  service.job.state.clear_checkpoint();
  service.publish();
  fs::remove_all(aside);
  (void)removed.push(true, Duration::zero());
  // One after the other: this one is refused, as it names no checkpoint.
  thread.load(pb::ServerJob());
  CHECK(loaded.pop(Duration(10'000'000)) == false);
  CHECK_FALSE(fs::exists(aside));
  CHECK_FALSE(written.pop(Duration::zero()).has_value());
}

TEST_CASE("a checkpoint is withdrawn by the next order and by the end of the job", "[checkpoint]") {
  Service service(job_of(1, Slack(0)), 1);
  service.order(1, 1);
  service.push_all(0, 1);
  const std::vector<ShardCapture> first = service.captures();
  REQUIRE(first.size() == 1);
  service.publish();
  CHECK_FALSE(*first[0].withdrawn);
  service.order(2, 2);
  CHECK(*first[0].withdrawn);
  service.push_all(1, 2);
  const std::vector<ShardCapture> second = service.captures();
  REQUIRE(second.size() == 1);
  CHECK_FALSE(*second[0].withdrawn);
  service.job.state.set_finished(true);
  service.publish();
  CHECK(*second[0].withdrawn);
}

}  // namespace taut::server
