// What users set of the engine: Horovod's variables, with their names, units and defaults.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace muster::collectives::inline engine {

struct AutotuneSettings {
  bool is_on = false;    // HOROVOD_AUTOTUNE
  std::string log = {};  // HOROVOD_AUTOTUNE_LOG: CSV, of rank 0; empty: none
  int warmup_samples = 3;
  int steps_per_sample = 10;  // turns that did something
  int most_samples = 20;
  double noise = 0.8;  // of the score, as a share of its spread
  // What the user has set stays as it is.
  bool fusion_is_fixed = false;
  bool cycle_is_fixed = false;
};

struct StallSettings {
  bool is_checked = true;  // HOROVOD_STALL_CHECK_DISABLE=1: not
  std::chrono::milliseconds warning{60'000};
  std::chrono::milliseconds shutdown{0};  // 0: never
  bool is_told = true;                    // HOROVOD_LOG_LEVEL=error, fatal: not
};

struct EngineSettings {
  std::size_t fusion_bytes = std::size_t{128} << 20;  // of what is packed together; 0: nothing is
  std::size_t cache_capacity = 1024;                  // names; 0: everything is announced in full each time
  std::chrono::microseconds cycle{0};                 // at least so long from one turn to the next
  bool fuses_groups = true;                           // groups with other tensors, too
  bool is_hierarchical = false;                       // hierarchical allreduce wherever there are several hosts
  std::optional<std::vector<int>> affinity = {};      // the core of the engine's thread, by local rank
  std::string timeline = {};                          // of rank 0; empty: none
  bool marks_turns = false;                           // in the timeline
  AutotuneSettings autotune = {};
  StallSettings stall = {};

  // INVALID_ARGUMENT names the variable.
  static base::Result<EngineSettings> from_environment();
};

}  // namespace muster::collectives::engine
