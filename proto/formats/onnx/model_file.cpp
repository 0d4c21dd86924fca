#include "proto/formats/onnx/model_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "common/files/file_writer.hpp"
#include "proto/formats/field_writer.hpp"
#include "proto/wire_version.hpp"

namespace taut::onnx {
namespace {

constexpr std::size_t kBlockFloats = 64 << 10;

std::uint64_t count_of(const Dims& dims) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : dims) count *= static_cast<std::uint64_t>(extent);
  return count;
}

/// A graph's field "initializer" up to the first byte of its numbers.
std::string tensor_head(const StreamedTensor& tensor) {
  TensorProto fields;
  fields.set_name(tensor.name);
  fields.set_data_type(TensorProto::FLOAT);
  fields.mutable_dims()->Add(tensor.dims.begin(), tensor.dims.end());
  const std::uint64_t numbers = count_of(tensor.dims) * sizeof(float);
  std::string body = fields.SerializeAsString();
  put_length(body, TensorProto::kRawDataFieldNumber, numbers);
  std::string head;
  put_length(head, GraphProto::kInitializerFieldNumber, body.size() + numbers);
  return head + body;
}

/// The model up to the first byte of its graph.
std::string model_head(std::uint64_t graph_bytes) {
  ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("tautline");
  model.set_producer_version(build_name());
  model.add_opset_import()->set_version(kOperatorSet);
  std::string head = model.SerializeAsString();
  put_length(head, ModelProto::kGraphFieldNumber, graph_bytes);
  return head;
}

class Output {
 public:
  explicit Output(FileWriter& file) : file_(file) {}

  Result<void> put(std::span<const std::byte> bytes) {
    TAUT_TRY(file_.write_at(offset_, bytes));
    offset_ += bytes.size();
    return ok();
  }
  Result<void> put(const std::string& text) { return put(std::as_bytes(std::span(text))); }

 private:
  FileWriter& file_;
  std::uint64_t offset_ = 0;
};

Result<void> put_numbers(const StreamedTensor& tensor, Output& out, std::vector<float>& block) {
  const std::uint64_t count = count_of(tensor.dims);
  for (std::uint64_t first = 0; first < count; first += block.size()) {
    const auto part = std::span(block).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), count - first)));
    TAUT_TRY(tensor.read(first, part));
    TAUT_TRY(out.put(std::as_bytes(part)));
  }
  return ok();
}

}  // namespace

Result<void> write_model(const std::filesystem::path& path, const GraphProto& graph,
                         const std::vector<StreamedTensor>& tensors) {
  const std::string nodes = graph.SerializeAsString();
  std::vector<std::string> heads;
  std::uint64_t bytes = nodes.size();
  for (const StreamedTensor& tensor : tensors) {
    heads.push_back(tensor_head(tensor));
    bytes += heads.back().size() + count_of(tensor.dims) * sizeof(float);
  }
  const std::string head = model_head(bytes);
  if (head.size() + bytes > kMaxModelBytes) {
    return invalid(
        fmt::format("{}: {} bytes are above protobuf's limit of {}, which ONNX files have; export "
                    "it as .safetensors",
                    path.string(), head.size() + bytes, kMaxModelBytes));
  }
  TAUT_TRY(FileWriter file, FileWriter::create(path));
  Output out(file);
  TAUT_TRY(out.put(head));
  TAUT_TRY(out.put(nodes));
  std::vector<float> block(kBlockFloats);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    TAUT_TRY(out.put(heads[i]));
    TAUT_TRY(put_numbers(tensors[i], out, block));
  }
  return file.commit();
}

}  // namespace taut::onnx
