#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "worker/engine/cuda/cuda_backend.hpp"
#include "worker/engine/cuda/module.hpp"

namespace taut {
namespace {

constexpr const char* kModule = "libtautline_cuda.so";

/// A module to load instead of libtautline_cuda.so: the device twin's (scripts/twin), which needs
/// no driver.
const char* named_module() {
  return std::getenv("TAUTLINE_CUDA_MODULE");
}

/// The possible places of the module, relative to this program: as built, as installed, or in a
/// bundle.
std::vector<std::filesystem::path> places() {
  if (named_module() != nullptr) return {named_module()};
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {kModule};
  const auto folder = program.parent_path();
  return {folder / kModule, folder / "../lib" / kModule, folder / TAUT_MODULE_FOLDER / kModule,
          folder / "../../lib" / kModule};
}

template <class Function>
Function* find(void* module, const char* name) {
  return reinterpret_cast<Function*>(dlsym(module, name));
}

Error not_loaded(const std::string& why) {
  return make_error(ErrorCode::kUnavailable,
                    fmt::format("the CUDA backend is not usable: {}", why));
}

/// The module, loaded once and never unloaded: a backend's code must stay.
Result<void*> load() {
  for (const auto& place : places()) {
    std::error_code error;
    if (!std::filesystem::exists(place, error)) continue;
    // RTLD_LOCAL: this program defines many of the same symbols.
    void* module = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module != nullptr) return module;
    // "libcudnn.so.9: cannot open shared object file: No such file or directory"
    return not_loaded(
        fmt::format("{}; install that library, or name its folder in LD_LIBRARY_PATH", dlerror()));
  }
  if (named_module() != nullptr) {
    return not_loaded(fmt::format("TAUTLINE_CUDA_MODULE is {}: no such file", named_module()));
  }
  return not_loaded(fmt::format("{} is neither next to this program nor in its ../lib", kModule));
}

/// The module with its entry points, loaded once.
struct Module {
  decltype(taut_cuda_module_open)* open = nullptr;
  decltype(taut_cuda_module_group)* group = nullptr;
};

Result<Module> module_of_this_build() {
#ifndef TAUT_WITH_CUDA
  if (named_module() == nullptr) {
    return make_error(ErrorCode::kUnavailable,
                      "this build has no CUDA backend; use device CPU or AUTO");
  }
#endif
  // Without a driver, loading half a gigabyte of libraries would be useless.
  if (named_module() == nullptr && dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr) {
    return not_loaded("no NVIDIA driver is installed on this machine");
  }
  TAUT_TRY(void* loaded, load());
  auto* const face = find<decltype(taut_cuda_module_face)>(loaded, "taut_cuda_module_face");
  const Module module{
      .open = find<decltype(taut_cuda_module_open)>(loaded, "taut_cuda_module_open"),
      .group = find<decltype(taut_cuda_module_group)>(loaded, "taut_cuda_module_group")};
  const bool complete = face != nullptr && module.open != nullptr && module.group != nullptr;
  if (!complete || std::string_view(face()) != kCudaModuleFace) {
    return not_loaded(fmt::format("{} is of another build: \"{}\" here, \"{}\" there", kModule,
                                  kCudaModuleFace, face == nullptr ? "none" : face()));
  }
  return module;
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend(const BackendOptions& options) {
  TAUT_TRY(const Module module, module_of_this_build());
  Result<std::unique_ptr<Backend>> backend =
      make_error(ErrorCode::kUnavailable, "the CUDA module gave no answer");
  module.open(options, backend);
  return backend;
}

Result<std::unique_ptr<DeviceGroup>> make_cuda_group(std::span<const DeviceGroup::Member> members) {
  const bool in_host_memory = std::ranges::any_of(members, [](const DeviceGroup::Member& member) {
    return member.backend->shares_host_memory();
  });
  if (in_host_memory) return make_error(ErrorCode::kUnavailable, "they share the host's memory");
  TAUT_TRY(const Module module, module_of_this_build());
  Result<std::unique_ptr<DeviceGroup>> group =
      make_error(ErrorCode::kUnavailable, "the CUDA module gave no answer");
  module.group(members, group);
  return group;
}

}  // namespace taut
