#include "lab/schedule/models.hpp"

#include <cctype>
#include <string>

namespace taut::schedule {
namespace {

constexpr std::array<double, kDeviceTypes> kConvolution = {1, 0.45, 0.15, 0.35};
constexpr std::array<double, kDeviceTypes> kLanguage = {1, 0.6, 0.2, 0.4};
constexpr std::array<double, kDeviceTypes> kGames = {1, 0.6, 0.4, 0.8};

constexpr std::array kModels = {
    Model{"vgg11", 132.9e6, 0.075, {0.080, 0.045, 0}, kConvolution},
    Model{"vgg16", 138.4e6, 0.107, {0.117, 0.068, 0}, kConvolution},
    Model{"vgg19", 143.7e6, 0.109, {0.114, 0.080, 0}, kConvolution},
    Model{"alexnet", 61.1e6, 0.120, {0.105, 0.020, 0}, kConvolution},
    Model{"googlenet", 6.6e6, 0.320, {0.250, 0.090, 0}, kConvolution},
    Model{"inception3", 23.8e6, 0.420, {0.250, 0.280, 0}, kConvolution},
    Model{"inception4", 42.7e6, 0.640, {0.250, 0.560, 0}, kConvolution},
    Model{"resnet18", 11.7e6, 0.779, {0.711, 0.110, 0}, kConvolution},
    Model{"resnet50", 25.6e6, 0.350, {0.250, 0.260, 0}, kConvolution},
    Model{"resnet101", 44.5e6, 0.480, {0.250, 0.430, 0}, kConvolution},
    Model{"resnet152", 60.2e6, 0.660, {0.250, 0.620, 0}, kConvolution},
    Model{"shufflenet_v2_x1_0", 2.3e6, 0.798, {0.706, 0.059, 0}, kConvolution},
    Model{"bert", 110e6, 0.178, {0.0005, 0.160, 0}, kLanguage},
    Model{"gpt2", 124e6, 0.426, {0.0006, 0.410, 0}, kLanguage},
    Model{"a2c", 1.7e6, 0.517, {0.514, 0.014, 0}, kGames},
    Model{"dqn", 1.7e6, 0.490, {0.446, 0.008, 0}, kGames},
};

constexpr std::array kFacts = {DeviceFacts{"V100", 300, 30, 16}, DeviceFacts{"P100", 250, 25, 16},
                               DeviceFacts{"K80", 150, 15, 12}, DeviceFacts{"T4", 70, 7, 16}};

}  // namespace

const DeviceFacts& facts_of(DeviceType type) {
  return kFacts[static_cast<std::size_t>(type)];
}

std::optional<DeviceType> find_device_type(std::string_view name) {
  for (std::size_t i = 0; i < kFacts.size(); ++i) {
    if (kFacts[i].name == name) return static_cast<DeviceType>(i);
  }
  return std::nullopt;
}

std::span<const Model> models() {
  return kModels;
}

std::optional<std::size_t> find_model(std::string_view name) {
  std::string lower;
  for (const char c : name) {
    lower.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  for (std::size_t i = 0; i < kModels.size(); ++i) {
    if (kModels[i].name == lower) return i;
  }
  return std::nullopt;
}

std::size_t stand_in(std::string_view name, std::size_t count) {
  // FNV-1a
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return hash % count;
}

std::size_t stand_in_model(std::string_view job_name) {
  return stand_in(job_name, kModels.size());
}

void set_stages_of_model(Job& job) {
  job.iteration_s = kModels[job.model].iteration_s;
  job.stage_s = kModels[job.model].stage_s;
}

}  // namespace taut::schedule
