#include "common/memory.hpp"

#include <malloc.h>

namespace taut {

void keep_freed_memory() {
  // The largest that glibc takes: up to here a block comes from the heap and stays there.
  constexpr int kMmapThreshold = 32 << 20;
  constexpr int kTrimThreshold = 512 << 20;
  mallopt(M_MMAP_THRESHOLD, kMmapThreshold);
  mallopt(M_TRIM_THRESHOLD, kTrimThreshold);
}

}  // namespace taut
