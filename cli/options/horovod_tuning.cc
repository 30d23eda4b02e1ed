#include "cli/options/horovod_tuning.h"

#include <limits>

namespace muster::cli::inline options {
namespace {

enum class Kind {
  kNumber,
  kMebibytes,  // exported as bytes
  kReal,
  kShare,  // from 0 to 1
  kText,
  kWord,      // one of the option's words
  kOn,        // 1 or 0
  kOff,       // the complement of the option: 0 if on, 1 if off
  kOnlyIfOn,  // 1 if on, else not exported
};

// Tells when a variable is exported: always, only with autotune, or only with a timeline.
enum class When { kAlways, kAutotune, kTimeline };

struct Tuning {
  const char* option;
  const char* variable;
  Kind kind;
  When when = When::kAlways;
};

constexpr Tuning kTable[] = {
    {"fusion-threshold-mb", "HOROVOD_FUSION_THRESHOLD", Kind::kMebibytes},
    {"cycle-time-ms", "HOROVOD_CYCLE_TIME", Kind::kReal},
    {"cache-capacity", "HOROVOD_CACHE_CAPACITY", Kind::kNumber},
    {"hierarchical-allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE", Kind::kOn},
    {"hierarchical-allgather", "HOROVOD_HIERARCHICAL_ALLGATHER", Kind::kOn},
    {"torus-allreduce", "HOROVOD_TORUS_ALLREDUCE", Kind::kOn},
    {"autotune", "HOROVOD_AUTOTUNE", Kind::kOn, When::kAutotune},
    {"autotune-log-file", "HOROVOD_AUTOTUNE_LOG", Kind::kText, When::kAutotune},
    {"autotune-warmup-samples", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", Kind::kNumber, When::kAutotune},
    {"autotune-steps-per-sample", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", Kind::kNumber, When::kAutotune},
    {"autotune-bayes-opt-max-samples", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", Kind::kNumber, When::kAutotune},
    {"autotune-gaussian-process-noise", "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", Kind::kShare, When::kAutotune},
    {"timeline-filename", "HOROVOD_TIMELINE", Kind::kText},
    {"timeline-mark-cycles", "HOROVOD_TIMELINE_MARK_CYCLES", Kind::kOn, When::kTimeline},
    {"stall-check", "HOROVOD_STALL_CHECK_DISABLE", Kind::kOff},
    {"stall-check-warning-time-seconds", "HOROVOD_STALL_CHECK_TIME_SECONDS", Kind::kNumber},
    {"stall-check-shutdown-time-seconds", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", Kind::kNumber},
    {"mpi-threads-disable", "HOROVOD_MPI_THREADS_DISABLE", Kind::kOn},
    {"num-nccl-streams", "HOROVOD_NUM_NCCL_STREAMS", Kind::kNumber},
    {"tcp", "NCCL_IB_DISABLE", Kind::kOnlyIfOn},
    {"thread-affinity", "HOROVOD_THREAD_AFFINITY", Kind::kNumber},
    {"gloo-timeout-seconds", "HOROVOD_GLOO_TIMEOUT_SECONDS", Kind::kNumber},
    {"log-level", "HOROVOD_LOG_LEVEL", Kind::kWord},
    {"log-with-timestamp", "HOROVOD_LOG_HIDE_TIME", Kind::kOff},
    {"horovod", "MUSTER_HOROVOD", Kind::kWord},
};

// Limits of Horovod's own types: it keeps numbers in an int, and the buffer size in bytes in 64 bits.
constexpr long kMostNumber = std::numeric_limits<int>::max();
constexpr long kMebibyte = 1L << 20;
constexpr long kMostMebibytes = std::numeric_limits<long>::max() / kMebibyte;

// Formats `value` as Python's str(float) does: the shortest text that reads back as the same number, always with a
// point or an exponent.
std::string python_float(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::optional<std::string> read_toggle(const Tuning& tuning, SettingReader& read) {
  std::optional<bool> value;
  read.toggle(tuning.option, value);
  if (!value || (tuning.kind == Kind::kOnlyIfOn && !*value)) return std::nullopt;
  return (tuning.kind == Kind::kOff) == *value ? "0" : "1";
}

std::optional<std::string> read_value(const Tuning& tuning, SettingReader& read) {
  std::optional<long> number;
  std::optional<double> real;
  std::string text;
  switch (tuning.kind) {
    case Kind::kNumber:
      read.number(tuning.option, 0, kMostNumber, number);
      return number ? std::optional(fmt::format("{}", *number)) : std::nullopt;
    case Kind::kMebibytes:
      read.number(tuning.option, 0, kMostMebibytes, number);
      return number ? std::optional(fmt::format("{}", *number * kMebibyte)) : std::nullopt;
    case Kind::kReal:
    case Kind::kShare:
      read.real(tuning.option, tuning.kind == Kind::kShare ? 1.0 : 1e9, real);
      return real ? std::optional(python_float(*real)) : std::nullopt;
    case Kind::kText:
      read.text(tuning.option, text);
      return text.empty() ? std::nullopt : std::optional(text);
    case Kind::kWord:
      read.word(tuning.option, text);
      return text.empty() ? std::nullopt : std::optional(text);
    case Kind::kOn:
    case Kind::kOff:
    case Kind::kOnlyIfOn:
      return read_toggle(tuning, read);
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> horovod_tuning(SettingReader& read) {
  bool is_autotuned = false;
  std::string timeline;
  read.toggle("autotune", is_autotuned);
  read.text("timeline-filename", timeline);
  std::vector<std::string> variables;
  for (const Tuning& tuning : kTable) {
    // Read options that are not exported, too, so that a mistake in them is reported.
    const auto value = read_value(tuning, read);
    const bool counts = tuning.when == When::kAlways || (tuning.when == When::kAutotune && is_autotuned) ||
                        (tuning.when == When::kTimeline && !timeline.empty());
    if (value && counts) variables.push_back(fmt::format("{}={}", tuning.variable, *value));
  }
  return variables;
}

}  // namespace muster::cli::options
