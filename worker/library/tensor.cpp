#include "worker/library/tensor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <optional>
#include <utility>

#include "common/ssp/table_shape.hpp"

namespace taut::library {
namespace {

std::string words_of(const dlpack::Device& device) {
  switch (device.type) {
    case dlpack::kCuda:
      return fmt::format("CUDA device {}", device.id);
    case dlpack::kMetal:
      return "a Metal device";
    case dlpack::kRocm:
      return fmt::format("ROCm device {}", device.id);
    case dlpack::kCudaManaged:
      return "managed memory of CUDA";
    default:
      return fmt::format("a device of DLPack's type {}", device.type);
  }
}

std::string words_of(const dlpack::ElementType& element) {
  const auto name = [&]() -> std::string {
    switch (element.code) {
      case dlpack::kInt:
        return "int";
      case dlpack::kUint:
        return "uint";
      case dlpack::kFloat:
        return "float";
      case dlpack::kBfloat:
        return "bfloat";
      case dlpack::kComplex:
        return "complex";
      default:
        return fmt::format("of DLPack's code {} with bits ", element.code);
    }
  }();
  return fmt::format("{}{}{}", name, element.bits,
                     element.lanes == 1 ? "" : fmt::format(" x {}", element.lanes));
}

std::optional<tautline_element> element_of(const dlpack::ElementType& element) {
  if (element.lanes != 1) return std::nullopt;
  if (element.code == dlpack::kBfloat && element.bits == 16) return TAUTLINE_BFLOAT16;
  if (element.code != dlpack::kFloat) return std::nullopt;
  switch (element.bits) {
    case 16:
      return TAUTLINE_FLOAT16;
    case 32:
      return TAUTLINE_FLOAT32;
    case 64:
      return TAUTLINE_FLOAT64;
    default:
      return std::nullopt;
  }
}

/// The stride of an axis with one element is ignored.
bool is_in_c_order(const dlpack::Tensor& tensor) {
  if (tensor.strides == nullptr) return true;
  std::int64_t expected = 1;
  for (std::int32_t axis = tensor.dimensions; axis-- > 0;) {
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != expected) return false;
    expected *= tensor.shape[axis];
  }
  return true;
}

Result<void> check_place(const dlpack::Device& device, GivenTensor::Place place,
                         const std::string& what) {
  const bool is_on_host = device.type == dlpack::kCpu || device.type == dlpack::kCudaHost;
  const bool is_on_cuda = device.type == dlpack::kCuda || device.type == dlpack::kCudaManaged;
  if (place == GivenTensor::Place::kHost ? is_on_host : is_on_cuda) return ok();
  if (place == GivenTensor::Place::kCuda) {
    return invalid(fmt::format("{} is {}, not on a CUDA device", what,
                               is_on_host ? "in the host's memory" : "on " + words_of(device)));
  }
  return invalid(fmt::format("{} is on {}; {}", what, words_of(device),
                             is_on_cuda ? "use the call for a device's tensors, which takes its "
                                          "stream, or give a copy in the host's memory"
                                        : "give a copy in the host's memory"));
}

/// Makes a tensor of either kind.
template <class Kind>
Kind* new_tensor(float* values, const std::vector<std::int64_t>& shape, std::shared_ptr<void> owner,
                 dlpack::Device device) {
  struct Kept {
    Kind managed{};
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
    std::shared_ptr<void> owner;
  };
  auto kept = std::make_unique<Kept>();
  kept->shape = shape;
  kept->strides.assign(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) {
    kept->strides[axis - 1] = kept->strides[axis] * shape[axis];
  }
  kept->owner.swap(owner);
  dlpack::Tensor& tensor = kept->managed.tensor;
  tensor.data = values;
  tensor.device = device;
  tensor.dimensions = static_cast<std::int32_t>(shape.size());
  tensor.element = {dlpack::kFloat, 32, 1};
  tensor.shape = kept->shape.data();
  // Some readers of the first versions treat missing strides as an error.
  tensor.strides = kept->strides.data();
  kept->managed.context = kept.get();
  kept->managed.deleter = [](Kind* managed) {
    const std::unique_ptr<Kept> dropped(static_cast<Kept*>(managed->context));
  };
  return &kept.release()->managed;
}

}  // namespace

Result<GivenTensor> GivenTensor::take(void* tensor, bool is_versioned, const std::string& what,
                                      Place place) {
  if (tensor == nullptr) return invalid("an argument is NULL");
  auto* const versioned = is_versioned ? static_cast<dlpack::ManagedVersioned*>(tensor) : nullptr;
  auto* const plain = is_versioned ? nullptr : static_cast<dlpack::Managed*>(tensor);
  if (versioned != nullptr && versioned->version.major != dlpack::kMajor) {
    return invalid(fmt::format(
        "{} is a DLPack tensor of version {}.{}, whose layout is unknown here; give one of version "
        "{}.x, or without a version",
        what, versioned->version.major, versioned->version.minor, dlpack::kMajor));
  }
  const dlpack::Tensor& given = versioned != nullptr ? versioned->tensor : plain->tensor;
  TAUT_TRY(check_place(given.device, place, what));
  const auto element = element_of(given.element);
  if (!element) {
    return invalid(fmt::format("{} has element type {}; convert it to float32", what,
                               words_of(given.element)));
  }
  if (given.dimensions < 0 || (given.dimensions > 0 && given.shape == nullptr)) {
    return invalid(fmt::format("{} has {} dimensions without a shape", what, given.dimensions));
  }
  const std::span<const std::int64_t> shape(given.shape,
                                            static_cast<std::size_t>(given.dimensions));
  const auto count = count_of(shape);
  if (!count) return invalid(fmt::format("{} {}", what, count.error().message));
  if (given.data == nullptr) {
    return invalid(fmt::format("{} of shape [{}] has no memory", what, fmt::join(shape, ", ")));
  }
  if (!is_in_c_order(given)) {
    return invalid(fmt::format(
        "{} of shape [{}] has strides [{}], which are not those of C order; give a contiguous copy",
        what, fmt::join(shape, ", "), fmt::join(std::span(given.strides, shape.size()), ", ")));
  }
  GivenTensor taken(
      LentMemory(static_cast<std::byte*>(given.data) + given.byte_offset, [versioned, plain] {
        if (versioned != nullptr && versioned->deleter != nullptr) versioned->deleter(versioned);
        if (plain != nullptr && plain->deleter != nullptr) plain->deleter(plain);
      }));
  taken.element_ = *element;
  taken.shape_.assign(shape.begin(), shape.end());
  taken.count_ = count.value();
  taken.device_ = given.device.id;
  taken.is_read_only_ = versioned != nullptr && (versioned->flags & dlpack::kReadOnly) != 0;
  return taken;
}

void* make_tensor(float* values, const std::vector<std::int64_t>& shape,
                  std::shared_ptr<void> owner, bool is_versioned, dlpack::Device device) {
  if (!is_versioned) return new_tensor<dlpack::Managed>(values, shape, std::move(owner), device);
  auto* const tensor =
      new_tensor<dlpack::ManagedVersioned>(values, shape, std::move(owner), device);
  tensor->version = {dlpack::kMajor, dlpack::kMinor};
  return tensor;
}

}  // namespace taut::library
