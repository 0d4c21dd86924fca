#include <fmt/format.h>

#include <algorithm>

#include "common/files/file_writer.hpp"
#include "proto/formats/caffe_model.hpp"
#include "proto/formats/field_writer.hpp"

namespace taut::caffe {
namespace {

constexpr std::size_t kBlockFloats = 64 << 10;

std::uint64_t count_of(const std::vector<std::int64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::uint64_t>(extent);
  return count;
}

/// A blob up to its first number: shape 7, then data 5.
std::string blob_head(const std::vector<std::int64_t>& shape) {
  std::string dims;
  for (const std::int64_t extent : shape) put_varint(dims, static_cast<std::uint64_t>(extent));
  std::string packed;
  put_text(packed, 1, dims);
  std::string out;
  put_text(out, 7, packed);
  put_length(out, 5, count_of(shape) * sizeof(float));
  return out;
}

/// A layer as pieces of text with a blob's numbers after each but the last.
std::vector<std::string> layer_pieces(const ModelLayer& layer, std::uint64_t& bytes) {
  std::string text;
  put_text(text, 1, layer.name);
  put_text(text, 2, layer.type);
  for (const std::string& bottom : layer.bottoms) put_text(text, 3, bottom);
  for (const std::string& top : layer.tops) put_text(text, 4, top);
  std::vector<std::string> pieces;
  bytes = 0;
  for (const auto& shape : layer.blobs) {
    const std::string head = blob_head(shape);
    const std::uint64_t numbers = count_of(shape) * sizeof(float);
    put_length(text, 7, head.size() + numbers);
    text += head;
    bytes += numbers;
    pieces.push_back(std::move(text));
    text.clear();
  }
  pieces.push_back(std::move(text));
  for (const std::string& piece : pieces) bytes += piece.size();
  std::string head;
  put_length(head, 100, bytes);
  pieces[0].insert(0, head);
  return pieces;
}

class Output {
 public:
  explicit Output(FileWriter& file) : file_(file) {}

  Result<void> put(std::span<const std::byte> bytes) {
    if (bytes.size() > kMaxModelBytes - offset_) {
      return invalid(
          fmt::format("{}: is above protobuf's limit of {} bytes; export it as "
                      ".safetensors",
                      file_.path().string(), kMaxModelBytes));
    }
    TAUT_TRY(file_.write_at(offset_, bytes));
    offset_ += bytes.size();
    return ok();
  }
  Result<void> put(const std::string& text) { return put(std::as_bytes(std::span(text))); }

 private:
  FileWriter& file_;
  std::uint64_t offset_ = 0;
};

}  // namespace

Result<void> write_model(const std::filesystem::path& path, const std::string& net,
                         const std::vector<ModelLayer>& layers, const ReadBlob& read) {
  TAUT_TRY(FileWriter file, FileWriter::create(path));
  Output out(file);
  std::string head;
  put_text(head, 1, net);
  TAUT_TRY(out.put(head));
  std::vector<float> block(kBlockFloats);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::uint64_t bytes = 0;
    const std::vector<std::string> pieces = layer_pieces(layers[i], bytes);
    TAUT_TRY(out.put(pieces[0]));
    for (std::size_t blob = 0; blob < layers[i].blobs.size(); ++blob) {
      const std::uint64_t count = count_of(layers[i].blobs[blob]);
      for (std::uint64_t first = 0; first < count; first += kBlockFloats) {
        const auto part = std::span(block).first(
            static_cast<std::size_t>(std::min<std::uint64_t>(kBlockFloats, count - first)));
        TAUT_TRY(read(i, blob, first, part));
        TAUT_TRY(out.put(std::as_bytes(part)));
      }
      TAUT_TRY(out.put(pieces[blob + 1]));
    }
  }
  return file.commit();
}

}  // namespace taut::caffe
