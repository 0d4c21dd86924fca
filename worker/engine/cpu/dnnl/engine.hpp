#pragma once

#include <fmt/format.h>

#include <dnnl.hpp>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "worker/engine/backend.hpp"
#include "worker/engine/cpu/dnnl/dnnl.hpp"
#include "worker/engine/cpu/own_memory.hpp"
#include "worker/engine/cpu/parallel.hpp"

// Shared by the sources of this folder only: versions 2 and 3 of oneDNN behind one interface.
namespace taut::dnnl_cpu {

using dnnl::memory;
using dnnl::primitive;
using Tag = memory::format_tag;
using Arguments = std::unordered_map<int, memory>;

/// The caller owns the memory that a primitive needs during a run.
inline dnnl::primitive_attr with_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

#if DNNL_VERSION_MAJOR >= 3
using PoolingForward = dnnl::pooling_forward;
using PoolingBackward = dnnl::pooling_backward;

template <class Primitive, class... Arguments>
auto describe(const dnnl::engine& engine, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(engine, arguments..., with_scratchpad());
}
template <class Primitive, class Forward, class... Arguments>
auto describe_backward(const dnnl::engine& engine, const Forward& forward,
                       const Arguments&... arguments) {
  return typename Primitive::primitive_desc(engine, arguments..., forward, with_scratchpad());
}
#else
using PoolingForward = dnnl::pooling_v2_forward;
using PoolingBackward = dnnl::pooling_v2_backward;

template <class Primitive, class... Arguments>
auto describe(const dnnl::engine& engine, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...),
                                            with_scratchpad(), engine);
}
template <class Primitive, class Forward, class... Arguments>
auto describe_backward(const dnnl::engine& engine, const Forward& forward,
                       const Arguments&... arguments) {
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...),
                                            with_scratchpad(), engine, forward);
}
#endif

inline const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine = [] {
    if (dnnl::engine::get_count(dnnl::engine::kind::cpu) == 0) {
      throw DeviceError("oneDNN offers no CPU engine");
    }
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

inline memory::desc plain(const memory::dims& dims, Tag tag) {
  return {dims, memory::data_type::f32, tag};
}

/// Memory that the caller owns and names at each run.
inline memory foreign(const memory::desc& desc) {
  return {desc, cpu_engine(), DNNL_MEMORY_NONE};
}

inline std::size_t floats_of(const memory::desc& desc) {
  return (desc.get_size() + sizeof(float) - 1) / sizeof(float);
}

inline void point(memory& at, const float* address) {
  at.set_data_handle(const_cast<float*>(address));  // oneDNN has no read-only memory
}

/// Turns the library's rejection of a shape into our error.
template <class Make>
auto built(const char* what, const Make& make) {
  try {
    return make();
  } catch (const dnnl::error& failure) {
    throw std::invalid_argument(
        fmt::format("oneDNN {} cannot make a {}: {}", version(), what, failure.message));
  }
}

inline void execute(const primitive& what, const Arguments& arguments) {
  static thread_local dnnl::stream stream(cpu_engine());
  try {
    what.execute(stream, arguments);
  } catch (const dnnl::error& failure) {
    throw DeviceError(fmt::format("oneDNN {} failed: {}", version(), failure.message));
  }
}

/// A primitive with the memory that it needs during a run.
class Prepared {
 public:
  Prepared() = default;
  Prepared(primitive what, const memory::desc& scratchpad)
      : what_(std::move(what)), scratchpad_(scratchpad), scratch_(floats_of(scratchpad)) {}

  void run(Arguments arguments) {
    if (!scratch_.empty()) {
      arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(scratchpad_, cpu_engine(), scratch_.data()));
    }
    execute(what_, arguments);
  }
  [[nodiscard]] cpu::OwnMemory& scratch() { return scratch_; }
  [[nodiscard]] const cpu::OwnMemory& scratch() const { return scratch_; }

 private:
  primitive what_;
  memory::desc scratchpad_;
  cpu::OwnMemory scratch_;
};

}  // namespace taut::dnnl_cpu
