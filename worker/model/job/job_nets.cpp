#include "worker/model/job/job_nets.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "worker/model/job/job_data.hpp"
#include "worker/model/job/mentioned.hpp"
#include "worker/model/upgrade.hpp"

namespace taut::model {
namespace {

namespace fs = std::filesystem;

/// The fields in which a solver gives the net to train.
std::vector<std::string> train_fields(const pb::SolverParameter& solver) {
  std::vector<std::string> given;
  if (solver.has_net()) given.emplace_back("net");
  if (solver.has_net_param()) given.emplace_back("net_param");
  if (solver.has_train_net()) given.emplace_back("train_net");
  if (solver.has_train_net_param()) given.emplace_back("train_net_param");
  return given;
}

bool has_test_nets(const pb::SolverParameter& solver) {
  return solver.test_net_size() > 0 || solver.test_net_param_size() > 0;
}

Result<void> settle_net(const fs::path& path, pb::NetParameter& net) {
  TAUT_TRY(net, upgrade_net(net));
  settle_net_paths(path, net);
  return ok();
}

/// The net that the job itself gives.
Result<void> settle_own_net(const fs::path& path, pb::Job& job) {
  const pb::SolverParameter& solver = job.solver_param();
  if (has_test_nets(solver) || solver.has_train_net() || solver.has_train_net_param()) {
    return invalid(
        fmt::format("{}: has a net, and its solver has a train_net or a test_net: omit one of them",
                    path.string()));
  }
  fs::path found = path;
  if (job.has_net()) {
    TAUT_TRY(found, read_mentioned("net", job.net(), path, *job.mutable_net_param()));
  }
  job.clear_net();
  job.mutable_solver_param()->clear_net();
  job.mutable_solver_param()->clear_net_param();
  return settle_net(found, *job.mutable_net_param());
}

/// The net that the job's solver gives.
Result<void> settle_train_net(const fs::path& path, const fs::path& solver_path, pb::Job& job) {
  pb::SolverParameter& solver = *job.mutable_solver_param();
  const std::vector<std::string> given = train_fields(solver);
  if (given.empty()) {
    return invalid(fmt::format("{}: neither the job nor its solver names a net", path.string()));
  }
  if (given.size() > 1) {
    return invalid(fmt::format("{}: the solver has both {} and {}: give one net to train",
                               solver_path.string(), given[0], given[1]));
  }
  fs::path found = solver_path;
  pb::NetParameter& net = *job.mutable_net_param();
  if (solver.has_net()) {
    TAUT_TRY(found, read_mentioned("net", solver.net(), solver_path, net));
  } else if (solver.has_train_net()) {
    TAUT_TRY(found, read_mentioned("train_net", solver.train_net(), solver_path, net));
  } else {
    net = solver.has_net_param() ? solver.net_param() : solver.train_net_param();
  }
  solver.clear_net();
  solver.clear_net_param();
  solver.clear_train_net();
  solver.clear_train_net_param();
  return settle_net(found, net);
}

/// Errors: invalid, a test phase without a net or a net without a test phase.
Result<void> check_tests(const fs::path& solver_path, const pb::SolverParameter& solver,
                         bool trains_only) {
  const int nets = solver.test_net_param_size();
  const int phases = solver.test_iter_size();
  if (nets == phases || (nets < phases && !trains_only)) return ok();
  return invalid(fmt::format("{}: test_iter is given {} times, but there {} to test{}",
                             solver_path.string(), phases,
                             nets == 1 ? std::string("is 1 net") : fmt::format("are {} nets", nets),
                             nets < phases ? ": a train_net serves the training phase only" : ""));
}

}  // namespace

std::vector<NetChoice> nets_of(const pb::Job& job) {
  std::vector<NetChoice> nets{{pb::TRAIN, 0}};
  for (int test = 0; test < job.solver_param().test_iter_size(); ++test) {
    nets.emplace_back(pb::TEST, test);
  }
  return nets;
}

pb::NetParameter net_of(const pb::Job& job, const NetChoice& choice) {
  const pb::SolverParameter& solver = job.solver_param();
  const bool own = choice.phase == pb::TEST && choice.test < solver.test_net_param_size();
  pb::NetParameter net = own ? solver.test_net_param(choice.test) : job.net_param();
  if (choice.phase == pb::TRAIN) {
    net.mutable_state()->MergeFrom(solver.train_state());
  } else if (choice.test < solver.test_state_size()) {
    net.mutable_state()->MergeFrom(solver.test_state(choice.test));
  }
  net.mutable_state()->set_phase(choice.phase);
  return net;
}

Result<void> settle_nets(const fs::path& path, const fs::path& solver_path, pb::Job& job) {
  if (job.has_net() && job.has_net_param()) {
    return invalid(fmt::format("{}: has both net and net_param; give one of them", path.string()));
  }
  pb::SolverParameter& solver = *job.mutable_solver_param();
  const bool own = job.has_net() || job.has_net_param();
  const bool trains_only = solver.has_train_net() || solver.has_train_net_param();
  TAUT_TRY(own ? settle_own_net(path, job) : settle_train_net(path, solver_path, job));
  // Caffe's order: first the nets within the solver, then those in files.
  for (pb::NetParameter& net : *solver.mutable_test_net_param()) {
    TAUT_TRY(settle_net(solver_path, net));
  }
  for (const std::string& file : solver.test_net()) {
    pb::NetParameter& net = *solver.add_test_net_param();
    TAUT_TRY(const fs::path found, read_mentioned("test_net", file, solver_path, net));
    TAUT_TRY(settle_net(found, net));
  }
  solver.clear_test_net();
  return check_tests(solver_path, solver, trains_only);
}

}  // namespace taut::model
