// The engine's settings that users choose: Horovod's variables, with Horovod's names, units and defaults.
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
  std::string log = {};  // HOROVOD_AUTOTUNE_LOG: CSV, written by rank 0; empty means no log
  int warmup_samples = 3;
  int steps_per_sample = 10;  // turns that moved bytes
  int most_samples = 20;
  double noise = 0.8;  // of the score, relative to its spread
  // True if the user has set the value, so that the autotuner must not change it.
  bool fusion_is_fixed = false;
  bool cycle_is_fixed = false;
};

struct StallSettings {
  bool is_checked = true;  // false with HOROVOD_STALL_CHECK_DISABLE=1
  std::chrono::milliseconds warning{60'000};
  std::chrono::milliseconds shutdown{0};  // 0 means never
  bool is_reported = true;                // whether warnings are printed; false if HOROVOD_LOG_LEVEL is error or fatal
};

struct EngineSettings {
  std::size_t fusion_bytes = std::size_t{128} << 20;  // largest packed batch; 0 packs nothing
  std::size_t cache_capacity = 1024;                  // in names; 0 announces every tensor in full
  std::chrono::microseconds cycle{0};                 // least time between two turns
  bool fuses_groups = true;                           // pack groups together with other tensors
  bool is_hierarchical = false;                       // use hierarchical allreduce whenever there are several hosts
  std::optional<std::vector<int>> affinity = {};      // core of the engine's thread, by local rank
  std::string timeline = {};                          // path, used by rank 0; empty means no timeline
  bool marks_turns = false;                           // show turns in the timeline
  AutotuneSettings autotune = {};
  StallSettings stall = {};

  // INVALID_ARGUMENT; the message names the variable.
  static base::Result<EngineSettings> from_environment();
};

}  // namespace muster::collectives::engine
