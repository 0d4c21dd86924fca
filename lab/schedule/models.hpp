#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "lab/schedule/trace_job.hpp"

namespace taut::schedule {

/// Types of devices. Speeds are those of kV100 = 1.
enum class DeviceType : std::uint8_t { kV100, kP100, kK80, kT4 };
inline constexpr std::size_t kDeviceTypes = 4;

struct DeviceFacts {
  std::string_view name;
  double busy_watts = 0;  // the board's limit, from the maker's data sheet
  double idle_watts = 0;  // an assumption: a tenth of it
  double memory_gib = 0;  // from the maker's data sheet; one of the two GPUs of a K80
};
[[nodiscard]] const DeviceFacts& facts_of(DeviceType type);
/// The type of that name; nullopt if there is none.
[[nodiscard]] std::optional<DeviceType> find_device_type(std::string_view name);

/// A net that jobs train.
struct Model {
  std::string_view name;
  double parameters = 0;   // float32 values that workers exchange
  double iteration_s = 0;  // on one V100
  StageSeconds stage_s{};  // of it
  std::array<double, kDeviceTypes> speed{};
};

/// The table of nets.
/// Source    parameters: the nets' papers. Iterations and stages of a2c, bert, dqn, gpt2, resnet18,
///           shufflenet_v2_x1_0, vgg16 and vgg19: the trace of Zhao et al., "Multi-Resource
///           Interleaving for Deep Learning Training", SIGCOMM 2022; those of the other nets are
///           assumptions in proportion to their multiply-adds.
/// Source    speeds: measurements published with Narayanan et al., "Heterogeneity-Aware Cluster
///           Scheduling Policies for Deep Learning Workloads", OSDI 2020, rounded. Iterations/s on
///           V100, P100, K80: ResNet-50 with batch 32 9.92, 4.44, 1.47; ResNet-18 with batch 256
///           17.0 and 2.5 on V100 and K80; a language model with batch 20 108 and 21.8. Those of
///           language on P100, of reinforcement learning, and of all on T4, are assumptions.
[[nodiscard]] std::span<const Model> models();

/// The net of that name, whatever its case; nullopt if it is not in the table.
[[nodiscard]] std::optional<std::size_t> find_model(std::string_view name);

/// A number below `count`, the same for the same name on every machine.
[[nodiscard]] std::size_t stand_in(std::string_view name, std::size_t count);

/// The net of a job whose trace names none, chosen by the job's name.
[[nodiscard]] std::size_t stand_in_model(std::string_view job_name);

/// Sets the table's iteration and stages for a job whose trace has none.
void set_stages_of_model(Job& job);

}  // namespace taut::schedule
