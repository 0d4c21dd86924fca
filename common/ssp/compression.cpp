#include "common/ssp/compression.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/ssp/slice_layout.hpp"

namespace taut {

float Compression::Correction::scale(float norm) const {
  if (!std::isfinite(norm)) return std::numeric_limits<float>::quiet_NaN();
  return clips() && norm > clip_norm ? clip_norm / norm : 1.0F;
}

/// A table is a matrix with its outermost extent as rows; if the factors of one of its slices take
/// more than half of the slice, it is sent unencoded.
math::Encoding Compression::fitted(math::Encoding encoding, const TableSpec& table) {
  if (encoding.codec != math::Codec::kLowRank) return encoding;
  const std::uint64_t count = table.count();
  if (count == 0) return {};
  const std::uint64_t rows =
      table.shape.empty() ? 1 : static_cast<std::uint64_t>(table.shape.front());
  const std::uint64_t columns = count / rows;
  if (columns > SliceLayout::kSliceElements) return {};
  encoding.columns = static_cast<std::uint32_t>(columns);
  const std::uint64_t slice = std::min(count, SliceLayout::kSliceElements);
  const bool pays = 2 * math::encoded_bytes(encoding, slice) <= slice * sizeof(float);
  return pays ? encoding : math::Encoding();
}

/// Source    Lin et al., "Deep Gradient Compression", ICLR 2018, section 3.3
std::uint32_t Compression::every_at(Clock clock, std::uint64_t warm_up, std::uint32_t every) {
  const auto now = static_cast<std::uint64_t>(std::max<std::int64_t>(clock.value(), 0));
  if (now >= warm_up) return every;
  std::uint64_t steps = 0;
  for (std::uint64_t reached = 1; reached < every; reached *= 4) ++steps;
  const std::uint64_t step = now * steps / warm_up;
  return static_cast<std::uint32_t>(
      std::min(std::uint64_t{every}, std::uint64_t{1} << (2 * (step + 1))));
}

}  // namespace taut
