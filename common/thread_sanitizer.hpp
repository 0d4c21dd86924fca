#pragma once

/// Tells ThreadSanitizer about memory that passes from one thread to another through a
/// library that is not built with it. In other builds `kIsOn` is false and the two
/// functions do nothing.
namespace taut::thread_sanitizer {

#if defined(__SANITIZE_THREAD__)
#define TAUT_UNSEEN_BY_THREAD_SANITIZER __attribute__((no_sanitize("thread"), noinline))

inline constexpr bool kIsOn = true;

extern "C" {
void __tsan_acquire(void* place);  // NOLINT(bugprone-reserved-identifier)
void __tsan_release(void* place);  // NOLINT(bugprone-reserved-identifier)
}

/// What this thread has done so far happens before a later acquire() of the same place.
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
