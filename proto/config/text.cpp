#include "proto/config/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>
#if __has_include(<google/protobuf/stubs/logging.h>)
#include <google/protobuf/stubs/logging.h>
#endif

#include <cctype>
#include <cstddef>
#include <optional>
#include <vector>

#include "common/did_you_mean.hpp"
#include "common/files/file.hpp"
#include "proto/formats/caffe_left_out.hpp"

namespace taut {
namespace {

constexpr int kMaxNesting = 100;
constexpr Bytes kMaxText{16ULL << 20};

/// The text between `before`, which ends with a quote, and the next quote.
std::optional<std::string> quoted_after(const std::string& text, std::string_view before) {
  const std::size_t start = text.find(before);
  if (start == std::string::npos) return std::nullopt;
  const std::size_t open = start + before.size();
  const std::size_t close = text.find('"', open);
  if (close == std::string::npos) return std::nullopt;
  return text.substr(open, close - open);
}

/// A note on a field that `type` does not have: Caffe's vocabulary is larger than ours.
std::optional<std::string> known_of(const std::string& field, std::string_view type) {
  const bool older = type == "V1LayerParameter";
  if (older && field == "layer") {
    return std::string(
        "layers { layer { } } is Caffe's syntax of 2013, which is not supported: update it with "
        "Caffe's upgrade_net_proto_text");
  }
  if (!older && type != "LayerParameter") return std::nullopt;
  if (field == "blobs") return std::string("values of parameters are read from files of weights");
  const auto why = why_left_out_field(field);
  if (!why) return std::nullopt;
  return "the layer is " + *why;
}

using google::protobuf::Descriptor;

/// The message that contains the end of `before`, from the names before each brace.
const Descriptor* enclosing(const Descriptor& root, std::string_view before) {
  std::vector<const Descriptor*> stack{&root};
  std::string name;
  for (std::size_t at = 0; at < before.size(); ++at) {
    const char c = before[at];
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      const bool begins =
          at == 0 ||
          (std::isalnum(static_cast<unsigned char>(before[at - 1])) == 0 && before[at - 1] != '_');
      name = begins ? std::string(1, c) : name + c;
    } else if (c == '#' || c == '"' || c == '\'') {
      // A comment up to its line's end, a string up to its quote.
      const char end = c == '#' ? '\n' : c;
      while (++at < before.size() && before[at] != end)
        at += c != '#' && before[at] == '\\' ? 1 : 0;
    } else if (c == '{' || c == '<') {
      const auto* field = stack.back() == nullptr ? nullptr : stack.back()->FindFieldByName(name);
      stack.push_back(field == nullptr ? nullptr : field->message_type());
    } else if ((c == '}' || c == '>') && stack.size() > 1) {
      stack.pop_back();
    }
  }
  return stack.back();
}

/// Protobuf names an unknown word and its field, but not the words that are known.
std::string unknown_word(const std::string& word, const std::string& field,
                         const Descriptor* type) {
  std::string problem = fmt::format("{}: no value \"{}\"", field, word);
  const auto* known_field = type == nullptr ? nullptr : type->FindFieldByName(field);
  const auto* known = known_field == nullptr ? nullptr : known_field->enum_type();
  if (known == nullptr) return problem;
  std::vector<std::string> words;
  words.reserve(static_cast<std::size_t>(known->value_count()));
  for (int i = 0; i < known->value_count(); ++i) words.push_back(known->value(i)->name());
  return fmt::format("{}{}; known are {}", problem, did_you_mean(word, words),
                     fmt::join(words, ", "));
}

/// Reports bytes that no text has as such, adds a similar name to an unknown field's message and
/// removes the type's package; other messages stay.
std::string in_our_words(const std::string& what) {
  constexpr std::string_view kByte = "Interpreting non ascii codepoint ";
  if (what.starts_with(kByte))
    return "not a text file: it contains the byte " + what.substr(kByte.size());
  if (what.starts_with("Invalid control characters")) {
    return "not a text file: it contains control characters";
  }
  if (what == "Expected integer, got: -") {
    return "a number below 0, where the field takes whole numbers from 0 on";
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

/// Keeps the first error, with 1-based positions.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  FirstError(std::string_view text, const std::string& name, const Descriptor& root)
      : text_(text), name_(name), root_(root) {}

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& what) override {
    if (!message_.empty()) return;
    std::size_t at = 0;
    for (const char* before :
         {"has no field named \"", "Unknown enumeration value of \"", "Non-repeated field \""}) {
      if (const auto word = quoted_after(what, before)) at = step_back_to(*word, line, column);
    }
    const auto word = quoted_after(what, "Unknown enumeration value of \"");
    const auto field = quoted_after(what, "for field \"");
    const std::string problem =
        word && field ? unknown_word(*word, *field, enclosing(root_, text_.substr(0, at)))
                      : in_our_words(what);
    message_ = fmt::format("{}:{}:{}: {}", name_, line + 1, column + 1, problem);
  }

  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  /// Protobuf reports a word that it does not know at the token that follows; people look for the
  /// word. Returns where in the text it is; 0: it was not found.
  /// REQUIRES: line and column, both from 0, are within the text or just after it.
  std::size_t step_back_to(const std::string& word, int& line, int& column) const {
    std::vector<std::size_t> line_starts{0};
    for (int i = 0; i < line; ++i) {
      const std::size_t end = text_.find('\n', line_starts.back());
      if (end == std::string_view::npos) return 0;
      line_starts.push_back(end + 1);
    }
    // Columns count a tab up to the next multiple of 8, so the position in the line is found
    // by walking it.
    std::size_t at = line_starts.back();
    for (int seen = 0; seen < column && at < text_.size() && text_[at] != '\n'; ++at) {
      seen += text_[at] == '\t' ? 8 - seen % 8 : 1;
    }
    const std::size_t found = text_.substr(0, at).rfind(word);
    if (found == std::string_view::npos) return 0;
    while (line_starts.back() > found) line_starts.pop_back();
    line = static_cast<int>(line_starts.size()) - 1;
    column = static_cast<int>(found - line_starts.back());
    return found;
  }

  std::string_view text_;
  const std::string& name_;
  const Descriptor& root_;
  std::string message_;
};

}  // namespace

Result<void> parse_text(std::string_view text, const std::string& name,
                        google::protobuf::Message& out) {
  if (text.size() > kMaxText.value()) {
    return invalid(
        fmt::format("{}: {} bytes of text, the limit is {}", name, text.size(), kMaxText.value()));
  }
  FirstError errors(text, name, *out.GetDescriptor());
  google::protobuf::TextFormat::Parser parser;
  parser.SetRecursionLimit(kMaxNesting);
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
  TAUT_TRY(const std::string text, read_file(path, kMaxText));
  return parse_text(text, path.string(), out);
}

std::string to_text(const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  return text;
}

void silence_protobuf() {
  // Releases from 22 on log through Abseil, but not in this case.
#if __has_include(<google/protobuf/stubs/logging.h>)
  google::protobuf::SetLogHandler(nullptr);
#endif
}

}  // namespace taut
