#include "cli/node/meeting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "common/files/file.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxNoticeBytes = 64 << 10;

Error io(const fs::path& path, const std::error_code& failed) {
  return make_error(ErrorCode::kIo, fmt::format("{}: {}", path.string(), failed.message()));
}

Result<NodeNotice> read_notice(const fs::path& file) {
  TAUT_TRY(const std::string text, read_file(file, Bytes(kMaxNoticeBytes)));
  try {
    const auto json = nlohmann::json::parse(text);
    return NodeNotice{.rank = json.at("rank"),
                      .host = json.at("host"),
                      .servers = json.at("servers"),
                      .workers = json.at("workers"),
                      .build = json.at("build")};
  } catch (const nlohmann::json::exception& failed) {
    return invalid(fmt::format("{}: {}", file.string(), failed.what()));
  }
}

}  // namespace

Result<void> Meeting::clear() {
  std::error_code failed;
  fs::remove(folder_ / "leader", failed);
  if (!failed) fs::remove_all(folder_ / "nodes", failed);
  if (!failed) fs::create_directories(folder_ / "nodes", failed);
  if (failed) return io(folder_, failed);
  return ok();
}

Result<void> Meeting::open(const std::string& coordinator) {
  return write_file_atomically(folder_ / "leader", fmt::format("coordinator {}\n", coordinator));
}

Result<void> Meeting::close(int status) {
  std::error_code failed;
  fs::create_directories(folder_, failed);
  return write_file_atomically(folder_ / "leader", fmt::format("ended {} {}\n", status, attempt_));
}

Meeting::Leader Meeting::leader() const {
  const auto text = read_file(folder_ / "leader", Bytes(kMaxNoticeBytes));
  if (!text) return {};
  std::istringstream words(text.value());
  std::string kind;
  Leader leader;
  words >> kind;
  if (kind == "coordinator") {
    words >> leader.coordinator;
  } else if (int status = 0; kind == "ended" && words >> status) {
    leader.status = status;
    std::string attempt;
    leader.is_of_this_attempt = words >> attempt && attempt == attempt_;
  }
  return leader;
}

void Meeting::leave(std::uint32_t rank) {
  std::error_code none;
  fs::remove(folder_ / "nodes" / fmt::format("{}.json", rank), none);
}

Result<void> Meeting::join(const NodeNotice& notice) {
  const nlohmann::ordered_json json = {{"rank", notice.rank},
                                       {"host", notice.host},
                                       {"servers", notice.servers},
                                       {"workers", notice.workers},
                                       {"build", notice.build}};
  return write_file_atomically(folder_ / "nodes" / fmt::format("{}.json", notice.rank),
                               json.dump() + "\n");
}

Result<std::vector<NodeNotice>> Meeting::notices() const {
  std::vector<NodeNotice> found;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder_ / "nodes", failed)) {
    if (entry.path().extension() != ".json") continue;
    TAUT_TRY(found.emplace_back(), read_notice(entry.path()));
  }
  if (failed) return io(folder_ / "nodes", failed);
  std::ranges::sort(found, {}, &NodeNotice::rank);
  return found;
}

}  // namespace taut::cli
