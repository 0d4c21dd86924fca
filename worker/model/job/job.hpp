#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/job.pb.h"
#include "worker/model/graph.hpp"
#include "worker/model/job/job_nets.hpp"

namespace taut::model {

/// The known properties of the records of a job's data layers.
struct KnownRecords {
  std::map<std::string, RecordShape> train;               // by the layer's name
  std::vector<std::map<std::string, RecordShape>> tests;  // for each test phase
  RecordShape otherwise;                                  // used for every other data layer

  [[nodiscard]] GraphOptions graph_options(const NetChoice& choice) const;
};

/// Reads a job file, or a bare solver file as a job, and completes it: the net and the solver that
/// it names are in net_param and solver_param (nets as in settle_nets()), the paths of existing
/// data are absolute, `weights` has the files of job and solver, the name is the file's if the job
/// has none, and the seed is the solver's if only the solver has one. A solver's own net is used if
/// the job has none.
/// Errors    not_found, or invalid with line and column; a net or a solver that is given twice or
///           not at all
[[nodiscard]] Result<pb::Job> load_job(const std::filesystem::path& path);

/// Checks a complete job without running it: the solver, the nets of all phases, the data. Returns
/// warnings for the user, one line each.
/// records   what the data layers feed, as far as known
/// Errors    invalid: as check_solver, build_graph and data_of, or a net without a loss
[[nodiscard]] Result<std::vector<std::string>> check_job(const pb::Job& job,
                                                         const KnownRecords& records);

/// As above without the shapes of the nets, for callers that do not know the records or build the
/// nets anyway.
[[nodiscard]] Result<std::vector<std::string>> check_job_itself(const pb::Job& job);

}  // namespace taut::model
