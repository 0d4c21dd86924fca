#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <ostream>

namespace taut {

/// A strongly typed integer: two ids with different tags do not mix.
template <class Tag, class Rep>
class Id {
 public:
  using rep = Rep;

  constexpr Id() = default;
  explicit constexpr Id(Rep value) : value_(value) {}

  [[nodiscard]] constexpr Rep value() const { return value_; }
  friend constexpr auto operator<=>(Id, Id) = default;
  friend std::ostream& operator<<(std::ostream& out, Id id) { return out << id.value_; }

 private:
  Rep value_{};
};

}  // namespace taut

template <class Tag, class Rep>
struct std::hash<taut::Id<Tag, Rep>> {
  std::size_t operator()(taut::Id<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value());
  }
};
