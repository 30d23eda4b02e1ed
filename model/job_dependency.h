// A job that waits for other jobs: --after JOB[:ok|any]. Plain values and pure functions.
//
// Thread: any.
#pragma once

#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/status.h"
#include "model/job_state.h"

namespace muster::model {

// Numbers are stored and sent (DependencyCondition of launcher.proto), so never change or reuse them.
enum class AfterEnd {
  kOk = 1,   // the awaited job has succeeded
  kAny = 2,  // the awaited job has ended, in any way
};

struct JobDependency {
  base::JobId job;  // the awaited job
  AfterEnd condition = AfterEnd::kOk;

  bool operator==(const JobDependency&) const = default;
};

// The state of the awaited job, as seen by the job that waits for it.
enum class Dependency {
  kWaits,
  kMet,    // the waiting job may start
  kNever,  // the awaited job has ended in another way, so the waiting job can never start
};
Dependency judge(AfterEnd condition, JobState awaited);

// Returns "the success of job k7abcdef" or "the end of job k7abcdef".
std::string describe(const JobDependency& dependency);

// The words of --after. `job` is an id, the beginning of one, or a name.
struct DependencyWords {
  std::string job;
  AfterEnd condition = AfterEnd::kOk;
};
// INVALID_ARGUMENT: `text` has no job, or another word than ok or any after its last colon. The message is one sentence
// that does not name the option.
base::Result<DependencyWords> parse_dependency(std::string_view text);

}  // namespace muster::model
