// After a job's processes have ended: waits until the GPUs' drivers have released their memory, so that whoever comes
// next finds it free. A killed process is reaped before its GPU memory is; some s for large ones.
//
// NVIDIA's driver and AMD's KFD list a process until then. Where that cannot be used - Intel's drivers list the living
// only; in a PID namespace the numbers may be the host's - what is in use is compared with what was before the job.
//
// Loop thread only; owned by a job's session. One wait at a time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/gpus/reader.h"
#include "base/loop.h"
#include "model/node_shape.h"

namespace muster::agent {

using GpuName = std::pair<model::GpuVendor, int>;  // and the index among its vendor's, as in the Hello

// No process has this number here, not even as a zombie.
bool has_ended(pid_t pid);

// Memory in use that no living process accounts for, in bytes, of the GPUs that tell. Pure but for `is_gone`.
using InUse = std::map<GpuName, std::uint64_t>;
InUse in_use(const gpus::GpuReport& report, const std::function<bool(pid_t)>& is_gone);

// What is to be released.
struct EndedProcesses {
  std::map<pid_t, std::string> pids{};  // with what to call each
  bool are_all_numbered = true;         // else there are more, whose numbers here are not known
  std::optional<InUse> before{};        // they ran; nullopt: nobody has looked
};

// What an ended process of the job still has, or may have.
struct HeldMemory {
  GpuName gpu{};
  pid_t pid = 0;  // 0: not known; `bytes` more than before the job are in use
  std::optional<std::uint64_t> bytes{};
  std::string why{};  // it is not known

  bool operator==(const HeldMemory&) const = default;
};

// Of `pids`, those that the report lists and that are gone: a number that lives again is another's. Pure but for
// `is_gone`.
std::vector<HeldMemory> held_memory(const gpus::GpuReport& report, const std::map<pid_t, std::string>& pids,
                                    const std::function<bool(pid_t)>& is_gone);

// GPUs where numbers do not tell and more is in use than before, by more than kSlack.
struct GrownMemory {
  std::vector<HeldMemory> held{};
  std::string unknown{};  // why of some GPU nothing can be said; empty: of all it can, or nobody's driver would
};
inline constexpr std::uint64_t kSlack = std::uint64_t{256} << 20;  // what drivers take for themselves comes and goes
GrownMemory grown_memory(const gpus::GpuReport& report, const EndedProcesses& ended,
                         const std::function<bool(pid_t)>& is_gone);

// "GPU 3 still holds 1.2 GB of rank 5 (pid 1234), which has ended"; `whose`: "rank 5".
std::string describe(const HeldMemory& held, const std::string& whose);

inline constexpr std::chrono::milliseconds kReleasePatience{8'000};

class GpuRelease {
 public:
  // `sentences`: what is held after the patience, or why nobody knows; empty: all is released.
  using Done = std::function<void(const std::vector<std::string>& sentences)>;

  GpuRelease(base::Loop& loop, gpus::Reader& reader, std::chrono::milliseconds patience = kReleasePatience)
      : loop_(loop), reader_(reader), patience_(patience) {}
  GpuRelease(const GpuRelease&) = delete;
  GpuRelease& operator=(const GpuRelease&) = delete;

  // `done` comes from the loop, once.
  void begin(EndedProcesses ended, Done done);
  // What begin() was not told yet: before the first look at the latest.
  void learn_before(InUse before) { ended_.before = std::move(before); }

 private:
  void look();
  void judge(const base::Result<gpus::GpuReport>& report);
  void give_up();
  void finish(std::vector<std::string> sentences);

  base::Loop& loop_;
  gpus::Reader& reader_;
  const std::chrono::milliseconds patience_;
  EndedProcesses ended_;
  Done done_;
  std::vector<HeldMemory> held_;  // at the last look
  base::Timer deadline_;
  base::Timer again_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace muster::agent
