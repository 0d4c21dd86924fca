#pragma once

#include <memory>
#include <vector>

#include "common/ssp/table.hpp"
#include "worker/cache/device_encoder.hpp"
#include "worker/cache/device_values.hpp"
#include "worker/cache/gradient_sender.hpp"
#include "worker/cache/value_store.hpp"
#include "worker/client/client.hpp"
#include "worker/engine/backend.hpp"

namespace taut {

/// The values of a device with its own memory. Fresh values are written on the host and copied to
/// the device on a separate stream: with a second buffer as soon as the client has them, else in
/// bring(). Values in memory that servers lend and the device can read are copied directly, a slice
/// at a time. The copy of a gradient to the host starts once it is computed, while backward
/// continues; if the device can encode it, only the encoded bytes are copied. If it encodes clipped
/// gradients, all copies start after backward has ended. The compute waits for events of single
/// tables only.
class DeviceStore final : public ValueStore {
 public:
  /// client, backend  outlive this
  DeviceStore(Client& client, Backend& backend, const std::vector<TableSpec>& tables,
              const ServedOptions& options);
  ~DeviceStore() override;

  void start() override;
  void stop() noexcept override;
  void compute_on(Stream& stream) override;
  std::span<float> fresh(TableId table) override { return values_.fresh(table); }
  void bring(TableId table) override;
  DeviceSpan<const float> front(TableId table) const override { return values_.front(table); }
  DeviceSpan<float> gradient(TableId table) override;
  void publish(TableId table, Clock clock) override;
  void finish_clock(Clock clock) override;
  Result<void> check() const override;
  Result<void> drain(Duration wait) override;

 private:
  struct Table {
    TableId id;
    bool is_trained = true;
    bool was_brought = false;
    DeviceBuffer gradient;            // empty if the table is frozen or kept by rows
    std::unique_ptr<Event> computed;  // the gradient, and its norm
    HostBuffer squares;               // two doubles, as in GradientSender::Update
    std::shared_ptr<Event>
        copied;  // the gradient's last copy to the host; nullptr before the first
  };

  void add_table(const TableSpec& spec);
  void copy_ahead(TableId table) noexcept;
  void measure(const Table& table);
  [[nodiscard]] bool sends_at_once() const { return options_.overlap && !encoder_->clips(); }
  [[nodiscard]] float published_norm();
  void send(TableId id, Clock clock, float norm);

  Client& client_;
  Backend& backend_;
  const ServedOptions options_;
  std::unique_ptr<Stream> own_stream_;  // until compute_on() names another one
  Stream* compute_;
  DeviceValues values_;
  std::unique_ptr<Stream> to_host_;
  std::unique_ptr<Event> measured_;  // all published gradients
  std::vector<Table> tables_;
  std::vector<TableId> published_;          // of this clock, to be sent at its end
  std::unique_ptr<DeviceEncoder> encoder_;  // from start() to stop()
  std::unique_ptr<GradientSender> sender_;  // from start() to stop()
};

}  // namespace taut
