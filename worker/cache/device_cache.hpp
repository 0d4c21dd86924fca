#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "worker/backend/backend.hpp"
#include "worker/cache/device_values.hpp"
#include "worker/cache/gradient_sender.hpp"
#include "worker/cache/parameter_cache.hpp"
#include "worker/cache/served_cache.hpp"

namespace taut {

/// Parameters that live in a parameter server, for a device with memory of its own. Fresh values land
/// on the host and are copied to the device on a stream of their own: as soon as the client has them,
/// into a second buffer that changes places with the first between two uses, or where the device has
/// one buffer when they are asked for. The copy of a gradient starts when the compute has made it,
/// while backward goes on. The compute waits for events of single tables only.
class DeviceCache final : public ParameterCache {
 public:
  /// Opens the tables at the shards and starts reading them; as ServedCache::open.
  [[nodiscard]] static Result<std::unique_ptr<DeviceCache>> open(
      Client& client, Backend& backend, std::vector<TableSpec> tables,
      const ServedCache::Options& options);

  /// Closes the client, whose thread would else go on writing into the buffers.
  ~DeviceCache() override;

  void compute_on(std::size_t replica, Stream& stream) override;
  Result<Clock> begin_clock(Clock clock) override;
  Result<DeviceSpan<const float>> acquire(std::size_t replica, TableId table, Clock clock) override;
  DeviceSpan<float> gradient(std::size_t replica, TableId table) override;
  void publish(std::size_t replica, TableId table, Clock clock) override;
  void finish_clock(std::size_t replica, Clock clock) override;
  Result<Clock> snapshot(TableId table, std::span<float> into) override;
  Result<void> flush(Duration wait) override;
  Client::Traffic traffic() const override { return client_.traffic(); }
  const StalenessHistogram& staleness() const override { return client_.staleness(); }

 private:
  struct Table {
    TableSpec spec;
    std::optional<Clock> come;      // the clock whose values have landed on the host
    Clock version;                  // of these values
    std::optional<Clock> held;      // the clock whose values are in front, or on their way there
    DeviceBuffer gradient;          // none: the table is frozen
    std::unique_ptr<Event> made;    // the compute has made it, and its norm
    HostBuffer squares;             // two doubles, as in GradientSender::Update
    std::shared_ptr<Event> landed;  // its last copy to the host has; null: there was none
  };

  DeviceCache(Client& client, Backend& backend, const ServedCache::Options& options);
  void add_table(TableSpec spec);
  [[nodiscard]] static Clock wanted(const Table& table, Clock clock);
  Result<void> await(Table& table, Clock clock);
  [[nodiscard]] Result<void> check_sender() const;
  Result<void> bring(Table& table, Clock clock);
  void copy_ahead(TableId table) noexcept;
  void measure(TableId id);
  void fetch_gradient(TableId id, Clock clock);

  Client& client_;
  Backend& backend_;
  const ServedCache::Options options_;
  std::unique_ptr<Stream> own_stream_;  // until compute_on() names another one
  Stream* compute_;
  DeviceValues values_;
  std::unique_ptr<Stream> to_host_;
  std::vector<Table> tables_;
  std::vector<TableId> published_;  // without overlap: of this clock, to be copied at its end
  std::unique_ptr<GradientSender> sender_;
};

}  // namespace taut
