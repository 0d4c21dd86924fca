#include "common/coding/coded_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/check.hpp"

namespace taut {

CodedFile::CodedFile(std::string name, ReedSolomon code, Striping striping,
                     std::vector<std::shared_ptr<const RandomRead>> parts)
    : name_(std::move(name)),
      code_(std::move(code)),
      striping_(striping),
      parts_(std::move(parts)) {}

Result<std::unique_ptr<CodedFile>> CodedFile::open(
    std::string name, ReedSolomon code, Striping striping,
    std::vector<std::shared_ptr<const RandomRead>> parts) {
  TAUT_CHECK(parts.size() == code.parts(), "a place for each part");
  const auto gone = static_cast<std::size_t>(std::ranges::count(parts, nullptr));
  if (gone > code.parity()) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{}: {} of its {} parts are gone or damaged, and {} are needed",
                                  name, gone, code.parts(), code.data()));
  }
  return std::unique_ptr<CodedFile>(
      new CodedFile(std::move(name), std::move(code), striping, std::move(parts)));
}

Result<void> CodedFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > striping_.file_bytes || out.size() > striping_.file_bytes - offset) {
    return invalid(fmt::format("{}: has {} bytes; {} are required from byte {} on", name_,
                               striping_.file_bytes, out.size(), offset));
  }
  while (!out.empty()) {
    Striping::Place place = striping_.place_of(offset);
    place.count = std::min<std::uint64_t>(place.count, out.size());
    TAUT_TRY(read_part(place, out.first(place.count)));
    out = out.subspan(place.count);
    offset += place.count;
  }
  return ok();
}

Result<void> CodedFile::read_part(const Striping::Place& place, std::span<std::byte> out) const {
  if (const auto& part = parts_[place.part]) {
    if (part->read(place.offset, out)) return ok();
  }
  std::vector<std::vector<std::byte>> read;
  std::vector<ReedSolomon::Block> others;
  std::string reason;
  for (std::size_t i = 0; i < parts_.size() && others.size() < code_.data(); ++i) {
    if (i == place.part || !parts_[i]) continue;
    std::vector<std::byte>& bytes = read.emplace_back(out.size());
    if (auto done = parts_[i]->read(place.offset, bytes); done) {
      others.push_back({i, bytes});
    } else {
      reason = ": " + done.error().message;
    }
  }
  if (others.size() < code_.data()) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{}: too many of its parts are missing{}", name_, reason));
  }
  code_.rebuild(others, place.part, out);
  return ok();
}

PartEncoder::PartEncoder(ReedSolomon code, Striping striping, Put put)
    : code_(std::move(code)), striping_(striping), put_(std::move(put)) {
  TAUT_CHECK(striping_.data == code_.data(), "a block for each data part");
  const std::uint64_t block =
      striping_.stripes() > 1 ? striping_.block_bytes : striping_.part_bytes();
  stripe_.resize(block * code_.parts());
}

Result<void> PartEncoder::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    TAUT_CHECK(stripes_ < striping_.stripes(), "no more bytes than the file has");
    const std::uint64_t whole = striping_.block_bytes_of(stripes_) * code_.data();
    const std::uint64_t count = std::min<std::uint64_t>(bytes.size(), whole - filled_);
    std::copy_n(bytes.data(), count, stripe_.data() + filled_);
    filled_ += count;
    bytes = bytes.subspan(count);
    if (filled_ == whole) {
      TAUT_TRY(put_stripe());
    }
  }
  return ok();
}

Result<void> PartEncoder::finish() {
  if (filled_ > 0) {
    const std::uint64_t whole = striping_.block_bytes_of(stripes_) * code_.data();
    std::fill_n(stripe_.data() + filled_, whole - filled_, std::byte{});
    TAUT_TRY(put_stripe());
  }
  TAUT_CHECK(stripes_ == striping_.stripes(), "as many bytes as the file has");
  return ok();
}

Result<void> PartEncoder::put_stripe() {
  const std::uint64_t block = striping_.block_bytes_of(stripes_);
  std::vector<std::span<const std::byte>> data;
  std::vector<std::span<std::byte>> parity;
  for (std::size_t i = 0; i < code_.parts(); ++i) {
    const std::span<std::byte> one = std::span(stripe_).subspan(i * block, block);
    if (i < code_.data()) {
      data.emplace_back(one);
    } else {
      parity.push_back(one);
    }
  }
  code_.encode(data, parity);
  const std::uint64_t offset = stripes_ * striping_.block_bytes;
  for (std::size_t i = 0; i < code_.parts(); ++i) {
    TAUT_TRY(put_(i, offset, i < code_.data() ? data[i] : parity[i - code_.data()]));
  }
  filled_ = 0;
  ++stripes_;
  return ok();
}

}  // namespace taut
