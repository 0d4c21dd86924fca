#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "proto/config/job_state.hpp"
#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/data/idx_bytes.hpp"
#include "worker/cache/local_cache.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"
#include "worker/job_run.hpp"
#include "worker/training/trainer.hpp"

namespace taut::test {

inline constexpr std::uint32_t kWorkers = 2;
inline constexpr Clock kEnd{6};
inline const std::atomic<bool> kNoStop = false;

/// A job of two inner products on made-up images of 6 x 5.
class TinyJob {
 public:
  TinyJob() {
    for (const std::string part : {"train", "t10k"}) {
      folder_.write(part + "-images-idx3-ubyte", idx_images(40, 6, 5));
      folder_.write(part + "-labels-idx1-ubyte", idx_labels(40));
    }
    const std::string text =
        "name: 'tiny' seed: 42 "
        "net_param { "
        "  layer { name: 'in' type: 'Data' top: 'data' top: 'label' "
        "          data_param { batch_size: 4 } transform_param { scale: 0.00390625 } } "
        "  layer { name: 'one' type: 'InnerProduct' bottom: 'data' top: 'one' "
        "          inner_product_param { num_output: 7 weight_filler { type: 'xavier' } } } "
        "  layer { name: 'relu' type: 'ReLU' bottom: 'one' top: 'one' } "
        "  layer { name: 'two' type: 'InnerProduct' bottom: 'one' top: 'two' "
        "          inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } } "
        "  layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'two' bottom: 'label' top: 'loss' "
        "} "
        "} "
        "solver_param { base_lr: 0.1 momentum: 0.9 weight_decay: 0.001 max_iter: 6 } "
        "data { folder: '" +
        folder_.path().string() + "' }";
    REQUIRE(parse_text(text, "job", job).has_value());
  }
  [[nodiscard]] worker::JobAssets assets() const {
    auto opened = worker::JobAssets::open(job, kWorkers);
    INFO((opened ? std::string() : opened.error().message));
    REQUIRE(opened.has_value());
    return std::move(opened.value());
  }

  pb::Job job;

 private:
  TempFolder folder_;
};

inline std::unique_ptr<Backend> cpu() {
  BackendOptions options;
  options.device = DeviceKind::kCpu;
  options.threads = 1;
  return make_cpu_backend(options);
}

inline worker::Trainer::Options until(Clock end) {
  worker::Trainer::Options options;
  options.end = end;
  return options;
}

inline std::unique_ptr<LocalCache> local_cache(const TinyJob& tiny, const worker::JobAssets& assets,
                                               Backend& backend, std::size_t replicas) {
  LocalCache::Options options;
  options.seed = tiny.job.seed();
  options.replicas = replicas;
  options.rule = to_update_rule(tiny.job.solver_param()).value();
  return std::make_unique<LocalCache>(backend, assets.train_graph().parameters, options);
}

}  // namespace taut::test
