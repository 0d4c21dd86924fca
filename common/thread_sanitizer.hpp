#pragma once

/// What ThreadSanitizer must know where memory goes from one thread to another through a
/// library that is not built with it: `kIsOn` is false in other builds, and the two
/// functions do nothing there.
namespace taut::thread_sanitizer {

#if defined(__SANITIZE_THREAD__)
#define TAUT_UNSEEN_BY_THREAD_SANITIZER __attribute__((no_sanitize("thread"), noinline))

inline constexpr bool kIsOn = true;

extern "C" {
void __tsan_acquire(void* place);  // NOLINT(bugprone-reserved-identifier)
void __tsan_release(void* place);  // NOLINT(bugprone-reserved-identifier)
}

/// What this thread has done so far is seen by the one that acquires the same place later.
inline void release(const void* place) {
  __tsan_release(const_cast<void*>(place));
}
inline void acquire(const void* place) {
  __tsan_acquire(const_cast<void*>(place));
}
#else
#define TAUT_UNSEEN_BY_THREAD_SANITIZER

inline constexpr bool kIsOn = false;

inline void release(const void* /*place*/) {}
inline void acquire(const void* /*place*/) {}
#endif

}  // namespace taut::thread_sanitizer
