#include "tests/twin/kernels/warp.hpp"

#include <fmt/format.h>

#include <string>

#include "tests/twin/stream_queue.hpp"

namespace taut::twin {
namespace {

const char* name_of(BlockCall::Kind kind) {
  switch (kind) {
    case BlockCall::kBarrier:
      return "__syncthreads";
    case BlockCall::kBarrierOr:
      return "__syncthreads_or";
    case BlockCall::kShuffleDown:
      return "__shfl_down_sync";
    case BlockCall::kShuffleXor:
      return "__shfl_xor_sync";
    case BlockCall::kBallot:
      return "__ballot_sync";
  }
  return "?";
}

std::string text_of(const BlockCall& call) {
  return fmt::format("{} with mask {:#010x} at {}:{}", name_of(call.kind), call.mask,
                     call.place.file_name(), call.place.line());
}

bool is_same(const BlockCall& a, const BlockCall& b) {
  return a.kind == b.kind && a.mask == b.mask && a.place.line() == b.place.line() &&
         a.place.column() == b.place.column();
}

/// Whether all lanes that the call names are in it.
bool is_whole(const Lane* lanes, unsigned count, unsigned own) {
  const BlockCall& call = lanes[own].call;
  if ((call.mask >> own & 1U) == 0) {
    report_violation("warp.own-lane", fmt::format("lane {} is not in its own call: {}; {}", own,
                                                  text_of(call), running_thread()));
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((call.mask >> lane & 1U) == 0) continue;
    if (lane >= count || lanes[lane].state == Lane::kExited) {
      report_violation("warp.lanes-missing",
                       fmt::format("lane {} has exited or never was, but lane {} waits for it in "
                                   "{}; {}",
                                   lane, own, text_of(call), running_thread()));
    }
    if (lanes[lane].state != Lane::kInWarpCall) return false;
    if (!is_same(lanes[lane].call, call)) {
      report_violation(
          "warp.one-call",
          fmt::format("lane {} is in {}, but lane {} waits for it in {}; {}", lane,
                      text_of(lanes[lane].call), own, text_of(call), running_thread()));
    }
  }
  return true;
}

std::uint64_t shuffled(const Lane* lanes, unsigned own) {
  const BlockCall& call = lanes[own].call;
  const unsigned from =
      call.kind == BlockCall::kShuffleDown ? own + call.argument : own ^ call.argument;
  if (from >= kLanes) return call.bits;  // past the warp: its own value
  if ((call.mask >> from & 1U) == 0) {
    report_violation("warp.shuffle-source",
                     fmt::format("lane {} reads lane {}, which takes no part in {}; {}", own, from,
                                 text_of(call), running_thread()));
  }
  return lanes[from].call.bits;
}

void end_call(Lane* lanes, unsigned mask, BlockCall::Kind kind) {
  std::uint64_t votes = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1U) != 0) votes |= (lanes[lane].call.bits & 1U) << lane;
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    lanes[lane].result = kind == BlockCall::kBallot ? votes : shuffled(lanes, lane);
    lanes[lane].state = Lane::kReady;
  }
}

}  // namespace

bool end_warp_calls(Lane* lanes, unsigned count) {
  bool ended = false;
  for (unsigned lane = 0; lane < count; ++lane) {
    if (lanes[lane].state != Lane::kInWarpCall || !is_whole(lanes, count, lane)) continue;
    end_call(lanes, lanes[lane].call.mask, lanes[lane].call.kind);
    ended = true;
  }
  return ended;
}

}  // namespace taut::twin
