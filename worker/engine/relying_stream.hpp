#pragma once

#include "worker/engine/stream.hpp"

namespace taut {

/// A stream of a device whose results depend on other devices' memory.
class RelyingStream {
 public:
  RelyingStream() = default;
  RelyingStream(const RelyingStream&) = delete;
  RelyingStream& operator=(const RelyingStream&) = delete;
  virtual ~RelyingStream() = default;

  /// From now on every wait for this stream's device fails if the other stream's device has failed:
  /// values read from its memory may never have been computed.
  /// other  a stream of the same kind of device; must live until this ends or rely_on_none()
  virtual void rely_on(Stream& other) = 0;
  virtual void rely_on_none() noexcept = 0;
};

}  // namespace taut
