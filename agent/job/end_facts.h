// Turns what the warden knows about a failed rank into the facts that the launcher gets, and finds its core.
// Thread: any. May read the folder into which the kernel has just written a core.
#pragma once

#include "agent/process/core_file.h"
#include "agent/process/warden_events.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::agent::inline job {

// Sets no field for a rank that did not fail, or that Muster ended.
v1::EndFacts end_facts_of(const RankExited& exited, const CoreSettings& settings);

}  // namespace muster::agent::job
