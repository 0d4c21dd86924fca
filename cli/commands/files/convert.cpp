#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/shared_options.hpp"
#include "cli/views/draw.hpp"
#include "worker/data/convert_images.hpp"
#include "worker/data/tables/number_table.hpp"
#include "worker/data/tables/write_table.hpp"

namespace taut::cli {
namespace {

struct ConvertCommand {
  std::string source;
  std::string out;
  data::ImageListOptions images;
  data::ConvertOptions convert;
  std::string part = "train";
  std::string root;
  std::string lmdb;
  std::string mean;
  bool gray = false;
  data::TableOptions table;
  std::string separator;
  bool has_header = false;
  bool has_no_header = false;
  double test_share = 0;
  std::uint64_t seed = 1;
  std::vector<command_line::Option> of_images;  // options that a table does not take
  std::vector<command_line::Option> of_tables;  // and options that images do not take
};

Result<void> convert_images(ConvertCommand& command) {
  command.convert.lmdb = command.out.empty() ? command.lmdb : command.out;
  command.images.root = command.root;
  command.images.colour = command.gray ? data::Colour::kGray : data::Colour::kColour;
  command.convert.mean = command.mean;
  const data::Part part = command.part == "test" ? data::Part::kTest : data::Part::kTrain;
  TAUT_TRY(const auto store, data::open_images(command.source, part, command.images));
  TAUT_TRY(const data::Converted result, data::convert(*store, command.convert));
  fmt::print("{} of {}x{}x{}{}\n", counted(static_cast<std::int64_t>(result.images), "image"),
             result.shape.channels, result.shape.height, result.shape.width,
             result.skipped > 0 ? fmt::format(", {} skipped", result.skipped) : "");
  return ok();
}

/// "label: 3 classes: 0 setosa, 1 versicolor, 2 virginica"
std::string text_of_labels(const data::NumberTable& table) {
  if (table.labels.empty()) return "no label";
  if (table.classes.empty()) return "the label is a number";
  constexpr std::size_t kShown = 20;
  std::string text = fmt::format("{} classes", table.classes.size());
  for (std::size_t i = 0; i < std::min(table.classes.size(), kShown); ++i) {
    text += fmt::format("{} {} {}", i == 0 ? ":" : ",", i, table.classes[i]);
  }
  return text + (table.classes.size() > kShown ? ", ..." : "");
}

Result<void> convert_table(ConvertCommand& command) {
  const std::string& out = command.out.empty() ? command.lmdb : command.out;
  if (command.has_header) command.table.header = true;
  if (command.has_no_header) command.table.header = false;
  if (!command.separator.empty()) {
    command.table.separator = command.separator == "tab" ? '\t' : command.separator[0];
  }
  TAUT_TRY(const data::NumberTable table, data::read_table(command.source, command.table));
  TAUT_TRY(const data::RowSplit split,
           data::split_rows(table.rows, command.test_share, command.seed));
  const std::string features = counted(static_cast<std::int64_t>(table.columns), "feature");
  TAUT_TRY(data::write_table(table, split.train, out));
  fmt::print("{}: {} of {}, {}\n", out,
             counted(static_cast<std::int64_t>(split.train.size()), "row"), features,
             text_of_labels(table));
  if (split.test.empty()) return ok();
  const auto test = data::test_name(out);
  TAUT_TRY(data::write_table(table, split.test, test));
  fmt::print("{}: {} of {}\n", test.string(),
             counted(static_cast<std::int64_t>(split.test.size()), "row"), features);
  return ok();
}

Result<void> run(ConvertCommand& command) {
  return data::is_table_name(command.source) ? convert_table(command) : convert_images(command);
}

void add_image_options(Command& command, ConvertCommand& options) {
  constexpr std::uint64_t kMaxSide = 65536;
  command.text("--lmdb", options.lmdb, "The folder of the new LMDB, instead of OUT").value("DIR");
  auto mean = command.text("--mean", options.mean, "Images: the mean file to write (binaryproto)")
                  .value("FILE");
  auto part = command
                  .one_of("--part", options.part, "Images: which part, of a data set that has two",
                          {"train", "test"})
                  .by_default(options.part);
  auto root = command.text("--root", options.root, "Images: where a list's relative paths start")
                  .value("DIR");
  auto height = command.whole_number("--height", options.images.height,
                                     "Images: resizes them to this height", 1, kMaxSide);
  auto width = command.whole_number("--width", options.images.width,
                                    "Images: resizes them to this width", 1, kMaxSide);
  height.needs(width);
  width.needs(height);
  auto gray = command.flag("--gray", options.gray, "Images: one channel instead of three");
  auto skip = command.flag("--skip-corrupt", options.convert.skip_corrupt,
                           "Images: reports those that cannot be read and continues");
  options.of_images = {mean, part, root, height, width, gray, skip};
}

void add_table_options(Command& command, ConvertCommand& options) {
  constexpr std::uint64_t kMaxFeatures = 1 << 24;
  constexpr double kMaxTestShare = 0.99;
  auto label = command
                   .text("--label", options.table.label,
                         "Tables: the column of the label, by its name or its number from 1")
                   .value("COLUMN");
  auto drop = command
                  .texts("--drop", options.table.drop,
                         "Tables: omits columns; several with ',' between them")
                  .separated_by_commas()
                  .value("COLUMN");
  auto classes = command.flag(
      "--classes", options.table.classes,
      "Tables: numbers the label's values 0, 1, ... in their order, as for labels that are text");
  auto header = command.flag("--header", options.has_header,
                             "CSV: the first line names the columns (default: if none of its "
                             "fields is a number)");
  auto no_header =
      command.flag("--no-header", options.has_no_header, "CSV: the first line is a row")
          .excludes(header);
  auto separator =
      command
          .text("--separator", options.separator,
                "CSV: the character between fields, or tab (default: a comma; .tsv: a tab)")
          .value("CHAR")
          .check([](const std::string& text) {
            if (text == "tab" || text.size() == 1) return std::string();
            return "must be one character, or tab, is " + command_line::in_quotes(text);
          });
  auto features = command.whole_number(
      "--features", options.table.columns,
      "LIBSVM: features per row (default: the highest index in the file)", 1, kMaxFeatures);
  auto test_share =
      command.number("--test-share", options.test_share,
                     "Tables: the share of the rows, drawn at random, that is written to OUT_test",
                     "SHARE", {.max = kMaxTestShare});
  auto seed = command.whole_number("--seed", options.seed, "Tables: the seed for --test-share")
                  .by_default(std::to_string(options.seed));
  options.of_tables = {label,     drop,     classes,    header, no_header,
                       separator, features, test_share, seed};
}

/// Throws UsageError if an option is for sources of the other kind.
void check_kind(const ConvertCommand& options) {
  const bool is_table = data::is_table_name(options.source);
  for (const command_line::Option& other : is_table ? options.of_images : options.of_tables) {
    if (!other.is_given()) continue;
    throw UsageError(fmt::format("{} is for {}", other.name(),
                                 is_table ? "images, not for a table" : "a table, not for images"));
  }
}

/// Throws UsageError if no option names the output.
void check_output(const ConvertCommand& options) {
  const bool is_table = data::is_table_name(options.source);
  if (!options.out.empty() && !options.lmdb.empty()) {
    throw UsageError("OUT and --lmdb both name where the result goes: give one");
  }
  const bool has_output = !options.out.empty() || !options.lmdb.empty();
  if (is_table && !has_output) {
    throw UsageError(
        "give OUT, where the table goes: OUT.h5 for HDF5, or the folder of a new LMDB");
  }
  if (!has_output && options.mean.empty()) {
    throw UsageError(
        "give OUT (the folder of the new LMDB), --mean or both: where the result goes");
  }
}

}  // namespace

void add_convert(Command& command, int& status) {
  auto options = std::make_shared<ConvertCommand>();
  command
      .text("SOURCE", options->source,
            "Images: a list of \"path label\" lines, a folder with a folder for each class, or a "
            "data set's folder (IDX, CIFAR-10, LMDB). Tables: .csv, .tsv, .svm or .libsvm (each "
            "plain or .gz), or .npy")
      .required()
      .value("FILE");
  command.text("OUT", options->out, "The folder of the new LMDB; of a table also FILE.h5, for HDF5")
      .value("FILE");
  add_image_options(command, *options);
  add_table_options(command, *options);
  command.on_run([options, &status] {
    check_kind(*options);
    check_output(*options);
    const auto done = run(*options);
    if (!done) status = fail("convert", done.error().message);
  });
}

}  // namespace taut::cli
