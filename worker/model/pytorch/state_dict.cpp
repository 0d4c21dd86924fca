#include "worker/model/pytorch/state_dict.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace taut::model::pytorch {
namespace {

/// The place of each gate on the other side; the same in both directions.
const std::vector<std::size_t> kGates{0, 1, 3, 2};

constexpr std::string_view kMeanName = "running_mean";

/// Elements of one gate's rows in a table of an LSTM.
std::uint64_t gate_elements(const Shape& shape) {
  return element_count(shape) / kGates.size();
}

TableNumbers numbers_of(const Counterpart& one) {
  switch (one.layout) {
    case Layout::kTransposed:  // the table has the tensor's extents in reverse order
      return transposed(one.table, static_cast<std::uint64_t>(one.shape[1]),
                        static_cast<std::uint64_t>(one.shape[0]));
    case Layout::kGates:
      return in_blocks(one.table, gate_elements(one.shape), kGates);
    case Layout::kMean:
      return divided(one.table, one.weight);
    default:
      return whole_table(one.table);
  }
}

const StoredTensor* find(const WeightsFile& file, const std::string& name) {
  const auto found = std::ranges::find(file.tensors, name, &StoredTensor::name);
  return found == file.tensors.end() ? nullptr : &*found;
}

Result<void> check_tensor(const WeightsFile& file, const StoredTensor& tensor,
                          const Counterpart& one, const Graph& graph) {
  const std::vector<std::uint64_t> expected(one.shape.begin(), one.shape.end());
  const std::string path = file.file.path().string();
  if (tensor.shape != expected) {
    return make_error(ErrorCode::kMismatch,
                      fmt::format("{}: {} has shape {}, but the net requires {} for \"{}\"", path,
                                  tensor.name, fmt::join(tensor.shape, "x"), to_string(one.shape),
                                  graph.parameters[one.table].name));
  }
  if (reads_as_floats(tensor.type)) return ok();
  return make_error(ErrorCode::kMismatch,
                    fmt::format("{}: {} holds {}; F32, F16, BF16 and F64 are read as numbers", path,
                                tensor.name, to_string(tensor.type)));
}

/// A table that is computed from a file's tensors.
struct Source {
  Counterpart counterpart;
  const StoredTensor* tensor = nullptr;  // nullptr for kWeight
  const StoredTensor* addend = nullptr;  // nullptr: none
};

/// Reads a tensor's numbers in the table's order, with the tensor in place of a table of `read`.
Result<void> read_source(const WeightsFile& file, const Source& source, std::uint64_t first,
                         std::span<float> out) {
  const Counterpart& one = source.counterpart;
  if (one.layout == Layout::kWeight) {
    std::ranges::fill(out, one.import_weight);
    return ok();
  }
  const auto in_table_order = [&](const StoredTensor& tensor, std::span<float> into) {
    const ReadTable read = [&](std::size_t, std::uint64_t begin, std::span<float> part) {
      return file.file.read_floats(tensor.type, tensor.offset + begin * bytes_of(tensor.type),
                                   part);
    };
    switch (one.layout) {
      case Layout::kTransposed:
        return transposed(0, static_cast<std::uint64_t>(one.shape[0]),
                          static_cast<std::uint64_t>(one.shape[1]))(read, first, into);
      case Layout::kGates:
        return in_blocks(0, gate_elements(one.shape), kGates)(read, first, into);
      default:
        return read(0, first, into);
    }
  };
  TAUT_TRY(in_table_order(*source.tensor, out));
  if (one.layout == Layout::kMean) {
    for (float& value : out) value *= one.import_weight;
  }
  if (source.addend == nullptr) return ok();
  std::vector<float> more(out.size());
  TAUT_TRY(in_table_order(*source.addend, more));
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (more[i] != 0) out[i] += more[i];  // -0 + 0 would lose its sign
  }
  return ok();
}

}  // namespace

std::vector<StateTensor> state_dict_of(const std::vector<Counterpart>& counterparts) {
  std::vector<StateTensor> tensors;
  std::set<std::string> names;
  for (const Counterpart& one : counterparts) {
    if (one.tensor.empty() || !names.insert(one.tensor).second) continue;
    tensors.push_back({one.tensor, one.shape, numbers_of(one)});
    if (!one.addend.empty()) tensors.push_back({one.addend, one.shape, zeros()});
    if (one.layout != Layout::kMean || !one.tensor.ends_with(kMeanName)) continue;
    const std::string module = one.tensor.substr(0, one.tensor.size() - kMeanName.size());
    tensors.push_back({module + "num_batches_tracked", {}, zeros(), true});
  }
  return tensors;
}

std::optional<std::string> lacking(const WeightsFile& file,
                                   const std::vector<Counterpart>& counterparts) {
  std::set<std::size_t> found;  // tables: a shared one may exist under only one of its names
  for (const Counterpart& one : counterparts) {
    if (one.tensor.empty() || find(file, one.tensor) != nullptr) found.insert(one.table);
  }
  const auto absent = std::ranges::find_if(
      counterparts, [&found](const Counterpart& one) { return !found.contains(one.table); });
  if (absent == counterparts.end()) return std::nullopt;
  return absent->tensor;
}

bool is_state_dict(const WeightsFile& file, const std::vector<Counterpart>& counterparts) {
  const bool is_ours = std::ranges::any_of(file.tensors, [](const StoredTensor& tensor) {
    return tensor.name.find('/') != std::string::npos;
  });
  return !is_ours && !counterparts.empty() && !lacking(file, counterparts);
}

bool needs_conversion(const WeightsFile& file, const std::vector<Counterpart>& counterparts) {
  return std::ranges::any_of(counterparts, [&file](const Counterpart& one) {
    return one.layout != Layout::kSame || find(file, one.addend) != nullptr;
  });
}

Result<ReadTable> tables_from(const WeightsFile& file, const Graph& graph,
                              const std::vector<Counterpart>& counterparts) {
  std::vector<Source> sources(graph.parameters.size());
  for (const Counterpart& one : counterparts) {
    Source source{one, find(file, one.tensor), find(file, one.addend)};
    if (source.tensor == nullptr && one.layout != Layout::kWeight) continue;
    if (source.tensor != nullptr) {
      TAUT_TRY(check_tensor(file, *source.tensor, one, graph));
    }
    if (source.addend != nullptr) {
      TAUT_TRY(check_tensor(file, *source.addend, one, graph));
    }
    sources[one.table] = std::move(source);
  }
  return ReadTable([&file, sources = std::move(sources)](std::size_t table, std::uint64_t first,
                                                         std::span<float> out) {
    return read_source(file, sources[table], first, out);
  });
}

}  // namespace taut::model::pytorch
