#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/net/message.hpp"
#include "common/ssp/slice_layout.hpp"
#include "common/time.hpp"
#include "proto/data_message.hpp"
#include "worker/follower/model.hpp"

namespace taut {

/// The values of one slice of a model; they outlive it.
[[nodiscard]] Frame slice_of(const Model& model, const Slice& place);

/// A model of one version that is being gathered, slice by slice.
/// Thread    its owner's
class ModelAttempt {
 public:
  struct Slice {
    std::uint64_t filled = 0;       // elements that have arrived, from its beginning on
    bool is_here = false;           // all of them have
    std::optional<TimePoint> sent;  // when its request was
    bool parked = false;            // the other side has the request
  };

  /// Throws std::bad_alloc.
  ModelAttempt(Clock target, std::shared_ptr<const std::vector<TableSpec>> tables,
               const SliceLayout& layout, BufferPool& pool);

  [[nodiscard]] Clock target() const { return model_.version; }
  [[nodiscard]] Slice& slice(std::size_t index) { return slices_[index]; }
  [[nodiscard]] const Slice& slice(std::size_t index) const { return slices_[index]; }
  [[nodiscard]] std::size_t missing() const { return missing_; }
  [[nodiscard]] std::size_t size() const { return slices_.size(); }
  [[nodiscard]] bool is_whole() const { return missing_ == 0 && !slices_.empty(); }

  /// Copies values of a slice, all or the next part.
  /// offset   of the first in the table, in elements
  /// Returns false if they have arrived before, are not the next, or are outside the slice.
  [[nodiscard]] bool take(const taut::Slice& place, std::size_t index, std::uint64_t offset,
                          const Frame& values);
  /// The values of a slice, as far as they are filled; they outlive this object.
  [[nodiscard]] Frame values(const taut::Slice& place) const { return slice_of(model_, place); }

  /// REQUIRES: nothing is missing.
  [[nodiscard]] std::shared_ptr<const Model> finish() {
    return std::make_shared<const Model>(std::move(model_));
  }

 private:
  Model model_;
  std::vector<Slice> slices_;  // by SliceLayout::index_of
  std::size_t missing_;
};

}  // namespace taut
