#pragma once

#include <string>

#include "common/metrics/metrics.hpp"
#include "proto/control.pb.h"

namespace taut::worker {

/// What a worker's newest report says; nothing where it has none.
void add_progress(metrics::Scrape& scrape, const std::string& worker, const pb::Progress& progress);

}  // namespace taut::worker
