#include "worker/data/sparse/text_window.hpp"

#include <span>
#include <utility>

namespace taut::data {

Result<TextWindow> TextWindow::open(const std::filesystem::path& path) {
  TAUT_TRY(GzStream stream, GzStream::open(path));
  return TextWindow(std::move(stream));
}

Result<bool> TextWindow::extend() {
  constexpr std::size_t kBlockBytes = std::size_t{1} << 20U;
  bytes_.erase(0, begin_);
  begin_ = 0;
  if (has_ended_ || bytes_.size() >= kMaxBytes) return false;
  const std::size_t kept = bytes_.size();
  bytes_.resize(kept + kBlockBytes);
  const auto count = stream_.read(std::as_writable_bytes(std::span(bytes_).subspan(kept)));
  bytes_.resize(kept + (count ? count.value() : 0));
  if (!count) return count.error();
  has_ended_ = count.value() < kBlockBytes;
  return true;
}

}  // namespace taut::data
