#pragma once

// One body, compiled for each kind of vector unit; the loader picks at start. Contraction is off
// for this room, so that every kind rounds the same.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TAUT_VECTORISED \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TAUT_VECTORISED
#endif
