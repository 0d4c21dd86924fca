#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/twin/stream_queue.hpp"

// NCCL on the twin: communicators of one process, float32, reduce and broadcast. On each stream an
// exchange is two pieces of work: the first hands this rank's part over and may run when the
// exchanges of all ranks have arrived at the head of their streams, the second writes what comes
// out and may run when all parts have been handed over. An aborted rank's work runs at once, and
// writes garbage.
namespace taut::twin {
namespace {

/// One exchange among all ranks of a clique.
struct Exchange {
  std::string what;  // must be the same for all ranks
  std::size_t count = 0;
  int root = 0;
  bool is_reduce = false;
  bool is_mean = false;

  std::mutex mutex;  // guards what follows
  std::vector<bool> has_arrived;
  std::vector<std::vector<float>> parts;  // empty: not handed over yet
  std::vector<bool> has_delivered;
};

struct Clique {
  explicit Clique(std::size_t ranks) : devices(ranks), is_aborted(ranks), next(ranks, 0) {}
  std::vector<int> devices;
  std::vector<std::atomic<bool>> is_aborted;

  std::mutex mutex;                                            // guards what follows
  std::vector<std::size_t> next;                               // each rank's next exchange
  std::map<std::size_t, std::shared_ptr<Exchange>> exchanges;  // that not all have joined yet
};

}  // namespace
}  // namespace taut::twin

struct ncclComm {
  std::shared_ptr<taut::twin::Clique> clique;
  std::size_t rank = 0;
  std::shared_ptr<std::atomic<int>> under_way = std::make_shared<std::atomic<int>>(0);
};

namespace taut::twin {
namespace {

std::mutex live_mutex;  // guards live
std::set<const ncclComm*> live;

void require_live(const char* call, const ncclComm* communicator) {
  const std::scoped_lock lock(live_mutex);
  if (live.contains(communicator)) return;
  report_violation("nccl.communicator",
                   fmt::format("{}: a communicator that was destroyed, or never made", call));
}

ncclResult_t status_of(const Fault& fault) {
  switch (fault.kind) {
    case Fault::kNone:
      return ncclSuccess;
    case Fault::kRefused:
      return ncclInternalError;
    case Fault::kOutOfMemory:
      return ncclUnhandledCudaError;
    case Fault::kDeviceLost:
      fail_device(current_device(), cudaErrorIllegalAddress);
      return ncclUnhandledCudaError;
  }
  return ncclSuccess;
}

ncclResult_t faulted(const char* call) {
  return status_of(next_fault(call));
}

/// One rank's part of an exchange, as it was called.
struct Part {
  ncclComm* communicator = nullptr;
  cudaStream_t stream = nullptr;
  const float* from = nullptr;  // nullptr: this rank gives nothing
  float* into = nullptr;        // nullptr: it gets nothing
  std::string what;
  std::size_t count = 0;
  int root = 0;
  bool is_reduce = false;
  bool is_mean = false;
};

thread_local int group_depth = 0;
thread_local ncclResult_t group_status = ncclSuccess;
thread_local std::vector<Part> group_parts;

std::shared_ptr<Exchange> join_exchange(const Part& part) {
  Clique& clique = *part.communicator->clique;
  const std::scoped_lock lock(clique.mutex);
  const std::size_t number = clique.next[part.communicator->rank]++;
  if (!clique.exchanges.contains(number)) {
    auto created = std::make_shared<Exchange>();
    created->what = part.what;
    created->count = part.count;
    created->root = part.root;
    created->is_reduce = part.is_reduce;
    created->is_mean = part.is_mean;
    created->has_arrived.resize(clique.devices.size());
    created->has_delivered.resize(clique.devices.size());
    created->parts.resize(clique.devices.size());
    clique.exchanges.emplace(number, created);
  }
  std::shared_ptr<Exchange> exchange = clique.exchanges.at(number);
  if (exchange->what != part.what) {
    report_violation("nccl.same-call",
                     fmt::format("rank {} calls {} where another rank called {}",
                                 part.communicator->rank, part.what, exchange->what));
  }
  if (std::ranges::all_of(clique.next, [&](std::size_t next) { return next > number; })) {
    clique.exchanges.erase(number);
  }
  return exchange;
}

bool all_of(const std::vector<bool>& flags) {
  return std::ranges::all_of(flags, [](bool flag) { return flag; });
}

/// What the exchange comes to, for those that get it.
std::vector<float> result_of(const Exchange& exchange) {
  if (!exchange.is_reduce) return exchange.parts[static_cast<std::size_t>(exchange.root)];
  const std::size_t ranks = exchange.parts.size();
  const float factor = exchange.is_mean ? 1.0F / static_cast<float>(ranks) : 1.0F;
  std::vector<float> sums(exchange.count, 0.0F);
  // Round the ring, the root last; each part is multiplied before it is added.
  for (std::size_t turn = 1; turn <= ranks; ++turn) {
    const auto& part = exchange.parts[(static_cast<std::size_t>(exchange.root) + turn) % ranks];
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] = turn == 1 ? part[i] * factor : sums[i] + part[i] * factor;
    }
  }
  return sums;
}

