#pragma once

#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>

#include "common/result.hpp"

namespace taut {

/// The functions of UCX that are used. The library is loaded when the first endpoint needs it:
/// programs run where it is not installed, and do not map it before.
struct UcxLibrary {
  decltype(&::ucp_config_read) config_read = nullptr;
  decltype(&::ucp_config_modify) config_modify = nullptr;
  decltype(&::ucp_config_release) config_release = nullptr;
  decltype(&::ucp_init_version) init_version = nullptr;
  decltype(&::ucp_cleanup) cleanup = nullptr;
  decltype(&::ucp_worker_create) worker_create = nullptr;
  decltype(&::ucp_worker_destroy) worker_destroy = nullptr;
  decltype(&::ucp_worker_progress) worker_progress = nullptr;
  decltype(&::ucp_worker_get_efd) worker_get_efd = nullptr;
  decltype(&::ucp_worker_arm) worker_arm = nullptr;
  decltype(&::ucp_worker_set_am_recv_handler) worker_set_am_recv_handler = nullptr;
  decltype(&::ucp_listener_create) listener_create = nullptr;
  decltype(&::ucp_listener_query) listener_query = nullptr;
  decltype(&::ucp_listener_destroy) listener_destroy = nullptr;
  decltype(&::ucp_ep_create) ep_create = nullptr;
  decltype(&::ucp_ep_close_nbx) ep_close_nbx = nullptr;
  decltype(&::ucp_am_send_nbx) am_send_nbx = nullptr;
  decltype(&::ucp_am_recv_data_nbx) am_recv_data_nbx = nullptr;
  decltype(&::ucp_am_data_release) am_data_release = nullptr;
  decltype(&::ucp_request_check_status) request_check_status = nullptr;
  decltype(&::ucp_request_free) request_free = nullptr;
  decltype(&::ucs_status_string) status_string = nullptr;
  decltype(&::ucs_log_push_handler) log_push_handler = nullptr;
};

/// Loads the library once. Its messages go to this process's log, and its signal handlers are
/// removed again.
/// Errors    unavailable: it is not installed; names the package
/// Thread    any
[[nodiscard]] Result<const UcxLibrary*> ucx_library();

}  // namespace taut
