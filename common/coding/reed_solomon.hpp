#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace taut {

/// A systematic Reed-Solomon code over GF(2^8) with a Cauchy matrix: `data` blocks of equal length
/// and `parity` blocks that are computed from them, any `data` of which give the others.
/// Thread    const methods: any
/// Source    Blömer et al., "An XOR-Based Erasure-Resilient Coding Scheme", ICSI TR-95-048, 1995:
///           each square part of a Cauchy matrix has an inverse
class ReedSolomon {
 public:
  static constexpr std::size_t kMaxData = 32;
  static constexpr std::size_t kMaxParity = 16;

  /// REQUIRES: data from 1 to kMaxData, parity from 1 to kMaxParity.
  ReedSolomon(std::size_t data, std::size_t parity);

  [[nodiscard]] std::size_t data() const { return data_; }
  [[nodiscard]] std::size_t parity() const { return parity_; }
  [[nodiscard]] std::size_t parts() const { return data_ + parity_; }

  /// Computes all parity blocks. REQUIRES: data() and parity() blocks, all of the same length.
  void encode(std::span<const std::span<const std::byte>> data,
              std::span<const std::span<std::byte>> parity) const;

  struct Block {
    std::size_t part = 0;  // below data(): a data block
    std::span<const std::byte> bytes;
  };
  /// Computes one block from data() others.
  /// REQUIRES: different parts, of the same length as `out`, none of which is `lost`.
  void rebuild(std::span<const Block> others, std::size_t lost, std::span<std::byte> out) const;

 private:
  std::size_t data_;
  std::size_t parity_;
  std::vector<unsigned char> matrix_;  // [parts][data]; its upper square is the identity
  std::vector<unsigned char> tables_;  // of the lower rows, in ISA-L's format
};

}  // namespace taut
