#pragma once

#include <map>
#include <memory>
#include <optional>

#include "common/types.hpp"
#include "worker/client/client.hpp"
#include "worker/engine/backend.hpp"

namespace taut {

/// Encodes updates on a device with its own memory, if it supports the table's encoding: then only
/// what is sent is copied to the host. What updates leave out is kept on the device, and copied to
/// the host for checkpoints; a departing member's last update includes it.
/// Errors    DeviceError
/// Thread    the compute thread
class DeviceEncoder {
 public:
  /// client, backend  outlive this
  DeviceEncoder(Client& client, Backend& backend);
  /// Residuals on the device are lost.
  ~DeviceEncoder();
  DeviceEncoder(const DeviceEncoder&) = delete;
  DeviceEncoder& operator=(const DeviceEncoder&) = delete;

  /// Allocates memory for a table's largest update, which is the first, and for what is kept. If
  /// the device has too little, the table's updates are encoded on the host.
  /// clock     the first one
  /// REQUIRES  the client has opened the tables
  void add(TableId table, Clock clock);

  struct Update {
    TableEncoding how;
    DeviceSpan<const float> values;  // `how.bytes` of them
  };
  /// Queues the encoding of a table's gradient, which it may change. nullopt if the client must
  /// encode it.
  /// norm      of the member's whole gradient, if it is clipped
  /// REQUIRES  the table's last update has been copied when `compute` reaches this
  [[nodiscard]] std::optional<Update> encode(TableId table, Clock clock, DeviceSpan<float> gradient,
                                             float norm, Stream& compute);
  /// Whether some table's encoding needs the norm.
  [[nodiscard]] bool clips() const { return clips_; }

 private:
  struct Table {
    DeviceBuffer encoded;
    DeviceBuffer kept;                // as in Residuals; empty if nothing is kept
    std::unique_ptr<Event> is_kept;   // of the last update
    bool has_taken = false;           // the client's, restored between add() and encode()
    DeviceSpan<float> states = {};    // of the slices, in `kept`
    DeviceSpan<float> velocity = {};  // after them
  };

  void take_kept(TableId id, Table& table, Stream& compute);
  void advance(const Table& table, const TableEncoding& how, DeviceSpan<float> gradient, float norm,
               Stream& compute);
  void encode_slices(const Table& table, const TableEncoding& how, DeviceSpan<const float> gradient,
                     Stream& compute);
  [[nodiscard]] Update rest(const Table& table, TableEncoding how, DeviceSpan<float> gradient,
                            Stream& compute);

  Client& client_;
  Backend& backend_;
  std::unique_ptr<Stream> to_host_;  // of residuals; nullptr: no table is encoded here
  std::map<TableId, Table> tables_;
  bool clips_ = false;
};

}  // namespace taut
