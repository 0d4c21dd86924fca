#include "worker/data/data_loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <utility>

#include "common/affinity.hpp"

namespace taut::data {
namespace {

constexpr Duration kNoWait{0};
constexpr Duration kLookAgain = std::chrono::seconds(1);

/// image  [n]  n pixels of one channel. No pointer aliases another, so that the loop becomes vector
/// instructions.
void scale_pixels(const std::uint8_t* __restrict pixels, std::size_t count, float mean, float scale,
                  float* __restrict image) {
  for (std::size_t i = 0; i < count; ++i) {
    image[i] = (static_cast<float>(pixels[i]) - mean) * scale;
  }
}

Result<void> check_transform(const Transform& transform, const ImageShape& shape) {
  const std::size_t means = transform.mean.size();
  if (means > 1 && means != static_cast<std::size_t>(shape.channels)) {
    return invalid(fmt::format("{} means for images of {} channels: give one, or one for each",
                               means, shape.channels));
  }
  const bool finite = std::all_of(transform.mean.begin(), transform.mean.end(),
                                  [](float mean) { return std::isfinite(mean); });
  if (finite && std::isfinite(transform.scale)) return ok();
  return invalid(fmt::format("the transform's scale {} or one of its means ({}) is no number",
                             transform.scale, fmt::join(transform.mean, ", ")));
}

std::vector<float> channel_means(const Transform& transform, const ImageShape& shape) {
  if (transform.mean.size() > 1) return transform.mean;
  return std::vector<float>(static_cast<std::size_t>(shape.channels),
                            transform.mean.empty() ? 0.0F : transform.mean[0]);
}

}  // namespace

Result<std::unique_ptr<DataLoader>> DataLoader::start(std::shared_ptr<const Dataset> dataset,
                                                      std::shared_ptr<const Sampler> sampler,
                                                      Options options) {
  if (options.depth == 0) return invalid("the loader's depth is 0; it begins at 1");
  TAUT_TRY(check_transform(options.transform, dataset->shape()));
  return std::unique_ptr<DataLoader>(
      new DataLoader(std::move(dataset), std::move(sampler), std::move(options)));
}

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset,
                       std::shared_ptr<const Sampler> sampler, Options options)
    : dataset_(std::move(dataset)),
      sampler_(std::move(sampler)),
      options_(std::move(options)),
      means_(channel_means(options_.transform, dataset_->shape())),
      ready_(options_.depth),
      spare_(options_.depth + 2),
      thread_([this] { run(); }) {}

DataLoader::~DataLoader() {
  ready_.close();
  thread_.join();
}

Result<Batch> DataLoader::next(Duration wait) {
  if (auto batch = ready_.pop(wait)) return std::move(*batch);
  if (!ready_.closed()) {
    return make_error(ErrorCode::kTimeout,
                      fmt::format("no batch was read within {} s", seconds(wait)));
  }
  std::scoped_lock lock(mutex_);
  return make_error(ErrorCode::kClosed, "the data loader ended: " + failure_);
}

void DataLoader::recycle(Batch&& batch) {
  // Where there are enough spare ones already, this one is freed.
  static_cast<void>(spare_.push(std::move(batch), kNoWait));
}

void DataLoader::run() try {
  follow_main_thread();
  for (Clock clock = options_.start; !ready_.closed(); clock = clock.next()) {
    Batch batch = spare_.pop(kNoWait).value_or(Batch());
    batch.clock = clock;
    decode(batch);
    while (!ready_.push(std::move(batch), kLookAgain)) {
      if (ready_.closed()) return;
    }
  }
} catch (const std::exception& error) {
  {
    std::scoped_lock lock(mutex_);
    failure_ = error.what();
  }
  ready_.close();
}

void DataLoader::decode(Batch& batch) const {
  const ImageShape shape = dataset_->shape();
  const std::size_t pixels = shape.pixels();
  const auto plane = static_cast<std::size_t>(shape.height * shape.width);
  batch.images.resize(sampler_->batch() * pixels);
  batch.labels.resize(sampler_->batch());
  for (std::uint32_t i = 0; i < sampler_->batch(); ++i) {
    const std::uint64_t record = sampler_->index(batch.clock, i);
    const std::uint8_t* source = dataset_->pixels(record).data();
    float* image = batch.images.data() + i * pixels;
    for (std::size_t channel = 0; channel < means_.size(); ++channel) {
      scale_pixels(source + channel * plane, plane, means_[channel], options_.transform.scale,
                   image + channel * plane);
    }
    batch.labels[i] = static_cast<float>(dataset_->label(record));
  }
}

}  // namespace taut::data
