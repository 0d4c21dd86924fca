#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/formats/checkpoint_manifest.hpp"
#include "proto/wire_version.hpp"
#include "server/checkpoints/checkpoint_file.hpp"
#include "server/checkpoints/resume_images.hpp"
#include "server/shard.hpp"
#include "tests/unit/proto/checkpoint_maker.hpp"
#include "tests/unit/server/row_job.hpp"

namespace taut::test::by_rows {

namespace fs = std::filesystem;
using Rows = std::vector<RowContent>;

inline std::vector<TableSpec> tables() {
  return {make_table(0, {5}), row_table(1)};
}

inline JobMaker job_of(int members, const char* type) {
  JobMaker job(members);
  job.solver().set_type(type);
  if (std::string(type) == "Adam") job.solver().set_momentum(0.9F);
  job.solver().set_base_lr(0.01F);
  for (pb::Member& member : *job.state.mutable_members()) member.set_slot(member.worker());
  return job;
}

/// A job with a table by rows on shards without sockets, whose updates are a function of worker,
/// clock and slice.
class RowService {
 public:
  RowService(JobMaker maker, std::uint32_t shards, std::vector<server::ShardImages> begin = {},
             std::vector<TableSpec> opened = tables())
      : job(std::move(maker)), tables_(std::move(opened)) {
    job.state.clear_shards();
    std::vector<ShardId> all;
    for (std::uint32_t i = 0; i < shards; ++i) {
      job.state.add_shards()->set_shard(i);
      all.emplace_back(i);
    }
    layout_ = SliceLayout(tables_, all);
    const auto view = job.view();
    for (std::uint32_t i = 0; i < shards; ++i) {
      auto& shard = shards_.emplace_back(std::make_unique<server::Shard>(ShardId(i), pool_));
      (void)shard->set_job(view, begin.empty() ? server::ShardImages() : std::move(begin[i]));
      pb::DataHello hello;
      hello.set_wire_version(kWireVersion);
      hello.set_job_hash(job.hash());
      say(*shard, 0, hello);
      pb::OpenTables open;
      for (const TableSpec& table : tables_) *open.add_tables() = to_wire(table);
      const auto answers = say(*shard, 0, open);
      const auto& reply = std::get<pb::OpenTablesReply>(answers.at(0).message.body);
      INFO(reply.reason());
      REQUIRE(reply.accepted());
    }
  }

  /// base  of an incremental one
  void order(std::uint64_t number, std::int64_t clock, const std::string& base = "") {
    pb::CheckpointOrder& order = *job.state.mutable_checkpoint();
    order.set_number(number);
    order.set_clock(clock);
    order.set_base(base);
    const auto view = job.view();
    for (auto& shard : shards_) (void)shard->set_job(view);
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
  /// The values of every row, and of table 0.
  std::vector<float> values() {
    std::vector<float> all;
    for (const Slice& place : layout_.slices()) {
      DataItem item = row_request(tables_[1], place.slice.value(), pb::DataItem::SNAPSHOT);
      if (place.table == TableId(0)) {
        item = {};
        item.kind = pb::DataItem::SNAPSHOT;
        item.count = place.count;
      }
      const auto answers = say(*shards_[place.shard.value()], 0, DataItems{{item}});
      const DataItem& answer = std::get<DataItems>(answers.at(0).message.body).items.at(0);
      INFO(answer.reason);
      REQUIRE(answer.kind == pb::DataItem::SNAPSHOT_VALUE);
      const auto own = floats_of(answer.payload);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  JobMaker job;
  std::optional<std::uint32_t> only_bucket;  // no other one's rows are named

 private:
  void push(std::uint32_t worker, std::int64_t clock) {
    for (const Slice& place : layout_.slices()) {
      DataItem item = row_push(tables_[1], place.slice.value(), worker, clock);
      if (only_bucket && place.slice.value() != *only_bucket) {
        item.rows = 0;
        item.payload = {};
      }
      if (place.table == TableId(0)) {
        item = {};
        item.kind = pb::DataItem::PUSH;
        item.count = place.count;
        item.clock = Clock(clock);
        item.payload = frame_of(gradient_of(worker, clock, place.count, 50));
      }
      const auto answers = say(*shards_[place.shard.value()], worker, DataItems{{std::move(item)}});
      const DataItem& answer = std::get<DataItems>(answers.at(0).message.body).items.at(0);
      INFO(answer.reason);
      CHECK(answer.kind == pb::DataItem::ACK);
    }
  }
  template <class Body>
  std::vector<server::Outgoing> say(server::Shard& shard, std::uint32_t worker, Body body) {
    return shard.handle(
        PeerId(1),
        DataMessage{JobId(7), WorkerId(worker), job.incarnation(WorkerId(worker)), std::move(body)},
        TimePoint());
  }

  const std::vector<TableSpec> tables_;
  BufferPool pool_{Bytes(0)};
  std::vector<std::unique_ptr<server::Shard>> shards_;
  SliceLayout layout_;
};

/// The rows of each bucket that was captured.
inline std::map<std::uint32_t, Rows> buckets_of(const std::vector<server::ShardCapture>& captures) {
  std::map<std::uint32_t, Rows> buckets;
  for (const server::ShardCapture& capture : captures) {
    for (const server::SliceImage& image : capture.slices) {
      if (image.place.table == TableId(1)) {
        buckets[image.place.slice.value()] = content_of(image.rows, kWidth);
      }
    }
  }
  return buckets;
}

/// Writes what was captured, with the manifest that a coordinator would write.
/// Errors    those of server::write_shard_files()
inline Result<void> write_checkpoint(std::vector<server::ShardCapture> captures,
                                     const JobMaker& job, std::int64_t clock,
                                     const fs::path& folder,
                                     const std::vector<TableSpec>& opened = tables()) {
  pb::CheckpointManifest manifest;
  manifest.set_format(kCheckpointFormat);
  manifest.set_number(captures.at(0).order.number);
  manifest.set_clock(clock);
  manifest.set_slots(static_cast<std::uint32_t>(job.state.members_size()));
  *manifest.mutable_definition() = job.state.definition();
  for (const pb::Member& from : job.state.members()) {
    pb::CheckpointMember& member = *manifest.add_members();
    member.set_worker(from.worker());
    member.set_slot(from.slot());
    member.set_leave_clock(from.leave_clock());
  }
  for (const TableSpec& table : opened) *manifest.add_tables() = to_wire(table);
  for (server::ShardCapture& capture : captures) {
    CHECK(!capture.missed);
    capture.order.folder = folder.string();
    TAUT_TRY(auto files, server::write_shard_files(std::move(capture), false));
    for (pb::CheckpointFile& file : files) *manifest.add_files() = std::move(file);
  }
  put_file(folder / kManifestName, write_manifest(manifest));
  return ok();
}

inline JobMaker resumed(const JobMaker& before, std::int64_t clock, const fs::path& folder) {
  JobMaker job = before;
  job.state.clear_checkpoint();
  for (pb::Member& member : *job.state.mutable_members()) member.set_join_clock(clock);
  job.state.mutable_resume()->set_folder(folder.string());
  job.state.mutable_resume()->set_clock(clock);
  job.state.mutable_resume()->set_slots(static_cast<std::uint32_t>(job.state.members_size()));
  return job;
}

inline Result<std::vector<server::ShardImages>> read_images(const JobMaker& job,
                                                            std::uint32_t shards) {
  pb::ServerJob state = job.state;
  state.clear_shards();
  for (std::uint32_t i = 0; i < shards; ++i) state.add_shards()->set_shard(i);
  return server::read_shard_images(state, shards);
}

}  // namespace taut::test::by_rows
