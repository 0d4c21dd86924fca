#pragma once

namespace taut {

/// Handles SIGINT and SIGTERM: from now on they set a flag instead of ending the process. A
/// third one ends it at once.
/// Thread    main, before other threads start
void watch_stop_signals();

/// The signal that requested this process to end; 0 if none. Thread: any.
[[nodiscard]] int stop_signal();
/// Whether the request was repeated, half a second later or more. Thread: any.
[[nodiscard]] bool stop_is_urgent();

/// Blocks SIGPIPE and, if `with_parent`, lets the kernel end this process when its parent
/// ends.
void settle_process_signals(bool with_parent);

}  // namespace taut
