// The exit codes of hvdrun and of muster's verbs that several files use (docs/user-guide.md, "Exit codes").
#pragma once

namespace muster::cli::inline options {

inline constexpr int kNotAnswered = 1;  // a launcher or a host did not answer
inline constexpr int kUsageError = 2;   // usage or configuration; nothing was started
inline constexpr int kMusterFailed = 125;
inline constexpr int kStdoutClosed = 141;

}  // namespace muster::cli::options
