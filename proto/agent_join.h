// The values of AgentJoin (agent.proto) that have a meaning of their own.
#pragma once

#include <cstdint>

#include "proto/muster/v1/agent.pb.h"

namespace muster::proto {

// AgentJoin.idle_timeout_ms of a warm agent that hvdrun keeps between the generations of one job. Such an agent ends
// with its log-in connection, as an agent of one job does. It does not end because it has no job.
inline constexpr std::int64_t kUntilLogInEnds = -1;

inline bool is_kept(const v1::AgentJoin& join) {
  return join.warm() && join.idle_timeout_ms() < 0;
}

// True for all agents of hvdrun, false for those of launcherd.
inline bool ends_with_log_in(const v1::AgentJoin& join) {
  return !join.warm() || is_kept(join);
}

}  // namespace muster::proto
