// Converts events of a job to the bytes that the job store keeps, and back. Pure.
//
// Secrets: no event holds a value of an environment variable; model/job_event.h has no field for one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "model/job_event.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::proto {

// Longer details of ranks and reasons of jobs are cut between characters (base::shortened()).
constexpr std::size_t kLongestDetail = 512;
constexpr std::size_t kLongestReason = 4096;
// The size limit of a job's end. gRPC's own limit for a message is twice that.
constexpr std::size_t kLongestEnd = std::size_t{2} << 20;

// Returns a muster.v1.Event without its number, which the store assigns. A job-end event that is too long is
// shortened. The ends of the ranks have their own events.
std::string stored_event(const model::JobEvent& event, base::WallTime time);
// DATA_LOSS if the bytes are not an event, or JSON cannot express its time. Keeps fields and kinds of a newer
// launcherd.
base::Result<v1::Event> event_of_store(std::string_view bytes, std::uint64_t sequence);

}  // namespace muster::proto
