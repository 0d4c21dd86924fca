#include "server/coordinator/etcd/etcd_client.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/check.hpp"

namespace taut {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Why a request failed. Streamed requests, such as lease keep-alives, have an object as the error.
std::string reason_of(const nlohmann::json& content, const std::string& body) {
  const auto text_of = [](const nlohmann::json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
  };
  if (!content.is_object()) return body.substr(0, 200);
  const auto error = content.find("error");
  return error != content.end() && error->is_object() ? text_of(*error, "message")
                                                      : text_of(content, "error");
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  // With room for the final zero.
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

Result<std::string> from_base64(std::string_view text) {
  // Padding in the last group of four stands for no byte.
  const std::size_t digits = std::min(text.find_first_not_of(kDigits), text.size());
  const std::size_t padding = text.size() - digits;
  const bool is_padded = text.substr(digits).find_first_not_of('=') == std::string_view::npos;
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  if (text.size() % 4 != 0 || padding > 2 || !is_padded || size < 0) {
    return invalid("etcd's answer holds a value that is not base64");
  }
  bytes.resize(static_cast<std::size_t>(size) - padding);
  return bytes;
}

EtcdClient::EtcdClient(const EtcdOptions& options) : wait_(options.wait), first_(options.first) {
  TAUT_CHECK(!options.members.empty(), "etcd has a member");
  for (const std::string& member : options.members) members_.emplace_back(member);
}

Result<nlohmann::json> EtcdClient::call(const std::string& path, const nlohmann::json& request) {
  const std::string text = request.dump();
  std::string reasons;
  // Copies of the options may name fewer members.
  std::size_t known = *first_;
  std::size_t member = known % members_.size();
  for (std::size_t tries = 0; tries < members_.size(); ++tries) {
    Result<nlohmann::json> answer = ask(members_[member], path, text);
    if (answer || answer.error().code != ErrorCode::kUnavailable) return answer;
    reasons += (reasons.empty() ? "" : "; ") + answer.error().message;
    const std::size_t next = (member + 1) % members_.size();
    // Unless another client has found a member that answers meanwhile.
    if (first_->compare_exchange_strong(known, next)) known = next;
    member = next;
  }
  return make_error(ErrorCode::kUnavailable, "no member of etcd answers: " + reasons);
}

Result<nlohmann::json> EtcdClient::ask(http::HttpClient& member, const std::string& path,
                                       const std::string& request) {
  const auto answer = member.post(path, request, wait_);
  if (!answer) return make_error(ErrorCode::kUnavailable, answer.error().message);
  auto content = nlohmann::json::parse(answer.value().body, nullptr, false);
  if (answer.value().status == 200 && content.is_object()) return content;
  const std::string message =
      fmt::format("etcd at {}{}: status {}: {}", member.address(), path, answer.value().status,
                  reason_of(content, answer.value().body));
  // 5xx: no leader, or overloaded. Another member or a later attempt may succeed.
  const bool may_pass = answer.value().status >= 500 || answer.value().status == 200;
  return make_error(may_pass ? ErrorCode::kUnavailable : ErrorCode::kInvalid, message);
}

}  // namespace taut
