#include "cuda/nccl.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "common/check.hpp"
#include "cuda/error.hpp"

namespace taut::cuda {
namespace {

// The part of NCCL's interface that is used, with the numbers from nccl.h; they are the same in
// every version 2.
constexpr int kSuccess = 0;
constexpr int kFloat = 7;
constexpr int kAverage = 4;
constexpr int kRoot = 0;
constexpr int kInProgress = 7;
constexpr int kOldest = 21000;  // 2.10.0, the first that averages

template <class Function>
bool find(void* library, const char* name, Function*& into) {
  into = reinterpret_cast<Function*>(dlsym(library, name));
  return into != nullptr;
}

/// "2.27.3" of 22703
std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

struct Nccl::Library {
  int (*get_version)(int* version) = nullptr;
  int (*init_all)(void** communicators, int count, const int* devices) = nullptr;
  int (*destroy)(void* communicator) = nullptr;
  int (*abort)(void* communicator) = nullptr;
  int (*async_error)(void* communicator, int* status) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*reduce)(const void* from, void* into, std::size_t count, int type, int operation, int root,
                void* communicator, cudaStream_t stream) = nullptr;
  int (*broadcast)(const void* from, void* into, std::size_t count, int type, int root,
                   void* communicator, cudaStream_t stream) = nullptr;
  const char* (*error_text)(int status) = nullptr;
  int version = 0;

  /// Loaded once and never unloaded.
  static Result<const Library*> get() {
    static const Result<Library> loaded = load();
    if (!loaded) return loaded.error();
    return &loaded.value();
  }

  void check(int status, const char* call, std::size_t count) const {
    if (status != kSuccess) [[unlikely]]
      fail(call, fmt::format("{} floats", count), error_text(status));
  }

 private:
  static Result<Library> load() {
    void* const handle = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      return make_error(ErrorCode::kUnavailable, fmt::format("NCCL is not found: {}", dlerror()));
    }
    Library library;
    const bool complete = find(handle, "ncclGetVersion", library.get_version) &&
                          find(handle, "ncclCommInitAll", library.init_all) &&
                          find(handle, "ncclCommDestroy", library.destroy) &&
                          find(handle, "ncclCommAbort", library.abort) &&
                          find(handle, "ncclCommGetAsyncError", library.async_error) &&
                          find(handle, "ncclGroupStart", library.group_start) &&
                          find(handle, "ncclGroupEnd", library.group_end) &&
                          find(handle, "ncclReduce", library.reduce) &&
                          find(handle, "ncclBroadcast", library.broadcast) &&
                          find(handle, "ncclGetErrorString", library.error_text);
    if (!complete || library.get_version(&library.version) != kSuccess) {
      return make_error(ErrorCode::kUnavailable, "libnccl.so.2 lacks calls of NCCL 2");
    }
    if (library.version < kOldest) {
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("NCCL {} is older than {}", version_text(library.version),
                                    version_text(kOldest)));
    }
    return library;
  }
};

struct Nccl::Communicators {
  explicit Communicators(const Library& of) : library(of) {}
  ~Communicators() {
    for (void* const one : all) (void)library.destroy(one);
  }
  /// Instead of destroying them: pending work on the devices ends.
  void abort() noexcept {
    for (void* const one : std::exchange(all, {})) (void)library.abort(one);
  }
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  const Library& library;
  std::vector<void*> all;  // one for each device
};

Nccl::Nccl(const Library& library, std::unique_ptr<Communicators> communicators)
    : library_(library), communicators_(std::move(communicators)) {}

Nccl::~Nccl() = default;

Result<std::unique_ptr<Nccl>> Nccl::open(std::span<const int> devices) {
  TAUT_TRY(const Library* const library, Library::get());
  std::vector<void*> handles(devices.size(), nullptr);
  const int status =
      library->init_all(handles.data(), static_cast<int>(handles.size()), devices.data());
  if (status != kSuccess) {
    (void)cudaGetLastError();
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("NCCL {} cannot connect {} devices: {}", version_text(library->version),
                    devices.size(), library->error_text(status)));
  }
  auto communicators = std::make_unique<Communicators>(*library);
  communicators->all = std::move(handles);
  return std::unique_ptr<Nccl>(new Nccl(*library, std::move(communicators)));
}

std::string Nccl::description() const {
  return fmt::format("NCCL {}", version_text(library_.version));
}

/// Queues all devices' parts of exchanges as one group; each part waits for the others.
void Nccl::together(std::span<const Exchange> exchanges, const char* call,
                    int (*queue)(const Library&, void*, const Part&, std::size_t)) {
  std::size_t count = 0;
  for (const Exchange& one : exchanges) count += one.count;
  std::scoped_lock lock(mutex_);
  if (communicators_->all.empty()) {
    fail(call, fmt::format("{} floats", count), "another device has failed");
  }
  // Copied: an abort may come from another thread while the group ends.
  const std::vector<void*> communicators = communicators_->all;
  library_.check(library_.group_start(), "ncclGroupStart", count);
  int status = kSuccess;
  for (const Exchange& one : exchanges) {
    TAUT_CHECK(one.parts.size() == communicators.size(), "one part for each device");
    for (std::size_t i = 0; i < communicators.size() && status == kSuccess; ++i) {
      status = queue(library_, communicators[i], one.parts[i], one.count);
    }
  }
  // The group must be ended, whatever failed within it.
  const int ended = library_.group_end();
  library_.check(status, call, count);
  library_.check(ended, "ncclGroupEnd", count);
}

bool Nccl::has_failed() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  for (void* const one : communicators_->all) {
    int status = kSuccess;
    const bool known = library_.async_error(one, &status) == kSuccess;
    if (!known || (status != kSuccess && status != kInProgress)) return true;
  }
  return false;
}

void Nccl::give_up() noexcept {
  // The abort also ends a call that waits within the lock.
  constexpr std::chrono::seconds kPatience{2};
  const std::unique_lock lock(mutex_, kPatience);
  communicators_->abort();
}

void Nccl::spread(std::span<const Part> parts, std::size_t count) {
  const Exchange one{{parts.begin(), parts.end()}, count};
  together(std::span(&one, 1), "ncclBroadcast",
           [](const Library& library, void* communicator, const Part& part, std::size_t elements) {
             return library.broadcast(part.from, part.into, elements, kFloat, kRoot, communicator,
                                      part.stream);
           });
}

void Nccl::mean(std::span<const Exchange> exchanges) {
  together(exchanges, "ncclReduce",
           [](const Library& library, void* communicator, const Part& part, std::size_t elements) {
             return library.reduce(part.from, part.into, elements, kFloat, kAverage, kRoot,
                                   communicator, part.stream);
           });
}

}  // namespace taut::cuda
