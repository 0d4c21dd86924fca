#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "tests/twin/libraries/cudnn/cudnn_state.hpp"
#include "tests/twin/stream_queue.hpp"

namespace taut::twin::dnn {
namespace {

thread_local std::string last_error;

}  // namespace

cudnnStatus_t refuse(cudnnStatus_t status, std::string why) {
  last_error = std::move(why);
  return status;
}

cudnnStatus_t faulted(const char* call) {
  switch (next_fault(call).kind) {
    case Fault::kNone:
      return CUDNN_STATUS_SUCCESS;
    case Fault::kRefused:
      return refuse(CUDNN_STATUS_INTERNAL_ERROR, fmt::format("{} was ordered to fail", call));
    case Fault::kOutOfMemory:
      return refuse(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
                    fmt::format("{} was ordered to find no memory", call));
    case Fault::kDeviceLost:
      fail_device(current_device(), cudaErrorIllegalAddress);
      return refuse(CUDNN_STATUS_EXECUTION_FAILED, fmt::format("{} lost its device", call));
  }
  return CUDNN_STATUS_SUCCESS;
}

Entry::Entry(const char* call, cudnnHandle_t handle) : handle_(handle) {
  status_ = faulted(call);
  if (handle_ == nullptr) {
    status_ = refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, fmt::format("{}: no handle", call));
    return;
  }
  if (handle_->is_in_use.exchange(true)) {
    report_violation("cudnn.handle-thread",
                     fmt::format("{}: another thread is in a call with the same handle", call));
  }
  if (current_device() != handle_->device) {
    report_violation("cudnn.handle-device",
                     fmt::format("{}: the handle is of device {}, the thread's device is {}", call,
                                 handle_->device, current_device()));
  }
  if (status_ == CUDNN_STATUS_SUCCESS && device_status(handle_->device) != cudaSuccess) {
    status_ = refuse(CUDNN_STATUS_EXECUTION_FAILED, fmt::format("{}: the device has failed", call));
  }
}

Entry::~Entry() {
  if (handle_ != nullptr) handle_->is_in_use = false;
}

}  // namespace taut::twin::dnn

using namespace taut::twin;
using namespace taut::twin::dnn;

extern "C" {

size_t cudnnGetVersion() {
  return CUDNN_VERSION;
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (CUDNN_STATUS_CATEGORY(static_cast<int>(status))) {
    case 0:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_INTERNAL_ERROR:
      return "CUDNN_STATUS_INTERNAL_ERROR";
    case CUDNN_STATUS_EXECUTION_FAILED:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return "CUDNN_STATUS_NOT_INITIALIZED";
  }
}

void cudnnGetLastErrorString(char* message, size_t size) {
  if (message == nullptr || size == 0) return;
  const std::size_t length = std::min(size - 1, last_error.size());
  std::memcpy(message, last_error.data(), length);
  message[length] = '\0';
  last_error.clear();
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  const cudnnStatus_t fault = faulted("cudnnCreate");
  if (fault != CUDNN_STATUS_SUCCESS) return fault;
  if (handle == nullptr) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "cudnnCreate: null");
  if (!may_call_unsafely("cudnnCreate") || device_status(current_device()) != cudaSuccess) {
    return refuse(CUDNN_STATUS_INTERNAL_ERROR, "cudnnCreate: no device");
  }
  *handle = new cudnnContext;
  (*handle)->device = current_device();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  if (handle == nullptr) return CUDNN_STATUS_SUCCESS;
  if (handle->is_in_use) {
    report_violation("cudnn.handle-thread", "cudnnDestroy: another thread uses the handle");
  }
  // It synchronizes the device.
  (void)may_call_unsafely("cudnnDestroy");
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  const Entry entry("cudnnSetStream", handle);
  if (entry.status() != CUDNN_STATUS_SUCCESS) return entry.status();
  require_stream("cudnnSetStream", stream);
  if (device_of(stream) != handle->device) {
    return refuse(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH,
                  fmt::format("cudnnSetStream: a stream of device {} for a handle of device {}",
                              device_of(stream), handle->device));
  }
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
}
