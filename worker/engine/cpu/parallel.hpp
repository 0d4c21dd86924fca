#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>

#include "common/thread_sanitizer.hpp"
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

// libgomp starts and joins threads where ThreadSanitizer does not see it.
inline constexpr char kForked = 0;
inline constexpr char kJoined = 0;

/// Calls work(begin, end) on contiguous parts of [0, count), in parallel if each thread gets at
/// least `grain` items. ThreadSanitizer sees what `work` does, and not how the parts are passed.
template <class Work>
TAUT_UNSEEN_BY_THREAD_SANITIZER void parallel_ranges(std::size_t count, std::size_t grain,
                                                     const Work& work) {
  const auto max_threads = static_cast<std::size_t>(omp_get_max_threads());
  const std::size_t parts = std::clamp<std::size_t>(count / grain, 1, max_threads);
  if (parts == 1) {
    work(std::size_t{0}, count);
    return;
  }
  thread_sanitizer::release(&kForked);
#pragma omp parallel num_threads(static_cast <int>(parts))
  {
    thread_sanitizer::acquire(&kForked);
#pragma omp for schedule(static) nowait
    for (std::size_t part = 0; part < parts; ++part) {
      work(count * part / parts, count * (part + 1) / parts);
    }
    thread_sanitizer::release(&kJoined);
  }
  thread_sanitizer::acquire(&kJoined);
}

/// Loops over fewer elements are not worth another thread.
inline constexpr std::size_t kElementGrain = 16384;

}  // namespace taut::cpu
