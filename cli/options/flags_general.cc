// hvdrun's general options: configuration, launcherd, templates, and those that ask about hvdrun itself.
#include "cli/help/flag_row.h"
#include "cli/options/hvdrun_flags.h"

namespace muster::cli::inline options {

void add_general_flags(std::vector<Flag>& flags) {
  add_group(
      FlagGroup::kGeneral,
      {
          option("config-file", {"--config-file"}, "FILE",
                 "Settings from a YAML file: horovodrun's keys, and ours under muster:. Before it are read "
                 "/etc/muster/config.yaml and ~/.config/muster/config.yaml.")
              .completes(Completes::kFile)
              .command_line_only()
              .environment("MUSTER_CONFIG_FILE"),
          option(
              "launcher", {"--launcher"}, "ADDR",
              "Give the job to this launcherd and follow it here: its hosts are warm, and what it promises others is "
              "kept. unix:/path, host:port, or auto for the one of this user on this host.")
              .command_line_only(),
          option("template", {"-t", "--template"}, "NAME|FILE",
                 "What a job template says of hvdrun's options and of variables, below all that is typed; muster "
                 "templates lists them.")
              .any_value()
              .completes(Completes::kTemplate)
              .command_line_only(),
          option("set", {"--set"}, "NAME=VALUE", "With -t: a parameter of the template. Repeatable.")
              .any_value()
              .repeats(Repeat::kAddsUp)
              .command_line_only(),
          toggle("print-config", {{"--print-config", "true"}},
                 "Print every setting with its value and where that comes from.")
              .command_line_only(),
          toggle(
              "dry-run", {{"--dry-run", "true"}},
              "Print who would run where, with which cores, and start nothing; no host is contacted without --probe.")
              .command_line_only(),
          toggle("json", {{"--json", "true"}}, "With --dry-run: as JSON.").command_line_only(),
          option("assume-node", {"--assume-node"}, "SHAPE|TEMPLATE",
                 "With --dry-run: what the hosts look like, as 2x32x2+4 for two sockets of 32 cores of two "
                 "threads, and four GPUs; or a job template, which also says how ranks are pinned there.")
              .any_value()
              .completes(Completes::kTemplate)
              .command_line_only(),
          toggle("probe", {{"--probe", "true"}},
                 "With --dry-run: log in to the hosts and ask them for their cores and GPUs.")
              .command_line_only(),
          toggle("self-test", {{"--self-test", "true"}},
                 "Run a short allreduce on the hosts instead of a command (muster_perf, which lies beside hvdrun), and "
                 "name slow ranks; exit code 1 if there is one.")
              .command_line_only(),
          toggle("check-build", {{"-cb", "true"}, {"--check-build", "true"}},
                 "Print which controllers and libraries this build has.")
              .command_line_only(),
          option("completion", {"--completion"}, "bash|zsh|fish",
                 "Print the completion of options for a shell: eval \"$(hvdrun --completion bash)\".")
              .stands_alone(),
          toggle("man", {{"--man", "true"}}, "Print the manual page, for man -l -.").stands_alone(),
          toggle("version", {{"-v", "true"}, {"--version", "true"}}, "Print the version.").stands_alone(),
          toggle("help", {{"-h", "true"}, {"--help", "true"}}, "Print this text.").stands_alone(),
      },
      flags);
}

}  // namespace muster::cli::options
