// Converts reports of hangs and what ranks do between messages and values.
// Thread: any; pure.
#pragma once

#include "model/hang_report.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::proto {

// Text of programs becomes valid UTF-8. At most 32 calls are kept.
v1::RankEvidence to_proto(const model::RankEvidence& evidence);
v1::NcclFinding to_proto(const model::NcclFinding& finding);
v1::HangReport to_proto(const model::HangReport& report);

// Negative times become 0.
model::RankEvidence evidence_of(const v1::RankEvidence& message);
model::NcclFinding nccl_finding_of(const v1::NcclFinding& message);
model::HangReport hang_report_of(const v1::HangReport& message);

}  // namespace muster::proto
