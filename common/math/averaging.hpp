#pragma once

#include <span>

namespace taut::math {

/// What one worker contributes to a shared value that a shard updates by plain SGD with rate 1:
/// minus the value to be added. Periodic averaging: the worker's movement since it received
/// `shared`, of which the shard takes the mean over the members, so that the shared value becomes
/// the mean of all.
/// update     [n] written: shared - local
/// Source     McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
///            Data", AISTATS 2017, algorithm 1; Stich, "Local SGD Converges Fast and Communicates
///            Little", ICLR 2019, algorithm 1
void periodic_update(std::span<const float> local, std::span<const float> shared,
                     std::span<float> update);

/// Elastic averaging: the worker moves towards the shared value by rate * (local - shared), and
/// sends the same for the shared value, which the shard adds up.
/// local      [n] updated in place: local - rate * (local - shared)
/// update     [n] written: -rate * (local - shared)
/// Source     Zhang, Choromanska and LeCun, "Deep learning with Elastic Averaging SGD", NIPS 2015,
///            algorithm 1
void elastic_update(float rate, std::span<float> local, std::span<const float> shared,
                    std::span<float> update);

}  // namespace taut::math
