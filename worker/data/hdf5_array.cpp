#include "worker/data/hdf5_array.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/system/memory.hpp"

namespace taut::data {
namespace {

template <class Stored>
void convert(std::span<const std::byte> bytes, std::span<float> into) {
  for (std::size_t i = 0; i < into.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof stored, sizeof stored);
    into[i] = static_cast<float>(stored);
  }
}

void convert(ElementType type, std::span<const std::byte> bytes, std::span<float> into) {
  switch (type) {
    case ElementType::kI8:
      return convert<std::int8_t>(bytes, into);
    case ElementType::kU8:
      return convert<std::uint8_t>(bytes, into);
    case ElementType::kI16:
      return convert<std::int16_t>(bytes, into);
    case ElementType::kU16:
      return convert<std::uint16_t>(bytes, into);
    case ElementType::kI32:
      return convert<std::int32_t>(bytes, into);
    case ElementType::kU32:
      return convert<std::uint32_t>(bytes, into);
    case ElementType::kI64:
      return convert<std::int64_t>(bytes, into);
    case ElementType::kU64:
      return convert<std::uint64_t>(bytes, into);
    case ElementType::kF64:
      return convert<double>(bytes, into);
    default:
      return convert<float>(bytes, into);
  }
}

}  // namespace

Result<Hdf5Array> Hdf5Array::open(const std::filesystem::path& file, const hdf5::Dataset& dataset) {
  const auto wrong = [&](const std::string& what) {
    return invalid(fmt::format("{}: array \"{}\" {}", file.string(), dataset.name, what));
  };
  if (!dataset.is_number) return wrong("does not hold numbers, or holds them in another file");
  if (dataset.shape.empty()) return wrong("is a single number; its first extent must be records");
  if (dataset.count == 0) return wrong("holds no records");
  Hdf5Array array;
  array.records_ = dataset.shape[0];
  array.elements_ = dataset.count / dataset.shape[0];
  array.shape_.assign(dataset.shape.begin() + 1, dataset.shape.end());
  if (dataset.type && dataset.offset) {
    TAUT_TRY(array.file_, TensorFile::open(file));
    array.type_ = *dataset.type;
    array.offset_ = *dataset.offset;
    return array;
  }
  TAUT_TRY(array.values_, hdf5::read_floats(file, dataset, Bytes(available_memory().value() / 2)));
  return array;
}

Result<void> Hdf5Array::read(std::uint64_t first, std::span<float> into) const {
  if (!file_) {
    std::ranges::copy(std::span(values_).subspan(first * elements_, into.size()), into.begin());
    return ok();
  }
  const std::uint64_t element_bytes = bytes_of(type_);
  const std::uint64_t place = offset_ + first * elements_ * element_bytes;
  if (type_ == ElementType::kF32) return file_->read_bytes(place, std::as_writable_bytes(into));
  std::vector<std::byte> bytes(into.size() * element_bytes);
  TAUT_TRY(file_->read_bytes(place, bytes));
  convert(type_, bytes, into);
  return ok();
}

}  // namespace taut::data
