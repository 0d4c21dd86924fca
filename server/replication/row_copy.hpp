#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "common/ssp/table.hpp"
#include "proto/slice_images.hpp"
#include "server/tables/row_store.hpp"

namespace taut::server {

/// A backup's copy of one bucket's rows, from the newest image of which all parts have arrived.
/// Thread    shard thread
class RowCopy {
 public:
  /// states  per value
  RowCopy(const TableSpec& table, std::uint32_t bucket, std::size_t states)
      : table_(table), bucket_(bucket), states_(states) {}

  enum class Taken : std::uint8_t {
    kPart,     // other parts are missing, or this one is of no use
    kWhole,    // the rows are now those of the image
    kLacking,  // it continues an image other than the one here, or there was no memory for it
  };
  /// Takes a part of an image. After kLacking, an image that continues another is of no use.
  [[nodiscard]] Taken take(const ImageItem& part);

  /// The sequence number of the newest complete image; 0 if there is none.
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }
  [[nodiscard]] RowImage image() const { return store_->image(); }

 private:
  [[nodiscard]] std::uint64_t max_rows() const;
  [[nodiscard]] bool is_sound(const ImageItem& part) const;
  [[nodiscard]] bool is_whole() const;
  void apply(const ImageItem& part, RowStore& to) const;
  [[nodiscard]] Taken finish();

  const TableSpec table_;
  const std::uint32_t bucket_;
  const std::size_t states_;
  std::uint64_t sequence_ = 0;
  std::unique_ptr<RowStore> store_;
  // The parts of the image in flight, by their lowest row number; all have the same head.
  std::map<std::uint64_t, ImageItem> parts_;
};

}  // namespace taut::server
