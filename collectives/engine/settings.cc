#include "collectives/engine/settings.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/env.h"

namespace muster::collectives::inline engine {
namespace {

using base::env_var;
using base::Status;
using Value = std::optional<std::string>;

template <typename T>
std::optional<T> parsed(std::string_view text) {
  T value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// An empty value counts as not set, as in Horovod.
bool is_set(const Value& value) {
  return value && !value->empty();
}

template <typename T>
Status read(const char* name, const Value& value, T least, T& into) {
  if (!is_set(value)) return {};
  const std::optional<T> number = parsed<T>(*value);
  if (!number || !(*number >= least)) {
    return base::invalid_argument("{}={}: use a number of at least {}", name, *value, least);
  }
  into = *number;
  return {};
}

Status read_flag(const char* name, const Value& value, bool& into) {
  int number = into ? 1 : 0;
  MUSTER_RETURN_IF_ERROR(read(name, value, 0, number));
  into = number != 0;
  return {};
}

constexpr double kMostSeconds = 1e9;

template <typename Duration>
Status read_time(const char* name, const Value& value, double units_a_second, Duration& into) {
  double number = -1;
  MUSTER_RETURN_IF_ERROR(read(name, value, 0.0, number));
  if (number < 0) return {};
  if (!(number / units_a_second < kMostSeconds)) {
    return base::invalid_argument("{}={}: this time is too long", name, *value);
  }
  into = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(number / units_a_second));
  return {};
}

Status read_affinity(const Value& value, std::optional<std::vector<int>>& into) {
  if (!is_set(value)) return {};
  into.emplace();
  std::string_view rest = *value;
  while (true) {
    const std::string_view item = rest.substr(0, rest.find(','));
    const std::optional<int> core = parsed<int>(item);
    if (!core || *core < 0) {
      return base::invalid_argument("HOROVOD_THREAD_AFFINITY={}: '{}' is not the number of a core", *value, item);
    }
    into->push_back(*core);
    if (item.size() == rest.size()) return {};
    rest.remove_prefix(item.size() + 1);
  }
}

Status read_autotune(AutotuneSettings& into) {
  MUSTER_RETURN_IF_ERROR(read_flag("HOROVOD_AUTOTUNE", env_var("HOROVOD_AUTOTUNE"), into.is_on));
  into.log = env_var("HOROVOD_AUTOTUNE_LOG").value_or("");
  MUSTER_RETURN_IF_ERROR(
      read("HOROVOD_AUTOTUNE_WARMUP_SAMPLES", env_var("HOROVOD_AUTOTUNE_WARMUP_SAMPLES"), 0, into.warmup_samples));
  MUSTER_RETURN_IF_ERROR(read("HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", env_var("HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE"), 1,
                              into.steps_per_sample));
  MUSTER_RETURN_IF_ERROR(read("HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
                              env_var("HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES"), 1, into.most_samples));
  return read("HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", env_var("HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE"), 0.0,
              into.noise);
}

Status read_stall(StallSettings& into) {
  bool is_disabled = false;
  MUSTER_RETURN_IF_ERROR(read_flag("HOROVOD_STALL_CHECK_DISABLE", env_var("HOROVOD_STALL_CHECK_DISABLE"), is_disabled));
  into.is_checked = !is_disabled;
  MUSTER_RETURN_IF_ERROR(
      read_time("HOROVOD_STALL_CHECK_TIME_SECONDS", env_var("HOROVOD_STALL_CHECK_TIME_SECONDS"), 1, into.warning));
  MUSTER_RETURN_IF_ERROR(read_time("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
                                   env_var("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"), 1, into.shutdown));
  if (into.warning.count() == 0) into.is_checked = false;
  const std::string level = env_var("HOROVOD_LOG_LEVEL").value_or("");
  into.is_reported = level != "error" && level != "fatal";
  return {};
}

}  // namespace

base::Result<EngineSettings> EngineSettings::from_environment() {
  EngineSettings made;
  MUSTER_RETURN_IF_ERROR(
      read("HOROVOD_FUSION_THRESHOLD", env_var("HOROVOD_FUSION_THRESHOLD"), std::size_t{0}, made.fusion_bytes));
  MUSTER_RETURN_IF_ERROR(
      read("HOROVOD_CACHE_CAPACITY", env_var("HOROVOD_CACHE_CAPACITY"), std::size_t{0}, made.cache_capacity));
  MUSTER_RETURN_IF_ERROR(read_time("HOROVOD_CYCLE_TIME", env_var("HOROVOD_CYCLE_TIME"), 1000, made.cycle));
  bool is_disabled = false;
  MUSTER_RETURN_IF_ERROR(
      read_flag("HOROVOD_DISABLE_GROUP_FUSION", env_var("HOROVOD_DISABLE_GROUP_FUSION"), is_disabled));
  made.fuses_groups = !is_disabled;
  MUSTER_RETURN_IF_ERROR(
      read_flag("HOROVOD_TORUS_ALLREDUCE", env_var("HOROVOD_TORUS_ALLREDUCE"), made.is_hierarchical));
  if (!made.is_hierarchical) {
    MUSTER_RETURN_IF_ERROR(
        read_flag("HOROVOD_HIERARCHICAL_ALLREDUCE", env_var("HOROVOD_HIERARCHICAL_ALLREDUCE"), made.is_hierarchical));
  }
  MUSTER_RETURN_IF_ERROR(read_affinity(env_var("HOROVOD_THREAD_AFFINITY"), made.affinity));
  made.timeline = env_var("HOROVOD_TIMELINE").value_or("");
  if (made.timeline == "DYNAMIC") made.timeline.clear();
  MUSTER_RETURN_IF_ERROR(
      read_flag("HOROVOD_TIMELINE_MARK_CYCLES", env_var("HOROVOD_TIMELINE_MARK_CYCLES"), made.marks_turns));
  MUSTER_RETURN_IF_ERROR(read_autotune(made.autotune));
  made.autotune.fusion_is_fixed = is_set(env_var("HOROVOD_FUSION_THRESHOLD"));
  made.autotune.cycle_is_fixed = is_set(env_var("HOROVOD_CYCLE_TIME"));
  MUSTER_RETURN_IF_ERROR(read_stall(made.stall));
  return made;
}

}  // namespace muster::collectives::engine
