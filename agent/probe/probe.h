// An agent that examines its host and runs no job. It answers the commands of proto/muster/v1/probe.proto on stdin
// and stdout until EOF.
#pragma once

#include "base/env.h"
#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline probe {

// Blocks. Call it while the process has one thread. Error: stdin or stdout failed, or a command was invalid.
base::Status serve_probe(const v1::AgentJoin& join, const base::Environment& login_environment);

}  // namespace muster::agent::probe
