#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/hdf5/hdf5_writer.hpp"
#include "common/result.hpp"
#include "worker/layers/net.hpp"

namespace taut::worker {

/// What the HDF5Output layers of a net write while the net is tested: each a file with the arrays
/// "data" and "label", the layer's bottoms of all batches after each other.
/// Thread    one at a time
/// Source    Caffe, src/caffe/layers/hdf5_output_layer.cpp, which can write one batch
class Hdf5Output {
 public:
  /// Nothing is written before begin(). Keeps no reference to `graph`.
  explicit Hdf5Output(const model::Graph& graph);

  /// Whether the net has no such layer.
  [[nodiscard]] bool empty() const { return files_.empty(); }

  /// Begins the files of a test of so many batches; those of an unfinished test are dropped.
  /// Errors    exists: a file of that name is no such layer's, or two layers name the same one; io
  [[nodiscard]] Result<void> begin(std::uint64_t batches);

  /// Copies the layers' bottoms out of the net: the same calls of its backend after each batch.
  void read(Net& net, Stream& stream);

  /// Appends a batch. REQUIRES: fewer batches were written than begin() announced. Errors: io.
  [[nodiscard]] Result<void> write();

  /// Puts the files in their places. Errors: io.
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

  std::vector<File> files_;
  std::vector<hdf5::Writer> writers_;  // one for each file, from begin() to finish()
  std::uint64_t batch_ = 0;            // to be written next
};

}  // namespace taut::worker
