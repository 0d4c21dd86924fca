#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace taut {

/// The addresses of a text that may list several, separated by commas.
[[nodiscard]] std::vector<std::string> listed_addresses(const std::string& text);

/// The addresses at which a coordinator may be, and the one to try.
class CoordinatorAddresses {
 public:
  /// text  as in the cluster file: "a:7600,b:7600"
  explicit CoordinatorAddresses(const std::string& text)
      : text_(text), all_(listed_addresses(text)), current_(all_.front()) {}

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::string& current() const { return current_; }
  [[nodiscard]] std::size_t count() const { return all_.size(); }
  /// The address to try from now on: the leader that was named, or the next in the list.
  const std::string& next(const std::string& leader);

 private:
  std::string text_;
  std::vector<std::string> all_;
  std::string current_;
  std::size_t index_ = 0;
};

}  // namespace taut
