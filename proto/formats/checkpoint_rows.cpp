// The buckets of a checkpoint's tables that are kept by rows.
#include "common/check.hpp"
#include "proto/formats/checkpoint_reader.hpp"

namespace taut {

const CheckpointReader::Piece& CheckpointReader::piece_of(TableId table,
                                                          std::uint32_t bucket) const {
  const auto& pieces = pieces_.at(table.value());
  const auto found = pieces.find(bucket);
  TAUT_CHECK(tables_[table.value()].rows && found != pieces.end(),
             "a bucket that the checkpoint's table does not have");
  return found->second;
}

const pb::CheckpointSlice& CheckpointReader::bucket(TableId table, std::uint32_t bucket) const {
  return piece_of(table, bucket).slice;
}

Result<void> CheckpointReader::read_row_numbers(TableId table, std::uint32_t bucket,
                                                std::span<std::uint64_t> out) const {
  const Piece& piece = piece_of(table, bucket);
  const safetensors::Reader& file = files_[piece.file];
  const std::string name = row_numbers_tensor(tables_[table.value()].name, piece.slice);
  return file.read_bytes(*file.find(name), 0, std::as_writable_bytes(out));
}

Result<void> CheckpointReader::read_row_clocks(TableId table, std::uint32_t bucket,
                                               std::span<std::int64_t> out) const {
  const Piece& piece = piece_of(table, bucket);
  const safetensors::Reader& file = files_[piece.file];
  const std::string name = row_clocks_tensor(tables_[table.value()].name, piece.slice);
  return file.read_bytes(*file.find(name), 0, std::as_writable_bytes(out));
}

Result<void> CheckpointReader::read_row_floats(TableId table, std::uint32_t bucket,
                                               std::uint32_t part, std::uint64_t first,
                                               std::span<float> out) const {
  const Piece& piece = piece_of(table, bucket);
  TAUT_CHECK(part <= piece.slice.states(), "a state that the checkpoint does not have");
  const TableSpec& spec = tables_[table.value()];
  const std::string name = part == 0 ? slice_tensor(spec.name, piece.slice)
                                     : state_tensor(spec.name, piece.slice, part - 1);
  const safetensors::Reader& file = files_[piece.file];
  return file.read_floats(*file.find(name), first * spec.width(), out);
}

}  // namespace taut
