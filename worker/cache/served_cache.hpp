#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/math/update_rule.hpp"
#include "worker/backend/backend.hpp"
#include "worker/cache/parameter_cache.hpp"

namespace taut {

/// Parameters that live in a parameter server, for a device that shares the host's memory: nothing is
/// copied. Each table has two value buffers: the compute reads one while fresh values land in the
/// other, and they change places between two uses.
class ServedCache final : public ParameterCache {
 public:
  struct Options {
    Clock start;  // the first clock
    /// What each update carries. A norm of the whole gradient is known when backward is over, and
    /// the updates then leave together.
    math::UpdateNorm norm = math::UpdateNorm::kNone;
    bool overlap = true;        // each update leaves while the rest of backward still runs
    bool catches_up = false;    // leaves clocks out that are over: the job has backup workers
    Duration wait{60'000'000};  // a read that takes longer fails
  };

  /// Opens the tables at the shards and starts reading them. REQUIRES: a backend that shares the
  /// host's memory.
  /// Errors    as Client::open
  [[nodiscard]] static Result<std::unique_ptr<ServedCache>> open(Client& client, Backend& backend,
                                                                 std::vector<TableSpec> tables,
                                                                 Options options);

  /// Closes the client, whose thread would else go on writing into the buffers.
  ~ServedCache() override { client_.close(); }

  Result<Clock> begin_clock(Clock clock) override;
  Result<DeviceSpan<const float>> acquire(std::size_t replica, TableId table, Clock clock) override;
  DeviceSpan<float> gradient(std::size_t replica, TableId table) override;
  void publish(std::size_t replica, TableId table, Clock clock) override;
  void finish_clock(std::size_t replica, Clock clock) override;
  Result<Clock> snapshot(TableId table, std::span<float> into) override;
  Result<void> flush(Duration wait) override { return client_.flush(wait); }
  Client::Traffic traffic() const override { return client_.traffic(); }
  const StalenessHistogram& staleness() const override { return client_.staleness(); }

 private:
  struct Table {
    TableSpec spec;
    DeviceBuffer front;  // read by the compute
    DeviceBuffer back;   // written by the client's thread
    Buffer gradient;
    std::optional<Clock> held;  // the clock whose values are in front
    Clock version;              // of these values
  };

  ServedCache(Client& client, Options options) : client_(client), options_(options) {}
  Result<void> bring(Table& table, Clock clock);
  [[nodiscard]] bool leaves_at_once() const {
    return options_.overlap && options_.norm != math::UpdateNorm::kGradient;
  }
  [[nodiscard]] float gradient_norm() const;
  void send(Table& table, Clock clock, float norm);

  Client& client_;
  const Options options_;
  std::vector<Table> tables_;
};

/// The cache for a backend: a ServedCache, or a DeviceCache where the device's memory is its own.
[[nodiscard]] Result<std::unique_ptr<ParameterCache>> open_served_cache(
    Client& client, Backend& backend, std::vector<TableSpec> tables,
    const ServedCache::Options& options);

}  // namespace taut
