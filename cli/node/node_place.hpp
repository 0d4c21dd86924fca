#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/result.hpp"

namespace taut::cli {

/// The place of this process among those that an engine, such as Slurm, has started for one run.
struct NodePlace {
  std::string engine{};   // "slurm", "mpi", "torchrun"; empty: started by hand, alone
  std::string run{};      // the engine's name for the run, e.g. "slurm-812"; empty: it has none
  std::string attempt{};  // at this run, as the engine counts them; empty: it does not
  std::uint32_t rank = 0;
  std::uint32_t count = 1;        // of all ranks
  std::uint32_t local_rank = 0;   // among the ranks on the same machine
  std::uint32_t local_count = 1;  // how many those are
  std::string rack{};    // the switch that this machine is at; empty: the engine names none
  std::string leader{};  // a name or address of rank 0's machine; empty: unknown
};

/// The value of an environment variable, or nullptr.
using Environment = std::function<const char*(const char*)>;

/// Reads the place from the variables of the engine that started this process; where engines are
/// nested, e.g. mpirun within a Slurm job, from the innermost.
/// Errors    invalid: a variable that is missing or out of range; a Slurm job of several nodes
///           whose batch script runs this without srun
/// Source    the manuals of srun (22.05), mpirun (Open MPI 4.1), Hydra (MPICH 4) and torchrun (2.x)
[[nodiscard]] Result<NodePlace> find_place(const Environment& environment);

}  // namespace taut::cli
