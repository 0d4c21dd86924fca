#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "tests/support/catch.hpp"
#include "worker/engine/backend.hpp"
#include "worker/engine/plan/planned_backend.hpp"

// Whole trainings of the models in configs/models on made-up data, for tests.
namespace taut::test {

using Tables = std::vector<std::vector<float>>;

/// A CPU backend with one thread.
[[nodiscard]] std::unique_ptr<Backend> one_thread();

struct Fed {
  std::vector<std::int64_t> shape;
  std::uint32_t classes = 0;  // 0: noise
};

/// A model of configs/models with made-up data in place of the model's.
[[nodiscard]] pb::Job job_of(const std::string& model, const std::vector<Fed>& fed);
/// LeNet with its own batch.
[[nodiscard]] pb::Job lenet();

/// Trains without a server.
/// budget  that the backend keeps to; 0: none
[[nodiscard]] Result<Tables> train(Backend& backend, const pb::Job& job, std::int64_t clocks,
                                   std::uint32_t replicas = 1, Bytes budget = Bytes(0));
/// Trains as the only worker of a server's, with the cache of a device with its own memory, or
/// with the backend's own one.
enum class CacheOf : std::uint8_t { kBackend, kDevice };
[[nodiscard]] Result<Tables> train_served(Backend& backend, const pb::Job& job, std::int64_t clocks,
                                          CacheOf cache = CacheOf::kBackend);

}  // namespace taut::test
