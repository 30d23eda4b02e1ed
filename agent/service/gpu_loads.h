// How busy the host's GPUs are, by what muster-gpus has told. Pure.
#pragma once

#include "agent/gpus/report.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent {

// `in_hello`: GPUs that the report does not have are left out.
void add_gpu_loads(const google::protobuf::RepeatedPtrField<v1::Gpu>& in_hello, const gpus::GpuReport& report,
                   v1::HostLoad& load);

}  // namespace muster::agent
