// After a job's processes have ended: waits until NVIDIA's driver does not list them on a GPU any more, so that whoever
// comes next finds the memory free. A killed process is reaped before its GPU memory is; some s for large ones.
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
#include <vector>

#include "agent/gpus/reader.h"
#include "base/loop.h"

namespace muster::agent {

// What an ended process of the job still has.
struct HeldMemory {
  int gpu = 0;  // its index, as in the Hello
  pid_t pid = 0;
  std::optional<std::uint64_t> bytes{};

  bool operator==(const HeldMemory&) const = default;
};

// Of `pids`, those that the report lists and that are gone: a number that lives again is another's. Pure but for
// `is_gone`.
std::vector<HeldMemory> held_memory(const gpus::GpuReport& report, const std::map<pid_t, std::string>& pids,
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

  // `pids`: of the job's ended processes, with what to call each. `done` comes from the loop, once.
  void begin(std::map<pid_t, std::string> pids, Done done);

 private:
  void look();
  void judge(const base::Result<gpus::GpuReport>& report);
  void give_up();
  void finish(std::vector<std::string> sentences);

  base::Loop& loop_;
  gpus::Reader& reader_;
  const std::chrono::milliseconds patience_;
  std::map<pid_t, std::string> pids_;
  Done done_;
  std::vector<HeldMemory> held_;  // at the last look
  base::Timer deadline_;
  base::Timer again_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace muster::agent
