#include "proto/session/coordinator_addresses.hpp"

namespace taut {

std::vector<std::string> listed_addresses(const std::string& text) {
  std::vector<std::string> all;
  std::size_t from = 0;
  while (true) {
    const std::size_t comma = text.find(',', from);
    std::string one = text.substr(from, comma - from);
    one.erase(0, one.find_first_not_of(' '));
    one.erase(one.find_last_not_of(' ') + 1);
    all.push_back(std::move(one));
    if (comma == std::string::npos) return all;
    from = comma + 1;
  }
}

const std::string& CoordinatorAddresses::next(const std::string& leader) {
  if (!leader.empty() && leader != current_) {
    current_ = leader;
  } else {
    index_ = (index_ + 1) % all_.size();
    current_ = all_[index_];
  }
  return current_;
}

}  // namespace taut
