#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/command.hpp"
#include "cli/draw.hpp"
#include "worker/data/convert.hpp"

namespace taut::cli {
namespace {

struct ConvertCommand {
  std::string source;
  data::ImageListOptions images;
  data::ConvertOptions convert;
  std::string part = "train";
  std::string root;
  std::string lmdb;
  std::string mean;
  bool gray = false;
};

Result<data::Converted> run(ConvertCommand& command) {
  if (command.lmdb.empty() && command.mean.empty()) {
    return invalid("give --lmdb, --mean or both: where the result goes");
  }
  command.images.root = command.root;
  command.images.colour = command.gray ? data::Colour::kGray : data::Colour::kColour;
  command.convert.lmdb = command.lmdb;
  command.convert.mean = command.mean;
  const data::Part part = command.part == "test" ? data::Part::kTest : data::Part::kTrain;
  TAUT_TRY(const auto store, data::open_images(command.source, part, command.images));
  return data::convert(*store, command.convert);
}

}  // namespace

void add_convert(CLI::App& app, int& status) {
  auto options = std::make_shared<ConvertCommand>();
  CLI::App* command = app.add_subcommand(
      "convert", "Brings images into a Caffe LMDB, and computes their mean file");
  command
      ->add_option("SOURCE", options->source,
                   "A list of \"path label\" lines, a folder with a folder for each class, or a "
                   "data set's folder (IDX, CIFAR-10, LMDB)")
      ->required();
  command->add_option("--lmdb", options->lmdb, "The folder of the new LMDB");
  command->add_option("--mean", options->mean, "The mean file to write (binaryproto)");
  command->add_option("--part", options->part, "Of a data set that has two")
      ->check(CLI::IsMember({"train", "test"}))
      ->capture_default_str();
  command->add_option("--root", options->root, "Where a list's relative paths begin");
  auto* height = command->add_option("--height", options->images.height, "Resizes the images");
  auto* width = command->add_option("--width", options->images.width, "Resizes the images");
  height->needs(width)->check(CLI::Range(1, 65536));
  width->needs(height)->check(CLI::Range(1, 65536));
  command->add_flag("--gray", options->gray, "One channel instead of three");
  command->add_flag("--skip-corrupt", options->convert.skip_corrupt,
                    "Names images that cannot be read and goes on");
  command->footer(
      "Example: tautline convert data/cifar10 --lmdb data/cifar10_train_lmdb --mean "
      "data/cifar10_mean.binaryproto");
  command->callback([options, &status] {
    const auto done = run(*options);
    if (!done) {
      status = fail("convert", done.error().message);
      return;
    }
    const data::Converted& result = done.value();
    fmt::print("{} of {}x{}x{}{}\n", counted(static_cast<std::int64_t>(result.images), "image"),
               result.shape.channels, result.shape.height, result.shape.width,
               result.skipped > 0 ? fmt::format(", {} skipped", result.skipped) : "");
  });
}

}  // namespace taut::cli
