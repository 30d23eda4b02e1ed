#include "cli/options/horovodrun.h"

#include <array>
#include <vector>

#include "base/strings.h"

namespace muster::cli::inline options {
namespace {

// Source: parse_args() in horovod/runner/launch.py.
constexpr auto kLongOptions = std::to_array<std::string_view>({
    "--autotune",
    "--autotune-bayes-opt-max-samples",
    "--autotune-gaussian-process-noise",
    "--autotune-log-file",
    "--autotune-steps-per-sample",
    "--autotune-warmup-samples",
    "--binding-args",
    "--blacklist-cooldown-range",
    "--cache-capacity",
    "--check-build",
    "--config-file",
    "--cycle-time-ms",
    "--disable-cache",
    "--elastic-timeout",
    "--fusion-threshold-mb",
    "--gloo",
    "--gloo-timeout-seconds",
    "--help",
    "--hierarchical-allgather",
    "--hierarchical-allreduce",
    "--host-discovery-script",
    "--hostfile",
    "--hosts",
    "--jsrun",
    "--log-hide-timestamp",
    "--log-level",
    "--log-with-timestamp",
    "--log-without-timestamp",
    "--max-np",
    "--max-num-proc",
    "--min-np",
    "--min-num-proc",
    "--mpi",
    "--mpi-args",
    "--mpi-threads-disable",
    "--network-interface",
    "--network-interfaces",
    "--no-autotune",
    "--no-hierarchical-allgather",
    "--no-hierarchical-allreduce",
    "--no-log-hide-timestamp",
    "--no-mpi-threads-disable",
    "--no-stall-check",
    "--no-timeline-mark-cycles",
    "--no-torus-allreduce",
    "--num-nccl-streams",
    "--num-proc",
    "--output-filename",
    "--prefix-output-with-timestamp",
    "--reset-limit",
    "--slots-per-host",
    "--ssh-identity-file",
    "--ssh-port",
    "--stall-check",
    "--stall-check-shutdown-time-seconds",
    "--stall-check-warning-time-seconds",
    "--start-timeout",
    "--tcp",
    "--thread-affinity",
    "--timeline-filename",
    "--timeline-mark-cycles",
    "--torus-allreduce",
    "--verbose",
    "--version",
});

}  // namespace

bool is_horovodrun(std::string_view argv0) {
  return argv0.substr(argv0.rfind('/') + 1) == "horovodrun";
}

base::Result<std::optional<std::string>> expand_abbreviation(std::string_view word) {
  std::vector<std::string> found;
  if (word.size() > 2 && word.starts_with("--")) {
    for (const std::string_view option : kLongOptions) {
      if (option == word) return std::optional(std::string(word));
      if (option.starts_with(word)) found.emplace_back(option);
    }
  }
  if (found.empty()) return std::optional<std::string>();
  if (found.size() == 1) return std::optional(found.front());
  return base::invalid_argument("{} is ambiguous: {}; write one of them in full", base::printable(word),
                                base::join(found, ", "));
}

}  // namespace muster::cli::options
