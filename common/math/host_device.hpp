#pragma once

// Marks arithmetic that the CPU and the CUDA kernels share: one source, one result.
#ifdef __CUDACC__
#define TAUT_HD __host__ __device__
#else
#define TAUT_HD
#endif
