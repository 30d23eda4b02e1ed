// The options of horovodrun 0.28.1 that tune Horovod, choose its controller or belong to elastic jobs. They have the
// keys of horovodrun's configuration file. Source: horovod/runner/launch.py and runner/common/util/config_parser.py.
#include "cli/help/flag_row.h"
#include "cli/options/hvdrun_flags.h"

namespace muster::cli::inline options {
namespace {

using enum FlagGroup;

constexpr std::string_view kNoMpirun = "has no effect: hvdrun starts the ranks itself, without mpirun";
constexpr std::string_view kElasticLater = "used only when the job starts; --min-np makes the job elastic";
constexpr std::string_view kMinRanks = "min-num-proc";

std::vector<FlagRow> parameter_rows() {
  return {
      option("fusion-threshold-mb", {"--fusion-threshold-mb"}, "N",
             "Largest amount of tensor data to fuse into one operation, in MiB; 0 turns fusion off.")
          .key("params.fusion_threshold_mb"),
      option("cycle-time-ms", {"--cycle-time-ms"}, "X", "Milliseconds between two rounds of fusion.")
          .key("params.cycle_time_ms"),
      option("cache-capacity", {"--cache-capacity"}, "N", "Tensor names in the response cache.")
          .key("params.cache_capacity"),
      toggle("hierarchical-allreduce", {{"--hierarchical-allreduce", "true"}, {"--no-hierarchical-allreduce", "false"}},
             "Reduce within hosts first; --no-… also keeps autotuning from turning it on.")
          .key("params.hierarchical_allreduce"),
      toggle("hierarchical-allgather", {{"--hierarchical-allgather", "true"}, {"--no-hierarchical-allgather", "false"}},
             "Gather within hosts first; --no-… also keeps autotuning from turning it on.")
          .key("params.hierarchical_allgather"),
      toggle("torus-allreduce", {{"--torus-allreduce", "true"}, {"--no-torus-allreduce", "false"}},
             "Reduce along a torus of hosts and local ranks.")
          .key("params.torus_allreduce"),
  };
}

std::vector<FlagRow> autotune_rows() {
  return {
      toggle("autotune", {{"--autotune", "true"}, {"--no-autotune", "false"}},
             "Let Horovod search for good parameters; those that you give stay unchanged.")
          .key("autotune.enabled"),
      option("autotune-log-file", {"--autotune-log-file"}, "FILE", "The file to which the search is logged.")
          .key("autotune.log_file")
          .completes(Completes::kFile),
      option("autotune-warmup-samples", {"--autotune-warmup-samples"}, "N", "Samples dropped at the beginning.")
          .key("autotune.warmup_samples"),
      option("autotune-steps-per-sample", {"--autotune-steps-per-sample"}, "N", "Steps in one sample.")
          .key("autotune.steps_per_sample"),
      option("autotune-bayes-opt-max-samples", {"--autotune-bayes-opt-max-samples"}, "N",
             "Largest number of samples in one search.")
          .key("autotune.bayes_opt_max_samples"),
      option("autotune-gaussian-process-noise", {"--autotune-gaussian-process-noise"}, "X",
             "Noise of the samples, from 0 to 1.")
          .key("autotune.gaussian_process_noise"),
  };
}

std::vector<FlagRow> report_rows() {
  return {
      option("timeline-filename", {"--timeline-filename"}, "FILE",
             "Where rank 0 writes Horovod's timeline. DYNAMIC: the program starts and stops it.")
          .key("timeline.filename")
          .completes(Completes::kFile),
      toggle("timeline-mark-cycles", {{"--timeline-mark-cycles", "true"}, {"--no-timeline-mark-cycles", "false"}},
             "Mark the rounds of fusion in the timeline.")
          .key("timeline.mark_cycles"),
      toggle("stall-check", {{"--stall-check", "true"}, {"--no-stall-check", "false"}},
             "Warn about tensors that some ranks wait for in vain.")
          .key("stall_check.enabled"),
      option("stall-check-warning-time-seconds", {"--stall-check-warning-time-seconds"}, "N",
             "Seconds until that warning.")
          .key("stall_check.warning_time_seconds"),
      option("stall-check-shutdown-time-seconds", {"--stall-check-shutdown-time-seconds"}, "N",
             "Seconds until Horovod shuts down instead; 0: never.")
          .key("stall_check.shutdown_time_seconds"),
      option("log-level", {"--log-level"}, "TRACE|DEBUG|INFO|WARNING|ERROR|FATAL", "What Horovod logs.")
          .key("logging.level"),
      toggle("log-with-timestamp",
             {{"--log-with-timestamp", "true"},
              {"--no-log-hide-timestamp", "true"},
              {"--log-without-timestamp", "false"},
              {"--log-hide-timestamp", "false"}},
             "Show the time in Horovod's log lines.")
          .key("logging.with_timestamp"),
  };
}

std::vector<FlagRow> library_rows() {
  return {
      option("controller", {}, "gloo|mpi|jsrun", "Horovod's controller; hvdrun has Gloo.")
          .says({"--gloo", "gloo"})
          .says({"--mpi", "mpi"})
          .says({"--jsrun", "jsrun"})
          .key("controller")
          .standard("gloo"),
      option("horovod", {"--horovod"}, "auto|muster|installed",
             "Which Horovod the ranks' Python imports. auto (the default): the installed one, else Muster's."),
      toggle("mpi-threads-disable", {{"--mpi-threads-disable", "true"}, {"--no-mpi-threads-disable", "false"}},
             "Initialise MPI without threads.")
          .key("library_options.mpi_threads_disable"),
      option("mpi-args", {"--mpi-args"}, "ARGS", "Accepted for compatibility with horovodrun.").note(kNoMpirun),
      option("binding-args", {"--binding-args"}, "ARGS", "Accepted for compatibility with horovodrun; see --bind-to.")
          .note(kNoMpirun),
      toggle("tcp", {{"--tcp", "true"}, {"--no-tcp", "false"}}, "TCP only: NCCL does not use InfiniBand."),
      option("num-nccl-streams", {"--num-nccl-streams"}, "N", "CUDA streams for NCCL.")
          .key("library_options.num_nccl_streams"),
      option("thread-affinity", {"--thread-affinity"}, "N", "Core of Horovod's background thread.")
          .key("library_options.thread_affinity"),
      option("gloo-timeout-seconds", {"--gloo-timeout-seconds"}, "N", "Seconds after which an operation of Gloo fails.")
          .key("library_options.gloo_timeout_seconds"),
      toggle("disable-cache", {{"--disable-cache", "true"}, {"--no-disable-cache", "false"}},
             "Check the hosts again; hvdrun always does."),
  };
}

std::vector<FlagRow> elastic_rows() {
  return {
      option("host-discovery-script", {"--host-discovery-script"}, "SCRIPT",
             "A command that prints host or host:slots on each line. With --min-np it runs every second.")
          .completes(Completes::kFile)
          .exclusive("hosts")
          .note(kElasticLater)
          .unless(kMinRanks),
      option("min-num-proc", {"--min-np", "--min-num-proc"}, "N",
             "Fewest ranks with which the job starts and goes on when ranks or hosts fail: an elastic job."),
      option("max-num-proc", {"--max-np", "--max-num-proc"}, "N", "Largest number of ranks of an elastic job.")
          .note(kElasticLater)
          .unless(kMinRanks),
      option("slots-per-host", {"--slots-per-host"}, "N", "Slots of discovered hosts that have no number of slots.")
          .note(kElasticLater)
          .unless(kMinRanks),
      option("elastic-timeout", {"--elastic-timeout"}, "N",
             "Seconds to find the fewest ranks, at the start and after a change; 600 without it."),
      option("reset-limit", {"--reset-limit"}, "N", "Largest number of changes before the job fails."),
      option("blacklist-cooldown-range", {"--blacklist-cooldown-range"}, "MIN MAX",
             "Seconds after which a failed host may get processes again.")
          .words(2)
          .list(' '),
  };
}

}  // namespace

void add_horovod_flags(std::vector<Flag>& flags) {
  add_group(kTuning, parameter_rows(), flags);
  add_group(kTuning, autotune_rows(), flags);
  add_group(kTuning, report_rows(), flags);
  add_group(kTuning, library_rows(), flags);
  add_group(kElastic, elastic_rows(), flags);
}

}  // namespace muster::cli::options
