#pragma once

#include "server/coordinator/job_life.hpp"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

/// Chooses the schemes of a job whose compression is AUTO, once every worker that it has says what
/// it has measured: they become part of its definition, which its servers have before any worker
/// opens its tables. No worker trains before.
void advance_compression(JobRecord& job, Notes& notes);

/// Gives a job that is resumed the schemes with which the checkpoint was written, if both jobs have
/// left them open.
void keep_compression(pb::StoredJob& job);

}  // namespace taut
