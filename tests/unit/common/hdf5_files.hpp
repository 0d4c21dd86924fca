#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/check.hpp"
#include "common/hdf5/hdf5_handle.hpp"

namespace taut::test {

/// How an array of a test's HDF5 file is stored.
struct Hdf5Storage {
  hid_t type = H5T_IEEE_F32LE;
  std::vector<hsize_t> chunk = {};  // empty: as one piece
  bool deflate = false;
  std::string external = {};  // the file that its numbers are stored in; empty: this one
};

/// An HDF5 file made with libhdf5 itself, array by array.
class Hdf5File {
 public:
  explicit Hdf5File(const std::filesystem::path& path)
      : file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose) {
    TAUT_CHECK(bool(file_), "the test's file can be created");
  }

  /// values  converted to the storage's type; empty: the array is created and never written
  void add(const std::string& name, const std::vector<hsize_t>& shape,
           const std::vector<double>& values, const Hdf5Storage& storage = {}) {
    const hdf5::Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
    H5Pset_create_intermediate_group(links.id(), 1);
    const hdf5::Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    if (!storage.chunk.empty()) {
      H5Pset_chunk(creation.id(), static_cast<int>(storage.chunk.size()), storage.chunk.data());
    }
    if (storage.deflate) H5Pset_deflate(creation.id(), 9);
    if (!storage.external.empty()) {
      H5Pset_external(creation.id(), storage.external.c_str(), 0, H5F_UNLIMITED);
    }
    const hdf5::Handle space(
        H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose);
    const hdf5::Handle array(H5Dcreate2(file_.id(), name.c_str(), storage.type, space.id(),
                                        links.id(), creation.id(), H5P_DEFAULT),
                             H5Dclose);
    TAUT_CHECK(bool(array), "the test's array can be created");
    if (values.empty()) return;
    const herr_t written =
        H5Dwrite(array.id(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    TAUT_CHECK(written >= 0, "the test's array can be written");
  }

  [[nodiscard]] hid_t id() const { return file_.id(); }

 private:
  hdf5::Library library_;
  hdf5::Handle file_;
};

}  // namespace taut::test
