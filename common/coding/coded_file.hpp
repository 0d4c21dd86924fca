#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/coding/reed_solomon.hpp"
#include "common/coding/striping.hpp"
#include "common/files/random_read.hpp"
#include "common/result.hpp"

namespace taut {

/// A file that is stored in parts: the bytes of a missing part are computed from others.
/// Thread    several at once are allowed
class CodedFile final : public RandomRead {
 public:
  /// name   for messages
  /// parts  all of them in order; nullptr: missing
  /// Errors    unavailable: fewer than `code.data()` parts exist
  [[nodiscard]] static Result<std::unique_ptr<CodedFile>> open(
      std::string name, ReedSolomon code, Striping striping,
      std::vector<std::shared_ptr<const RandomRead>> parts);

  /// A part that cannot be read counts as missing.
  /// Errors    invalid beyond the end; unavailable, with the error of a part, if too few others
  ///           can be read
  [[nodiscard]] Result<void> read(std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  CodedFile(std::string name, ReedSolomon code, Striping striping,
            std::vector<std::shared_ptr<const RandomRead>> parts);
  [[nodiscard]] Result<void> read_part(const Striping::Place& place,
                                       std::span<std::byte> out) const;

  std::string name_;
  ReedSolomon code_;
  Striping striping_;
  std::vector<std::shared_ptr<const RandomRead>> parts_;
};

/// Cuts a file into parts as its bytes arrive.
/// Thread    one at a time
class PartEncoder {
 public:
  /// Takes the next bytes of a part, which start at its byte `offset`; an error ends the encoding.
  using Put = std::function<Result<void>(std::size_t part, std::uint64_t offset,
                                         std::span<const std::byte> bytes)>;

  PartEncoder(ReedSolomon code, Striping striping, Put put);

  /// The file's next bytes. Errors: those of `put`.
  [[nodiscard]] Result<void> append(std::span<const std::byte> bytes);
  /// REQUIRES: all of the file's bytes were appended.
  [[nodiscard]] Result<void> finish();

 private:
  [[nodiscard]] Result<void> put_stripe();

  ReedSolomon code_;
  Striping striping_;
  Put put_;
  std::vector<std::byte> stripe_;  // data blocks, then parity blocks, each of block_bytes
  std::uint64_t filled_ = 0;       // bytes of the stripe
  std::uint64_t stripes_ = 0;      // passed to put_
};

}  // namespace taut
