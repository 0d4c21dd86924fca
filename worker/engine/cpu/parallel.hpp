#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>

#include "worker/engine/stream.hpp"

namespace taut::cpu {

/// Runs queued work at once, with its own number of threads.
class InlineStream final : public Stream {
 public:
  explicit InlineStream(int threads) : threads_(threads) {}
  void finish() override {}
  /// OpenMP stores the number per calling thread, so each operation sets it first.
  void enter() const {
    if (threads_ > 0) omp_set_num_threads(threads_);
  }

 private:
  int threads_;
};

inline void enter(Stream& stream) {
  static_cast<InlineStream&>(stream).enter();
}

/// Calls work(begin, end) on contiguous parts of [0, count), in parallel if each thread gets at
/// least `grain` items.
template <class Work>
void parallel_ranges(std::size_t count, std::size_t grain, const Work& work) {
  const auto max_threads = static_cast<std::size_t>(omp_get_max_threads());
  const std::size_t parts = std::clamp<std::size_t>(count / grain, 1, max_threads);
  if (parts == 1) {
    work(std::size_t{0}, count);
    return;
  }
#pragma omp parallel for schedule(static) num_threads(static_cast <int>(parts))
  for (std::size_t part = 0; part < parts; ++part) {
    work(count * part / parts, count * (part + 1) / parts);
  }
}

/// Loops over fewer elements are not worth another thread.
inline constexpr std::size_t kElementGrain = 16384;

}  // namespace taut::cpu
