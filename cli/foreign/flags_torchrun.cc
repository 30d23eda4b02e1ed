// The options of torchrun (torch/distributed/run.py, up to 2.12) and of torch.distributed.launch. Each has two
// spellings: with '-', and with '_' as in torch 1.x.
#include <algorithm>
#include <array>

#include "cli/foreign/torchrun.h"
#include "cli/help/flag_row.h"
#include "cli/options/hvdrun_flags.h"

namespace muster::cli::inline foreign {
namespace {

using enum FlagGroup;

// Options of hvdrun that `muster torchrun` leaves out: torchrun counts ranks in its own way, and has its own help.
constexpr auto kNotOfTorchrun = std::to_array<std::string_view>(
    {"launcher", "elastic-policy", "num-proc", "num-workers", "num-servers", "ranks-per-node", "help", "short-help",
     "version", "man", "completion", "check-build", "self-test", "template", "set", "max-restarts"});

std::vector<FlagRow> torch_rows() {
  return {
      option("nproc-per-node", {"--nproc-per-node", "--nproc_per_node"}, "N|gpu|cpu|auto",
             "Ranks on every host; or one for each of its GPUs, for each of its CPUs, or for its GPUs if it has any.")
          .any_value()
          .standard("1"),
      option("nnodes", {"--nnodes"}, "N|MIN:MAX", "Hosts; they are named by -H, --hostfile or the scheduler's job.")
          .any_value(),
      toggle("module", {{"-m", "true"}, {"--module", "true"}}, "The script is the name of a module, as for python -m."),
      toggle("no-python", {{"--no-python", "true"}, {"--no_python", "true"}},
             "The script is a program that needs no python in front."),
      toggle("use-env", {{"--use-env", "true"}, {"--use_env", "true"}},
             "For torch.distributed.launch: no --local-rank=N among the script's arguments."),
      toggle("standalone", {{"--standalone", "true"}}, "All ranks on this host."),
      option("max-restarts", {"--max-restarts", "--max_restarts"}, "N",
             "Start the whole job again, on a fresh store, at most N times after a rank has failed.")
          .standard("0"),
      option("role", {"--role"}, "NAME", "The name of the ranks' role, as ROLE_NAME.").standard("default"),
      option(
          "log-dir", {"--log-dir", "--log_dir", "--logdir"}, "DIR",
          "Also write DIR/rank.NN/stdout and stderr as -r and -t say, and DIR/rank.NN/error.json of ranks that fail.")
          .completes(Completes::kDirectory),
      option("log-layout", {"--log-layout", "--log_layout"}, "ranks|torchrun",
             "How the log directory looks: torchrun is RUN-ID_RANDOM/attempt_N/LOCAL-RANK/stdout.log for each host, as "
             "torchrun's own agents write it.")
          .standard("ranks"),
      option("redirects", {"-r", "--redirects"}, "STREAMS",
             "Write to the log directory instead of the console: 1 is stdout, 2 stderr, 3 both; 0:1,1:2 by local rank.")
          .standard("0"),
      option("tee", {"-t", "--tee"}, "STREAMS", "Write to the log directory and to the console.").standard("0"),
      option("numa-binding", {"--numa-binding", "--numa_binding"}, "node|socket|exclusive|core-complex",
             "As --bind-to numa, socket or share."),
      toggle("run-path", {{"--run-path", "true"}, {"--run_path", "true"}},
             "The script is run by runpy.run_path, in a python that was started for nothing else."),
      option("local-ranks-filter", {"--local-ranks-filter", "--local_ranks_filter"}, "LIST",
             "Local ranks whose output is shown on the console, as 0,1; files get all."),
      option("rdzv-id", {"--rdzv-id", "--rdzv_id"}, "ID", "The run's name, as TORCHELASTIC_RUN_ID; the job's id."),
      option("shutdown-timeout", {"--shutdown-timeout", "--shutdown_timeout"}, "SECONDS",
             "From SIGTERM to SIGKILL, as --kill-grace."),
      toggle("virtual-local-rank", {{"--virtual-local-rank", "true"}, {"--virtual_local_rank", "true"}},
             "Every rank is local rank 0 and sees its own GPU alone, as --gpu-bind one."),
      option("duplicate-stdout-filters", {"--duplicate-stdout-filters", "--duplicate_stdout_filters"}, "LIST",
             "Also write stdout lines of the console that have one of these words to filtered_stdout.log in the log "
             "directory."),
      option("duplicate-stderr-filters", {"--duplicate-stderr-filters", "--duplicate_stderr_filters"}, "LIST",
             "Also write stderr lines of the console that have one of these words to filtered_stderr.log in the log "
             "directory."),
      option("log-line-prefix-template", {"--log-line-prefix-template", "--log_line_prefix_template"}, "TEXT",
             "Accepted; lines begin as hvdrun's do."),
  };
}

std::vector<FlagRow> unneeded_rows() {
  constexpr std::string_view kNone = "Accepted, and not needed.";
  return {
      option("node-rank", {"--node-rank", "--node_rank"}, "N", kNone),
      option("master-addr", {"--master-addr", "--master_addr"}, "ADDR", kNone),
      option("master-port", {"--master-port", "--master_port"}, "PORT", kNone),
      option("local-addr", {"--local-addr", "--local_addr"}, "ADDR", kNone),
      option("rdzv-backend", {"--rdzv-backend", "--rdzv_backend"}, "NAME", kNone),
      option("rdzv-endpoint", {"--rdzv-endpoint", "--rdzv_endpoint"}, "ADDR", kNone),
      option("rdzv-conf", {"--rdzv-conf", "--rdzv_conf"}, "K=V,…", kNone),
      option("monitor-interval", {"--monitor-interval", "--monitor_interval"}, "SECONDS", kNone),
      option("start-method", {"--start-method", "--start_method"}, "spawn|fork|forkserver", kNone),
      option("event-log-handler", {"--event-log-handler", "--event_log_handler"}, "NAME", kNone),
      option("logs-specs", {"--logs-specs", "--logs_specs"}, "NAME", kNone),
      option("signals-to-handle", {"--signals-to-handle", "--signals_to_handle"}, "LIST", kNone),
  };
}

}  // namespace

const FlagTable& torchrun_flags() {
  static const FlagTable kTable = [] {
    std::vector<Flag> flags;
    add_group(kTorch, torch_rows(), flags);
    add_group(kTorchUnneeded, unneeded_rows(), flags);
    add_group(kGeneral, help_rows(), flags);
    for (const Flag& flag : hvdrun_flags().flags()) {
      if (std::ranges::find(kNotOfTorchrun, flag.name) == kNotOfTorchrun.end()) flags.push_back(flag);
    }
    return FlagTable(std::move(flags), {{.completes = Completes::kScript}});
  }();
  return kTable;
}

}  // namespace muster::cli::foreign
