#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "proto/wire_version.hpp"
#include "server/checkpoints/checkpoint_file.hpp"
#include "server/checkpoints/resume_images.hpp"
#include "server/shard.hpp"
#include "tests/unit/proto/checkpoint_maker.hpp"
#include "tests/unit/server/job_maker.hpp"

namespace taut::test {

/// The tables of each service: trained ones, one of running statistics and a frozen one.
inline std::vector<TableSpec> tables() {
  std::vector<TableSpec> all{make_table(0, {6, 5}), make_table(1, {7}),
                             make_table(2, {9}, TableKind::kAveraged),
                             make_table(3, {4}, TableKind::kFrozen)};
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
  Service(JobMaker maker, std::uint32_t shards, std::vector<server::ShardImages> begin = {},
          const std::shared_ptr<server::TableMemory>& memory = nullptr)
      : job(std::move(maker)) {
    job.state.clear_shards();
    for (std::uint32_t i = 0; i < shards; ++i) job.state.add_shards()->set_shard(i);
    const auto view = job.view();
    for (std::uint32_t i = 0; i < shards; ++i) {
      auto& shard = shards_.emplace_back(std::make_unique<server::Shard>(ShardId(i), pool_));
      shard->limit_memory(memory);
      (void)shard->set_job(view, begin.empty() ? server::ShardImages() : std::move(begin[i]));
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
      item.payload = frame_of(gradient_of(worker, clock, place.count, seed));
      const auto answers = say(*shards_[place.shard.value()], worker, DataItems{{std::move(item)}});
      CHECK(std::get<DataItems>(answers.at(0).message.body).items.at(0).kind == pb::DataItem::ACK);
    }
  }
  void push_all(std::int64_t first, std::int64_t end) {
    for (std::int64_t clock = first; clock < end; ++clock) {
      for (const pb::Member& member : job.state.members()) push(member.worker(), clock);
    }
  }
  std::vector<server::ShardCapture> captures() {
    std::vector<server::ShardCapture> all;
    for (auto& shard : shards_) {
      for (server::ShardCapture& one : shard->take_captures()) all.push_back(std::move(one));
    }
    return all;
  }
  std::vector<server::SpareStock> stocks() {
    std::vector<server::SpareStock> all;
    for (auto& shard : shards_) {
      for (server::SpareStock& one : shard->take_stocks()) all.push_back(std::move(one));
    }
    return all;
  }
  std::vector<server::SpareExcess> excesses() {
    std::vector<server::SpareExcess> all;
    for (auto& shard : shards_) {
      for (server::SpareExcess& one : shard->take_excesses()) all.push_back(std::move(one));
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
          floats_of(std::get<DataItems>(answers.at(0).message.body).items.at(0).payload);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  JobMaker job;
  pb::OpenTablesReply opened;

 private:
  template <class Body>
  std::vector<server::Outgoing> say(server::Shard& shard, std::uint32_t worker, Body body) {
    return shard.handle(
        kPeer,
        DataMessage{JobId(7), WorkerId(worker), job.incarnation(WorkerId(worker)), std::move(body)},
        TimePoint());
  }

  std::shared_ptr<CountingAllocator> allocator_ = std::make_shared<CountingAllocator>();
  BufferPool pool_{Bytes(0), allocator_};  // keeps nothing but what a shard asks it to
  std::vector<std::unique_ptr<server::Shard>> shards_;
  SliceLayout layout_;
};

inline JobMaker job_of(int members, Slack slack, const char* type = "Adam") {
  JobMaker job(members, slack);
  job.solver().set_type(type);
  job.solver().set_momentum(0.9F);
  job.solver().set_base_lr(0.01F);
  return job;
}

/// Writes what a service has captured, with the manifest that a coordinator would write.
inline void write_checkpoint(Service& service, std::int64_t clock,
                             const std::filesystem::path& folder) {
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
  for (server::ShardCapture& capture : service.captures()) {
    CHECK(!capture.missed);
    capture.order.folder = folder.string();
    auto files = server::write_shard_files(std::move(capture), false);
    REQUIRE(files.has_value());
    for (pb::CheckpointFile& file : files.value()) *manifest.add_files() = std::move(file);
  }
  put_file(folder / kManifestName, write_manifest(manifest));
}

/// The job that continues from there, with this many members.
inline JobMaker resumed(const JobMaker& before, int members, std::int64_t clock,
                        const std::filesystem::path& folder, std::uint32_t slots) {
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

inline std::vector<server::ShardImages> read_images(const JobMaker& job, std::uint32_t shards) {
  pb::ServerJob state = job.state;
  state.clear_shards();
  for (std::uint32_t i = 0; i < shards; ++i) state.add_shards()->set_shard(i);
  auto images = server::read_shard_images(state, shards);
  INFO((images ? std::string() : images.error().message));
  REQUIRE(images.has_value());
  return std::move(images.value());
}

inline JobMaker with_slots(JobMaker job) {
  for (pb::Member& member : *job.state.mutable_members()) member.set_slot(member.worker());
  return job;
}

}  // namespace taut::test
