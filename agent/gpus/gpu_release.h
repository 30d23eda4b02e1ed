// Waits after a job until the GPUs' drivers have released the memory of the job's processes, so that the next user
// finds it free. The kernel reaps a killed process before its GPU memory is released; large memories take some
// seconds.
//
// By pid: NVIDIA's driver and AMD's KFD list a process until its memory is released. Processes of the job are its
// ranks and its killed leftovers. An ended process on the job's GPUs counts, too, if it was not listed before the
// job. Such a process is the child of a rank, and ended before the agent could see it.
// By amount: where pids cannot be used, the agent compares the memory in use on the job's GPUs with that before the
// job. Intel's drivers list only living processes, and in a PID namespace the pids may be the host's.
//
// Owner: the job's JobGpus.
// Thread: the loop thread only. One wait at a time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/gpus/assigned_gpus.h"
#include "agent/gpus/gpu_names.h"
#include "agent/gpus/reader.h"
#include "base/gate.h"
#include "base/loop.h"

namespace muster::agent::inline gpus {

// True if no process, not even a zombie, has this pid in our PID namespace.
bool has_ended(pid_t pid);

// A GPU of any vendor, or a part of a divided one, as a report shows it.
struct SeenGpu {
  GpuName name{};
  std::optional<std::uint64_t> used{};
  bool shows_dead = true;
  bool foreign_pids = false;
  std::vector<gpus::GpuProcess> processes{};
};

// `known` has the meaning that name_of() gives it. A divided GPU gets only those processes that are on none of its
// parts. Its parts follow it in the result.
std::vector<SeenGpu> see(const gpus::GpuReport& report, const std::vector<model::GpuShape>& known);

// The state of the GPUs before the job.
struct GpusBefore {
  // For each GPU that reports its use: bytes that no living process accounts for.
  std::map<GpuName, std::uint64_t> in_use{};
  std::set<std::pair<GpuName, pid_t>> others{};  // the processes that were listed
};
// `is_others` returns true if the process was there before the job.
GpusBefore before_job(const std::vector<SeenGpu>& seen, const std::function<bool(pid_t)>& is_gone,
                      const std::function<bool(pid_t)>& is_others);

// The processes whose memory must be released.
struct EndedProcesses {
  std::map<pid_t, std::string> pids{};  // the name of each process for the user, by pid
  // False if the job had more processes, whose pids in our PID namespace are not known.
  bool are_all_numbered = true;
  AssignedGpus gpus{};                 // the GPUs on which the job had memory
  std::optional<GpusBefore> before{};  // nullopt if the GPUs were not read before the job
};

// Memory that an ended process of the job still has, or may have.
struct HeldMemory {
  GpuName gpu{};
  // 0 if the process is unknown. Then `bytes` is by how much the memory in use has grown since before the job.
  pid_t pid = 0;
  std::optional<std::uint64_t> bytes{};
  std::string whose{};  // like "rank 5"; empty if it was neither a rank nor a leftover
  std::string why{};    // why the pid is not known; empty if it is known

  bool operator==(const HeldMemory&) const = default;
};

// Memory of ended processes that a GPU still lists. If a process with such a pid lives, it is another process and is
// left out. Pure but for `is_gone`.
std::vector<HeldMemory> held_memory(const std::vector<SeenGpu>& seen, const EndedProcesses& ended,
                                    const std::function<bool(pid_t)>& is_gone);

// Growth on GPUs of the job for which pids cannot be used. It counts only if it exceeds kSlack.
struct GrownMemory {
  std::vector<HeldMemory> held{};
  // Why the growth on some GPU is unknown. Empty if it is known, or if the driver never reports it.
  std::string unknown{};
};
// Memory that drivers take for themselves grows and shrinks, so ignore changes up to this.
inline constexpr std::uint64_t kSlack = std::uint64_t{256} << 20;
GrownMemory grown_memory(const std::vector<SeenGpu>& seen, const EndedProcesses& ended,
                         const std::function<bool(pid_t)>& is_gone);

// Returns text for a user: "GPU 3 still holds 1.2 GB of rank 5 (pid 1234), which has ended".
std::string describe(const HeldMemory& held);

inline constexpr std::chrono::milliseconds kReleasePatience{8'000};

class GpuRelease {
 public:
  // `sentences` say which memory is still held when the patience ends, or why that is not known. Empty if all is
  // released.
  using Done = std::function<void(const std::vector<std::string>& sentences)>;

  // The arguments that are references outlive this object. `reported` is a problem of NVIDIA's library that was
  // reported to the job's user before. It is not reported again.
  GpuRelease(base::Loop& loop, gpus::Reader& reader, const std::vector<model::GpuShape>& known,
             std::string reported = {}, std::chrono::milliseconds patience = kReleasePatience)
      : loop_(loop), reader_(reader), known_(known), reported_(std::move(reported)), patience_(patience) {}
  GpuRelease(const GpuRelease&) = delete;
  GpuRelease& operator=(const GpuRelease&) = delete;

  // Begins the wait. The loop calls `done` once.
  void begin(EndedProcesses ended, Done done);
  // Supplies the GPU memory in use before the job, if begin() did not get it. Call this before the first report
  // arrives.
  void learn_before(GpusBefore before) { ended_.before = std::move(before); }

 private:
  void poll();
  void judge(const base::Result<gpus::GpuReport>& report);
  std::string new_problem(const gpus::GpuReport& report) const;
  void give_up();
  void finish(std::vector<std::string> sentences);

  base::Loop& loop_;
  gpus::Reader& reader_;
  const std::vector<model::GpuShape>& known_;
  const std::string reported_;
  const std::chrono::milliseconds patience_;
  EndedProcesses ended_;
  Done done_;
  std::vector<HeldMemory> held_;  // at the last report
  bool is_stale_ = false;         // the query under way began before this object asked
  base::Timer deadline_;
  base::Timer again_;
  base::Gate gate_;
};

}  // namespace muster::agent::gpus
