#include "proto/formats/caffe_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <array>
#include <utility>

namespace taut::caffe {
namespace {

using google::protobuf::io::CodedInputStream;
using Wire = google::protobuf::internal::WireFormatLite;

/// A TensorFile as an input stream of protobuf; skipped bytes are not read.
class FileStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit FileStream(const TensorFile& file) : file_(file) {}

  bool Next(const void** data, int* size) override {
    const std::uint64_t left = file_.bytes() - std::min(place_, file_.bytes());
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left, block_.size()));
    if (count == 0 ||
        !file_.read_bytes(place_, std::as_writable_bytes(std::span(block_)).first(count))) {
      return false;
    }
    place_ += count;
    *data = block_.data();
    *size = static_cast<int>(count);
    return true;
  }
  void BackUp(int count) override { place_ -= static_cast<std::uint64_t>(count); }
  bool Skip(int count) override {
    place_ += static_cast<std::uint64_t>(count);
    return place_ <= file_.bytes();
  }
  [[nodiscard]] std::int64_t ByteCount() const override {
    return static_cast<std::int64_t>(place_);
  }

 private:
  const TensorFile& file_;
  std::uint64_t place_ = 0;
  std::array<char, 8192> block_{};
};

/// The field numbers of a layer in its vocabulary.
struct LayerFields {
  int name;
  int blobs;
};
constexpr LayerFields kToday{1, 7};
constexpr LayerFields kBefore2015{4, 6};
constexpr int kNetLayer = 100;
constexpr int kNetLayersBefore2015 = 2;

class Scanner {
 public:
  Scanner(const TensorFile& file, std::string name)
      : stream_(file), in_(&stream_), name_(std::move(name)) {
    in_.SetTotalBytesLimit(static_cast<int>(kMaxModelBytes));
  }

  Result<std::vector<StoredTensor>> scan() {
    TAUT_TRY(each_field([this](int field, Wire::WireType type) -> Result<void> {
      const bool today = field == kNetLayer;
      if (type != Wire::WIRETYPE_LENGTH_DELIMITED || (!today && field != kNetLayersBefore2015)) {
        return skip(field, type);
      }
      if (++layers_ > kMaxLayers) return wrong("has more than 65536 layers");
      return within([&] { return scan_layer(today ? kToday : kBefore2015); });
    }));
    return std::move(tensors_);
  }

 private:
  struct Blob {
    std::vector<std::uint64_t> shape;
    std::array<std::uint64_t, 4> legacy{1, 1, 1, 1};
    bool has_legacy = false;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    int pieces = 0;
    ElementType type = ElementType::kF32;
  };

  [[nodiscard]] Error wrong(const std::string& what) const {
    return invalid(fmt::format("{}: {}", name_, what));
  }
  [[nodiscard]] Error damaged() const {
    return wrong(fmt::format("is not a .caffemodel, or one that is cut or damaged at byte {}",
                             in_.CurrentPosition()));
  }

  /// Calls `on_field` for each field up to the current limit.
  template <class OnField>
  Result<void> each_field(OnField on_field) {
    while (true) {
      const std::uint32_t tag = in_.ReadTag();
      if (tag == 0) break;
      const int field = Wire::GetTagFieldNumber(tag);
      if (field == 0) return damaged();
      TAUT_TRY(on_field(field, Wire::GetTagWireType(tag)));
    }
    if (!in_.ConsumedEntireMessage()) return damaged();
    return ok();
  }

  /// Reads a length and calls `body` with the stream limited to that many bytes.
  template <class Body>
  Result<void> within(Body body) {
    std::uint32_t length = 0;
    if (!in_.ReadVarint32(&length) || length > kMaxModelBytes) return damaged();
    const auto before = in_.PushLimit(static_cast<int>(length));
    // A length beyond the enclosing message leaves fewer bytes than it claims.
    if (in_.BytesUntilLimit() != static_cast<int>(length)) return damaged();
    TAUT_TRY(body());
    if (in_.BytesUntilLimit() != 0) return damaged();
    in_.PopLimit(before);
    return ok();
  }

  Result<void> skip(int field, Wire::WireType type) {
    const std::uint32_t tag = Wire::MakeTag(field, type);
    // A group nests, and no message of Caffe's has one.
    if (type == Wire::WIRETYPE_START_GROUP || type == Wire::WIRETYPE_END_GROUP ||
        !Wire::SkipField(&in_, tag)) {
      return damaged();
    }
    return ok();
  }

  Result<void> read_name(std::string& name) {
    std::uint32_t length = 0;
    if (!in_.ReadVarint32(&length) || length > kMaxNameBytes ||
        !in_.ReadString(&name, static_cast<int>(length))) {
      return damaged();
    }
    return ok();
  }

