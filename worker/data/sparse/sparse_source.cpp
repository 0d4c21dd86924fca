#include "worker/data/sparse/sparse_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "worker/data/sparse/read_records.hpp"
#include "worker/data/sparse/sparse_records.hpp"

namespace taut::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kMaxFeaturesOfRecord = 1U << 16U;

RecordShape sparse_fields(std::uint32_t features) {
  const RecordField each{.shape = {std::int64_t{std::max(1U, features)}}};
  return {each, each, {}};
}

class SparseSource final : public RecordSource {
 public:
  SparseSource(std::string name, const pb::SparseDataParameter& layer, SparseRecords records)
      : name_(std::move(name)),
        shuffle_(layer.shuffle()),
        records_(std::move(records)),
        fields_(sparse_fields(layer.has_max_features() ? layer.max_features()
                                                       : records_.most_features())) {}

  std::uint64_t size() const override { return records_.size(); }
  const RecordShape& fields() const override { return fields_; }
  bool has_row_numbers() const override { return true; }

  Result<void> read(std::uint64_t index, const RecordDraw& /*draw*/,
                    std::span<const std::span<float>> into) const override {
    const SparseRecords::Record record = records_.at(index);
    const std::size_t count = record.numbers.size();
    if (!into.empty()) {
      // Bit patterns, not numeric values.
      static_assert(sizeof(float) == sizeof(std::uint32_t));
      if (count > 0) std::memcpy(into[0].data(), record.numbers.data(), count * sizeof(float));
      // Repeats one of the record's own numbers, so that no row is updated as a placeholder. Only
      // tests, which update none, have records without a number.
      std::ranges::fill(into[0].subspan(count), count > 0 ? into[0][count - 1] : 0.0F);
    }
    if (into.size() > 1) {
      std::ranges::fill(into[1].first(count), 1.0F);
      std::ranges::copy(record.values, into[1].begin());
      std::ranges::fill(into[1].subspan(count), 0.0F);
    }
    if (into.size() > 2) into[2][0] = label_of(record);
    return ok();
  }

  Result<void> check_labels(const LabelRange& range) const override {
    if (range.field != 2) return ok();
    for (std::uint64_t index = 0; index < size(); ++index) {
      TAUT_TRY(check_class(name_, index, label_of(records_.at(index)), range));
    }
    return ok();
  }

  Result<std::unique_ptr<Sampler>> sampler(const FeedOptions& options) const override {
    if (options.part == Part::kTrain && !shuffle_) {
      return ordered_sampler(size(), options.share, options.batch);
    }
    return RecordSource::sampler(options);
  }

 private:
  [[nodiscard]] float label_of(const SparseRecords::Record& record) const {
    return records_.has_signs_only() ? std::max(record.label, 0.0F) : record.label;
  }

  const std::string name_;
  const bool shuffle_;
  const SparseRecords records_;
  const RecordShape fields_;
};

/// Checks what the reading relies on; the layer's rule has checked the rest.
Result<void> check_layer(const pb::LayerParameter& layer) {
  const pb::SparseDataParameter& given = layer.sparse_data_param();
  const bool has_limits = given.features() >= 1 && given.features() <= 1ULL << 32U &&
                          given.max_features() <= kMaxFeaturesOfRecord;
  if (has_limits && given.separator().size() == 1) return ok();
  return invalid(
      fmt::format("layer \"{}\": sparse_data_param: features must be from 1 to 2^32, max_features "
                  "at most {}, separator one character",
                  layer.name(), kMaxFeaturesOfRecord));
}

/// Refuses a training record without features: the row that filled its places would be updated
/// although no record names it.
Result<void> check_names_row(Part part, std::size_t features) {
  if (features > 0 || part == Part::kTest) return ok();
  return invalid(
      "has no feature, so that training has no row to update for it: omit the record, or give each "
      "record one more feature, the same for all");
}

Result<void> check_features(const pb::SparseDataParameter& layer, std::size_t features) {
  const bool is_given = layer.has_max_features();
  const std::uint32_t most = is_given ? layer.max_features() : kMaxFeaturesOfRecord;
  if (features <= most) return ok();
  return invalid(fmt::format("has {} features, and {} {}: {}", features,
                             is_given ? "sparse_data_param.max_features is" : "the limit is", most,
                             is_given ? "raise it, or omit it" : "divide the record"));
}

}  // namespace

Result<std::shared_ptr<const RecordSource>> open_sparse(const pb::LayerParameter& layer,
                                                        const fs::path& path, Part part,
                                                        Bytes limit) {
  TAUT_TRY(check_layer(layer));
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{}: no such file; scripts/get_data a9a fetches a set, and the "
                                  "layer's sparse_data_param.source or --data names another",
                                  path.string()));
  }
  const pb::SparseDataParameter& given = layer.sparse_data_param();
  SparseRecords records(limit);
  const auto take = [&](float label, std::span<const SparseFeature> features) -> Result<void> {
    TAUT_TRY(check_names_row(part, features.size()));
    TAUT_TRY(check_features(given, features.size()));
    return records.add(label, features);
  };
  TAUT_TRY(read_records(given, path, take));
  if (records.size() == 0) return invalid(fmt::format("{}: holds no record", path.string()));
  return std::shared_ptr<const RecordSource>(
      std::make_shared<SparseSource>(path.string(), given, std::move(records)));
}

std::optional<RecordShape> peek_sparse(const pb::LayerParameter& layer, const fs::path& path) {
  const pb::SparseDataParameter& given = layer.sparse_data_param();
  if (!check_layer(layer)) return std::nullopt;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  if (given.has_max_features()) return sparse_fields(given.max_features());
  std::size_t most = 0;
  const auto take = [&](float, std::span<const SparseFeature> features) -> Result<void> {
    most = std::max(most, features.size());
    return check_features(given, features.size());
  };
  if (!read_records(given, path, take)) return std::nullopt;
  return sparse_fields(static_cast<std::uint32_t>(most));
}

}  // namespace taut::data
