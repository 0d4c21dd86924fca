#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "worker/cache/parameter_cache.hpp"
#include "worker/cache/served_rows.hpp"
#include "worker/cache/value_store.hpp"
#include "worker/engine/backend.hpp"

namespace taut {

/// Parameters of a parameter server: tracks which clock's values are in front, and which are
/// awaited. A ValueStore stores them, in host memory or on a device. Of tables that are kept by
/// rows, only a batch's rows are here, in ServedRows.
class ServedCache final : public ParameterCache {
 public:
  using Options = ServedOptions;

  /// Opens the tables at the shards and starts reading them, into a HostStore if the backend shares
  /// the host's memory, else into a DeviceStore.
  /// tables    as the servers have them
  /// Errors    as Client::open
  [[nodiscard]] static Result<std::unique_ptr<ServedCache>> open(Client& client, Backend& backend,
                                                                 std::vector<TableSpec> tables,
                                                                 const Options& options);
  /// Overload for a given store of the same tables.
  [[nodiscard]] static Result<std::unique_ptr<ServedCache>> open(Client& client, Backend& backend,
                                                                 std::vector<TableSpec> tables,
                                                                 const Options& options,
                                                                 std::unique_ptr<ValueStore> store);

  /// Closes the client, whose thread writes into the store's memory.
  ~ServedCache() override;

  void compute_on(std::size_t replica, Stream& stream) override;
  Result<Clock> begin_clock(Clock clock) override;
  Result<DeviceSpan<const float>> acquire(std::size_t replica, TableId table, Clock clock) override;
  DeviceSpan<float> gradient(std::size_t replica, TableId table) override;
  Result<void> name_rows(std::size_t replica, TableId table, Clock clock,
                         std::span<const std::uint64_t> rows) override;
  void publish(std::size_t replica, TableId table, Clock clock) override;
  void finish_clock(std::size_t replica, Clock clock) override;
  Result<Clock> snapshot(TableId table, std::span<float> into) override;
  Result<Clock> snapshot_rows(TableId table, std::span<const std::uint64_t> rows,
                              std::span<float> into) override;
  Result<void> flush(Duration wait) override;
  Client::Traffic traffic() const override { return client_.traffic(); }
  const StalenessHistogram& staleness() const override { return client_.staleness(); }

 private:
  struct Table {
    TableSpec spec;
    std::optional<Clock> arrived;      // the clock whose values the client has written to the store
    Clock version;                     // of these values
    std::optional<Clock> front;        // the clock whose values are in front
    std::unique_ptr<ServedRows> rows;  // of a table by rows, in place of all of the above
  };

  ServedCache(Client& client, Backend& backend, std::vector<TableSpec> tables,
              const Options& options, std::unique_ptr<ValueStore> store);
  [[nodiscard]] static Clock clock_of(const Table& table, Clock clock);
  Result<void> await(Table& table, Clock clock);
  Result<void> bring(Table& table, Clock clock);

  Client& client_;
  Backend& backend_;
  const Options options_;
  std::unique_ptr<ValueStore> store_;
  std::vector<Table> tables_;
};

}  // namespace taut
