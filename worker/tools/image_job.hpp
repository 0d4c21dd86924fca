#pragma once

#include <filesystem>
#include <string>

#include "common/result.hpp"
#include "proto/job.pb.h"
#include "proto/tool.pb.h"

namespace taut::worker {

/// A job whose TEST phase reads given image files in place of its data: through the transform of
/// the data layer that they replace, resized to the net's input.
class ImageJob {
 public:
  /// Errors    invalid: a net without exactly one layer of images, or whose size is
  ///           unknown; io: the list of the images cannot be written
  [[nodiscard]] static Result<ImageJob> create(const pb::Job& job, const pb::ToolRequest& request);
  ~ImageJob();
  ImageJob(ImageJob&& other) noexcept;
  ImageJob& operator=(ImageJob&& other) noexcept;

  [[nodiscard]] const pb::Job& job() const { return job_; }
  /// An error of reading the images, without the temporary list that they are read from.
  [[nodiscard]] std::string without_list(const std::string& message) const;

 private:
  ImageJob() = default;

  pb::Job job_;
  std::filesystem::path list_;  // deleted by the destructor
};

}  // namespace taut::worker
