// Looks after tensors that some ranks have submitted and others have not: tells the user which ranks are late, and ends
// the engine if that is wanted. A thread that sleeps but for a look now and then.
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

// What is late, as one sentence each time that something becomes late. Pure; one thread.
class StallReport {
 public:
  explicit StallReport(StallSettings settings) : settings_(settings) {}

  struct Verdict {
    std::string warning;   // empty: none
    std::string shutdown;  // why the engine is to end; empty: it is not
  };
  // `name_of_rank` gives "3 (n2)".
  Verdict look(const std::vector<Negotiation::Late>& late, base::MonotonicTime now,
               const std::function<std::string(int)>& name_of_rank);

 private:
  struct Seen {
    base::MonotonicTime since;
    base::MonotonicTime told;  // since, until it was told
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
    bool tells = false;  // one rank does; all may end it
  };

  // RESOURCE_EXHAUSTED: no thread.
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

// How often ranks that have nothing to do take part in turns, so that the others learn that they have nothing.
std::chrono::milliseconds idle_time(const StallSettings& settings);

}  // namespace muster::collectives::engine
