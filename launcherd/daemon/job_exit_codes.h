// Exit codes of jobs that launcherd ends itself (docs/user-guide.md, "Exit codes").
#pragma once

#include <csignal>

namespace muster::launcherd::inline daemon {

inline constexpr int kTimedOut = 124;
inline constexpr int kMusterFailed = 125;
inline constexpr int kTerminated = 128 + SIGTERM;

}  // namespace muster::launcherd::daemon
