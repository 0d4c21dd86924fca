#include "proto/text.hpp"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>
#if __has_include(<google/protobuf/stubs/logging.h>)
#include <google/protobuf/stubs/logging.h>
#endif

#include <cstddef>
#include <optional>
#include <vector>

#include "common/file.hpp"
#include "proto/caffe_left_out.hpp"
#include "proto/did_you_mean.hpp"

namespace taut {
namespace {

constexpr int kDeepestNesting = 100;
constexpr Bytes kLargestText{16ULL << 20};

/// What stands between `before`, which ends with a quote, and the next quote.
std::optional<std::string> quoted_after(const std::string& text, std::string_view before) {
  const std::size_t start = text.find(before);
  if (start == std::string::npos) return std::nullopt;
  const std::size_t open = start + before.size();
  const std::size_t close = text.find('"', open);
  if (close == std::string::npos) return std::nullopt;
  return text.substr(open, close - open);
}

/// What is known of a field that `type` does not have: Caffe's vocabulary is larger than ours.
std::optional<std::string> known_of(const std::string& field, std::string_view type) {
  const bool older = type == "V1LayerParameter";
  if (older && field == "layer") {
    return std::string(
        "layers { layer { } } is Caffe's vocabulary of 2013, which is not read: bring it up to "
        "date with Caffe's upgrade_net_proto_text");
  }
  if (!older && type != "LayerParameter") return std::nullopt;
  if (field == "blobs") return std::string("values of parameters are read from files of weights");
  const auto why = why_left_out_field(field);
  if (!why) return std::nullopt;
  return "the layer is " + *why;
}

/// Bytes that no text has are said to be such, an unknown field's message gets a near name and
/// loses the type's package; others stay.
std::string in_our_words(const std::string& what) {
  constexpr std::string_view kByte = "Interpreting non ascii codepoint ";
  if (what.starts_with(kByte))
    return "no text file: it holds the byte " + what.substr(kByte.size());
  if (what.starts_with("Invalid control characters")) {
    return "no text file: it holds control characters";
  }
  const auto field = quoted_after(what, "has no field named \"");
  const auto type = quoted_after(what, "Message type \"");
  if (!field || !type) return what;
  std::vector<std::string> known;
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  if (const auto* descriptor = pool->FindMessageTypeByName(*type)) {
    for (int i = 0; i < descriptor->field_count(); ++i) {
      known.push_back(descriptor->field(i)->name());
    }
  }
  const std::string short_type = type->substr(type->rfind('.') + 1);
  if (const auto why = known_of(*field, short_type)) {
    return fmt::format("no field \"{}\" in {}: {}", *field, short_type, *why);
  }
  return fmt::format("no field \"{}\" in {}{}", *field, short_type, did_you_mean(*field, known));
}

/// Keeps the first mistake, with 1-based positions.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  FirstError(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& what) override {
    if (!message_.empty()) return;
    for (const char* before :
         {"has no field named \"", "Unknown enumeration value of \"", "Non-repeated field \""}) {
      if (const auto word = quoted_after(what, before)) step_back_to(*word, line, column);
    }
    message_ = fmt::format("{}:{}:{}: {}", name_, line + 1, column + 1, in_our_words(what));
  }

  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  /// Protobuf reports a word that it does not know at the token that follows; people look for the
  /// word.
  /// REQUIRES: line and column, both from 0, lie within the text or just behind it.
  void step_back_to(const std::string& word, int& line, int& column) const {
    std::vector<std::size_t> line_starts{0};
    for (int i = 0; i < line; ++i) {
      const std::size_t end = text_.find('\n', line_starts.back());
      if (end == std::string_view::npos) return;
      line_starts.push_back(end + 1);
    }
    // Columns count a tab up to the next multiple of 8, so the line's own part of the text is found
    // by walking it.
    std::size_t at = line_starts.back();
    for (int seen = 0; seen < column && at < text_.size() && text_[at] != '\n'; ++at) {
      seen += text_[at] == '\t' ? 8 - seen % 8 : 1;
    }
    const std::size_t found = text_.substr(0, at).rfind(word);
    if (found == std::string_view::npos) return;
    while (line_starts.back() > found) line_starts.pop_back();
    line = static_cast<int>(line_starts.size()) - 1;
    column = static_cast<int>(found - line_starts.back());
  }

  std::string_view text_;
  const std::string& name_;
  std::string message_;
};

}  // namespace

Result<void> parse_text(std::string_view text, const std::string& name,
                        google::protobuf::Message& out) {
  if (text.size() > kLargestText.value()) {
    return invalid(fmt::format("{}: {} bytes of text, the limit is {}", name, text.size(),
                               kLargestText.value()));
  }
  FirstError errors(text, name);
  google::protobuf::TextFormat::Parser parser;
  parser.SetRecursionLimit(kDeepestNesting);
  parser.RecordErrorsTo(&errors);
  google::protobuf::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  if (!parser.Parse(&input, &out)) {
    out.Clear();
    return invalid(errors.message().empty() ? fmt::format("{}: cannot be read", name)
                                            : errors.message());
  }
  return ok();
}

Result<void> read_text(const std::filesystem::path& path, google::protobuf::Message& out) {
  TAUT_TRY(const std::string text, read_file(path, kLargestText));
  return parse_text(text, path.string(), out);
}

std::string to_text(const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  return text;
}

void silence_protobuf() {
  // Releases from 22 on log through Abseil, and not about this.
#if __has_include(<google/protobuf/stubs/logging.h>)
  google::protobuf::SetLogHandler(nullptr);
#endif
}

}  // namespace taut
