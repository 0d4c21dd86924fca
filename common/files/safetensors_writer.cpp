#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "common/files/safetensors.hpp"

namespace taut::safetensors {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kAlignment = 8;  // of the first tensor, so that a mapped file is aligned

/// The offsets of tensors that follow each other. Errors: the size exceeds 64 bits.
Result<std::vector<Tensor>> place(const std::vector<TensorSpec>& specs, const std::string& name) {
  std::vector<Tensor> tensors;
  std::unordered_set<std::string_view> names;
  std::uint64_t end = 0;
  for (const TensorSpec& spec : specs) {
    const bool named = !spec.name.empty() && spec.name.size() <= kMaxNameBytes;
    if (!named || spec.name == "__metadata__" || !names.insert(spec.name).second) {
      return invalid(fmt::format("{}: no tensor can be named '{}' here, or two are", name,
                                 spec.name.substr(0, 80)));
    }
    Tensor tensor{spec.name, spec.type, spec.shape, end, 0};
    std::uint64_t bytes = bytes_of(spec.type);
    bool fits = spec.shape.size() <= kMaxAxes;
    for (const std::uint64_t extent : spec.shape) {
      fits = !__builtin_mul_overflow(bytes, extent, &bytes) && fits;
    }
    if (!fits || __builtin_add_overflow(end, bytes, &end)) {
      return invalid(fmt::format("{}: {} is too large for a file", name, spec.name));
    }
    tensor.end = end;
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

/// The JSON of a header, padded with spaces to the alignment. Errors: a name that is not UTF-8.
Result<std::string> to_json(const Head& head, const std::string& name) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!head.metadata.empty()) json["__metadata__"] = head.metadata;
  std::string text;
  try {
    text = json.dump();
    text.pop_back();
    for (const Tensor& tensor : head.tensors) {
      if (text.size() > 1) text += ',';
      text += nlohmann::json(tensor.name).dump();
      text += fmt::format(R"(:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})",
                          to_string(tensor.type), nlohmann::json(tensor.shape).dump(), tensor.begin,
                          tensor.end);
    }
  } catch (const nlohmann::json::exception&) {
    return invalid(fmt::format("{}: a name or a note in it is not UTF-8 text", name));
  }
  text += '}';
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  if (head.tensors.size() > kMaxTensors || text.size() > kMaxHeaderBytes) {
    return invalid(fmt::format("{}: {} tensors make a header of {} bytes, above the format's {}",
                               name, head.tensors.size(), text.size(), kMaxHeaderBytes));
  }
  return text;
}

}  // namespace

Result<EncodedHead> encode_head(const std::vector<TensorSpec>& tensors, const Metadata& metadata,
                                const std::string& name) {
  EncodedHead out;
  out.head.metadata = metadata;
  TAUT_TRY(out.head.tensors, place(tensors, name));
  TAUT_TRY(const std::string json, to_json(out.head, name));
  const std::uint64_t length = json.size();
  out.bytes.resize(sizeof length);
  std::memcpy(out.bytes.data(), &length, sizeof length);
  out.bytes += json;
  out.head.data_begin = out.bytes.size();
  return out;
}

Writer::Writer(FileWriter file, Head head) : file_(std::move(file)), head_(std::move(head)) {
  if (!head_.tensors.empty()) data_bytes_ = head_.tensors.back().end;
}

Result<Writer> Writer::create(const fs::path& path, const std::vector<TensorSpec>& tensors,
                              const Metadata& metadata, FileWriter::Durability durability) {
  TAUT_TRY(EncodedHead encoded, encode_head(tensors, metadata, path.string()));
  TAUT_TRY(FileWriter file, FileWriter::create(path, durability));
  TAUT_TRY(file.write_at(0, std::as_bytes(std::span(encoded.bytes))));
  return Writer(std::move(file), std::move(encoded.head));
}

Result<void> Writer::append(std::span<const std::byte> bytes) {
  if (bytes.size() > data_bytes_ - appended_) {
    return invalid(fmt::format("{}: {} bytes after byte {} of {} are more than its tensors have",
                               file_.path().string(), bytes.size(), appended_, data_bytes_));
  }
  TAUT_TRY(file_.write_at(head_.data_begin + appended_, bytes));
  appended_ += bytes.size();
  written_ += bytes.size();
  return ok();
}

Result<void> Writer::append(std::span<const float> values) {
  return append(std::as_bytes(values));
}

Result<void> Writer::write_at(std::size_t tensor, std::uint64_t first,
                              std::span<const std::byte> bytes) {
  if (tensor >= head_.tensors.size() || first > head_.tensors[tensor].bytes() ||
      bytes.size() > head_.tensors[tensor].bytes() - first) {
    return invalid(fmt::format("{}: {} bytes from byte {} on do not fit tensor number {}",
                               file_.path().string(), bytes.size(), first, tensor));
  }
  TAUT_TRY(file_.write_at(head_.data_begin + head_.tensors[tensor].begin + first, bytes));
  written_ += bytes.size();
  return ok();
}

Result<void> Writer::finish() {
  if (written_ != data_bytes_) {
    return invalid(fmt::format("{}: {} bytes of tensors were written and {} announced",
                               file_.path().string(), written_, data_bytes_));
  }
  return file_.commit();
}

}  // namespace taut::safetensors