void queue_part(const Part& part) {
  const std::shared_ptr<Exchange> exchange = join_exchange(part);
  const std::shared_ptr<Clique> clique = part.communicator->clique;
  const std::size_t rank = part.communicator->rank;
  const auto under_way = part.communicator->under_way;
  const std::size_t bytes = part.count * sizeof(float);
  const float* const from = part.from;
  float* const into = part.into;
  ++*under_way;
  std::vector<Access> reads;
  if (from != nullptr) reads.push_back({from, bytes, false});
  enqueue(
      part.stream, part.what + ", handing over", reads,
      [=] {
        const std::scoped_lock lock(exchange->mutex);
        if (from != nullptr) exchange->parts[rank].assign(from, from + exchange->count);
        exchange->has_delivered[rank] = true;
      },
      [=] {
        if (clique->is_aborted[rank]) return true;
        const std::scoped_lock lock(exchange->mutex);
        exchange->has_arrived[rank] = true;
        return all_of(exchange->has_arrived);
      },
      CallPart::kBefore);
  std::vector<Access> writes;
  if (into != nullptr) writes.push_back({into, bytes, true});
  enqueue(
      part.stream, part.what, writes,
      [=] {
        --*under_way;
        if (into == nullptr) return;
        const std::scoped_lock lock(exchange->mutex);
        if (clique->is_aborted[rank] || !all_of(exchange->has_delivered)) {
          // The values after an exchange that is cut short are undefined.
          return poison(into, bytes);
        }
        const std::vector<float> result = result_of(*exchange);
        std::memcpy(into, result.data(), bytes);
      },
      [=] {
        if (clique->is_aborted[rank]) return true;
        const std::scoped_lock lock(exchange->mutex);
        return all_of(exchange->has_delivered);
      });
}

/// Where one thread makes the calls of all ranks, a call outside a group may wait forever for the
/// next.
void check_whole(const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    const Clique& clique = *part.communicator->clique;
    const auto taking_part = std::ranges::count_if(
        parts, [&](const Part& other) { return other.communicator->clique.get() == &clique; });
    if (static_cast<std::size_t>(taking_part) % clique.devices.size() == 0) continue;
    report_violation("nccl.group", fmt::format("{}: {} of {} ranks take part in one group",
                                               part.what, taking_part, clique.devices.size()));
  }
}

/// As a group that waits for a device that is lost.
void wait_for_abort(const std::vector<Part>& parts) {
  std::vector<std::shared_ptr<Clique>> cliques;
  cliques.reserve(parts.size());
  for (const Part& part : parts) cliques.push_back(part.communicator->clique);
  for (const auto& clique : cliques) {
    while (!clique->is_aborted[0]) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// What a call of an exchange returns; a group that it is part of ends with the first that is no
/// success.
ncclResult_t answer(ncclResult_t status) {
  if (group_depth > 0 && group_status == ncclSuccess) group_status = status;
  return status;
}

ncclResult_t add_part(const char* call, const Part& part) {
  require_live(call, part.communicator);
  const ncclResult_t fault = faulted(call);
  if (fault != ncclSuccess) return answer(fault);
  const Clique& clique = *part.communicator->clique;
  if (part.root < 0 || static_cast<std::size_t>(part.root) >= clique.devices.size()) {
    return answer(ncclInvalidArgument);
  }
  const int device = clique.devices[part.communicator->rank];
  require_stream(call, part.stream);
  if (device_of(part.stream) != device) {
    report_violation("nccl.stream",
                     fmt::format("{}: a stream of device {} for a communicator of device {}", call,
                                 device_of(part.stream), device));
  }
  if (is_capturing(part.stream)) {
    report_violation("nccl.not-emulated", fmt::format("{} in a capture", call));
  }
  const std::size_t bytes = part.count * sizeof(float);
  if (part.from != nullptr) {
    require_device_memory(call, "sendbuff", device, part.from, bytes, sizeof(float));
  }
  if (part.into != nullptr) {
    require_device_memory(call, "recvbuff", device, part.into, bytes, sizeof(float));
  }
  const bool overlap = part.from != nullptr && part.into != nullptr && part.from != part.into &&
                       part.from < part.into + part.count && part.into < part.from + part.count;
  if (overlap) report_violation("nccl.overlap", fmt::format("{}: in place but for a shift", call));
  group_parts.push_back(part);
  if (group_depth > 0) return ncclSuccess;
  check_whole(group_parts);
  for (const Part& one : std::exchange(group_parts, {})) queue_part(one);
  return ncclSuccess;
}

bool is_rank(const ncclComm* communicator, int rank) {
  return static_cast<int>(communicator->rank) == rank;
}

}  // namespace
}  // namespace taut::twin

