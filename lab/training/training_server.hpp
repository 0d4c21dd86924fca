#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "lab/node.hpp"
#include "lab/training/world.hpp"
#include "server/server_jobs.hpp"
#include "server/shard.hpp"
#include "server/tables/weights_source.hpp"

namespace taut::lab {

/// A server: its shards, each with its own thread, and its line to the coordinator.
class TrainingServer final : public sim::ControlNode {
 public:
  /// start  of this server, from 0
  TrainingServer(World& world, std::uint32_t number, std::uint64_t start, std::uint32_t shards,
                 ControlTimings timings);

  void receive(sim::SocketId socket, PeerId from, sim::Body body, TimePoint now) override;
  void step(TimePoint now) override;
  [[nodiscard]] TimePoint wake() const override;

  /// The memory that the values and states of its largest shard take on this machine, including
  /// what a shard keeps for reuse.
  [[nodiscard]] std::uint64_t shard_bytes() const;

 private:
  static constexpr Bytes kMaxFreeValues{64UL << 20U};  // of a shard, kept for reuse
  struct OneShard {
    OneShard(std::uint32_t number_, HostCores& machine, server::WeightsSource& initial)
        : number(number_),
          lane(machine),
          shard(ShardId(number_), pool, SliceLayout::kSliceElements, &initial) {}
    const std::uint32_t number;  // of this server's
    BufferPool pool{kMaxFreeValues, page_allocator()};
    sim::SocketId socket = 0;
    Lane lane;
    server::Shard shard;
    Encoded encoded;
  };
  void on_event(const ControlEvent& event, TimePoint now) override;
  void on_data(sim::SocketId, PeerId, DataMessage, TimePoint) override {}
  [[nodiscard]] Lane::Work serve(OneShard& one, PeerId from, const Message& message);
  [[nodiscard]] std::vector<std::pair<PeerId, Message>> encoded(
      std::vector<server::Outgoing> answers) const;
  void send_next(OneShard& one, PeerId to, const Message& message);
  void send(const OneShard& one, std::vector<server::Outgoing> messages);
  void take_job(const pb::ServerJob& job);
  /// What the shards start from. Errors: as server::read_shard_images().
  [[nodiscard]] Result<std::vector<server::ShardImages>> begin_of(const pb::ServerJob& job);
  void note_changes();
  void note_bound(const OneShard& one) const;
  void save_captures();
  /// Enters what a shard's thread did from `begin` until now in the timeline.
  void show(const OneShard& one, std::string_view name, TimePoint begin) const;

  World& world_;
  const std::uint32_t server_;  // its number
  server::FileWeights initial_;
  std::vector<std::unique_ptr<OneShard>> shards_;
  server::ServerJobs jobs_;
  std::set<std::uint64_t> resumed_;  // jobs whose checkpoint was read
  TimePoint images_due_ = TimePoint::never();
};

}  // namespace taut::lab
