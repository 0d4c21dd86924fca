// Secrets of a plain data plane, as values.
#include "common/net/data_token.hpp"

#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/net/security.hpp"
#include "tests/support/catch.hpp"

using namespace taut;

namespace {

TokenScope member_scope() {
  return {.use = TokenUse::kTrain,
          .public_key = make_key_pair().public_key,
          .job = JobId(7),
          .submission = 0x1234567890abcdefULL,
          .worker = WorkerId(3),
          .incarnation = Incarnation(1ULL << 40U)};
}

std::string changed(const Frame& frame, std::size_t byte, unsigned bit) {
  std::string bytes(frame.text());
  bytes[byte] = static_cast<char>(static_cast<unsigned char>(bytes[byte]) ^ (1U << bit));
  return bytes;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

TEST_CASE("a secret proves the scope that it was made for", "[keys]") {
  const TokenKey key(make_key_pair().secret_key);
  for (const TokenUse use :
       {TokenUse::kRead, TokenUse::kTrain, TokenUse::kServe, TokenUse::kCheck}) {
    TokenScope scope = member_scope();
    scope.use = use;
    const DataToken token = key.make(scope);
    CHECK(token.request().size() == DataToken::kRequestBytes);
    CHECK(token.answer().size() == DataToken::kAnswerBytes);
    const auto proved = key.check(token.request().bytes());
    REQUIRE(proved);
    CHECK(*proved == scope);
  }
}

TEST_CASE("a secret of which any bit is changed proves nothing", "[keys]") {
  const TokenKey key(make_key_pair().secret_key);
  const DataToken token = key.make(member_scope());
  for (std::size_t byte = 0; byte < token.request().size(); ++byte) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      CAPTURE(byte, bit);
      CHECK_FALSE(key.check(bytes_of(changed(token.request(), byte, bit))));
    }
  }
  const std::string whole(token.request().text());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK_FALSE(key.check(bytes_of(whole.substr(0, size))));
  }
  CHECK_FALSE(key.check(bytes_of(whole + '\0')));
}

TEST_CASE("a secret of another cluster proves nothing", "[keys]") {
  const TokenKey ours(make_key_pair().secret_key);
  const TokenKey theirs(make_key_pair().secret_key);
  CHECK_FALSE(ours.check(theirs.make(member_scope()).request().bytes()));
}

TEST_CASE("each part of a scope gives other secrets, for requests and for answers", "[keys]") {
  const TokenKey key(make_key_pair().secret_key);
  const TokenScope one = member_scope();
  std::vector<TokenScope> scopes(7, one);
  scopes[1].use = TokenUse::kRead;
  scopes[2].public_key = make_key_pair().public_key;
  scopes[3].job = JobId(8);
  scopes[4].submission += 1;
  scopes[5].worker = WorkerId(4);
  scopes[6].incarnation = Incarnation(one.incarnation.value() + 1);
  std::set<std::string> secrets;
  for (const TokenScope& scope : scopes) {
    const DataToken token = key.make(scope);
    secrets.emplace(token.request().text().substr(DataToken::kRequestBytes - 32));
    secrets.emplace(token.answer().text());
  }
  CHECK(secrets.size() == 2 * scopes.size());
  // A coordinator that starts again, or another one of the cluster, makes the same.
  CHECK(same_secret(key.make(one).request(), key.make(one).request()));
}

TEST_CASE("what is not of a token's lengths is none", "[keys]") {
  const TokenKey key(make_key_pair().secret_key);
  const DataToken token = key.make(member_scope());
  const std::string request(token.request().text());
  const std::string answer(token.answer().text());
  CHECK(DataToken::from(request, answer));
  CHECK_FALSE(DataToken::from("", ""));
  CHECK_FALSE(DataToken::from(request, answer + "x"));
  CHECK_FALSE(DataToken::from(request.substr(1), answer));
  CHECK_FALSE(same_secret(Frame::copy_of(answer), Frame::copy_of(answer + "x")));
  CHECK_FALSE(same_secret(Frame::copy_of(answer), Frame::copy_of(changed(token.answer(), 31, 0))));
}
