// How files are cut that travel over a control stream before a job starts (StageData of agent.proto).
#pragma once

#include <cstddef>

namespace muster::proto {

// Bytes sent to an agent that it has not answered yet: enough for a fast disk, little enough that what comes behind
// them is not late.
inline constexpr std::size_t kStageWindow = 512 * 1024;
// To all agents of a job together: what the launcher holds in memory.
inline constexpr std::size_t kStageWindows = 64 * kStageWindow;
// Of one StageData.
inline constexpr std::size_t kStagePiece = 64 * 1024;
// Entries of one StageEntries, and how many there may be.
inline constexpr int kStageEntries = 200;
inline constexpr std::size_t kMostStageEntries = 2'000'000;

}  // namespace muster::proto
