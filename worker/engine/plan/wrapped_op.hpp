#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "worker/engine/ops/list.hpp"
#include "worker/engine/plan/wrapped_backend.hpp"
#include "worker/engine/plan/wrapped_call.hpp"

// An operation of a wrapped backend, for any spec: its methods go through WrappedBackend::on_call,
// with the operands that the interface declares (worker/engine/ops/device_op.hpp). Nothing here
// names an operation.
namespace taut::wrapped {

/// Two strings as one, at compile time: a call's name lives as long as the program.
template <const std::string_view& kFirst, const std::string_view& kSecond>
struct Joined {
  static constexpr auto kCharacters = [] {
    std::array<char, kFirst.size() + kSecond.size()> characters{};
    std::size_t at = 0;
    for (const char character : kFirst) characters[at++] = character;
    for (const char character : kSecond) characters[at++] = character;
    return characters;
  }();
  static constexpr std::string_view kText{kCharacters.data(), kCharacters.size()};
};

template <class T>
inline constexpr bool kIsWritten =
    std::is_same_v<T, DeviceSpan<float>> || std::is_same_v<T, Updated> ||
    std::is_same_v<T, RecurrentParameters<float>>;

template <class T>
[[nodiscard]] bool is_empty(const T& span) {
  return span.empty();
}
inline bool is_empty(const RecurrentParameters<float>& all) {
  return all.input_weight.empty() && all.input_bias.empty() && all.hidden_weight.empty() &&
         all.hidden_bias.empty();
}

/// Whether a call has an effect. `Arguments` are a method's.
template <class... Arguments>
[[nodiscard]] bool has_effect(const Arguments&... arguments) {
  const auto one = [](const auto& argument) {
    if constexpr (kIsWritten<std::remove_cvref_t<decltype(argument)>>) return !is_empty(argument);
    return false;
  };
  return (one(arguments) || ...);
}

/// An argument as a call keeps it until it runs; an operand that stays unread becomes empty.
/// all  the call's arguments
template <class Spec, class All, class T>
[[nodiscard]] T kept(const Spec&, const All&, const T& argument) {
  return argument;
}
template <class Spec, class All>
[[nodiscard]] ReadList kept(const Spec&, const All&,
                            const std::span<const DeviceSpan<const float>>& list) {
  return {list.begin(), list.end()};
}
template <class Spec, class All, auto kMember>
[[nodiscard]] ReadIf<kMember> kept(const Spec& spec, const All&, const ReadIf<kMember>& span) {
  return std::invoke(kMember, spec) ? span : ReadIf<kMember>();
}
template <class Spec, class All, std::size_t kOther>
[[nodiscard]] ReadFor<kOther> kept(const Spec&, const All& all, const ReadFor<kOther>& span) {
  using Other = std::remove_cvref_t<std::tuple_element_t<kOther, All>>;
  static_assert(kIsWritten<Other>, "ReadFor names an operand that the call does not write");
  return is_empty(std::get<kOther>(all)) ? ReadFor<kOther>() : span;
}

/// Whether a backward_parameters() may leave something in scratch memory for a backward_bottom().
/// A deconvolution's forward is a backward_bottom(), which follows the previous clock's
/// backward_parameters() if no gradient of its bottom is computed.
template <class Spec>
[[nodiscard]] bool leaves_scratch(const Spec& spec) {
  if constexpr (requires { spec.runs_backwards; }) return !spec.runs_backwards;
  return true;
}

inline constexpr std::string_view kToParameters = " backward to the weights";
inline constexpr std::string_view kToBottom = " backward to the bottom";

/// Base of all wrapped operations: the wrapped one, and the memory that it needs in addition to
/// its operands, which is lent to it with every call.
template <class SpecType>
class Routed : public SpecType::Op {
 public:
  using Spec = SpecType;
  using Op = typename Spec::Op;

  Routed(WrappedBackend& backend, const Spec& spec, std::unique_ptr<Op> op)
      : backend_(backend), spec_(spec), op_(std::move(op)) {
    const OpMemory own = op_->own_memory();
    kept_block_ = backend.allocate(own.kept, BufferKind::kWorkspace,
                                   "workspace that a forward leaves to its backward");
    scratch_block_ =
        backend.allocate(own.scratch, BufferKind::kWorkspace, "workspace of an operation");
    kept_ = kept_block_.template as<float>();
    scratch_ = scratch_block_.template as<float>();
  }

