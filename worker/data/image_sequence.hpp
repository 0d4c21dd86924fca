#pragma once

#include <cstdint>
#include <memory>

#include "common/result.hpp"
#include "proto/net.pb.h"
#include "worker/data/record_source.hpp"

// Sequences made of images of one channel.
namespace taut::data {

/// The fields that `image_rows` makes from images of this shape: H rows of W as H x N x W in a
/// batch, and the label. Errors: invalid, images of several channels.
[[nodiscard]] Result<RecordShape> row_fields(const RecordShape& images);

/// Each image as the sequence of its rows, from the top.
[[nodiscard]] Result<std::shared_ptr<const RecordSource>> image_rows(
    std::shared_ptr<const RecordSource> images);

/// The fields that `moving_images` makes: frames as T x N x 1 x S x S in a batch, and the label.
[[nodiscard]] RecordShape clip_fields(const pb::ClipParameter& clip);

/// Each image as a clip: it moves over a dark S x S square in a straight line and bounces off the
/// sides. The label is its initial direction, 0 to 7: right, then clockwise in steps of 45 degrees;
/// a single frame does not show it. Start, direction and speed (2 to 4 pixels per frame) are
/// random: in training drawn again each time, in testing fixed for each record.
/// Errors    invalid: a square that the images do not fit into, no frames, several channels
/// Source    the moving digits of Srivastava et al., "Unsupervised Learning of Video
///           Representations using LSTMs", ICML 2015, section 3, with one digit
[[nodiscard]] Result<std::shared_ptr<const RecordSource>> moving_images(
    std::shared_ptr<const RecordSource> images, const pb::ClipParameter& clip, Part part);

}  // namespace taut::data
