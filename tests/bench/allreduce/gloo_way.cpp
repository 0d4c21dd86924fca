#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "tests/bench/allreduce/way.hpp"

namespace taut::bench {
namespace {

/// As PyTorch's backend "gloo" calls it: in place, with the default algorithm.
class GlooWay final : public Way {
 public:
  explicit GlooWay(const Place& place) {
    const std::filesystem::path folder = place.folder / "gloo";
    std::filesystem::create_directories(folder);
    gloo::rendezvous::FileStore store(folder.string());
    auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
    context_ = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(place.rank),
                                                           static_cast<int>(place.ranks));
    context_->connectFullMesh(store, device);
  }

  std::string name() const override { return "Gloo, TCP"; }
  std::span<float> values(std::uint64_t count) override {
    values_.resize(count);
    return values_;
  }
  void sum() override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values_.data(), values_.size());
    void (*add)(void*, const void*, const void*, std::size_t) = &gloo::sum<float>;
    options.setReduceFunction(add);
    gloo::allreduce(options);
  }

 private:
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<float> values_;
};

}  // namespace

std::unique_ptr<Way> gloo_way(const Place& place) {
  return std::make_unique<GlooWay>(place);
}

}  // namespace taut::bench
