#include "server/checkpoints/coded_output.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "common/coding/coded_file.hpp"
#include "common/files/sha256.hpp"
#include "common/log.hpp"
#include "proto/formats/checkpoint_manifest.hpp"

namespace taut::server {
namespace {

constexpr std::size_t kReadAtOnce = std::size_t{4} << 20U;

pb::PartRequest request_of(pb::PartRequest::Kind kind, const std::string& folder,
                           const std::string& file) {
  pb::PartRequest request;
  request.set_kind(kind);
  request.set_folder(folder);
  request.set_file(file);
  return request;
}

class CodedOutput final : public CheckpointOutput {
 public:
  CodedOutput(const CaptureOrder& order, ShardId host, const PartDisks& disks, std::string name,
              Striping striping)
      : order_(order),
        host_(host),
        disks_(disks),
        name_(std::move(name)),
        striping_(striping),
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
    TAUT_TRY(disks_.others->settle());
    pb::CheckpointFile file;
    file.set_name(name_);
    file.set_bytes(striping_.file_bytes);
    for (std::size_t i = 0; i < digests_.size(); ++i) {
      pb::PartRequest seal =
          request_of(pb::PartRequest::SEAL, order_.folder, part_file_name(name_, i));
      seal.set_count(striping_.part_bytes());
      TAUT_TRY(send(i, std::move(seal), {}));
      pb::CodedPart& part = *file.add_parts();
      part.set_holder(holder_of(i).name);
      part.set_sha256(digests_[i].finish());
    }
    TAUT_TRY(disks_.others->settle());
    return file;
  }

 private:
  [[nodiscard]] const PartPlace& holder_of(std::size_t part) const {
    return order_.holders[(host_.value() + part) % order_.holders.size()];
  }
  [[nodiscard]] Result<void> put(std::size_t part, std::uint64_t offset,
                                 std::span<const std::byte> bytes) {
    digests_[part].update(bytes);
    pb::PartRequest write =
        request_of(pb::PartRequest::WRITE, order_.folder, part_file_name(name_, part));
    write.set_offset(offset);
    return send(part, std::move(write), bytes);
  }
  [[nodiscard]] Result<void> send(std::size_t part, pb::PartRequest request,
                                  std::span<const std::byte> bytes) {
    const PartPlace& holder = holder_of(part);
    if (holder.name != disks_.server) {
      return disks_.others->post(holder.address, std::move(request), Frame::copy_of(bytes));
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
  std::vector<Sha256> digests_;
  PartEncoder encoder_;
};

/// A part on a server's disk; an empty address: this server's.
class StoredPart final : public RandomRead {
 public:
  StoredPart(const PartDisks& disks, std::string address, std::string folder, std::string name)
      : disks_(disks),
        address_(std::move(address)),
        folder_(std::move(folder)),
        name_(std::move(name)) {}

  [[nodiscard]] Result<void> read(std::uint64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const std::size_t count = std::min(out.size(), kReadAtOnce);
      pb::PartRequest request = request_of(pb::PartRequest::READ, folder_, name_);
      request.set_offset(offset);
      request.set_count(count);
      TAUT_TRY(const DataPartReply reply, ask(std::move(request)));
      if (reply.head.missing() || reply.payload.size() != count) {
        return make_error(ErrorCode::kNotFound, name_ + ": it is gone");
      }
      std::ranges::copy(reply.payload.bytes(), out.begin());
      out = out.subspan(count);
      offset += count;
    }
    return ok();
  }

  /// Whether it is there, and undamaged.
  [[nodiscard]] Result<bool> is_sound(std::uint64_t bytes, const std::string& sha256) const {
    TAUT_TRY(const DataPartReply reply, ask(request_of(pb::PartRequest::CHECK, folder_, name_)));
    return !reply.head.missing() && reply.head.bytes() == bytes && reply.head.sha256() == sha256;
  }

 private:
  [[nodiscard]] Result<DataPartReply> ask(pb::PartRequest request) const {
    if (!address_.empty()) return disks_.others->ask(address_, std::move(request));
    DataPartReply reply = disks_.own->answer({std::move(request), {}});
    if (!reply.head.error().empty()) return make_error(ErrorCode::kIo, reply.head.error());
    return reply;
  }

  const PartDisks disks_;
  const std::string address_;
  const std::string folder_;
  const std::string name_;
};

/// Looks for parts on this server's disk first, then on those of the others.
class PartSearch {
 public:
  PartSearch(const pb::ServerJob& job, const PartDisks& disks)
      : disks_(disks), folder_(job.resume().folder()), addresses_{""} {
    std::set<std::string> known;
    for (const pb::ShardInfo& shard : job.shards()) {
      if (known.insert(shard.address()).second) addresses_.push_back(shard.address());
    }
  }

  [[nodiscard]] std::shared_ptr<const RandomRead> find(const std::string& name, std::uint64_t bytes,
                                                       const std::string& sha256) {
    for (auto address = addresses_.begin(); address != addresses_.end();) {
      const auto part = std::make_shared<StoredPart>(disks_, *address, folder_, name);
      const auto sound = part->is_sound(bytes, sha256);
      if (sound && sound.value()) return part;
      if (!sound) log::warn("{} is not found: {}", name, sound.error().message);
      const bool is_silent = !sound && sound.error().code == ErrorCode::kTimeout;
      address = is_silent ? addresses_.erase(address) : std::next(address);
    }
    return nullptr;
  }

 private:
  const PartDisks disks_;
  const std::string folder_;
  std::vector<std::string> addresses_;
};

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
    if (job.resume().manifest().empty()) return CheckpointReader::open_to_resume(folder);
    auto search = std::make_shared<PartSearch>(job, disks);
    TAUT_TRY(CheckpointReader saved,
             CheckpointReader::open_coded(
                 folder, job.resume().manifest(),
                 [search](const std::string& name, std::uint64_t bytes, const std::string& sha256) {
                   return search->find(name, bytes, sha256);
                 }));
    TAUT_TRY(saved.verify());
    return saved;
  };
}

}  // namespace taut::server
