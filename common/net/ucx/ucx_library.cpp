#include "common/net/ucx/ucx_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <bit>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/log.hpp"

namespace taut {
namespace {

constexpr const char* kLibrary = "libucp.so.0";

/// Restores the signal handlers that the library replaces when it is loaded: the program handles
/// its own crashes, and SIGHUP is not for the library's debugger.
class KeptSignals {
 public:
  KeptSignals() {
    for (int i = 1; i < kSignals; ++i) {
      known_[index(i)] = sigaction(i, nullptr, &actions_[index(i)]) == 0;
    }
  }
  ~KeptSignals() {
    for (int i = 1; i < kSignals; ++i) {
      if (known_[index(i)]) sigaction(i, &actions_[index(i)], nullptr);
    }
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  static constexpr int kSignals = 32;
  static std::size_t index(int signal) { return static_cast<std::size_t>(signal); }
  std::array<struct sigaction, kSignals> actions_{};
  std::array<bool, kSignals> known_{};
};

/// Logs a line of the library's. Most of its errors are connections that break, which the caller
/// sees anyway: the 1st, 2nd, 4th, 8th ... are logged, or all that UCX_LOG_LEVEL requests.
ucs_log_func_rc_t note_line(const char* /*file*/, unsigned /*line*/, const char* /*function*/,
                            ucs_log_level_t level, const ucs_log_component_config_t* /*component*/,
                            const char* format, va_list arguments) {
  static const bool is_asked_for = std::getenv("UCX_LOG_LEVEL") != nullptr;
  if (level > UCS_LOG_LEVEL_WARN && !is_asked_for) return UCS_LOG_FUNC_RC_STOP;
  std::array<char, 512> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  if (is_asked_for) {
    log::info("UCX: {}", text.data());
    return UCS_LOG_FUNC_RC_STOP;
  }
  static std::atomic<std::uint64_t> errors = 0;
  const std::uint64_t count = errors.fetch_add(1, std::memory_order_relaxed) + 1;
  if (std::has_single_bit(count)) {
    log::warn("UCX ({} lines so far): {}", count, text.data());
  } else {
    log::debug("UCX: {}", text.data());
  }
  return UCS_LOG_FUNC_RC_STOP;
}

Result<UcxLibrary> load_ucx() {
  void* const module = [] {
    const KeptSignals kept;
    return dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  }();
  if (module == nullptr) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("UCX is not usable: {}; install the package libucx0", dlerror()));
  }
  UcxLibrary library;
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(module, name));
    if (function == nullptr) missing = name;
  };
  find(library.config_read, "ucp_config_read");
  find(library.config_modify, "ucp_config_modify");
  find(library.config_release, "ucp_config_release");
  find(library.init_version, "ucp_init_version");
  find(library.cleanup, "ucp_cleanup");
  find(library.worker_create, "ucp_worker_create");
  find(library.worker_destroy, "ucp_worker_destroy");
  find(library.worker_progress, "ucp_worker_progress");
  find(library.worker_get_efd, "ucp_worker_get_efd");
  find(library.worker_arm, "ucp_worker_arm");
  find(library.worker_set_am_recv_handler, "ucp_worker_set_am_recv_handler");
  find(library.listener_create, "ucp_listener_create");
  find(library.listener_query, "ucp_listener_query");
  find(library.listener_destroy, "ucp_listener_destroy");
  find(library.ep_create, "ucp_ep_create");
  find(library.ep_close_nbx, "ucp_ep_close_nbx");
  find(library.am_send_nbx, "ucp_am_send_nbx");
  find(library.am_recv_data_nbx, "ucp_am_recv_data_nbx");
  find(library.am_data_release, "ucp_am_data_release");
  find(library.request_check_status, "ucp_request_check_status");
  find(library.request_free, "ucp_request_free");
  find(library.status_string, "ucs_status_string");
  find(library.log_push_handler, "ucs_log_push_handler");
  if (!missing.empty()) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("UCX is not usable: {} has no {}; install UCX 1.13 or newer",
                                  kLibrary, missing));
  }
  library.log_push_handler(note_line);
  return library;
}

}  // namespace

Result<const UcxLibrary*> ucx_library() {
  static const Result<UcxLibrary> loaded = load_ucx();
  if (!loaded) return loaded.error();
  return &loaded.value();
}

}  // namespace taut
