// Finds the best size of the fusion buffer and the best cycle time by trying, if HOROVOD_AUTOTUNE=1 requests it. A
// Gaussian process over a grid models the samples so far, in bytes per microsecond. The next sample is the point with
// the largest expected improvement (Jones, Schonlau, Welch 1998).
//
// The autotuner runs on rank 0. The other ranks use its values.
// Thread: one.
#pragma once

#include <chrono>
#include <cstddef>
#include <fstream>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "collectives/engine/settings.h"

namespace muster::collectives::inline engine {

struct Tuned {
  std::size_t fusion_bytes = 0;
  std::chrono::microseconds cycle{0};
  bool operator==(const Tuned&) const = default;
};

class Autotuner {
 public:
  // The first point is `start`. INVALID_ARGUMENT if the log cannot be written.
  static base::Result<Autotuner> create(const AutotuneSettings& settings, Tuned start);

  // Records a turn that moved `bytes` bytes. Returns the values to use from now on.
  Tuned record(std::size_t bytes, base::MonotonicTime now);
  bool is_done() const { return samples_.size() >= static_cast<std::size_t>(settings_.most_samples); }

 private:
  Autotuner(AutotuneSettings settings, Tuned start) : settings_(std::move(settings)), current_(start) {}
  struct Sample {
    Tuned at;
    double score;  // bytes per microsecond
  };
  Tuned choose() const;
  void log(const Sample& sample);

  AutotuneSettings settings_;
  Tuned current_;
  std::optional<std::ofstream> log_;
  int warmups_ = 0;
  int steps_ = 0;
  std::size_t bytes_ = 0;
  std::optional<base::MonotonicTime> began_;  // start of the current sample
  std::vector<Sample> samples_;
};

}  // namespace muster::collectives::engine
