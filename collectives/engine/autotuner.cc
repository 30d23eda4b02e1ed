// The autotuner: the grid, the Gaussian process over it, and the choice of the next point.
// Read record() first, then choose(), then the functions of the Gaussian process above them.
#include "collectives/engine/autotuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace muster::collectives::inline engine {
namespace {

using std::chrono::microseconds;

// The grid: fusion buffers of 0 and 1 to 256 MiB, cycles of 0 and 0.25 to 16 ms.
constexpr int kFusions = 10;
constexpr int kCycles = 8;
// The distance at which a sample still influences its neighbours, in steps of the grid.
constexpr double kReach = 2;
constexpr double kLeastNoise = 1e-6;

Tuned point(int fusion, int cycle) {
  return {.fusion_bytes = fusion == 0 ? 0 : std::size_t{1} << (19 + fusion),
          .cycle = microseconds(cycle == 0 ? 0 : 125 << cycle)};
}

// The next two functions return the position of a value along the grid. It may lie between two points.
double along_fusion(const Tuned& at) {
  return at.fusion_bytes == 0 ? 0 : std::max(0.0, std::log2(static_cast<double>(at.fusion_bytes)) - 19);
}
double along_cycle(const Tuned& at) {
  return at.cycle.count() == 0 ? 0 : std::max(0.0, std::log2(static_cast<double>(at.cycle.count()) / 125));
}

double kernel(const Tuned& a, const Tuned& b) {
  const double x = along_fusion(a) - along_fusion(b);
  const double y = along_cycle(a) - along_cycle(b);
  return std::exp(-(x * x + y * y) / (2 * kReach * kReach));
}

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

// Returns the lower triangle L with L L^T = a; a must be symmetric and positive definite.
Matrix cholesky(Matrix a) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      a[i][j] = i == j ? std::sqrt(std::max(sum, kLeastNoise)) : sum / a[j][j];
    }
  }
  return a;
}

Vector solve_lower(const Matrix& l, Vector b) {
  for (std::size_t i = 0; i < b.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= l[i][k] * b[k];
    b[i] /= l[i][i];
  }
  return b;
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Returns the expected gain over `best` at a point whose value has this mean and deviation.
double expected_improvement(double mean, double deviation, double best) {
  if (deviation < 1e-9) return std::max(0.0, mean - best);
  const double z = (mean - best) / deviation;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  const double below = std::erfc(-z / std::numbers::sqrt2) / 2;
  return (mean - best) * below + deviation * density;
}

}  // namespace

base::Result<Autotuner> Autotuner::create(const AutotuneSettings& settings, Tuned start) {
  Autotuner made(settings, start);
  if (settings.log.empty()) return made;
  made.log_.emplace(settings.log, std::ios::trunc);
  *made.log_ << "fusion_bytes,cycle_ms,bytes_per_us\n" << std::flush;
  if (!*made.log_) {
    return base::invalid_argument("HOROVOD_AUTOTUNE_LOG={} cannot be written", settings.log);
  }
  return made;
}

Tuned Autotuner::record(std::size_t bytes, base::MonotonicTime now) {
  if (is_done()) return current_;
  if (!began_) {  // the first turn has no measured duration
    began_ = now;
    return current_;
  }
  bytes_ += bytes;
  if (++steps_ < settings_.steps_per_sample) return current_;
  const double elapsed = std::chrono::duration<double, std::micro>(now - *began_).count();
  const Sample sample{current_, static_cast<double>(bytes_) / std::max(elapsed, 1.0)};
  steps_ = 0;
  bytes_ = 0;
  began_ = now;
  if (warmups_++ < settings_.warmup_samples) return current_;
  samples_.push_back(sample);
  log(sample);
  current_ = is_done() ? std::ranges::max_element(samples_, {}, &Sample::score)->at : choose();
  return current_;
}

Tuned Autotuner::choose() const {
  double mean = 0;
  for (const Sample& sample : samples_) mean += sample.score / static_cast<double>(samples_.size());
  double spread = 0;
  for (const Sample& sample : samples_) spread = std::max(spread, std::abs(sample.score - mean));
  if (spread == 0) spread = 1;
  const double noise = std::max(settings_.noise * settings_.noise * 0.1, kLeastNoise);
  Matrix covariance(samples_.size(), Vector(samples_.size()));
  Vector scores;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) covariance[i][j] = kernel(samples_[i].at, samples_[j].at);
    covariance[i][i] += noise;
    scores.push_back((samples_[i].score - mean) / spread);
  }
  const Matrix l = cholesky(std::move(covariance));
  const Vector weights = solve_lower(l, scores);
  const double best = *std::ranges::max_element(scores);
  Tuned chosen = current_;
  double most = -1;
  for (int fusion = 0; fusion < kFusions; ++fusion) {
    for (int cycle = 0; cycle < kCycles; ++cycle) {
      Tuned at = point(fusion, cycle);
      if (settings_.fusion_is_fixed) at.fusion_bytes = current_.fusion_bytes;
      if (settings_.cycle_is_fixed) at.cycle = current_.cycle;
      Vector near;
      for (const Sample& sample : samples_) near.push_back(kernel(sample.at, at));
      const Vector reduced = solve_lower(l, near);
      const double deviation = std::sqrt(std::max(0.0, 1 - dot(reduced, reduced)));
      const double promise = expected_improvement(dot(reduced, weights), deviation, best);
      if (promise > most) {
        most = promise;
        chosen = at;
      }
    }
  }
  return chosen;
}

void Autotuner::log(const Sample& sample) {
  if (!log_) return;
  *log_ << fmt::format("{},{},{:.3f}\n", sample.at.fusion_bytes, static_cast<double>(sample.at.cycle.count()) / 1000,
                       sample.score)
        << std::flush;
}

}  // namespace muster::collectives::engine
