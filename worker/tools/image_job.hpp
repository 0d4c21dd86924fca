#pragma once

#include <filesystem>
#include <string>

#include "common/result.hpp"
#include "proto/job.pb.h"
#include "proto/tool.pb.h"

namespace taut::worker {

/// A job with a TEST phase that reads given image files in place of its data: with the transform of
/// the data layer that they replace, resized to the net's input.
class ImageJob {
 public:
  /// Errors    invalid: a net that does not have exactly one layer of images, or images of unknown
  ///           size; io: the list of the images cannot be written
  [[nodiscard]] static Result<ImageJob> create(const pb::Job& job, const pb::ToolRequest& request);
  ~ImageJob();
  ImageJob(ImageJob&& other) noexcept;
  ImageJob& operator=(ImageJob&& other) noexcept;

  [[nodiscard]] const pb::Job& job() const { return job_; }
  /// The message of an error from reading the images, without the name of the temporary list.
  [[nodiscard]] std::string without_list(const std::string& message) const;

 private:
  ImageJob() = default;

  pb::Job job_;
  std::filesystem::path list_;  // deleted by the destructor
};

}  // namespace taut::worker
