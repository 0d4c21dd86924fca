#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "worker/engine/cuda/program_device_module.hpp"

namespace taut {
namespace {

constexpr const char* kModule = "libtautline_cuda_copies.so";

/// A module to load instead: the device twin's, which does not need a driver.
const char* named_module() {
  return std::getenv("TAUTLINE_CUDA_MODULE");
}

/// The folder of the library or program that this code is part of.
std::filesystem::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&open_program_device), &info) == 0) return {};
  std::error_code error;
  const auto resolved = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::filesystem::path() : resolved.parent_path();
}

std::vector<std::filesystem::path> places() {
  if (named_module() != nullptr) return {named_module()};
  const auto folder = own_folder();
  return {folder / kModule, folder / "../lib" / kModule};
}

Error not_loaded(const std::string& why) {
  return make_error(ErrorCode::kUnavailable,
                    fmt::format("memory of a CUDA device cannot be used: {}", why));
}

/// The module, loaded once and never unloaded: its code must stay.
Result<void*> load() {
  for (const auto& place : places()) {
    std::error_code error;
    if (!std::filesystem::exists(place, error)) continue;
    void* const module = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module != nullptr) return module;
    return not_loaded(dlerror());
  }
  if (named_module() != nullptr) {
    return not_loaded(fmt::format("TAUTLINE_CUDA_MODULE is {}: no such file", named_module()));
  }
  return not_loaded(
      fmt::format("{} is not in {}; it is part of a build with CUDA, and of the package "
                  "tautline-cuda",
                  kModule, own_folder().string()));
}

}  // namespace

Result<std::unique_ptr<ProgramDevice>> open_program_device(int index) {
  if (named_module() == nullptr && dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr) {
    return not_loaded("no NVIDIA driver is installed on this machine");
  }
  TAUT_TRY(void* const module, load());
  auto* const face = reinterpret_cast<decltype(taut_program_device_face)*>(
      dlsym(module, "taut_program_device_face"));
  auto* const open = reinterpret_cast<decltype(taut_program_device_open)*>(
      dlsym(module, "taut_program_device_open"));
  if (face == nullptr || open == nullptr || std::string_view(face()) != kProgramDeviceFace) {
    return not_loaded(fmt::format("{} is of another build: \"{}\" here, \"{}\" there", kModule,
                                  kProgramDeviceFace, face == nullptr ? "none" : face()));
  }
  Result<std::unique_ptr<ProgramDevice>> device =
      make_error(ErrorCode::kUnavailable, "the module gave no answer");
  open(index, device);
  return device;
}

}  // namespace taut
