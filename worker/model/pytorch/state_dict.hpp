#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/formats/weights_file.hpp"
#include "worker/model/graph.hpp"
#include "worker/model/pytorch/renames.hpp"
#include "worker/model/read_table.hpp"
#include "worker/model/table_numbers.hpp"

// A net's parameters as the state_dict of a PyTorch module that has torch.nn's layers under our
// layers' names: "conv1.weight", "lstm.weight_ih_l0". A '/' in a layer's name becomes a '.' there.
//
//   Convolution, Deconvolution, InnerProduct   Conv1d and Conv2d, ConvTranspose, Linear
//   BatchNorm, and the Scale behind it         BatchNorm1d and BatchNorm2d, under the BatchNorm's
//                                              name; the Scale's numbers are its weight and bias
//   Embed, PositionEmbed, LayerNorm, PReLU     Embedding (twice), LayerNorm, PReLU
//   RNN, LSTM, GRU                             RNN, LSTM, GRU
//   MultiHeadAttention                         MultiheadAttention
//
// Parameters that torch.nn's layers lack, such as an Embed's bias, keep our names.
namespace taut::model::pytorch {

/// How a tensor of a state_dict relates to one of our tables.
enum class Layout : std::uint8_t {
  kSame,
  kTransposed,  // an InnerProduct's with `transpose`
  kGates,       // an LSTM's: rows of i, f, g, o there and of i, f, o, g here
  kMean,        // running statistics: their means there, sums with a weight here
  kWeight,      // the weight of these sums, which has no tensor there
};

struct Counterpart {
  std::size_t table = 0;
  std::string tensor;  // empty for kWeight
  Shape shape;         // of the tensor
  Layout layout = Layout::kSame;
  /// Another tensor of the same shape that is added to it, e.g. bias_hh_l0 where we have only one
  /// bias; empty: none.
  std::string addend = {};
  std::size_t weight = 0;   // kMean: the table of the sums' weight
  float import_weight = 1;  // kMean, kWeight: the weight of imported statistics
};

/// A table's counterparts, layer by layer; a shared table has one for each of its layers.
/// Errors   invalid: two tensors with the same name; a rename that renames nothing
[[nodiscard]] Result<std::vector<Counterpart>> counterparts_of(const Graph& graph,
                                                               const Renames& renames);

/// A tensor of a state_dict, computed from tables.
struct StateTensor {
  std::string name;
  Shape shape;
  TableNumbers numbers;
  bool is_count = false;  // num_batches_tracked, a whole number, always 0
};

/// All tensors of a module's state_dict.
[[nodiscard]] std::vector<StateTensor> state_dict_of(const std::vector<Counterpart>& counterparts);

/// The name of a tensor that a state_dict of the net needs and a file lacks; nullopt if none.
[[nodiscard]] std::optional<std::string> lacking(const WeightsFile& file,
                                                 const std::vector<Counterpart>& counterparts);

/// Whether a file is a state_dict of the whole net: it has a tensor for each table, and no name
/// contains a '/', as names in our own files do.
[[nodiscard]] bool is_state_dict(const WeightsFile& file,
                                 const std::vector<Counterpart>& counterparts);

/// Whether a state_dict's numbers are stored differently from our tables and must be converted.
[[nodiscard]] bool needs_conversion(const WeightsFile& file,
                                    const std::vector<Counterpart>& counterparts);

/// The values of the graph's tables from a state_dict, which must outlive the result.
/// Errors   mismatch: a tensor of a different shape or of whole numbers (names it and the shapes)
[[nodiscard]] Result<ReadTable> tables_from(const WeightsFile& file, const Graph& graph,
                                            const std::vector<Counterpart>& counterparts);

}  // namespace taut::model::pytorch
