#pragma once

#include <concepts>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "worker/engine/ops/elementwise.hpp"
#include "worker/engine/ops/sequence.hpp"
#include "worker/engine/ops/update.hpp"
#include "worker/engine/plan/device_call.hpp"

// Converts the arguments of a call to operands, and back at other addresses. Only for code that
// wraps a backend.
namespace taut::wrapped {

/// A span that a call writes in part.
struct WrittenInPart {
  DeviceSpan<float> span;
};

using ReadList = std::vector<DeviceSpan<const float>>;
using UpdatedList = std::vector<Updated>;

/// The addresses of a call's operands, taken in turn.
class Places {
 public:
  explicit Places(std::span<std::byte* const> addresses) : addresses_(addresses) {}
  template <class T>
  [[nodiscard]] DeviceSpan<T> take(DeviceSpan<T> named) {
    if (named.empty()) return named;
    TAUT_CHECK(next_ < addresses_.size(), "an operand without an address");
    return {reinterpret_cast<T*>(addresses_[next_++]), named.size()};
  }

 private:
  std::span<std::byte* const> addresses_;
  std::size_t next_ = 0;
};

template <class T>
void note(std::vector<Operand>& operands, DeviceSpan<T> span, AccessMode mode) {
  if (span.empty()) return;
  auto* const address = const_cast<float*>(static_cast<const float*>(span.address()));
  operands.push_back({reinterpret_cast<std::byte*>(address), span.size_bytes(), mode});
}

/// For each type of argument: its operands, and the same argument at other addresses. Any other
/// type has no operands.
template <class T>
struct Argument {
  static void collect(std::vector<Operand>&, const T&) {}
  static const T& place(Places&, const T& value) { return value; }
};

template <>
struct Argument<DeviceSpan<const float>> {
  static void collect(std::vector<Operand>& operands, DeviceSpan<const float> span) {
    note(operands, span, AccessMode::kRead);
  }
  static DeviceSpan<const float> place(Places& places, DeviceSpan<const float> span) {
    return places.take(span);
  }
};

template <>
struct Argument<DeviceSpan<float>> {
  static void collect(std::vector<Operand>& operands, DeviceSpan<float> span) {
    note(operands, span, AccessMode::kWrite);
  }
  static DeviceSpan<float> place(Places& places, DeviceSpan<float> span) {
    return places.take(span);
  }
};

template <>
struct Argument<Updated> {
  static void collect(std::vector<Operand>& operands, Updated span) {
    note(operands, span, AccessMode::kReadWrite);
  }
  static Updated place(Places& places, Updated span) { return places.take<float>(span); }
};

template <>
struct Argument<WrittenInPart> {
  static void collect(std::vector<Operand>& operands, WrittenInPart part) {
    note(operands, part.span, AccessMode::kWritePart);
  }
  static DeviceSpan<float> place(Places& places, WrittenInPart part) {
    return places.take(part.span);
  }
};

template <std::derived_from<MaybeRead> T>
struct Argument<T> {
  static void collect(std::vector<Operand>& operands, const T& span) {
    note<const float>(operands, span, AccessMode::kRead);
  }
  static T place(Places& places, const T& span) { return T(places.take<const float>(span)); }
};

template <>
struct Argument<ReadList> {
  static void collect(std::vector<Operand>& operands, const ReadList& list) {
    for (const auto& span : list) note(operands, span, AccessMode::kRead);
  }
  static ReadList place(Places& places, const ReadList& list) {
    ReadList placed;
    for (const auto& span : list) placed.push_back(places.take(span));
    return placed;
  }
};

template <>
struct Argument<UpdatedList> {
  static void collect(std::vector<Operand>& operands, const UpdatedList& list) {
    for (const Updated& updated : list) Argument<Updated>::collect(operands, updated);
  }
  static std::vector<DeviceSpan<float>> place(Places& places, const UpdatedList& list) {
    std::vector<DeviceSpan<float>> placed;
    for (const Updated& updated : list) placed.push_back(places.take<float>(updated));
    return placed;
  }
};

template <>
struct Argument<std::vector<Term>> {
  static void collect(std::vector<Operand>& operands, const std::vector<Term>& terms) {
    for (const Term& term : terms) note(operands, term.values, AccessMode::kRead);
  }
  static std::vector<Term> place(Places& places, std::vector<Term> terms) {
    for (Term& term : terms) term.values = places.take(term.values);
    return terms;
  }
};

template <>
struct Argument<std::vector<DeviceGradient>> {
  static void collect(std::vector<Operand>& operands, const std::vector<DeviceGradient>& all) {
    for (const DeviceGradient& one : all) note(operands, one.values, AccessMode::kRead);
  }
  static std::vector<DeviceGradient> place(Places& places, std::vector<DeviceGradient> all) {
    for (DeviceGradient& one : all) one.values = places.take(one.values);
    return all;
  }
};

template <class T>
struct Argument<RecurrentParameters<T>> {
  using Span = Argument<DeviceSpan<T>>;
  static void collect(std::vector<Operand>& operands, const RecurrentParameters<T>& all) {
    Span::collect(operands, all.input_weight);
    Span::collect(operands, all.input_bias);
    Span::collect(operands, all.hidden_weight);
    Span::collect(operands, all.hidden_bias);
  }
  static RecurrentParameters<T> place(Places& places, RecurrentParameters<T> all) {
    all.input_weight = places.take(all.input_weight);
    all.input_bias = places.take(all.input_bias);
    all.hidden_weight = places.take(all.hidden_weight);
    all.hidden_bias = places.take(all.hidden_bias);
    return all;
  }
};

/// The call `function(stream, arguments...)`.
template <class Function, class... Arguments>
[[nodiscard]] DeviceCall make_call(std::string_view what, Function function,
                                   Arguments... arguments) {
  DeviceCall call;
  call.what = what;
  (Argument<Arguments>::collect(call.operands, arguments), ...);
  call.run = [function = std::move(function), ... arguments = std::move(arguments)](
                 Stream& stream, std::span<std::byte* const> addresses) {
    Places places(addresses);
    // Braces: the arguments take their places from left to right.
    const std::tuple<decltype(Argument<Arguments>::place(places, arguments))...> placed{
        Argument<Arguments>::place(places, arguments)...};
    std::apply([&](const auto&... at) { function(stream, at...); }, placed);
  };
  return call;
}

}  // namespace taut::wrapped
