// Watches for tensors that only some ranks have submitted. It reports late ranks to the user. It ends the engine if the
// settings ask for that. Its thread sleeps except for periodic checks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "collectives/engine/negotiation.h"
#include "collectives/engine/settings.h"

namespace muster::collectives::inline engine {

// Makes one sentence each time that tensors become late. It is pure.
// Thread: one.
class StallReport {
 public:
  explicit StallReport(StallSettings settings) : settings_(settings) {}

  struct Verdict {
    std::string warning;   // empty means no warning
    std::string shutdown;  // why the engine must end; empty means that it continues
  };
  // `name_of_rank` returns text such as "3 (n2)".
  Verdict check(const std::vector<Negotiation::Late>& late, base::MonotonicTime now,
                const std::function<std::string(int)>& name_of_rank);

 private:
  struct Seen {
    base::MonotonicTime since;
    base::MonotonicTime reported;  // time of the last warning; equals `since` before the first one
  };
  const StallSettings settings_;
  std::map<std::string, Seen> seen_;
};

class StallWatch {
 public:
  struct Engine {
    std::function<std::vector<Negotiation::Late>()> late;
    std::function<std::string(int rank)> name_of_rank;
    std::function<void(const std::string& why)> end;
    bool reports = false;  // true on the one rank that reports; every rank may end the engine
  };

  // RESOURCE_EXHAUSTED if no thread can be started.
  static base::Result<std::unique_ptr<StallWatch>> start(StallSettings settings, Engine engine);
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

 private:
  StallWatch(StallSettings settings, Engine engine);
  void run();

  const StallSettings settings_;
  const Engine engine_;
  StallReport report_;
  std::mutex mutex_;
  std::condition_variable ending_;
  bool is_ending_ = false;
  std::thread thread_;
};

// Returns how often idle ranks take part in turns, so that the others learn that they have nothing.
std::chrono::milliseconds idle_time(const StallSettings& settings);

}  // namespace muster::collectives::engine
