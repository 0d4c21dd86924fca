#pragma once

#include <cstdint>

// The structures in which array libraries exchange tensors, as their documentation defines them;
// written from scratch, so that none of their headers is needed.
// Source    "DLPack: Open In Memory Tensor Structure", C API of version 1.1, dmlc.github.io/dlpack
namespace taut::library::dlpack {

inline constexpr std::uint32_t kMajor = 1;
inline constexpr std::uint32_t kMinor = 0;

// Of the 17 device types, those that messages name.
enum DeviceType : std::int32_t {
  kCpu = 1,
  kCuda = 2,
  kCudaHost = 3,
  kMetal = 8,
  kRocm = 10,
  kCudaManaged = 13,
};
enum TypeCode : std::uint8_t { kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kComplex = 5 };
inline constexpr std::uint64_t kReadOnly = 1;  // a flag

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

struct Device {
  std::int32_t type;
  std::int32_t id;
};

struct ElementType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  std::int32_t dimensions;
  ElementType element;
  std::int64_t* shape;    // [dimensions]
  std::int64_t* strides;  // [dimensions] in elements; nullptr: C order
  std::uint64_t byte_offset;
};

/// The content of capsules named "dltensor".
struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed*);  // nullptr: nothing to free
};

/// The content of capsules named "dltensor_versioned".
struct ManagedVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedVersioned*);
  std::uint64_t flags;
  Tensor tensor;
};

static_assert(sizeof(Tensor) == 48 && sizeof(Managed) == 64 && sizeof(ManagedVersioned) == 80);

}  // namespace taut::library::dlpack
