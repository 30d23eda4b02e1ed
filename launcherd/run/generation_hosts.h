// The interface through which a job gets other hosts between two generations. In launcherd the queue owns the hosts: a
// job uses another host only after the queue has allocated it, and after the job store has recorded that.
//
// Owner: the owner of the RestartingJob, which borrows it.
// Thread: loop thread only.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "launcherd/run/generation_planner.h"
#include "model/host_spec.h"
#include "model/placement.h"

namespace muster::launcherd::inline run {

// The next generation of a job, as it must be stored.
struct GenerationChange {
  int number = 0;
  model::Placement placement;  // without shares
  GenerationState state;       // after this change
};

// The end of a generation whose successor waits for hosts.
struct GenerationWait {
  GenerationEnd end{};
  std::string reason{};                     // of the end, for people
  std::vector<std::string> unclean{};       // hosts where processes may be left
  std::vector<model::FailedHost> failed{};  // all hosts that the job leaves out now
};

// Why the size of a job changes.
enum class ResizeCause {
  kAsked,       // a user
  kPreemption,  // launcherd, for a waiting job of higher priority
  kGrowth,      // launcherd, because slots were free
};

struct ResizeReason {
  ResizeCause cause = ResizeCause::kAsked;
  std::string text{};  // one phrase for people; empty with kAsked
};

// The stored state of a job's generations, from an earlier launcherd.
struct ResumedGeneration {
  GenerationState state{};
  std::optional<GenerationWait> wait{};         // set if no generation runs
  std::optional<int> resize_to{};               // set if the generation is being ended to have this size
  std::vector<model::HostSpec> resize_hosts{};  // with resize_to: hosts to add first
  ResizeReason resize_reason{};                 // with resize_to
  std::string last_change{};                    // the newest change, one line; empty if there was none
};

enum class Availability {
  kNow,     // hosts that are free now
  kAtBest,  // hosts that could be free at some time
};

using Stored = std::function<void(const base::Status&)>;

class GenerationHosts {
 public:
  virtual ~GenerationHosts() = default;
  // Returns hosts with slots for the job beside those that it has, the best first.
  virtual std::vector<model::HostSpec> offers(Availability when) = 0;
  // The job goes on as `change` says. Its event follows. Calls when_stored() before an agent starts.
  virtual void change(const GenerationChange& change) = 0;
  // Calls `done` once the disk has what the next launcherd needs to find the job as it is now. After an error the job
  // must not go on as if the disk had it.
  virtual void when_stored(Stored done) = 0;
  // No generation runs until RestartingJob::hosts_changed() finds enough hosts. `why` says what is missing.
  virtual void wait(const GenerationWait& wait, const std::string& why) = 0;
  // All ranks of a later generation have started, so long after the event that ended the one before.
  virtual void runs_again(base::Duration taken) = 0;
};

}  // namespace muster::launcherd::run
