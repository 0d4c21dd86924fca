#pragma once

#include <initializer_list>

namespace taut {

/// Handles SIGINT, SIGTERM and `more`: from now on they set a flag instead of ending the process. A
/// third one ends it at once. A SIGTERM that the parent has set to be ignored stays ignored.
/// Thread    main, before other threads start
void watch_stop_signals(std::initializer_list<int> more = {});

/// The signal that requested this process to end; 0 if none. Thread: any.
[[nodiscard]] int stop_signal();
/// Whether the request was repeated, half a second later or more. Thread: any.
[[nodiscard]] bool stop_is_urgent();

/// Ignores SIGPIPE and, if `with_parent`, has the kernel send this process SIGTERM when its
/// parent ends.
void settle_process_signals(bool with_parent);

}  // namespace taut
