#pragma once

namespace taut {

/// Takes SIGINT and SIGTERM over: from now on they set a flag instead of ending the process. A
/// third one ends it at once.
/// Thread    main, before others start
void watch_stop_signals();

/// The signal that asked this process to end; 0: none has. Thread: any.
[[nodiscard]] int stop_signal();

/// Blocks SIGPIPE and asks the kernel to end this process when its parent does, where
/// `with_parent`.
void settle_process_signals(bool with_parent);

}  // namespace taut
