#include "server/checkpoints/coded_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "common/coding/coded_file.hpp"
#include "common/files/sha256.hpp"
#include "common/log.hpp"
#include "proto/formats/checkpoint_manifest.hpp"

namespace taut::server {
namespace {

constexpr std::size_t kReadAtOnce = std::size_t{4} << 20U;

class CodedOutput final : public CheckpointOutput {
 public:
  CodedOutput(const CaptureOrder& order, ShardId host, const PartDisks& disks, std::string name,
              Striping striping)
      : order_(order),
        host_(host),
        disks_(disks),
        name_(std::move(name)),
        striping_(striping),
        posts_(*disks.others),
        digests_(order.data + order.parity),
        encoder_(ReedSolomon(order.data, order.parity), striping,
                 [this](std::size_t part, std::uint64_t offset, std::span<const std::byte> bytes) {
                   return put(part, offset, bytes);
                 }) {}

  [[nodiscard]] Result<void> append(std::span<const std::byte> bytes) override {
    return encoder_.append(bytes);
  }

  [[nodiscard]] Result<pb::CheckpointFile> commit() override {
    TAUT_TRY(encoder_.finish());
    TAUT_TRY(posts_.settle());
    pb::CheckpointFile file;
    file.set_name(name_);
    file.set_bytes(striping_.file_bytes);
    for (std::size_t i = 0; i < digests_.size(); ++i) {
      pb::PartRequest seal = request_of(pb::PartRequest::SEAL, i);
      seal.set_count(striping_.part_bytes());
      TAUT_TRY(send(i, std::move(seal), {}));
      pb::CodedPart& part = *file.add_parts();
      part.set_holder(holder_of(i).name);
      part.set_sha256(digests_[i].finish());
    }
    TAUT_TRY(posts_.settle());
    return file;
  }

 private:
  [[nodiscard]] pb::PartRequest request_of(pb::PartRequest::Kind kind, std::size_t part) const {
    return part_request(kind, order_.token, order_.folder, part_file_name(name_, part));
  }
  [[nodiscard]] const PartPlace& holder_of(std::size_t part) const {
    return order_.holders[(host_.value() + part) % order_.holders.size()];
  }
  [[nodiscard]] Result<void> put(std::size_t part, std::uint64_t offset,
                                 std::span<const std::byte> bytes) {
    digests_[part].update(bytes);
    pb::PartRequest write = request_of(pb::PartRequest::WRITE, part);
    write.set_offset(offset);
    return send(part, std::move(write), bytes);
  }
  [[nodiscard]] Result<void> send(std::size_t part, pb::PartRequest request,
                                  std::span<const std::byte> bytes) {
    const PartPlace& holder = holder_of(part);
    if (holder.name != disks_.server) {
      return posts_.post(holder.address, std::move(request), Frame::copy_of(bytes));
    }
    const DataPartReply reply = disks_.own->answer({std::move(request), Frame(nullptr, bytes)});
    if (!reply.head.error().empty()) return make_error(ErrorCode::kIo, reply.head.error());
    return ok();
  }

  const CaptureOrder order_;
  const ShardId host_;
  const PartDisks disks_;
  const std::string name_;
  const Striping striping_;
  PartPosts posts_;
  std::vector<Sha256> digests_;
  PartEncoder encoder_;
};

/// The disks that are searched for a resumed job's checkpoint. A server that fails to answer once
/// counts as lost from then on: each further wait for it would be as long as the first one.
/// Thread    any
class SearchedDisks {
 public:
  SearchedDisks(const pb::ServerJob& job, const PartDisks& disks)
      : disks_(disks), resume_(job.resume()), addresses_{""} {
    std::set<std::string> known;
    for (const pb::ShardInfo& shard : job.shards()) {
      if (known.insert(shard.address()).second) addresses_.push_back(shard.address());
    }
  }

  [[nodiscard]] const pb::ResumePoint& resume() const { return resume_; }
  /// This server's own, which has an empty address, first.
  [[nodiscard]] const std::vector<std::string>& addresses() const { return addresses_; }

  [[nodiscard]] Result<DataPartReply> ask(const std::string& address, pb::PartRequest::Kind kind,
                                          const std::string& file, std::uint64_t offset = 0,
                                          std::uint64_t count = 0) {
    pb::PartRequest request = part_request(kind, resume_.token(), resume_.folder(), file);
    request.set_offset(offset);
    request.set_count(count);
    if (address.empty()) {
      DataPartReply reply = disks_.own->answer({std::move(request), {}});
      if (!reply.head.error().empty()) return make_error(ErrorCode::kIo, reply.head.error());
      return reply;
    }
    if (is_lost(address)) {
      return make_error(ErrorCode::kTimeout, "the server at " + address + " did not answer before");
    }
    auto reply = disks_.others->ask(address, std::move(request));
    if (!reply && reply.error().code == ErrorCode::kTimeout) {
      log::warn("{}: it counts as lost", reply.error().message);
      const std::scoped_lock lock(mutex_);
      lost_.insert(address);
    }
    return reply;
  }

