// Finds by trying how large the fusion buffer and how long a cycle should be, as HOROVOD_AUTOTUNE=1 asks: what gave the
// most bytes per microsecond so far is modelled by a Gaussian process over a grid, and the point that promises the most
// improvement is tried next (Jones, Schonlau, Welch 1998: expected improvement). On rank 0; the others take its values.
//
// One thread.
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
  // The first point is `start`. INVALID_ARGUMENT: the log cannot be written.
  static base::Result<Autotuner> create(const AutotuneSettings& settings, Tuned start);

  // After a turn that did something: so many bytes. What is to hold from now on.
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
  std::optional<base::MonotonicTime> began_;  // of this sample
  std::vector<Sample> samples_;
};

}  // namespace muster::collectives::engine
