// How busy the host's GPUs are, by what muster-gpus has told. Pure.
#pragma once

#include "agent/gpus/report.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent {

// Adds to `load`, and completes what is there already (how busy AMD's are is read elsewhere: host_load.h). `in_hello`:
// GPUs that the report does not have are left as they are.
void add_gpu_loads(const google::protobuf::RepeatedPtrField<v1::Gpu>& in_hello, const gpus::GpuReport& report,
                   v1::HostLoad& load);

}  // namespace muster::agent
