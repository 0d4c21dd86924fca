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

/// What a record of text holds, each of T steps, T x N in a batch: the units' numbers; their
/// labels, which are the numbers of the units that follow; the cont markers; and a mask, 0 where a
/// step is padding (number 0, labelled text_param.ignore_label). From a record's second step on its
/// markers are 1 (model::begins_at_start).
[[nodiscard]] RecordShape text_fields(const pb::TextParameter& text);

/// Opens a text, plain or gzip: `place` itself, or input.txt[.gz] where it is a folder.
///
/// STREAMS  the text is one long sequence, cut into as many equal streams as there are places in
///          all members' batches. At each clock a place goes T steps on in its stream, again from
///          the beginning (cont 0) after the end. Its records come in pairs: 2 k continues with
///          part k, 2 k + 1 starts with it
/// LINES    each line that has an end and is not empty is a record, its end the last label; what is
///          longer than T is cut off
/// part     the training part is the text without its last test_share, the test part that share,
///          or the whole text where test_share is 0
/// Errors   not_found; invalid: a text too short, fields that cannot be
[[nodiscard]] Result<std::shared_ptr<const RecordSource>> open_text(
    const pb::TextParameter& text, const std::filesystem::path& place, Part part);

/// The vocabulary of a text's training part, or of vocabulary_source where that is given.
[[nodiscard]] Result<Vocabulary> text_vocabulary(const pb::TextParameter& text,
                                                 const std::filesystem::path& place);

}  // namespace taut::data
