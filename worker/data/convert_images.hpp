#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "common/result.hpp"
#include "worker/data/images/image_store.hpp"

namespace taut::data {

/// Opens whatever labelled images a path holds: an LMDB, CIFAR-10's or IDX files, or else a list or
/// a folder of images.
/// part      of a data set that has two
/// Errors    as the openers of image_store.hpp
[[nodiscard]] Result<std::unique_ptr<ImageStore>> open_images(const std::filesystem::path& source,
                                                              Part part,
                                                              const ImageListOptions& options);

struct ConvertOptions {
  std::filesystem::path lmdb;  // a new LMDB of raw Datums; empty: none is written
  std::filesystem::path mean;  // a mean file; empty: none is written
  bool skip_corrupt = false;
};

struct Converted {
  std::uint64_t images = 0;
  std::uint64_t skipped = 0;
  ImageShape shape;
};

/// Writes all images of a store, in order, into an LMDB under the keys 00000000, 00000001, ..., and
/// their mean into a file, as Caffe's convert_imageset and compute_image_mean do.
/// Errors    invalid: an image that cannot be read, unless corrupt ones are skipped; images of
///           several sizes, if a mean is requested; exists, io: from writing
[[nodiscard]] Result<Converted> convert(const ImageStore& store, const ConvertOptions& options);

}  // namespace taut::data
