#include "cli/node/node_place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "common/system/rack_name.hpp"

namespace taut::cli {
namespace {

constexpr std::uint32_t kMaxRanks = 65536;

std::string text(const Environment& environment, const char* name) {
  const char* value = environment(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::optional<std::uint32_t> parse(std::string_view digits) {
  std::uint32_t number = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (failed != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

/// A variable that must be a whole number within [min, max].
Result<std::uint32_t> number(const Environment& environment, const char* name, std::uint32_t min,
                             std::uint32_t max) {
  const char* value = environment(name);
  if (value == nullptr) return invalid(fmt::format("the environment has no {}", name));
  const auto parsed = parse(value);
  if (parsed && *parsed >= min && *parsed <= max) return *parsed;
  return invalid(
      fmt::format("{} must be a whole number from {} to {}, is \"{}\"", name, min, max, value));
}

/// The variables in which an engine gives the four numbers. The local ones may be absent.
struct Names {
  const char* rank;
  const char* count;
  const char* local_rank;
  const char* local_count;
};

Result<NodePlace> read_numbers(const Environment& environment, const Names& names) {
  NodePlace place;
  TAUT_TRY(place.count, number(environment, names.count, 1, kMaxRanks));
  TAUT_TRY(place.rank, number(environment, names.rank, 0, place.count - 1));
  if (environment(names.local_count) == nullptr) return place;
  TAUT_TRY(place.local_count, number(environment, names.local_count, 1, place.count));
  TAUT_TRY(place.local_rank, number(environment, names.local_rank, 0, place.local_count - 1));
  return place;
}

/// An engine's job name for use in a folder's name: everything but letters, digits, '.', '-' and
/// '_' becomes '-'.
std::string run_name(const std::string& engine, std::string id) {
  if (id.empty()) return {};
  for (char& letter : id) {
    const bool is_plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                          (letter >= '0' && letter <= '9') || letter == '.' || letter == '_';
    if (!is_plain) letter = '-';
  }
  return engine + "-" + id;
}

/// How many tasks a node has, from "2(x3),1": two on each of three nodes, then one.
std::optional<std::uint32_t> tasks_of_node(std::string_view list, std::uint32_t node) {
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), entry.size() + 1));
    const auto open = entry.find("(x");
    const auto tasks = parse(entry.substr(0, open));
    std::optional<std::uint32_t> nodes = 1;
    if (open != std::string_view::npos && entry.ends_with(')')) {
      nodes = parse(entry.substr(open + 2, entry.size() - open - 3));
    }
    if (!tasks || !nodes) return std::nullopt;
    if (node < *nodes) return tasks;
    node -= *nodes;
  }
  return std::nullopt;
}

/// The switch of "core.leaf2.n7", whose parts are "switch.switch.node": the last one before the
/// node, if it has a plain name.
std::string leaf_switch(std::string_view address, std::string_view pattern) {
  std::string leaf;
  while (!pattern.empty() && !address.empty()) {
    const std::string_view kind = pattern.substr(0, pattern.find('.'));
    const std::string_view part = address.substr(0, address.find('.'));
    if (kind != "switch") break;
    leaf = part;
    pattern.remove_prefix(std::min(pattern.size(), kind.size() + 1));
    address.remove_prefix(std::min(address.size(), part.size() + 1));
  }
  return check_rack(leaf).empty() ? leaf : std::string();
}

Result<NodePlace> place_in_slurm(const Environment& environment) {
  const std::string job = text(environment, "SLURM_JOB_ID");
  // A batch script also has a rank and a number of tasks, although it runs only on the first node.
  if (environment("SLURM_STEP_ID") == nullptr) {
    const auto nodes = number(environment, "SLURM_JOB_NUM_NODES", 1, kMaxRanks);
    if (nodes && nodes.value() > 1) {
      return invalid(fmt::format(
          "Slurm's job {} has {} nodes, and this is its batch script, on the first of them: start "
          "it on each with: srun --ntasks-per-node 1 tautline node ...",
          job, nodes.value()));
    }
    NodePlace alone{.engine = "slurm"};
    alone.run = run_name("slurm", job);
    return alone;
  }
  TAUT_TRY(NodePlace place,
           read_numbers(environment, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "", ""}));
  place.engine = "slurm";
  place.run = run_name("slurm", job);
  const std::string restarts = text(environment, "SLURM_RESTART_COUNT");
  place.attempt =
      fmt::format("{}.{}.{}", job, environment("SLURM_STEP_ID"), restarts.empty() ? "0" : restarts);
  place.rack = leaf_switch(text(environment, "SLURM_TOPOLOGY_ADDR"),
                           text(environment, "SLURM_TOPOLOGY_ADDR_PATTERN"));
  const auto node = number(environment, "SLURM_NODEID", 0, kMaxRanks);
  const auto local = number(environment, "SLURM_LOCALID", 0, kMaxRanks);
  if (node && local) {
    const auto tasks = tasks_of_node(text(environment, "SLURM_STEP_TASKS_PER_NODE"), node.value());
    if (tasks && local.value() < *tasks) {
      place.local_rank = local.value();
      place.local_count = *tasks;
    }
  }
  return place;
}

Result<NodePlace> place_in_torchrun(const Environment& environment) {
  TAUT_TRY(NodePlace place,
           read_numbers(environment, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}));
  place.engine = "torchrun";
  place.leader = text(environment, "MASTER_ADDR");
  const std::string id = text(environment, "TORCHELASTIC_RUN_ID");
  // torchrun reports "none" if its user named no run.
  place.run = run_name("torchrun", id == "none" ? std::string() : id);
  return place;
}

}  // namespace

Result<NodePlace> find_place(const Environment& environment) {
  const auto has = [&](const char* name) { return environment(name) != nullptr; };
  if (has("OMPI_COMM_WORLD_SIZE")) {
    TAUT_TRY(
        NodePlace place,
        read_numbers(environment, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                   "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"}));
    place.engine = "mpi";
    place.run = run_name("mpi", text(environment, "PMIX_NAMESPACE"));
    place.attempt = place.run;
    return place;
  }
  // Slurm's own launcher also sets some of Hydra's variables.
  if (has("PMI_SIZE") && !has("SLURM_STEP_ID")) {
    TAUT_TRY(NodePlace place, read_numbers(environment, {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                                                         "MPI_LOCALNRANKS"}));
    place.engine = "mpi";
    return place;
  }
  if (has("WORLD_SIZE") && has("RANK")) return place_in_torchrun(environment);
  if (has("SLURM_JOB_ID")) return place_in_slurm(environment);
  return NodePlace();
}

}  // namespace taut::cli
