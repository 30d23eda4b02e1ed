// Converts between the wire's messages and the model's values.
//
// Thread: any; all functions are pure.
// Errors: bad values are clamped or reported, never trusted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/container.h"
#include "model/exit_report.h"
#include "model/job_event.h"
#include "model/node_shape.h"
#include "model/placement.h"
#include "model/ulimit.h"
#include "proto/muster/v1/agent.pb.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::proto {

using EnvList = std::vector<std::pair<std::string, std::string>>;

v1::GpuVendor to_proto(model::GpuVendor vendor);
std::optional<model::GpuVendor> vendor_of(v1::GpuVendor vendor);  // nullopt if a newer peer sent it

model::NodeShape node_shape_of(const v1::Hello& hello);
void set_node_shape(const model::NodeShape& shape, v1::Hello& hello);

void set_environment(const EnvList& from, google::protobuf::RepeatedPtrField<v1::EnvVar>& to);
EnvList environment_of(const google::protobuf::RepeatedPtrField<v1::EnvVar>& from);

void set_limits(const std::vector<model::Ulimit>& limits, v1::Launch& launch);
std::vector<model::Ulimit> limits_of(const v1::Launch& launch);  // not checked: the kernel refuses wrong values

v1::Container to_proto(const model::Container& container);
model::Container container_of(const v1::Container& container);

v1::Placement to_proto(const model::Placement& placement);
void set_roles(const std::vector<model::RoleRanks>& from, google::protobuf::RepeatedPtrField<v1::RoleRanks>& to);
v1::RankEnd to_proto(const model::RankEnd& end);
model::RankEnd rank_end_of(const v1::RankEnd& end);
void set_failed_hosts(const std::vector<model::FailedHost>& from,
                      google::protobuf::RepeatedPtrField<v1::FailedHost>& to);
std::vector<model::FailedHost> failed_hosts_of(const google::protobuf::RepeatedPtrField<v1::FailedHost>& from);
// Leaves out the placement.
model::GenerationBegan generation_of(const v1::GenerationBegan& began);
model::FirstCollectiveEnded first_collective_of(const v1::FirstCollectiveEnded& ended);
model::WrongWorld wrong_world_of(const v1::WrongWorld& wrong);
model::LateHost late_host_of(const v1::LateHost& late);
model::HostsLeftOut left_out_of(const v1::HostsLeftOut& left_out);
// Converts an agent's report. Host and time are not set.
model::RankEnd rank_end_of(const v1::RankExited& exited);
model::RankEnd rank_end_of(const v1::RankStartFailed& failed);

}  // namespace muster::proto
