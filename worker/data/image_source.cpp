#include "worker/data/image_source.hpp"

#include <fmt/format.h>

#include <utility>

namespace taut::data {
namespace {

class ImageSource final : public RecordSource {
 public:
  ImageSource(std::unique_ptr<ImageStore> store, ImageTransform transform, std::string name)
      : store_(std::move(store)),
        transform_(std::move(transform)),
        name_(std::move(name)),
        fields_(labelled_image(transform_.shape().channels, transform_.shape().height,
                               transform_.shape().width)) {}

  std::uint64_t size() const override { return store_->size(); }
  const RecordShape& fields() const override { return fields_; }

  Result<void> read(std::uint64_t index, const RecordDraw& draw,
                    std::span<const std::span<float>> into) const override {
    TAUT_TRY(const StoredImage image, store_->read(index));
    if (const auto applied = transform_.apply(image, draw, into[0]); !applied) {
      return invalid(fmt::format("{}: record {}: {}", name_, index, applied.error().message));
    }
    if (into.size() > 1) into[1][0] = static_cast<float>(image.label);
    return ok();
  }

  Result<void> check_labels(const LabelRange& range) const override {
    return range.field == 1 ? store_->check_labels(range) : ok();
  }

 private:
  const std::unique_ptr<ImageStore> store_;
  const ImageTransform transform_;
  const std::string name_;
  const RecordShape fields_;
};

}  // namespace

Result<std::shared_ptr<const RecordSource>> image_source(std::unique_ptr<ImageStore> store,
                                                         Transform transform, std::string name) {
  TAUT_TRY(ImageTransform fitting, ImageTransform::create(std::move(transform), store->shape()));
  return std::shared_ptr<const RecordSource>(
      std::make_shared<ImageSource>(std::move(store), std::move(fitting), std::move(name)));
}

}  // namespace taut::data
