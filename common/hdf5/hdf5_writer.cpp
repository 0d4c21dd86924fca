#include "common/hdf5/hdf5_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/files/file_writer.hpp"
#include "common/files/regular_file.hpp"
#include "common/hdf5/hdf5_handle.hpp"
#include "common/hdf5/hdf5_reader.hpp"

namespace taut::hdf5 {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "arrays are written as they are");

/// Creates an array: its space in the file is allocated now and filled later. Returns its offset.
Result<std::uint64_t> create_array(const Library& library, hid_t file, const ArraySpec& array,
                                   const fs::path& path) {
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links.id(), 1);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_layout(creation.id(), H5D_CONTIGUOUS);
  H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER);
  const std::vector<hsize_t> extents(array.shape.begin(), array.shape.end());
  const Handle space(
      extents.empty() ? H5Screate(H5S_SCALAR)
                      : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
      H5Sclose);
  const Handle dataset(space ? H5Dcreate2(file, array.name.c_str(), H5T_IEEE_F32LE, space.id(),
                                          links.id(), creation.id(), H5P_DEFAULT)
                             : -1,
                       H5Dclose);
  const haddr_t offset = dataset ? H5Dget_offset(dataset.id()) : HADDR_UNDEF;
  if (offset != HADDR_UNDEF) return std::uint64_t{offset};
  return invalid(fmt::format("{}: array \"{}\" cannot be created: {}", path.string(), array.name,
                             library.problem()));
}

bool add_writer(hid_t file, const std::string& writer) {
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  if (!type || H5Tset_size(type.id(), writer.size()) < 0) return false;
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle attribute(
      H5Acreate2(file, kWriterAttribute, type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose);
  return attribute && H5Awrite(attribute.id(), type.id(), writer.data()) >= 0;
}

/// Errors: invalid, io.
Result<std::vector<std::uint64_t>> create_arrays(int part, const fs::path& path,
                                                 const std::vector<ArraySpec>& arrays,
                                                 const std::string& writer) {
  const Library library;
  // Opens the file through its descriptor: its name may lead to another one by now.
  const std::string name = fmt::format("/proc/self/fd/{}", part);
  Handle file(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  if (!file) {
    return make_error(ErrorCode::kIo,
                      fmt::format("{}: cannot be created: {}", path.string(), library.problem()));
  }
  std::vector<std::uint64_t> offsets;
  for (const ArraySpec& array : arrays) {
    TAUT_TRY(const std::uint64_t offset, create_array(library, file.id(), array, path));
    offsets.push_back(offset);
  }
  if ((!writer.empty() && !add_writer(file.id(), writer)) ||
      H5Fflush(file.id(), H5F_SCOPE_GLOBAL) < 0) {
    return make_error(ErrorCode::kIo,
                      fmt::format("{}: cannot be written: {}", path.string(), library.problem()));
  }
  return offsets;
}

/// Whether a file is the draft of a process that has ended.
/// process  the end of its name, the process id
bool is_abandoned(const fs::path& file, std::string_view process) {
  pid_t number = 0;
  const char* const last = process.data() + process.size();
  const auto [end, error] = std::from_chars(process.data(), last, number);
  if (error != std::errc() || end != last || number <= 1) return false;
  if (::kill(number, 0) == 0 || errno != ESRCH) return false;
  // A process of another container or machine may have that number.
  const auto opened = open_to_read(file);
  if (!opened || ::flock(opened.value().get(), LOCK_EX | LOCK_NB) != 0) return false;
  // Parts of a download may have such a name too.
  std::string head(kSignature.size(), '\0');
  const ssize_t count = ::pread(opened.value().get(), head.data(), head.size(), 0);
  return count == 0 || (count > 0 && head == kSignature);
}

}  // namespace

void remove_abandoned_drafts(const fs::path& path) {
  const std::string start = path.filename().string() + ".part";
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(start)) continue;
    const std::string_view process = std::string_view(name).substr(start.size());
    if (is_abandoned(entry->path(), process)) found.push_back(entry->path());
  }
  for (const fs::path& file : found) fs::remove(file, failed);
}

Writer::Writer(fs::path path, fs::path part) : path_(std::move(path)), part_(std::move(part)) {}

Writer::Writer(Writer&& other) noexcept
    : path_(std::move(other.path_)),
      part_(std::exchange(other.part_, {})),
      file_(std::exchange(other.file_, -1)),
      offsets_(std::move(other.offsets_)) {}

Writer::~Writer() {
  if (file_ >= 0) ::close(file_);
  if (!part_.empty()) ::unlink(part_.c_str());
}

Error Writer::failed(const char* step) const {
  return make_error(ErrorCode::kIo, fmt::format("{}: {} failed: {}", path_.string(), step,
                                                std::generic_category().message(errno)));
}

Result<Writer> Writer::create(const fs::path& path, const std::vector<ArraySpec>& arrays,
                              const std::string& writer) {
  fs::path part = path;
  part += fmt::format(".part{}", ::getpid());
  TAUT_TRY(Descriptor file, create_anew(part, O_RDWR, path));
  Writer new_writer(path, part);
  new_writer.file_ = file.release();
  TAUT_TRY(new_writer.offsets_, create_arrays(new_writer.file_, path, arrays, writer));
  // Shows remove_abandoned_drafts() that it is being written. Until here HDF5 held its own lock.
  (void)::flock(new_writer.file_, LOCK_EX | LOCK_NB);
  return new_writer;
}

Result<void> Writer::write(std::size_t array, std::uint64_t first, std::span<const float> values) {
  std::span<const std::byte> bytes = std::as_bytes(values);
  auto place = static_cast<off_t>(offsets_[array] + first * sizeof(float));
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file_, bytes.data(), bytes.size(), place);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return failed("write");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    place += count;
  }
  return ok();
}

Result<void> Writer::close_file() {
  if (file_ < 0) return ok();
  if (::fsync(file_) != 0) return failed("fsync");
  if (::close(std::exchange(file_, -1)) != 0) return failed("close");
  return ok();
}

Result<void> Writer::finish() {
  TAUT_TRY(close_file());
  if (::rename(part_.c_str(), path_.c_str()) != 0) return failed("rename");
  part_.clear();
  return flush_folder(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
}

Result<void> Writer::finish_as(const fs::path& path) {
  path_ = path;
  return finish();
}

Result<void> Writer::finish_as_new(const fs::path& path) {
  TAUT_TRY(close_file());
  // A link, since a rename would replace a file that was created under this name meanwhile.
  if (::link(part_.c_str(), path.c_str()) == 0) {
    ::unlink(part_.c_str());
    part_.clear();
    return flush_folder(path.has_parent_path() ? path.parent_path() : fs::path("."));
  }
  const bool has_links = errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS;
  std::error_code ignored;
  const bool is_taken =
      errno == EEXIST || (!has_links && fs::exists(fs::symlink_status(path, ignored)));
  if (is_taken) {
    return make_error(ErrorCode::kExists, fmt::format("{}: exists", path.string()));
  }
  if (has_links) return failed("link");
  return finish_as(path);
}

}  // namespace taut::hdf5
