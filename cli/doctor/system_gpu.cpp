#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <string>
#include <system_error>

#include "cli/doctor/machine.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

/// The driver's version, from the file's first line:
/// "NVRM version: NVIDIA UNIX ... Module  550.54.14  ...".
std::string driver_version() {
  std::ifstream in("/proc/driver/nvidia/version");
  std::string line;
  std::getline(in, line);
  std::smatch found;
  if (std::regex_search(line, found, std::regex(R"(\b\d+\.\d+(\.\d+)?\b)"))) return found.str();
  return line;
}

/// The "Model:" in /proc/driver/nvidia/gpus/*/information.
std::vector<std::string> listed_models() {
  std::vector<std::string> models;
  std::error_code failed;
  for (fs::directory_iterator entry("/proc/driver/nvidia/gpus", failed), end;
       !failed && entry != end; entry.increment(failed)) {
    std::ifstream in(entry->path() / "information");
    for (std::string line; std::getline(in, line);) {
      constexpr std::string_view kBefore = "Model:";
      if (!line.starts_with(kBefore)) continue;
      const auto begin = line.find_first_not_of(" \t", kBefore.size());
      models.push_back(begin == std::string::npos ? "" : line.substr(begin));
    }
  }
  return models;
}

/// The driver's library, opened only if it exists: this program does not link with CUDA.
/// Source    CUDA Driver API, "Initialization", "Version Management", "Device Management"
class DriverLibrary {
 public:
  DriverLibrary() : handle_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
      const char* why = dlerror();
      error_ = why != nullptr ? why : "libcuda.so.1 cannot be opened";
      return;
    }
    if (const int status = call("cuInit", 0U); status != 0) {
      error_ = fmt::format("libcuda.so.1: cuInit failed with {}: {}", status, text_of(status));
    }
  }
  ~DriverLibrary() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  DriverLibrary(const DriverLibrary&) = delete;
  DriverLibrary& operator=(const DriverLibrary&) = delete;

  [[nodiscard]] const std::string& error() const { return error_; }

  /// The status of one of its functions; kMissing if this driver has no function of that name.
  template <class... Arguments>
  int call(const char* name, Arguments... arguments) {
    auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(handle_, name));
    return function == nullptr ? kMissing : function(arguments...);
  }

 private:
  static constexpr int kMissing = -1;

  std::string text_of(int status) {
    const char* text = nullptr;
    if (call("cuGetErrorString", status, &text) != 0 || text == nullptr) return "unknown";
    return text;
  }

  void* handle_;
  std::string error_;
};

GpuFacts::Device device_at(DriverLibrary& driver, int index) {
  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
  constexpr int kMajor = 75;
  constexpr int kMinor = 76;
  GpuFacts::Device found;
  int device = 0;
  if (driver.call("cuDeviceGet", &device, index) != 0) return found;
  std::array<char, 256> name{};
  if (driver.call("cuDeviceGetName", name.data(), static_cast<int>(name.size()) - 1, device) == 0) {
    found.name = name.data();
  }
  int major = 0;
  int minor = 0;
  driver.call("cuDeviceGetAttribute", &major, kMajor, device);
  driver.call("cuDeviceGetAttribute", &minor, kMinor, device);
  found.capability = 10 * major + minor;
  std::size_t bytes = 0;
  driver.call("cuDeviceTotalMem_v2", &bytes, device);
  found.bytes = bytes;
  return found;
}

}  // namespace

GpuFacts system_gpu() {
  GpuFacts facts{.driver = driver_version(), .present = listed_models()};
  DriverLibrary driver;
  facts.library_error = driver.error();
  if (!facts.library_error.empty()) return facts;
  driver.call("cuDriverGetVersion", &facts.cuda_version);
  int count = 0;
  driver.call("cuDeviceGetCount", &count);
  for (int i = 0; i < count; ++i) facts.devices.push_back(device_at(driver, i));
  return facts;
}

}  // namespace taut::cli