using namespace taut::twin;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    default:
      return "unknown result code";
  }
}

ncclResult_t ncclCommInitAll(ncclComm_t* communicators, int count, const int* devices) {
  const ncclResult_t fault = faulted("ncclCommInitAll");
  if (fault != ncclSuccess) return fault;
  if (communicators == nullptr || count < 1 || count > device_count()) return ncclInvalidArgument;
  auto clique = std::make_shared<Clique>(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const int device = devices == nullptr ? i : devices[i];
    if (device < 0 || device >= device_count()) return ncclInvalidArgument;
    if (std::find(clique->devices.begin(), clique->devices.begin() + i, device) !=
        clique->devices.begin() + i) {
      return ncclInvalidUsage;
    }
    if (device_status(device) != cudaSuccess) return ncclUnhandledCudaError;
    clique->devices[static_cast<std::size_t>(i)] = device;
  }
  if (!may_call_unsafely("ncclCommInitAll")) return ncclUnhandledCudaError;
  const std::scoped_lock lock(live_mutex);
  for (int i = 0; i < count; ++i) {
    communicators[i] = new ncclComm{clique, static_cast<std::size_t>(i)};
    live.insert(communicators[i]);
  }
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  if (communicator == nullptr) return ncclSuccess;
  require_live("ncclCommDestroy", communicator);
  if (*communicator->under_way > 0) {
    report_violation("nccl.destroy", fmt::format("ncclCommDestroy: {} exchanges are under way",
                                                 communicator->under_way->load()));
  }
  const std::scoped_lock lock(live_mutex);
  live.erase(communicator);
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  if (communicator == nullptr) return ncclSuccess;
  require_live("ncclCommAbort", communicator);
  communicator->clique->is_aborted[communicator->rank] = true;
  {
    const std::scoped_lock lock(live_mutex);
    live.erase(communicator);
    delete communicator;
  }
  wake();
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* status) {
  require_live("ncclCommGetAsyncError", communicator);
  const ncclResult_t fault = faulted("ncclCommGetAsyncError");
  if (status == nullptr) return ncclInvalidArgument;
  *status = fault;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  const ncclResult_t fault = faulted("ncclGroupStart");
  if (fault != ncclSuccess) return fault;
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  const Fault met = next_fault("ncclGroupEnd");
  const ncclResult_t fault = status_of(met);
  if (--group_depth > 0) return ncclSuccess;
  const std::vector<Part> parts = std::exchange(group_parts, {});
  if (met.hangs) wait_for_abort(parts);
  const ncclResult_t status = std::exchange(group_status, ncclSuccess);
  if (status != ncclSuccess) return status;
  if (fault != ncclSuccess) return fault;
  check_whole(parts);
  for (const Part& part : parts) queue_part(part);
  return ncclSuccess;
}

ncclResult_t ncclReduce(const void* from, void* into, size_t count, ncclDataType_t type,
                        ncclRedOp_t operation, int root, ncclComm_t communicator,
                        cudaStream_t stream) {
  require_live("ncclReduce", communicator);
  if (type != ncclFloat32 || (operation != ncclAvg && operation != ncclSum)) {
    report_violation("nccl.not-emulated", "ncclReduce: a type or an operation");
  }
  const bool is_root = is_rank(communicator, root);
  if (from == nullptr || (is_root && into == nullptr)) return answer(ncclInvalidArgument);
  return add_part("ncclReduce",
                  {.communicator = communicator,
                   .stream = stream,
                   .from = static_cast<const float*>(from),
                   .into = is_root ? static_cast<float*>(into) : nullptr,
                   .what = fmt::format("ncclReduce of {} floats, operation {}, to rank {}", count,
                                       static_cast<int>(operation), root),
                   .count = count,
                   .root = root,
                   .is_reduce = true,
                   .is_mean = operation == ncclAvg});
}

ncclResult_t ncclBroadcast(const void* from, void* into, size_t count, ncclDataType_t type,
                           int root, ncclComm_t communicator, cudaStream_t stream) {
  require_live("ncclBroadcast", communicator);
  if (type != ncclFloat32) report_violation("nccl.not-emulated", "ncclBroadcast: a type");
  const bool is_root = is_rank(communicator, root);
  if (into == nullptr || (is_root && from == nullptr)) return answer(ncclInvalidArgument);
  return add_part("ncclBroadcast",
                  {.communicator = communicator,
                   .stream = stream,
                   .from = is_root ? static_cast<const float*>(from) : nullptr,
                   .into = static_cast<float*>(into),
                   .what = fmt::format("ncclBroadcast of {} floats from rank {}", count, root),
                   .count = count,
                   .root = root});
}
}
