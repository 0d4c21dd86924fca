#pragma once

#include "server/coordinator/job_life.hpp"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

/// Chooses the schemes of a job whose compression is AUTO, once each of its workers has reported
/// its measurements: they become part of the job's definition, which its servers have before any
/// worker opens its tables. No worker trains earlier.
void advance_compression(JobRecord& job, Notes& notes);

/// Gives a job that resumes a checkpoint the schemes with which it was written, if both jobs leave
/// the choice open.
void keep_compression(pb::StoredJob& job);

}  // namespace taut
