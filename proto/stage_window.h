// Sizes of staged files on a control stream (StageEntries and StageData of agent.proto).
#pragma once

#include <cstddef>

namespace muster::proto {

// Bytes sent to one agent and not yet answered. This is enough for a fast disk, and small enough not to delay later
// messages.
inline constexpr std::size_t kStageWindow = 512 * 1024;
// Unanswered bytes to all agents of a job together. This bounds the launcher's memory.
inline constexpr std::size_t kStageWindows = 64 * kStageWindow;
// Bytes of one StageData.
inline constexpr std::size_t kStagePiece = 64 * 1024;
// Entries of one StageEntries, and of one staged path.
inline constexpr int kStageEntries = 200;
inline constexpr std::size_t kMostStageEntries = 2'000'000;

}  // namespace muster::proto
