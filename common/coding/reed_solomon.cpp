#include "common/coding/reed_solomon.hpp"

#include <isa-l/erasure_code.h>

#include <algorithm>

#include "common/check.hpp"

namespace taut {
namespace {

constexpr std::size_t kTableBytes = 32;  // per coefficient
constexpr std::size_t kMaxPieceBytes = std::size_t{1} << 30U;

/// ISA-L takes pointers without const, and does not write through those of the sources.
unsigned char* address_of(std::span<const std::byte> bytes, std::size_t first) {
  return reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data())) + first;
}

/// out[i] = the sum over j of coefficient (i, j) times in[j].
void multiply(std::vector<unsigned char>& tables, std::span<const std::span<const std::byte>> in,
              std::span<const std::span<std::byte>> out) {
  const std::size_t bytes = in.front().size();
  std::vector<unsigned char*> sources(in.size());
  std::vector<unsigned char*> targets(out.size());
  for (std::size_t first = 0; first < bytes; first += kMaxPieceBytes) {
    const std::size_t count = std::min(kMaxPieceBytes, bytes - first);
    for (std::size_t i = 0; i < in.size(); ++i) sources[i] = address_of(in[i], first);
    for (std::size_t i = 0; i < out.size(); ++i) targets[i] = address_of(out[i], first);
    ec_encode_data(static_cast<int>(count), static_cast<int>(in.size()),
                   static_cast<int>(out.size()), tables.data(), sources.data(), targets.data());
  }
}

}  // namespace

ReedSolomon::ReedSolomon(std::size_t data, std::size_t parity)
    : data_(data),
      parity_(parity),
      matrix_((data + parity) * data),
      tables_(kTableBytes * data * parity) {
  TAUT_CHECK(data >= 1 && data <= kMaxData && parity >= 1 && parity <= kMaxParity,
             "a number of parts that there may be");
  gf_gen_cauchy1_matrix(matrix_.data(), static_cast<int>(parts()), static_cast<int>(data_));
  ec_init_tables(static_cast<int>(data_), static_cast<int>(parity_), matrix_.data() + data_ * data_,
                 tables_.data());
}

void ReedSolomon::encode(std::span<const std::span<const std::byte>> data,
                         std::span<const std::span<std::byte>> parity) const {
  TAUT_CHECK(data.size() == data_ && parity.size() == parity_, "a block of each part");
  const std::size_t bytes = data.front().size();
  for (const auto& block : data) TAUT_CHECK(block.size() == bytes, "blocks of one length");
  for (const auto& block : parity) TAUT_CHECK(block.size() == bytes, "blocks of one length");
  std::vector<unsigned char> tables = tables_;
  multiply(tables, data, parity);
}

void ReedSolomon::rebuild(std::span<const Block> others, std::size_t lost,
                          std::span<std::byte> out) const {
  TAUT_CHECK(others.size() == data_ && lost < parts(), "as many other blocks as data parts");
  std::vector<unsigned char> rows;
  std::vector<std::span<const std::byte>> blocks;
  for (const Block& block : others) {
    TAUT_CHECK(block.part < parts() && block.part != lost && block.bytes.size() == out.size(),
               "another block of one length");
    const auto row = matrix_.begin() + static_cast<std::ptrdiff_t>(block.part * data_);
    rows.insert(rows.end(), row, row + static_cast<std::ptrdiff_t>(data_));
    blocks.push_back(block.bytes);
  }
  // The data blocks are the inverse of these rows times the given blocks.
  std::vector<unsigned char> inverse(data_ * data_);
  TAUT_CHECK(gf_invert_matrix(rows.data(), inverse.data(), static_cast<int>(data_)) == 0,
             "different parts");
  std::vector<unsigned char> coefficients(data_, 0);
  for (std::size_t j = 0; j < data_; ++j) {
    for (std::size_t i = 0; i < data_; ++i) {
      coefficients[j] = static_cast<unsigned char>(
          coefficients[j] ^ gf_mul(matrix_[lost * data_ + i], inverse[i * data_ + j]));
    }
  }
  std::vector<unsigned char> tables(kTableBytes * data_);
  ec_init_tables(static_cast<int>(data_), 1, coefficients.data(), tables.data());
  const std::array<std::span<std::byte>, 1> target{out};
  multiply(tables, blocks, target);
}

}  // namespace taut
