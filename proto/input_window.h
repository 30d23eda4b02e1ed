// Limits how far the launcher may send stdin ahead of the ranks that read it (RankInput, InputTaken of agent.proto).
#pragma once

#include <cstddef>

namespace muster::proto {

// Bytes sent for a rank and not yet written to it by its agent. They are lost if the rank ends.
inline constexpr std::size_t kInputWindow = 64 * 1024;
// Bytes of one RankInput.
inline constexpr std::size_t kInputPiece = 16 * 1024;
// Bytes of a command's output (ExecOutput) that the agent sends before the launcher has passed them on.
inline constexpr std::size_t kExecWindow = 256 * 1024;
// Bytes of one ExecOutput.
inline constexpr std::size_t kExecPiece = 32 * 1024;

}  // namespace muster::proto
