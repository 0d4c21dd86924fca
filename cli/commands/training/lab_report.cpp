#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "cli/commands/shared_options.hpp"
#include "cli/commands/training/lab.hpp"
#include "cli/playback/playback_json.hpp"
#include "cli/playback/played_run.hpp"
#include "cli/playback/report_page.hpp"
#include "cli/playback/run_figures.hpp"
#include "cli/runs/run_record.hpp"
#include "common/files/file.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

struct ReportOptions {
  std::string run;
  std::string runs = "runs";
  std::string output;
  std::string figures;
};

/// The playback of a run that a user names: by its folder, its name, or the file itself.
Result<fs::path> playback_of(const ReportOptions& options) {
  std::error_code ignored;
  const fs::path named(options.run);
  if (fs::is_regular_file(named, ignored)) return named;
  TAUT_TRY(const RunRecord record, find_record(options.runs, options.run));
  fs::path file = record.folder / kPlaybackFile;
  if (fs::exists(file, ignored)) return file;
  return make_error(
      ErrorCode::kNotFound,
      fmt::format("{} has no {}: it is not a run of the lab, has not ended, or is of an earlier "
                  "version; tautline lab makes one",
                  record.folder.string(), kPlaybackFile));
}

Result<void> write_figures(const std::vector<Figure>& figures, const PlayedRun& run,
                           const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    return make_error(ErrorCode::kIo, fmt::format("cannot make the folder {}: {}; name another "
                                                  "with --figures",
                                                  folder.string(), failed.message()));
  }
  for (const Figure& figure : figures) {
    TAUT_TRY(write_file_atomically(folder / (figure.name + ".svg"), figure.svg));
  }
  for (const RunTable& table : tables_of(run)) {
    TAUT_TRY(write_file_atomically(folder / (table.name + ".csv"), table.csv));
  }
  return ok();
}

Result<void> report(const ReportOptions& options) {
  TAUT_TRY(const fs::path file, playback_of(options));
  TAUT_TRY(const PlayedRun run, read_played_run(file));
  if (run.bins == 0) return invalid(fmt::format("{}: nothing happened in it", file.string()));
  const std::vector<Figure> figures = figures_of(run);
  const fs::path page =
      options.output.empty() ? file.parent_path() / "report.html" : fs::path(options.output);
  TAUT_TRY(write_file_atomically(page, report_page(run, figures)));
  fmt::print("report: {}\n", page.string());
  if (options.figures.empty()) return ok();
  TAUT_TRY(write_figures(figures, run, options.figures));
  fmt::print("figures: {}\n", options.figures);
  return ok();
}

}  // namespace

void add_lab_report(Command& lab, int& status) {
  auto options = std::make_shared<ReportOptions>();
  Command command =
      lab.command("report", "Writes a page that plays a run of the lab, and figures of it",
                  "Example: tautline lab report 2026-11-26-fashion_lenet-1 --figures figures\n"
                  "The page is one file that loads nothing. States have the colours of Okabe and "
                  "Ito, load has cividis: both can be distinguished with any colour vision.");
  command.text("RUN", options->run, "The run's name, its folder, or its playback.json")
      .required()
      .value("RUN");
  command.text("--runs", options->runs, "Folder that is searched for runs")
      .value("DIR")
      .by_default(options->runs);
  command.text("--output", options->output, "The page (default: report.html in the run's folder)")
      .value("FILE");
  command
      .text("--figures", options->figures,
            "Writes the figures as SVG, and their numbers as CSV, into this folder")
      .value("DIR");
  command.on_run([options, &status] {
    if (const auto done = report(*options); !done) {
      status = fail("lab report", done.error().message);
    }
  });
}

}  // namespace taut::cli