 private:
  [[nodiscard]] bool is_lost(const std::string& address) {
    const std::scoped_lock lock(mutex_);
    return lost_.contains(address);
  }

  const PartDisks disks_;
  const pb::ResumePoint resume_;
  std::vector<std::string> addresses_;
  std::mutex mutex_;
  std::set<std::string> lost_;
};

/// A file on a server's disk.
class StoredFile final : public RandomRead {
 public:
  StoredFile(std::shared_ptr<SearchedDisks> disks, std::string address, std::string name)
      : disks_(std::move(disks)), address_(std::move(address)), name_(std::move(name)) {}

  [[nodiscard]] Result<void> read(std::uint64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const std::size_t count = std::min(out.size(), kReadAtOnce);
      TAUT_TRY(const DataPartReply reply,
               disks_->ask(address_, pb::PartRequest::READ, name_, offset, count));
      if (reply.head.missing() || reply.payload.size() != count) {
        return make_error(ErrorCode::kNotFound, name_ + ": no longer exists");
      }
      std::ranges::copy(reply.payload.bytes(), out.begin());
      out = out.subspan(count);
      offset += count;
    }
    return ok();
  }

 private:
  const std::shared_ptr<SearchedDisks> disks_;
  const std::string address_;
  const std::string name_;
};

/// A part at the first server whose disk has it undamaged; nullptr if none has.
std::shared_ptr<const RandomRead> find_part(const std::shared_ptr<SearchedDisks>& disks,
                                            const std::string& name, std::uint64_t bytes,
                                            const std::string& sha256) {
  for (const std::string& address : disks->addresses()) {
    const auto checked = disks->ask(address, pb::PartRequest::CHECK, name);
    if (!checked) {
      // A server that is lost is reported once.
      if (checked.error().code != ErrorCode::kTimeout) {
        log::warn("{} is not found: {}", name, checked.error().message);
      }
      continue;
    }
    const pb::PartReply& head = checked.value().head;
    if (!head.missing() && head.bytes() == bytes && head.sha256() == sha256) {
      return std::make_shared<StoredFile>(disks, address, name);
    }
  }
  return nullptr;
}

/// The manifest, from any server that has it.
Result<std::string> find_manifest(const std::shared_ptr<SearchedDisks>& disks) {
  const std::string& sha256 = disks->resume().manifest_sha256();
  for (const std::string& address : disks->addresses()) {
    const auto checked = disks->ask(address, pb::PartRequest::CHECK, kManifestName);
    if (!checked || checked.value().head.missing()) continue;
    const pb::PartReply& head = checked.value().head;
    if (head.sha256() != sha256 || head.bytes() > kMaxManifestBytes) continue;
    std::string text(head.bytes(), '\0');
    const StoredFile file(disks, address, kManifestName);
    if (file.read(0, std::as_writable_bytes(std::span(text)))) return text;
  }
  return make_error(
      ErrorCode::kUnavailable,
      fmt::format("{}/{}: no server of the job has it on its disk with the SHA-256 {}...",
                  disks->resume().folder(), kManifestName, sha256.substr(0, 12)));
}

}  // namespace

MakeOutput coded_files(const CaptureOrder& order, ShardId host, const PartDisks& disks) {
  return [order, host, disks](const std::string& name,
                              std::uint64_t bytes) -> Result<std::unique_ptr<CheckpointOutput>> {
    if (order.holders.empty()) return invalid(name + ": the order names no server for its parts");
    const Striping striping{order.data, order.block_bytes, bytes};
    return std::unique_ptr<CheckpointOutput>(
        std::make_unique<CodedOutput>(order, host, disks, name, striping));
  };
}

OpenSaved saved_on(const PartDisks& disks) {
  return [disks](const pb::ServerJob& job) -> Result<CheckpointReader> {
    const std::string& folder = job.resume().folder();
    if (job.resume().manifest_sha256().empty()) return CheckpointReader::open_to_resume(folder);
    const auto searched = std::make_shared<SearchedDisks>(job, disks);
    TAUT_TRY(const std::string manifest, find_manifest(searched));
    TAUT_TRY(CheckpointReader saved,
             CheckpointReader::open_coded(folder, manifest,
                                          [searched](const std::string& name, std::uint64_t bytes,
                                                     const std::string& digest) {
                                            return find_part(searched, name, bytes, digest);
                                          }));
    TAUT_TRY(saved.readable());
    return saved;
  };
}

}  // namespace taut::server
