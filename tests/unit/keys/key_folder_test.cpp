#include "common/keys/key_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/keys/folder_admission.hpp"
#include "common/keys/http_secret.hpp"
#include "common/keys/key_file.hpp"
#include "common/keys/run_keys.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

using namespace taut;
using test::TempFolder;
namespace fs = std::filesystem;

namespace {

mode_t mode_of(const fs::path& path) {
  struct stat found {};
  REQUIRE(stat(path.c_str(), &found) == 0);
  return found.st_mode & 07777U;
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

/// A cluster's keys in a folder of the test's.
struct Keys {
  Keys() { REQUIRE(init_keys(folder)); }
  TempFolder temp;
  fs::path folder = temp.path() / "keys";
};

/// XDG_CONFIG_HOME of this process, for a test's duration.
class ConfigHome {
 public:
  explicit ConfigHome(const fs::path& folder) {
    if (const char* before = std::getenv("XDG_CONFIG_HOME")) before_ = before;
    setenv("XDG_CONFIG_HOME", folder.c_str(), 1);
  }
  ~ConfigHome() {
    if (before_.empty()) {
      unsetenv("XDG_CONFIG_HOME");
    } else {
      setenv("XDG_CONFIG_HOME", before_.c_str(), 1);
    }
  }
  ConfigHome(const ConfigHome&) = delete;
  ConfigHome& operator=(const ConfigHome&) = delete;

 private:
  std::string before_;
};

}  // namespace

TEST_CASE("keys are made in a folder that its owner alone can use", "[keys]") {
  const Keys keys;
  const auto file = add_key(keys.folder, "gpu1", KeyRole::kWorker);
  REQUIRE(file);
  CHECK(mode_of(keys.folder) == 0700);
  CHECK(mode_of(keys.folder / "admitted") == 0700);
  for (const char* name : {"cluster.key", "owner.key", "gpu1.key", "admitted/gpu1"}) {
    CHECK(mode_of(keys.folder / name) == 0600);
  }
  const auto listed = list_keys(keys.folder);
  REQUIRE(listed);
  REQUIRE(listed.value().size() == 2);
  CHECK(listed.value()[0].identity.name == "gpu1");
  CHECK(listed.value()[0].identity.role == KeyRole::kWorker);
  CHECK(listed.value()[1].identity.name == "owner");
}

TEST_CASE("keys that other users can read are refused, with the command that mends it", "[keys]") {
  const Keys keys;
  REQUIRE(add_key(keys.folder, "gpu1", KeyRole::kWorker));
  chmod((keys.folder / "gpu1.key").c_str(), 0640);
  const auto open_file = daemon_security(keys.folder, "gpu1", KeyRole::kWorker);
  REQUIRE_FALSE(open_file);
  CHECK(contains(open_file.error().message, "mode 0640"));
  CHECK(contains(open_file.error().message, "chmod 600 "));
  chmod((keys.folder / "gpu1.key").c_str(), 0600);
  CHECK(daemon_security(keys.folder, "gpu1", KeyRole::kWorker));
  chmod(keys.folder.c_str(), 0755);
  const auto open_folder = daemon_security(keys.folder, "gpu1", KeyRole::kWorker);
  REQUIRE_FALSE(open_folder);
  CHECK(contains(open_folder.error().message, "chmod 700 "));
  CHECK_FALSE(user_security(keys.folder));
  CHECK_FALSE(add_key(keys.folder, "gpu2", KeyRole::kWorker));
  chmod(keys.folder.c_str(), 0700);
}

TEST_CASE("a daemon uses the key of its name and role, or else the owner's", "[keys]") {
  const Keys keys;
  REQUIRE(add_key(keys.folder, "gpu1", KeyRole::kWorker));
  REQUIRE(add_key(keys.folder, "s0", KeyRole::kServer));
  const auto worker = daemon_security(keys.folder, "gpu1", KeyRole::kWorker);
  REQUIRE(worker);
  CHECK(worker.value().cluster_secret.empty());
  CHECK_FALSE(worker.value().admission);
  const auto server = daemon_security(keys.folder, "s0", KeyRole::kServer);
  REQUIRE(server);
  CHECK_FALSE(server.value().cluster_secret.empty());
  const auto holder = server.value().admission->find(worker.value().own.public_key);
  REQUIRE(holder);
  CHECK(holder->name == "gpu1");
  CHECK(holder->role == KeyRole::kWorker);
  CHECK(server.value().admission->find(make_key_pair().public_key) == nullptr);

  const auto wrong = daemon_security(keys.folder, "gpu1", KeyRole::kServer);
  REQUIRE_FALSE(wrong);
  CHECK(contains(wrong.error().message, "has the role worker"));
  const auto unnamed = daemon_security(keys.folder, "another", KeyRole::kWorker);
  REQUIRE(unnamed);
  const auto owner = server.value().admission->find(unnamed.value().own.public_key);
  REQUIRE(owner);
  CHECK(owner->role == KeyRole::kOwner);
}

TEST_CASE("a machine that has one key alone needs no more, and says what is missing", "[keys]") {
  const Keys keys;
  const auto key = add_key(keys.folder, "gpu1", KeyRole::kWorker);
  REQUIRE(key);
  const fs::path other = keys.temp.path() / "other";
  fs::create_directory(other);
  chmod(other.c_str(), 0700);
  fs::copy_file(key.value(), other / "gpu1.key");
  CHECK(daemon_security(other, "gpu1", KeyRole::kWorker));
  const auto missing = daemon_security(other, "gpu2", KeyRole::kWorker);
  REQUIRE_FALSE(missing);
  CHECK(contains(missing.error().message, "tautline keys add gpu2 --role worker"));
  CHECK(contains(missing.error().message, (other / "gpu2.key").string()));
  const auto nothing = daemon_security(other / "none", "gpu1", KeyRole::kWorker);
  REQUIRE_FALSE(nothing);
  CHECK(contains(nothing.error().message, "tautline keys init --keys "));
}

TEST_CASE("a command uses the owner's key, or the only one that is a user's", "[keys]") {
  const Keys keys;
  CHECK(user_security(keys.folder));
  REQUIRE(add_key(keys.folder, "gpu1", KeyRole::kWorker));
  const auto alice = add_key(keys.folder, "alice", KeyRole::kSubmit);
  const auto bob = add_key(keys.folder, "bob", KeyRole::kView);
  fs::remove(keys.folder / "owner.key");
  CHECK_FALSE(user_security(keys.folder));
  fs::remove(bob.value());
  const auto chosen = user_security(keys.folder);
  REQUIRE(chosen);
  const auto listed = list_keys(keys.folder);
  CHECK(chosen.value().own.public_key == listed.value()[0].public_key);
  CHECK(listed.value()[0].identity.name == "alice");
}

TEST_CASE("names that a folder could not keep, and names that are taken, are refused", "[keys]") {
  const Keys keys;
  for (const char* name : {"", ".x", "-x", "a/b", "..", "a b", "owner", "cluster"}) {
    INFO(name);
    CHECK_FALSE(add_key(keys.folder, name, KeyRole::kView));
  }
  CHECK_FALSE(add_key(keys.folder, std::string(129, 'a'), KeyRole::kView));
  REQUIRE(add_key(keys.folder, "a", KeyRole::kView));
  const auto again = add_key(keys.folder, "a", KeyRole::kView);
  REQUIRE_FALSE(again);
  CHECK(again.error().code == ErrorCode::kExists);
  CHECK_FALSE(init_keys(keys.folder));
  CHECK_FALSE(revoke_key(keys.folder, "b"));
  CHECK_FALSE(revoke_key(keys.folder, "owner"));
}

TEST_CASE("a folder's admission follows keys that are added, revoked and made again", "[keys]") {
  const Keys keys;
  const auto admission = FolderAdmission::open(keys.folder / "admitted").value();
  REQUIRE(add_key(keys.folder, "a", KeyRole::kView));
  const auto key = [&] { return list_keys(keys.folder).value()[0].public_key; };
  const std::string first = key();
  CHECK_FALSE(admission->find(first));
  admission->refresh();
  CHECK(admission->find(first));
  REQUIRE(revoke_key(keys.folder, "a"));
  CHECK_FALSE(fs::exists(keys.folder / "a.key"));
  REQUIRE(add_key(keys.folder, "a", KeyRole::kSubmit));
  admission->refresh();
  CHECK_FALSE(admission->find(first));
  REQUIRE(admission->find(key()));
  CHECK(admission->find(key())->role == KeyRole::kSubmit);
}

TEST_CASE("a folder that vanishes or is opened to others revokes nothing", "[keys]") {
  const Keys keys;
  const auto admission = FolderAdmission::open(keys.folder / "admitted").value();
  const std::string owner = list_keys(keys.folder).value()[0].public_key;
  chmod((keys.folder / "admitted").c_str(), 0777);
  REQUIRE(admit_key(keys.folder, {"intruder", KeyRole::kOwner}, make_key_pair().public_key));
  admission->refresh();
  CHECK(admission->find(owner));
  chmod((keys.folder / "admitted").c_str(), 0700);
  fs::remove_all(keys.folder);
  admission->refresh();
  CHECK(admission->find(owner));
}

TEST_CASE("files that are no keys admit no peer and do not hold the others back", "[keys]") {
  const Keys keys;
  const fs::path admitted = keys.folder / "admitted";
  REQUIRE(mkfifo((admitted / "pipe").c_str(), 0600) == 0);
  fs::create_symlink(admitted / "owner", admitted / "link");
  fs::create_directory(admitted / "folder");
  REQUIRE(write_private_file(admitted / "garbage", "\xff\xfe no key\n"));
  REQUIRE(write_private_file(admitted / "huge", std::string(5000, '#')));
  // An entry names itself: one that was renamed by hand is none.
  const auto text = read_private_file(admitted / "owner").value();
  REQUIRE(write_private_file(admitted / "renamed", text));
  const auto admission = FolderAdmission::open(admitted);
  REQUIRE(admission);
  const auto key = parse_key_file(text, "owner").value().own.public_key;
  REQUIRE(admission.value()->find(key));
  CHECK(admission.value()->find(key)->name == "owner");
}

TEST_CASE("a key's file is read as it was written, and mistakes are named", "[keys]") {
  KeyFile file;
  file.identity = {"gpu1", KeyRole::kServer};
  file.own = make_key_pair();
  const KeyPair cluster = make_key_pair();
  file.cluster_key = cluster.public_key;
  file.cluster_secret = cluster.secret_key;
  const auto read = parse_key_file(to_text(file), "k");
  REQUIRE(read);
  CHECK(read.value().identity.name == "gpu1");
  CHECK(read.value().identity.role == KeyRole::kServer);
  CHECK(read.value().own.secret_key == file.own.secret_key);
  CHECK(read.value().cluster_secret == cluster.secret_key);
  for (const std::string bad : {"", "name: gpu1\n", "name: ../x\n", "name: gpu1\nrole: king\n",
                                "secret: short\n", "x\n", "what: 1\n", "name:gpu1\n"}) {
    INFO(bad);
    CHECK_FALSE(parse_key_file(bad, "k"));
  }
  const auto secret = parse_key_file("name: a\nsecret: topsecret\n", "k");
  REQUIRE_FALSE(secret);
  CHECK(contains(secret.error().message, "k:2: "));
  CHECK_FALSE(contains(secret.error().message, "topsecret"));
}

TEST_CASE("the user's own keys are made once, whoever needs them first", "[keys]") {
  const TempFolder temp;
  const ConfigHome home(temp.path() / "config");
  const auto first = ensure_own_keys();
  REQUIRE(first);
  CHECK(first.value() == temp.path() / "config" / "tautline" / "keys");
  CHECK(mode_of(first.value()) == 0700);
  const auto before = list_keys(first.value()).value()[0].public_key;
  REQUIRE(ensure_own_keys());
  CHECK(list_keys(first.value()).value()[0].public_key == before);
  // A making that was interrupted leaves no cluster.key, and is begun again.
  fs::remove(first.value() / "cluster.key");
  REQUIRE(ensure_own_keys());
  CHECK(list_keys(first.value()).value()[0].public_key != before);
  CHECK(user_security(first.value()));
}

TEST_CASE("keys of another cluster in the user's own folder are left alone", "[keys]") {
  const Keys keys;
  const auto key = add_key(keys.folder, "gpu1", KeyRole::kWorker);
  const TempFolder temp;
  const ConfigHome home(temp.path());
  const fs::path own = own_key_folder().value();
  fs::create_directories(own);
  chmod(own.c_str(), 0700);
  fs::copy_file(key.value(), own / "gpu1.key");
  REQUIRE(ensure_own_keys());
  CHECK_FALSE(fs::exists(own / "owner.key"));
  CHECK(daemon_security(own, "gpu1", KeyRole::kWorker));
}

TEST_CASE("processes that make the secret of logins at once have the same one", "[keys]") {
  // Threads have one process's number, as processes of several machines or containers may.
  constexpr int kThreads = 8;
  for (int round = 0; round < 20; ++round) {
    const TempFolder folder;
    std::vector<std::string> secrets(kThreads);
    std::vector<std::thread> threads;
    for (std::string& secret : secrets) {
      threads.emplace_back([&folder, &secret] {
        const auto result = ensure_http_secret(folder.path());
        secret = result ? result.value() : result.error().message;
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(secrets == std::vector<std::string>(kThreads, secrets.front()));
    CHECK(secrets.front().size() == 64);
    // Nothing is left but the secret.
    CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  }
}

TEST_CASE("the secret of logins is made once, and private", "[keys]") {
  Keys keys;
  const auto first = ensure_http_secret(keys.folder);
  REQUIRE(first.has_value());
  CHECK(first.value().size() == 64);
  const auto again = ensure_http_secret(keys.folder);
  REQUIRE(again.has_value());
  CHECK(again.value() == first.value());
  const fs::path path = keys.folder / kHttpSecretFile;
  CHECK(mode_of(path) == 0600);
  fs::permissions(path, fs::perms::group_read, fs::perm_options::add);
  const auto refused = ensure_http_secret(keys.folder);
  REQUIRE_FALSE(refused.has_value());
  CHECK(contains(refused.error().message, "chmod"));
  fs::permissions(path, fs::perms::group_read, fs::perm_options::remove);
  std::ofstream(path) << "short\n";
  const auto damaged = ensure_http_secret(keys.folder);
  REQUIRE_FALSE(damaged.has_value());
  CHECK(contains(damaged.error().message, "remove it"));
}

TEST_CASE("a run's keys go with it, but not those of the next run in its folder", "[keys]") {
  const TempFolder temp;
  const ConfigHome home(temp.path());
  const fs::path folder = temp.path() / "run" / "keys";
  const auto keys_of_a_run = [&folder] {
    auto keys = RunKeys::make(folder);
    REQUIRE(keys);
    return std::move(keys.value());
  };
  std::optional<RunKeys> earlier = keys_of_a_run();
  std::optional<RunKeys> later = keys_of_a_run();
  earlier.reset();
  CHECK(fs::exists(folder / "cluster.key"));
  // Nor while the next one still makes them.
  earlier = keys_of_a_run();
  fs::remove(folder / "run");
  earlier.reset();
  CHECK(fs::exists(folder / "cluster.key"));
  later = keys_of_a_run();
  later.reset();
  CHECK_FALSE(fs::exists(folder));
}
