// An agent that looks at its host and runs no job: answers the commands of proto/muster/v1/probe.proto on stdin and
// stdout until EOF.
#pragma once

#include "base/env.h"
#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline probe {

// Blocks. To be called while the process has one thread. The error: stdin or stdout failed, or a command made no sense.
base::Status serve_probe(const v1::AgentJoin& join, const base::Environment& login_environment);

}  // namespace muster::agent::probe
