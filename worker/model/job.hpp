#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/job.pb.h"
#include "worker/model/graph.hpp"
#include "worker/model/job_nets.hpp"

namespace taut::model {

/// What is known of the records behind a job's data layers.
struct KnownRecords {
  std::map<std::string, RecordShape> train;               // by the layer's name
  std::vector<std::map<std::string, RecordShape>> tests;  // for each test phase
  RecordShape otherwise;                                  // taken for every other data layer

  [[nodiscard]] GraphOptions graph_options(const NetChoice& choice) const;
};

/// Reads a job file, or a bare solver file as a job, and makes it whole: the net and the solver
/// that it names are in net_param and solver_param (its nets as settle_nets() says), the paths of
/// data that is there are absolute, `weights` holds what job and solver say, the name is the file's
/// where it gives none, and the seed is the solver's where only that gives one. A solver's own net
/// is taken where the job gives none.
/// Errors    not_found, or invalid with line and column; a net or a solver that is given twice or
///           not at all
[[nodiscard]] Result<pb::Job> load_job(const std::filesystem::path& path);

/// Builds what a whole job describes without running it: the solver, the nets of all phases, the
/// data. Returns what the user should be warned of, one line each.
/// records   what the data layers feed, as far as it is known
/// Errors    invalid: as check_solver, build_graph and data_of say, or a net without a loss
[[nodiscard]] Result<std::vector<std::string>> check_job(const pb::Job& job,
                                                         const KnownRecords& records);

/// The same without its nets' shapes, for who does not know the records or builds the nets anyway.
[[nodiscard]] Result<std::vector<std::string>> check_job_itself(const pb::Job& job);

}  // namespace taut::model
