#include "proto/formats/resume_point.hpp"

#include "proto/formats/checkpoint_reader.hpp"

namespace taut {

Result<pb::ResumePoint> resume_point(const std::filesystem::path& folder) {
  TAUT_TRY(const SavedCheckpoint saved, find_saved(folder));
  const pb::CheckpointManifest& manifest = saved.manifest;
  pb::ResumePoint resume;
  resume.set_folder(saved.folder.string());
  resume.set_clock(manifest.clock());
  resume.set_slots(manifest.slots());
  if (manifest.has_compression()) *resume.mutable_compression() = manifest.compression();
  if (manifest.has_coding()) {
    resume.set_manifest_sha256(saved.manifest_sha256);
    resume.set_token(manifest.token());
  }
  return resume;
}

}  // namespace taut
