#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/element_type.hpp"
#include "common/files/file_writer.hpp"
#include "common/files/tensor_file.hpp"
#include "common/result.hpp"

/// The safetensors format: an 8-byte little-endian length, a JSON header of that length, and the
/// tensors' bytes, one after another without gaps:
///
///   {"__metadata__": {"key": "value"}, "NAME": {"dtype": "F32", "shape": [2, 3],
///    "data_offsets": [0, 24]}, ...}
///
/// Offsets count from the end of the header. Source: https://github.com/huggingface/safetensors,
/// README, "Format".
namespace taut::safetensors {

using taut::ElementType;
using taut::to_string;

/// Limits on a header; a file that exceeds them is refused.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own
inline constexpr std::size_t kMaxTensors = 1U << 20;
inline constexpr std::size_t kMaxAxes = 32;
inline constexpr std::size_t kMaxNameBytes = 4096;

struct Tensor {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<std::uint64_t> shape;  // empty: one element
  std::uint64_t begin = 0;           // bytes from the end of the header
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t bytes() const { return end - begin; }
  [[nodiscard]] std::uint64_t count() const { return bytes() / bytes_of(type); }
  bool operator==(const Tensor&) const = default;
};

using Metadata = std::map<std::string, std::string>;

struct Head {
  std::vector<Tensor> tensors;  // in the order of their bytes
  Metadata metadata;
  std::uint64_t data_begin = 0;  // where the tensors' bytes start in the file
};

/// The length of the JSON header from a file's first 8 bytes.
/// name      of the file, for messages
/// Errors    invalid: too short, above the limit, beyond the end of the file
[[nodiscard]] Result<std::uint64_t> parse_head_length(std::span<const std::byte> bytes,
                                                      std::uint64_t file_bytes,
                                                      const std::string& name);

/// Parses the header. json is exactly its bytes, file_bytes the whole file's size.
/// Errors    invalid: JSON of another form; a repeated name; an unknown dtype; a shape that does
///           not match its offsets; offsets that overlap, leave a gap, or do not end with the file
[[nodiscard]] Result<Head> parse_head(std::span<const std::byte> json, std::uint64_t file_bytes,
                                      const std::string& name);

/// A file with a valid header. It is read at offsets, not mapped: if it shrinks meanwhile, a read
/// returns an error and never raises a signal.
/// Thread    reads from several at once are allowed
class Reader {
 public:
  [[nodiscard]] static Result<Reader> open(const std::filesystem::path& path);
  [[nodiscard]] static Result<Reader> open(TensorFile file);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  [[nodiscard]] const TensorFile& file() const { return file_; }
  /// Where the tensors' bytes start in the file.
  [[nodiscard]] std::uint64_t data_begin() const { return head_.data_begin; }
  [[nodiscard]] const std::vector<Tensor>& tensors() const { return head_.tensors; }
  [[nodiscard]] const Metadata& metadata() const { return head_.metadata; }
  /// nullptr if absent.
  [[nodiscard]] const Tensor* find(std::string_view name) const;

  /// Bytes [first, first + out.size()) of the tensor, unconverted.
  /// Errors: invalid beyond the tensor's end; io.
  [[nodiscard]] Result<void> read_bytes(const Tensor& tensor, std::uint64_t first,
                                        std::span<std::byte> out) const;

  /// Elements [first, first + out.size()) as floats: F32 unchanged, F16 and BF16 exactly, F64
  /// rounded to the nearest. Errors: mismatch for another dtype; as read_bytes.
  [[nodiscard]] Result<void> read_floats(const Tensor& tensor, std::uint64_t first,
                                         std::span<float> out) const;

 private:
  explicit Reader(TensorFile file) : file_(std::move(file)) {}

  TensorFile file_;
  Head head_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

/// A tensor to be written.
struct TensorSpec {
  std::string name;
  std::vector<std::uint64_t> shape;
  ElementType type = ElementType::kF32;
};

/// The start of a file, and the offsets of the tensors that follow it.
struct EncodedHead {
  Head head;
  std::string bytes;  // the length and the header

  /// The size of the whole file.
  [[nodiscard]] std::uint64_t file_bytes() const {
    return head.data_begin + (head.tensors.empty() ? 0 : head.tensors.back().end);
  }
};

/// The head of a file of these tensors, in this order. name is the file's, for messages.
/// Errors    invalid: a repeated name, one that is not UTF-8, limits exceeded
[[nodiscard]] Result<EncodedHead> encode_head(const std::vector<TensorSpec>& tensors,
                                              const Metadata& metadata, const std::string& name);

/// Writes a file whose tensors' names and shapes are known in advance; bytes arrive in pieces.
/// The file appears under its name when `finish` returns; otherwise it is deleted.
/// Thread    one at a time
class Writer {
 public:
  /// Errors: invalid for a repeated name, one that is not UTF-8, limits exceeded; io.
  [[nodiscard]] static Result<Writer> create(
      const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
      const Metadata& metadata,
      FileWriter::Durability durability = FileWriter::Durability::kFlushed);

  /// Appends the next bytes, tensor after tensor in the order given; a piece may end anywhere.
  [[nodiscard]] Result<void> append(std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> append(std::span<const float> values);

  /// Writes bytes from `first` on of tensor number `tensor`. Pieces may come in any order.
  /// REQUIRES: pieces do not overlap.
  /// Errors: invalid beyond its end; io.
  [[nodiscard]] Result<void> write_at(std::size_t tensor, std::uint64_t first,
                                      std::span<const std::byte> bytes);

  [[nodiscard]] const std::vector<Tensor>& tensors() const { return head_.tensors; }

  /// Moves the file to its path. Errors: invalid unless every byte was written; io.
  [[nodiscard]] Result<void> finish();

 private:
  Writer(FileWriter file, Head head);

  FileWriter file_;
  Head head_;
  std::uint64_t data_bytes_ = 0;
  std::uint64_t appended_ = 0;  // offset of the next append
  std::uint64_t written_ = 0;   // by append and write_at
};

}  // namespace taut::safetensors
