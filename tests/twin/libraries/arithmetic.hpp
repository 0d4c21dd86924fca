#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// How the twin's libraries compute: factors rounded as tensor cores take them, sums in float32.
namespace taut::twin {

/// A format of numbers: in memory, or (TF32 too) of a product's factors.
enum class Format : std::uint8_t { kFloat32, kTf32, kBfloat16, kFloat16 };

/// Bytes of an element in memory; TF32 is stored as float32.
[[nodiscard]] std::size_t size_of(Format format);
[[nodiscard]] const char* name_of(Format format);

/// A float32 as the format holds it. float16 and bfloat16: to nearest, ties to even, overflow to
/// infinity. TF32: to nearest, ties away from zero.
/// Source    NVIDIA, PTX ISA, cvt (.rn of .f16.f32 and .bf16.f32, .rna of .tf32.f32)
[[nodiscard]] float round_to(Format format, float value);

[[nodiscard]] float load(Format format, const void* from, std::size_t index);
void store(Format format, void* into, std::size_t index, float value);

/// Elements of memory as factors: stored in `stored`, rounded to `factor`.
[[nodiscard]] std::vector<float> load_factors(Format stored, Format factor, const void* from,
                                              std::size_t count);

/// c [m, n] = a [m, k] * b [k, n], row by row; sums float32 in the order of k.
/// accumulate  adds to c instead
void multiply(std::size_t m, std::size_t n, std::size_t k, const float* a, const float* b, float* c,
              bool accumulate = false);
/// out [columns, rows] = in [rows, columns] transposed
[[nodiscard]] std::vector<float> transpose(const float* in, std::size_t rows, std::size_t columns);

/// A number that changes when any byte does. FNV-1a over 8 bytes at a time.
[[nodiscard]] std::uint64_t checksum(const void* begin, std::size_t bytes);

}  // namespace taut::twin
