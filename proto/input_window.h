// How far the launcher's stdin may run ahead of the ranks that read it (RankInput and InputTaken of agent.proto).
#pragma once

#include <cstddef>

namespace muster::proto {

// Bytes sent for a rank that its agent has not written to it yet. What lies here when a rank ends is lost.
inline constexpr std::size_t kInputWindow = 64 * 1024;
// Of one RankInput.
inline constexpr std::size_t kInputPiece = 16 * 1024;

}  // namespace muster::proto
