#pragma once

#include <filesystem>
#include <vector>

#include "common/result.hpp"
#include "proto/job.pb.h"

namespace taut::model {

/// One of a job's nets: the trained one, or that of a test phase.
struct NetChoice {
  // The phase alone suffices if it has only one net.
  NetChoice(pb::Phase its_phase, int its_test = 0) : phase(its_phase), test(its_test) {}
  pb::Phase phase;
  int test;  // which test phase
};

/// The nets of a complete job: the training net, then one for each test_iter.
[[nodiscard]] std::vector<NetChoice> nets_of(const pb::Job& job);

/// A complete job's net, in the state that the solver requests. The first test phases use the
/// solver's test nets, the others the net that serves both phases.
/// Source    Caffe, src/caffe/solver.cpp, Solver::InitTrainNet and InitTestNets
[[nodiscard]] pb::NetParameter net_of(const pb::Job& job, const NetChoice& choice);

/// Reads the nets that a job or its solver names: the trained one into the job's net_param, the
/// solver's test nets into its test_net_param, all upgraded and with absolute paths of existing
/// data.
/// path         the job's file
/// solver_path  the file that contains its solver
/// Errors       not_found; invalid: none or several nets to train, test phases without a net or
///              nets without a test phase
[[nodiscard]] Result<void> settle_nets(const std::filesystem::path& path,
                                       const std::filesystem::path& solver_path, pb::Job& job);

}  // namespace taut::model
