#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/hdf5/hdf5_writer.hpp"
#include "common/result.hpp"
#include "worker/layers/net.hpp"

namespace taut::worker {

/// The files that the HDF5Output layers of a net write during a test: one per layer, with the
/// arrays "data" and "label", the layer's bottoms of all batches in sequence.
///
/// A job replaces only its own files: if OUT.h5 belongs to another job, or to this one before it
/// was resumed, the file becomes OUT-2.h5, -3 and so on, as for checkpoints. A mark in each file
/// identifies its owner.
/// Thread    one at a time
/// Source    Caffe, src/caffe/layers/hdf5_output_layer.cpp, which can write one batch
class Hdf5Output {
 public:
  /// Nothing is written before begin(). Keeps no reference to `graph`.
  /// submission  the token of the net's job; nullopt: a command that a user runs, which replaces
  ///             the files of all such layers
  explicit Hdf5Output(const model::Graph& graph,
                      std::optional<std::uint64_t> submission = std::nullopt);

  /// Whether the net has no such layer.
  [[nodiscard]] bool empty() const { return files_.empty(); }

  /// Begins the files of a test of `batches` batches; those of an unfinished test are dropped.
  /// Errors    exists: a file of that name was not written by such a layer, or two layers name the
  ///           same file; io
  [[nodiscard]] Result<void> begin(std::uint64_t batches);

  /// Copies the layers' bottoms out of the net, with the same backend calls after each batch.
  void read(Net& net, Stream& stream);

  /// Appends a batch. REQUIRES: fewer batches were written than begin() announced. Errors: io.
  [[nodiscard]] Result<void> write();

  /// Moves the files to their final names. Errors: io.
  [[nodiscard]] Result<void> finish();

 private:
  struct Array {
    std::size_t blob = 0;  // of the graph
    std::vector<std::int64_t> shape;
    std::vector<float> values;  // of one batch
  };
  struct File {
    std::string layer;
    std::string path;
    std::vector<Array> arrays;  // data, label
  };

  /// Moves the file of a finished test to its final name, and returns that.
  [[nodiscard]] Result<std::filesystem::path> put_in_place(const File& file, hdf5::Writer& writer);

  std::string mark_;  // of the files that it writes
  bool is_of_job_ = false;
  std::vector<File> files_;
  std::vector<hdf5::Writer> writers_;  // one for each file, from begin() to finish()
  std::uint64_t batch_ = 0;            // to be written next
};

}  // namespace taut::worker
