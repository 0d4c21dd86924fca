#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "common/csv_cell.hpp"
#include "common/files/file.hpp"
#include "worker/tools/image_job.hpp"
#include "worker/tools/scores.hpp"
#include "worker/tools/trained_net.hpp"

namespace taut::worker {
namespace {

constexpr Bytes kMaxNames{16ULL << 20U};

/// Names of classes, by number; empty if no file is given.
Result<std::vector<std::string>> class_names(const std::string& path) {
  std::vector<std::string> names;
  if (path.empty()) return names;
  TAUT_TRY(const std::string text, read_file(path, kMaxNames));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    names.push_back(std::move(line));
  }
  return names;
}

struct Item {
  std::string name;
  std::optional<std::int64_t> label;
};

/// Prints items, each with its best classes.
class Printer {
 public:
  Printer(std::vector<std::string> names, const pb::ToolRequest& request)
      : names_(std::move(names)), csv_(request.csv()), json_(request.json()) {
    if (csv_) fmt::print("item,label,rank,class,name,score\n");
  }

  void print(const Item& item, const std::vector<RankedClass>& ranked) {
    const std::string label = item.label ? fmt::format("{}", *item.label) : std::string();
    if (json_) {
      print_json(item, ranked);
    } else if (csv_) {
      for (std::size_t rank = 0; rank < ranked.size(); ++rank) {
        fmt::print("{},{},{},{},{},{:.6f}\n", csv_cell(item.name), label, rank + 1,
                   ranked[rank].number, csv_cell(name(ranked[rank].number)), ranked[rank].score);
      }
    } else {
      std::string line = item.name + (item.label ? " (label " + label + ")" : std::string()) + ":";
      for (const RankedClass& one : ranked) {
        const std::string named = name(one.number);
        line +=
            fmt::format("  {}{} {:.4f}", one.number, named.empty() ? "" : " " + named, one.score);
      }
      fmt::print("{}\n", line);
    }
    ++items_;
    if (item.label && !ranked.empty() &&
        *item.label == static_cast<std::int64_t>(ranked[0].number)) {
      ++right_;
    }
    labelled_ += item.label ? 1 : 0;
  }

  void print_end() const {
    if (csv_ || json_ || labelled_ == 0) return;
    fmt::print("the best class is the label of {} of {} item{} ({:.1f} %)\n", right_, labelled_,
               labelled_ == 1 ? "" : "s",
               100 * static_cast<double>(right_) / static_cast<double>(labelled_));
  }

 private:
  void print_json(const Item& item, const std::vector<RankedClass>& ranked) const {
    using Json = nlohmann::ordered_json;
    Json classes = Json::array();
    for (const RankedClass& one : ranked) {
      classes.push_back({{"class", one.number}, {"score", one.score}});
      if (!name(one.number).empty()) classes.back()["name"] = name(one.number);
    }
    const Json line{{"item", item.name},
                    {"label", item.label ? Json(*item.label) : Json()},
                    {"classes", std::move(classes)}};
    fmt::print("{}\n", line.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  [[nodiscard]] std::string name(std::size_t number) const {
    return number < names_.size() ? names_[number] : std::string();
  }
  std::vector<std::string> names_;
  bool csv_;
  bool json_;
  std::uint64_t items_ = 0;
  std::uint64_t labelled_ = 0;
  std::uint64_t right_ = 0;
};

/// The number of records to classify. Errors: a net that is not fed records.
Result<std::uint64_t> count_of(const FedGraph& fed, const pb::ToolRequest& request) {
  if (request.images_size() > 0) return static_cast<std::uint64_t>(request.images_size());
  if (fed.sources.size() != 1) {
    return invalid(
        fmt::format("the net's TEST phase has {} data layers; items are read from exactly one",
                    fed.sources.size()));
  }
  const std::uint64_t size = fed.sources.begin()->second->size();
  return request.count() > 0 ? std::min(size, request.count()) : size;
}

/// The fed blob with a label for each item: the second top of the only data layer.
bool has_labels(const FedGraph& fed, std::uint64_t items) {
  const auto blobs = model::fed_blobs(fed.graph);
  return blobs.size() == 2 && model::element_count(fed.graph.blobs[blobs[1]].shape) == items;
}

/// images    receives the source that replaces the net's data, if images are given
Result<void> predict_items(const pb::ToolRequest& request, Backend& backend,
                           std::optional<ImageJob>& images) {
  TAUT_TRY(OpenedModel opened, open_model(request));
  const bool from_images = request.images_size() > 0;
  if (from_images) {
    TAUT_TRY(images, ImageJob::create(opened.job, request));
  }
  TAUT_TRY(const FedGraph fed, open_phase(from_images ? images->job() : opened.job, pb::TEST,
                                          {.batch = from_images ? 0 : request.batch()}));
  TAUT_TRY(const std::uint64_t count, count_of(fed, request));
  TAUT_TRY(const ScoresBlob blob, find_scores(fed.graph, request.blob()));
  if (blob.items != static_cast<std::uint64_t>(fed.batch())) {
    return invalid(fmt::format("blob \"{}\" scores {} items of a batch of {}", blob.name,
                               blob.items, fed.batch()));
  }
  TAUT_TRY(std::vector<std::string> names, class_names(request.names()));
  TAUT_TRY(const model::ReadTable values, opened.saved.tables_of(fed.graph));
  TAUT_TRY(TrainedNet net, TrainedNet::create(fed.graph, values, backend));
  data::FeedOptions feed;
  feed.part = data::Part::kTest;
  feed.seed = opened.job.seed();
  TAUT_TRY(const auto loader, start_loader(fed, feed, {}));
  const bool labelled = !from_images && has_labels(fed, blob.items);
  Printer printer(std::move(names), request);
  std::vector<float> scores(blob.items * blob.classes);
  for (std::uint64_t first = 0; first < count; first += blob.items) {
    TAUT_TRY(data::Batch batch, loader->next(kBatchWait));
    net.forward(batch);
    net.read_blob(blob.name, scores);
    for (std::uint64_t i = 0; i < std::min(blob.items, count - first); ++i) {
      Item item{
          from_images ? request.images(static_cast<int>(first + i)) : fmt::format("{}", first + i),
          {}};
      if (labelled) item.label = static_cast<std::int64_t>(batch.blobs[1][i]);
      printer.print(item, rank_classes(std::span(scores).subspan(i * blob.classes, blob.classes),
                                       blob.is_probability, request.top()));
    }
    loader->recycle(std::move(batch));
  }
  printer.print_end();
  return ok();
}

}  // namespace

Result<void> predict(const pb::ToolRequest& request, Backend& backend) {
  std::optional<ImageJob> images;
  Result<void> done = predict_items(request, backend, images);
  if (done || !images) return done;
  return make_error(done.error().code, images->without_list(done.error().message));
}

}  // namespace taut::worker
