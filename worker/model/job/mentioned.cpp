#include "worker/model/job/mentioned.hpp"

#include <fmt/format.h>

#include "common/files/file.hpp"
#include "proto/config/text.hpp"

namespace taut::model {

Result<std::filesystem::path> read_mentioned(const char* field, const std::string& named,
                                             const std::filesystem::path& mentioned_in,
                                             google::protobuf::Message& out) {
  auto found = find_mentioned(named, mentioned_in);
  if (!found) {
    return make_error(found.error().code, fmt::format("{}: {} {}", mentioned_in.string(), field,
                                                      found.error().message));
  }
  TAUT_TRY(read_text(found.value(), out));
  return found.value();
}

}  // namespace taut::model
