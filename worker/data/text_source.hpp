#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "common/result.hpp"
#include "proto/net.pb.h"
#include "worker/data/record_source.hpp"
#include "worker/data/vocabulary.hpp"

namespace taut::data {

/// The fields of a record of text, each of T steps, T x N in a batch: the units' numbers; their
/// labels, the numbers of the units that follow them; the cont markers; and a mask, 0 where a step
/// is padding (number 0, labelled text_param.ignore_label). From a record's second step on its
/// markers are 1 (model::begins_at_start).
[[nodiscard]] RecordShape text_fields(const pb::TextParameter& text);

/// Opens a text, plain or gzip: `place` itself, or its input.txt[.gz] if it is a folder.
///
/// STREAMS  the text is one long sequence, cut into as many equal streams as there are places in
///          all members' batches. At each clock a place advances T steps in its stream, and at its
///          end it wraps to the start (cont 0). Records are in pairs: 2 k continues with part k,
///          2 k + 1 starts with it
/// LINES    each non-empty line with a line end is a record, and its end is the last label; a
///          record is truncated to T steps
/// part     the training part is the text without its last test_share, the test part that share,
///          or the whole text if test_share is 0
/// Errors   not_found; invalid: a text that is too short, fields that are out of range
[[nodiscard]] Result<std::shared_ptr<const RecordSource>> open_text(
    const pb::TextParameter& text, const std::filesystem::path& place, Part part);

/// The vocabulary of a text's training part, or of vocabulary_source if set.
[[nodiscard]] Result<Vocabulary> text_vocabulary(const pb::TextParameter& text,
                                                 const std::filesystem::path& place);

}  // namespace taut::data
