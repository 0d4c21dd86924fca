#pragma once

#include <string>

#include "cli/views/summary_view.hpp"
#include "lab/training/records/playback.hpp"
#include "lab/training/training_run.hpp"

namespace taut::cli {

/// The file, in the folder of a lab's run, that replays the run.
inline constexpr const char* kPlaybackFile = "playback.json";
inline constexpr int kPlaybackFormat = 1;

/// What the file has in addition to the run's summary, the outcome and the playback.
struct PlaybackFigures {
  double waiting = 0;  // share, of all workers
  double mean_staleness = 0;
};

/// The text of playback.json. Loads and shares are whole thousandths; a row without any is empty.
[[nodiscard]] std::string playback_json(const RunSummary& run, const lab::TrainingOutcome& outcome,
                                        const lab::Playback& playback,
                                        const PlaybackFigures& figures);

}  // namespace taut::cli