  // For a backend in front of this one, which lends as well.
  OpMemory own_memory() const override { return op_->own_memory(); }
  void lend(DeviceSpan<float> kept, DeviceSpan<float> scratch) override {
    kept_ = kept;
    scratch_ = scratch;
  }

 protected:
  /// A call of `method`, named `kWords` in messages.
  /// Kept  how it uses what the operation keeps; DeviceSpan<float>: writes it, Updated: reads it
  template <const std::string_view& kWords, class Kept, class Method, class... Arguments>
  void call(Method method, Stream& stream, const Arguments&... arguments) {
    if (!has_effect(arguments...)) return;
    const auto run = [op = op_, method](Stream& on, DeviceSpan<float> own,
                                        DeviceSpan<float> scratch, const auto&... at) {
      op->lend(own, scratch);
      ((*op).*method)(on, at...);
    };
    const std::tuple<const Arguments&...> all(arguments...);
    const auto make = [&](auto scratch) {
      return make_call(Joined<Op::kName, kWords>::kText, run, Kept(kept_), scratch,
                       kept(spec_, all, arguments)...);
    };
    const bool is_left = std::exchange(leaves_, kWords == kToParameters && leaves_scratch(spec_));
    if constexpr (kWords == kToBottom && requires { requires Op::kLeavesScratch; }) {
      if (is_left) return backend_.on_call(stream, make(Updated(scratch_)));
    }
    backend_.on_call(stream, make(scratch_));
  }

 private:
  WrappedBackend& backend_;
  const Spec spec_;
  std::shared_ptr<Op> op_;  // a call may run later
  DeviceBuffer kept_block_;
  DeviceBuffer scratch_block_;
  DeviceSpan<float> kept_;
  DeviceSpan<float> scratch_;
  bool leaves_ = false;  // the last call may have left something in scratch memory
};

// Route_METHOD<Base> overrides the interface's METHOD, if it has one. An interface with a method of
// another name does not compile here until that name has a line below.
#define TAUT_ROUTE(method, words, Kept)                                              \
  inline constexpr std::string_view kWords_##method = words;                         \
  template <class Base, class Method>                                                \
  class Override_##method;                                                           \
  template <class Base, class Op, class... Arguments>                                \
  class Override_##method<Base, void (Op::*)(Stream&, Arguments...)> : public Base { \
   public:                                                                           \
    using Base::Base;                                                                \
    void method(Stream& stream, Arguments... arguments) override {                   \
      this->template call<kWords_##method, Kept>(&Op::method, stream, arguments...); \
    }                                                                                \
  };                                                                                 \
  template <class Base>                                                              \
  struct Route_##method {                                                            \
    using Type = Base;                                                               \
  };                                                                                 \
  template <class Base>                                                              \
  requires requires {                                                                \
    &Base::Op::method;                                                               \
  }                                                                                  \
  struct Route_##method<Base> {                                                      \
    using Type = Override_##method<Base, decltype(&Base::Op::method)>;               \
  };

TAUT_ROUTE(forward, " forward", DeviceSpan<float>)
TAUT_ROUTE(forward_kept, " forward", DeviceSpan<float>)
TAUT_ROUTE(backward, " backward", Updated)
TAUT_ROUTE(backward_kept, " backward", Updated)
TAUT_ROUTE(backward_bottom, kToBottom, Updated)
TAUT_ROUTE(backward_parameters, kToParameters, Updated)
#undef TAUT_ROUTE

template <class Base, template <class> class... Routes>
struct Chain {
  using Type = Base;
};
template <class Base, template <class> class First, template <class> class... Rest>
struct Chain<Base, First, Rest...> {
  using Type = typename Chain<typename First<Base>::Type, Rest...>::Type;
};

/// The operation `op` of a spec, with its calls through `backend`, which outlives it.
template <class Spec>
[[nodiscard]] std::unique_ptr<typename Spec::Op> wrap(WrappedBackend& backend, const Spec& spec,
                                                      std::unique_ptr<typename Spec::Op> op) {
  using Wrapped =
      typename Chain<Routed<Spec>, Route_forward, Route_forward_kept, Route_backward,
                     Route_backward_kept, Route_backward_bottom, Route_backward_parameters>::Type;
  return std::make_unique<Wrapped>(backend, spec, std::move(op));
}

}  // namespace taut::wrapped
