#include "common/hdf5/hdf5_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <system_error>
#include <utility>

#include "common/files/regular_file.hpp"
#include "common/files/tensor_file.hpp"
#include "common/hdf5/hdf5_handle.hpp"

namespace taut::hdf5 {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxAxes = 32;
/// The maximum expansion by deflate; no filter of the library expands more.
constexpr std::uint64_t kMaxExpansion = 1032;
/// Chunks up to this size are decompressed, however few of their bytes are stored.
constexpr std::uint64_t kSmallChunkBytes = 16ULL << 20U;

std::string printable(std::string_view text) {
  std::string shown(text);
  std::ranges::replace_if(
      shown, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return shown;
}

/// Errors: not_found; invalid: does not start with the signature.
Result<std::uint64_t> check_signature(const fs::path& path) {
  TAUT_TRY(const TensorFile file, TensorFile::open(path));
  std::array<char, kSignature.size()> head{};
  if (file.bytes() < head.size() || !file.read_bytes(0, std::as_writable_bytes(std::span(head))) ||
      std::string_view(head.data(), head.size()) != kSignature) {
    return invalid(fmt::format("{}: is not an HDF5 file", path.string()));
  }
  return file.bytes();
}

Result<Handle> open_file(const Library& library, const fs::path& path) {
  // The library opens the file that was checked, even if its name leads to another one by now.
  TAUT_TRY(const Descriptor opened, open_to_read(path));
  const std::string name = fmt::format("/proc/self/fd/{}", opened.get());
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  // Locks fail on read-only and network file systems, and the file is only read.
  H5Pset_file_locking(access.id(), false, true);
  Handle file(H5Fopen(name.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose);
  if (file) return file;
  return invalid(fmt::format("{}: cannot be read as HDF5: {}", path.string(), library.problem()));
}

std::optional<ElementType> element_type_of(hid_t type) {
  const std::array<std::pair<hid_t, ElementType>, 10> known{{{H5T_IEEE_F32LE, ElementType::kF32},
                                                             {H5T_IEEE_F64LE, ElementType::kF64},
                                                             {H5T_STD_I8LE, ElementType::kI8},
                                                             {H5T_STD_U8LE, ElementType::kU8},
                                                             {H5T_STD_I16LE, ElementType::kI16},
                                                             {H5T_STD_U16LE, ElementType::kU16},
                                                             {H5T_STD_I32LE, ElementType::kI32},
                                                             {H5T_STD_U32LE, ElementType::kU32},
                                                             {H5T_STD_I64LE, ElementType::kI64},
                                                             {H5T_STD_U64LE, ElementType::kU64}}};
  for (const auto& [id, element] : known) {
    if (H5Tequal(type, id) > 0) return element;
  }
  return std::nullopt;
}

class Walk {
 public:
  Walk(const Library& library, std::string file, std::uint64_t file_bytes)
      : library_(library), file_(std::move(file)), file_bytes_(file_bytes) {}

  Result<void> group(hid_t group, const std::string& prefix, int depth) {
    if (depth > kMaxDepth) {
      return wrong(fmt::format("groups are nested more than {} deep", kMaxDepth));
    }
    std::vector<std::string> names;
    const auto add = [](hid_t, const char* name, const H5L_info_t* link, void* data) -> herr_t {
      auto& list = *static_cast<std::vector<std::string>*>(data);
      if (link->type != H5L_TYPE_HARD) return 0;
      if (list.size() > kMaxObjects) return 1;
      list.emplace_back(name);
      return 0;
    };
    if (H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names) < 0) {
      return damaged(prefix.empty() ? "/" : prefix);
    }
    for (const std::string& name : names) {
      TAUT_TRY(object(group, name, prefix.empty() ? name : prefix + "/" + name, depth));
    }
    return ok();
  }

  std::vector<Dataset> take() { return std::move(datasets_); }

 private:
  [[nodiscard]] Error wrong(const std::string& what) const {
    return invalid(fmt::format("{}: {}", file_, what));
  }
  [[nodiscard]] Error damaged(const std::string& name) const {
    return wrong(fmt::format("\"{}\" cannot be read: {}", printable(name), library_.problem()));
  }

  Result<void> object(hid_t parent, const std::string& name, const std::string& path, int depth) {
    if (++objects_ > kMaxObjects) {
      return wrong(fmt::format("holds more than {} objects", kMaxObjects));
    }
    if (path.size() > kMaxNameBytes) {
      return wrong(fmt::format("holds a name of more than {} bytes", kMaxNameBytes));
    }
    const Handle opened(H5Oopen(parent, name.c_str(), H5P_DEFAULT), H5Oclose);
    if (!opened) return damaged(path);
    const H5I_type_t kind = H5Iget_type(opened.id());
    if (kind == H5I_GROUP) return group(opened.id(), path, depth + 1);
    if (kind != H5I_DATASET) return ok();
    TAUT_TRY(Dataset dataset, describe(opened.id(), path));
    datasets_.push_back(std::move(dataset));
    return ok();
  }

  Result<Dataset> describe(hid_t id, const std::string& path) const {
    Dataset dataset;
    dataset.name = path;
    const Handle space(H5Dget_space(id), H5Sclose);
    const Handle type(H5Dget_type(id), H5Tclose);
    const Handle creation(H5Dget_create_plist(id), H5Pclose);
    if (!space || !type || !creation) return damaged(path);
    TAUT_TRY(set_shape(space.id(), dataset));
    const H5T_class_t kind = H5Tget_class(type.id());
    dataset.is_number = kind == H5T_INTEGER || kind == H5T_FLOAT;
    dataset.type = dataset.is_number ? element_type_of(type.id()) : std::nullopt;
    dataset.element_bytes = H5Tget_size(type.id());
    dataset.stored_bytes = H5Dget_storage_size(id);
    dataset.is_compressed = H5Pget_nfilters(creation.id()) != 0;
    const H5D_layout_t layout = H5Pget_layout(creation.id());
    if (layout == H5D_VIRTUAL || H5Pget_external_count(creation.id()) != 0) {
      dataset.is_number = false;  // data in other files is not followed
      dataset.type.reset();
      return dataset;
    }
    if (layout == H5D_CHUNKED) {
      TAUT_TRY(dataset.chunk_bytes, chunk_bytes(creation.id(), dataset));
    }
    if (layout == H5D_CONTIGUOUS) {
      TAUT_TRY(set_offset(id, dataset));
    }
    return dataset;
  }

  Result<void> set_shape(hid_t space, Dataset& dataset) const {
    const int axes = H5Sget_simple_extent_ndims(space);
    if (axes < 0 || static_cast<std::size_t>(axes) > kMaxAxes) return damaged(dataset.name);
    std::array<hsize_t, kMaxAxes> extents{};
    if (axes > 0 && H5Sget_simple_extent_dims(space, extents.data(), nullptr) != axes) {
      return damaged(dataset.name);
    }
    dataset.shape.assign(extents.begin(), extents.begin() + axes);
    dataset.count = H5Sget_simple_extent_type(space) == H5S_NULL ? 0 : 1;
    for (const std::uint64_t extent : dataset.shape) {
      if (!__builtin_mul_overflow(dataset.count, extent, &dataset.count)) continue;
      return wrong(
          fmt::format("\"{}\" has extents whose product exceeds 64 bits", printable(dataset.name)));
    }
    return ok();
  }

  Result<std::uint64_t> chunk_bytes(hid_t creation, const Dataset& dataset) const {
    std::array<hsize_t, kMaxAxes> extents{};
    const int axes = H5Pget_chunk(creation, static_cast<int>(kMaxAxes), extents.data());
    if (axes < 0 || static_cast<std::size_t>(axes) > kMaxAxes) return damaged(dataset.name);
    std::uint64_t bytes = dataset.element_bytes;
    for (int axis = 0; axis < axes; ++axis) {
      const hsize_t extent = extents[static_cast<std::size_t>(axis)];
      if (__builtin_mul_overflow(bytes, extent, &bytes)) return damaged(dataset.name);
    }
    return bytes;
  }

  Result<void> set_offset(hid_t id, Dataset& dataset) const {
    const haddr_t offset = H5Dget_offset(id);
    if (offset == HADDR_UNDEF) return ok();  // never written
    std::uint64_t end = 0;
    if (__builtin_mul_overflow(dataset.count, dataset.element_bytes, &end) ||
        __builtin_add_overflow(end, std::uint64_t{offset}, &end) || end > file_bytes_) {
      return wrong(fmt::format(
          "\"{}\" has {} elements of {} bytes, which reach beyond the file's {} bytes: the file is "
          "truncated or damaged",
          printable(dataset.name), dataset.count, dataset.element_bytes, file_bytes_));
    }
    dataset.offset = offset;
    return ok();
  }

  const Library& library_;
  const std::string file_;
  const std::uint64_t file_bytes_;
  std::size_t objects_ = 0;
  std::vector<Dataset> datasets_;
};

}  // namespace

Result<std::vector<Dataset>> list_datasets(const fs::path& path) {
  TAUT_TRY(const std::uint64_t bytes, check_signature(path));
  const Library library;
  TAUT_TRY(const Handle file, open_file(library, path));
  const Handle root(H5Gopen2(file.id(), "/", H5P_DEFAULT), H5Gclose);
  if (!root) {
    return invalid(fmt::format("{}: cannot be read as HDF5: {}", path.string(), library.problem()));
  }
  Walk walk(library, path.string(), bytes);
  TAUT_TRY(walk.group(root.id(), "", 0));
  return walk.take();
}

std::string writer_of(const fs::path& path) {
  constexpr std::size_t kMaxWriterBytes = 64;
  if (!check_signature(path)) return {};
  const Library library;
  const auto file = open_file(library, path);
  if (!file || H5Aexists(file.value().id(), kWriterAttribute) <= 0) return {};
  const Handle attribute(H5Aopen(file.value().id(), kWriterAttribute, H5P_DEFAULT), H5Aclose);
  const Handle type(attribute ? H5Aget_type(attribute.id()) : -1, H5Tclose);
  const Handle space(attribute ? H5Aget_space(attribute.id()) : -1, H5Sclose);
  if (!type || !space || H5Tget_class(type.id()) != H5T_STRING ||
      H5Tis_variable_str(type.id()) != 0 || H5Tget_size(type.id()) > kMaxWriterBytes ||
      H5Sget_simple_extent_npoints(space.id()) != 1) {
    return {};
  }
  std::string writer(H5Tget_size(type.id()), '\0');
  if (H5Aread(attribute.id(), type.id(), writer.data()) < 0) return {};
  return writer.substr(0, writer.find('\0'));
}

Result<std::vector<float>> read_floats(const fs::path& path, const Dataset& dataset, Bytes limit) {
  const auto wrong = [&](const std::string& what) {
    return invalid(fmt::format("{}: \"{}\" {}", path.string(), printable(dataset.name), what));
  };
  if (!dataset.is_number) return wrong("does not hold numbers, or holds them in another file");
  if (dataset.count > limit.value() / sizeof(float)) {
    return wrong(fmt::format("has {} elements; at most {} fit into {} bytes of memory",
                             dataset.count, limit.value() / sizeof(float), limit.value()));
  }
  const std::uint64_t max_bytes =
      dataset.stored_bytes > (1ULL << 50U) ? 0 : dataset.stored_bytes * kMaxExpansion;
  if (dataset.count * dataset.element_bytes > max_bytes ||
      dataset.chunk_bytes > std::max(max_bytes, kSmallChunkBytes)) {
    return wrong(
        fmt::format("has {} elements of {} bytes and stores {} bytes of them: it was "
                    "never filled, or is damaged",
                    dataset.count, dataset.element_bytes, dataset.stored_bytes));
  }
  const Library library;
  TAUT_TRY(const Handle file, open_file(library, path));
  const Handle opened(H5Dopen2(file.id(), dataset.name.c_str(), H5P_DEFAULT), H5Dclose);
  const Handle space(opened ? H5Dget_space(opened.id()) : -1, H5Sclose);
  // The file may have been replaced since its arrays were listed.
  if (!space || H5Sget_simple_extent_npoints(space.id()) != static_cast<hssize_t>(dataset.count)) {
    return wrong("is no longer what it was when the file was opened");
  }
  std::vector<float> values(dataset.count);
  if (H5Dread(opened.id(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0) {
    return wrong("cannot be read: " + library.problem());
  }
  return values;
}

}  // namespace taut::hdf5