  Result<void> scan_layer(LayerFields fields) {
    std::string name;
    std::vector<Blob> blobs;
    TAUT_TRY(each_field([&](int field, Wire::WireType type) -> Result<void> {
      if (type == Wire::WIRETYPE_LENGTH_DELIMITED && field == fields.name) return read_name(name);
      if (type == Wire::WIRETYPE_LENGTH_DELIMITED && field == fields.blobs) {
        if (++blobs_ > kMaxBlobs) return wrong("has more than 1048576 blobs");
        return within([&] { return scan_blob(blobs.emplace_back()); });
      }
      if (field == 1 && fields.name != 1) {
        return wrong(
            "has Caffe's syntax before 2014; update it with Caffe's "
            "upgrade_net_proto_binary");
      }
      return skip(field, type);
    }));
    for (std::size_t i = 0; i < blobs.size(); ++i) {
      TAUT_TRY(StoredTensor tensor, settle(blobs[i], fmt::format("{}/{}", name, i)));
      tensors_.push_back(std::move(tensor));
    }
    return ok();
  }

  Result<void> scan_blob(Blob& blob) {
    return each_field([&](int field, Wire::WireType type) -> Result<void> {
      if (type == Wire::WIRETYPE_VARINT && field >= 1 && field <= 4) {
        blob.has_legacy = true;
        if (!in_.ReadVarint64(&blob.legacy[static_cast<std::size_t>(field - 1)])) return damaged();
        return ok();
      }
      if (field == 5 || field == 8) {
        if (type != Wire::WIRETYPE_LENGTH_DELIMITED) ++blob.pieces;  // numbers one by one
        if (type != Wire::WIRETYPE_LENGTH_DELIMITED) return skip(field, type);
        blob.type = field == 5 ? ElementType::kF32 : ElementType::kF64;
        return scan_numbers(blob);
      }
      if (field == 7 && type == Wire::WIRETYPE_LENGTH_DELIMITED) {
        return within([&] { return scan_shape(blob.shape); });
      }
      return skip(field, type);
    });
  }

  Result<void> scan_numbers(Blob& blob) {
    std::uint32_t length = 0;
    if (!in_.ReadVarint32(&length) || length > kMaxModelBytes) return damaged();
    if (length > 0) ++blob.pieces;
    blob.offset = static_cast<std::uint64_t>(in_.CurrentPosition());
    blob.bytes = length;
    if (!in_.Skip(static_cast<int>(length))) return damaged();
    return ok();
  }

  Result<void> scan_shape(std::vector<std::uint64_t>& shape) {
    const auto add = [&]() -> Result<void> {
      std::uint64_t extent = 0;
      if (!in_.ReadVarint64(&extent)) return damaged();
      shape.push_back(extent);
      if (shape.size() > kMaxAxes) return wrong("has a blob of more than 32 axes");
      return ok();
    };
    return each_field([&](int field, Wire::WireType type) -> Result<void> {
      if (field == 1 && type == Wire::WIRETYPE_VARINT) return add();
      if (field != 1 || type != Wire::WIRETYPE_LENGTH_DELIMITED) return skip(field, type);
      return within([&]() -> Result<void> {
        while (in_.BytesUntilLimit() > 0) {
          TAUT_TRY(add());
        }
        return ok();
      });
    });
  }

  Result<StoredTensor> settle(const Blob& blob, const std::string& name) const {
    StoredTensor tensor{name, blob.shape, blob.type, blob.offset};
    if (blob.shape.empty() && blob.has_legacy) {
      tensor.shape.assign(blob.legacy.begin(), blob.legacy.end());
    }
    std::uint64_t bytes = bytes_of(blob.type);
    bool fits = blob.pieces <= 1;
    for (const std::uint64_t extent : tensor.shape) {
      fits = !__builtin_mul_overflow(bytes, extent, &bytes) && fits;
    }
    if (fits && bytes == blob.bytes) return tensor;
    const std::string shown = printable(name);
    if (blob.pieces == 0) return wrong(fmt::format("blob {} holds no numbers", shown));
    if (blob.pieces > 1) {
      return wrong(fmt::format("blob {} holds its numbers in {} pieces, and one is read", shown,
                               blob.pieces));
    }
    return wrong(fmt::format("blob {} of shape {} does not fit its {} bytes of {}", shown,
                             fmt::join(tensor.shape, "x"), blob.bytes, to_string(blob.type)));
  }

  static std::string printable(std::string name) {
    std::ranges::replace_if(
        name, [](unsigned char c) { return c < 0x20; }, '?');
    return name;
  }

  FileStream stream_;
  CodedInputStream in_;
  const std::string name_;
  std::vector<StoredTensor> tensors_;
  std::size_t layers_ = 0;
  std::size_t blobs_ = 0;
};

}  // namespace

Result<std::vector<StoredTensor>> scan_model(const TensorFile& file) {
  if (file.bytes() > kMaxModelBytes) {
    return invalid(fmt::format("{}: {} bytes are above protobuf's limit of {}",
                               file.path().string(), file.bytes(), kMaxModelBytes));
  }
  return Scanner(file, file.path().string()).scan();
}

}  // namespace taut::caffe
