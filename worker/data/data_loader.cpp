#include "worker/data/data_loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "common/system/affinity.hpp"

namespace taut::data {
namespace {

constexpr Duration kNoWait{0};
constexpr Duration kLookAgain = std::chrono::seconds(1);

}  // namespace

Result<std::unique_ptr<DataLoader>> DataLoader::start(std::vector<std::unique_ptr<Feed>> feeds,
                                                      Options options) {
  if (options.depth == 0) return invalid("the loader's depth must be at least 1, is 0");
  return std::unique_ptr<DataLoader>(new DataLoader(std::move(feeds), std::move(options)));
}

DataLoader::DataLoader(std::vector<std::unique_ptr<Feed>> feeds, Options options)
    : feeds_(std::move(feeds)),
      options_(std::move(options)),
      next_(options_.start),
      ready_(options_.depth),
      spare_(options_.depth + 2) {
  if (options_.loading == Loading::kAhead) thread_ = std::thread([this] { run(); });
}

DataLoader::~DataLoader() {
  ready_.close();
  if (thread_.joinable()) thread_.join();
}

Result<Batch> DataLoader::next(Duration wait) {
  if (options_.loading == Loading::kOnRequest) {
    TAUT_TRY(Batch batch, make(next_));
    next_ = next_.next();
    return batch;
  }
  if (auto batch = ready_.pop(wait)) return std::move(*batch);
  if (!ready_.closed()) {
    return make_error(ErrorCode::kTimeout,
                      fmt::format("no batch was read within {} s", seconds(wait)));
  }
  std::scoped_lock lock(mutex_);
  return make_error(ErrorCode::kClosed, "the data loader ended: " + failure_);
}

void DataLoader::recycle(Batch&& batch) {
  // If there are enough spare ones already, this one is freed.
  static_cast<void>(spare_.push(std::move(batch), kNoWait));
}

Result<Batch> DataLoader::make(Clock clock) {
  Batch batch = spare_.pop(kNoWait).value_or(Batch());
  batch.clock = clock;
  TAUT_TRY(fill(batch));
  return batch;
}

void DataLoader::run() try {
  follow_main_thread();
  for (Clock clock = options_.start; !ready_.closed(); clock = clock.next()) {
    auto filled = make(clock);
    if (!filled) return fail(filled.error().message);
    Batch batch = std::move(filled.value());
    // If the queue is full, nothing is moved.
    while (!ready_.push(std::move(batch), kLookAgain)) {  // NOLINT(bugprone-use-after-move)
      if (ready_.closed()) return;
    }
  }
} catch (const std::exception& error) {
  fail(error.what());
}

void DataLoader::fail(const std::string& why) {
  {
    std::scoped_lock lock(mutex_);
    failure_ = why;
  }
  ready_.close();
}

Result<void> DataLoader::fill(Batch& batch) {
  std::size_t blob = 0;
  for (const std::unique_ptr<Feed>& feed : feeds_) {
    std::vector<std::span<float>> tops;
    for (std::size_t top = 0; top < feed->elements().size(); ++top, ++blob) {
      if (blob == batch.blobs.size()) batch.blobs.emplace_back(options_.memory);
      std::pmr::vector<float>& values = batch.blobs[blob];
      // A returned batch holds this feed's earlier values.
      const bool holds_it =
          values.size() == feed->elements()[top] && feed->is_constant(top) && !is_rewritten(blob);
      values.resize(feed->elements()[top]);
      tops.push_back(holds_it ? std::span<float>() : std::span<float>(values));
    }
    TAUT_TRY(feed->fill(batch.clock, tops));
  }
  batch.rows.resize(options_.row_numbers.empty() ? 0 : batch.blobs.size());
  for (const RowNumbers& numbers : options_.row_numbers) {
    TAUT_TRY(settle_rows(numbers, batch.blobs[numbers.blob], batch.rows[numbers.blob]));
  }
  return ok();
}

bool DataLoader::is_rewritten(std::size_t blob) const {
  return std::ranges::find(options_.row_numbers, blob, &RowNumbers::blob) !=
         options_.row_numbers.end();
}

}  // namespace taut::data
