// After a job's processes have ended: waits until the GPUs' drivers have released their memory, so that whoever comes
// next finds it free. A killed process is reaped before its GPU memory is; some s for large ones.
//
// NVIDIA's driver and AMD's KFD list a process until then. Of the job are its ranks, what was left over of it, and
// whoever has ended on the GPUs that it was given and was not listed there before it: children of ranks that ended
// before anybody could name them. Where numbers cannot be used - Intel's drivers list the living only; in a PID
// namespace the numbers may be the host's - what is in use on those GPUs is compared with what was before the job.
//
// Loop thread only; owned by a job's JobGpus. One wait at a time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/gpus/given_gpus.h"
#include "agent/gpus/gpu_names.h"
#include "agent/gpus/reader.h"
#include "base/loop.h"

namespace muster::agent::inline gpus {

// No process has this number here, not even as a zombie.
bool has_ended(pid_t pid);

// A GPU of any make, or a part of a divided one.
struct SeenGpu {
  GpuName name{};
  std::optional<std::uint64_t> used{};
  bool shows_dead = true;
  bool foreign_pids = false;
  std::vector<gpus::GpuProcess> processes{};
};

// `known`: as name_of() takes it. A divided GPU has those processes that are on none of its parts, which follow it.
std::vector<SeenGpu> see(const gpus::GpuReport& report, const std::vector<model::GpuShape>& known);

// How the GPUs were before the job.
struct GpusBefore {
  std::map<GpuName, std::uint64_t> in_use{};     // bytes that no living process accounts for, of the GPUs that tell
  std::set<std::pair<GpuName, pid_t>> others{};  // who was listed
};
// `is_others`: it was there before the job.
GpusBefore before_job(const std::vector<SeenGpu>& seen, const std::function<bool(pid_t)>& is_gone,
                      const std::function<bool(pid_t)>& is_others);

// What is to be released.
struct EndedProcesses {
  std::map<pid_t, std::string> pids{};  // with what to call each
  bool are_all_numbered = true;         // else there are more, whose numbers here are not known
  GivenGpus gpus{};                     // where the job had memory
  std::optional<GpusBefore> before{};   // they ran; nullopt: nobody has looked
};

// What an ended process of the job still has, or may have.
struct HeldMemory {
  GpuName gpu{};
  pid_t pid = 0;  // 0: not known; `bytes` more than before the job are in use
  std::optional<std::uint64_t> bytes{};
  std::string whose{};  // "rank 5"; empty: it was no rank, and no leftover
  std::string why{};    // no number is known

  bool operator==(const HeldMemory&) const = default;
};

// Those that a GPU lists and that are gone: a number that lives again is another's. Pure but for `is_gone`.
std::vector<HeldMemory> held_memory(const std::vector<SeenGpu>& seen, const EndedProcesses& ended,
                                    const std::function<bool(pid_t)>& is_gone);

// GPUs of the job where numbers do not tell and more is in use than before, by more than kSlack.
struct GrownMemory {
  std::vector<HeldMemory> held{};
  std::string unknown{};  // why of some GPU nothing can be said; empty: of all it can, or nobody's driver would
};
inline constexpr std::uint64_t kSlack = std::uint64_t{256} << 20;  // what drivers take for themselves comes and goes
GrownMemory grown_memory(const std::vector<SeenGpu>& seen, const EndedProcesses& ended,
                         const std::function<bool(pid_t)>& is_gone);

// "GPU 3 still holds 1.2 GB of rank 5 (pid 1234), which has ended"
std::string describe(const HeldMemory& held);

inline constexpr std::chrono::milliseconds kReleasePatience{8'000};

class GpuRelease {
 public:
  // `sentences`: what is held after the patience, or why nobody knows; empty: all is released.
  using Done = std::function<void(const std::vector<std::string>& sentences)>;

  // What it is given by reference outlives it. `told`: what is wrong with NVIDIA's library, as the job's user has been
  // told: not said again.
  GpuRelease(base::Loop& loop, gpus::Reader& reader, const std::vector<model::GpuShape>& known, std::string told = {},
             std::chrono::milliseconds patience = kReleasePatience)
      : loop_(loop), reader_(reader), known_(known), told_(std::move(told)), patience_(patience) {}
  GpuRelease(const GpuRelease&) = delete;
  GpuRelease& operator=(const GpuRelease&) = delete;

  // `done` comes from the loop, once.
  void begin(EndedProcesses ended, Done done);
  // What begin() was not told yet: before the first look at the latest.
  void learn_before(GpusBefore before) { ended_.before = std::move(before); }

 private:
  void look();
  void judge(const base::Result<gpus::GpuReport>& report);
  std::string why_untold(const gpus::GpuReport& report) const;
  void give_up();
  void finish(std::vector<std::string> sentences);

  base::Loop& loop_;
  gpus::Reader& reader_;
  const std::vector<model::GpuShape>& known_;
  const std::string told_;
  const std::chrono::milliseconds patience_;
  EndedProcesses ended_;
  Done done_;
  std::vector<HeldMemory> held_;  // at the last look
  bool is_stale_ = false;         // the look that is under way began before this asked
  base::Timer deadline_;
  base::Timer again_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace muster::agent::gpus
