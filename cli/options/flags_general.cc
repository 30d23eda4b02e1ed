// hvdrun's general options: configuration, launcherd, templates, and those that ask about hvdrun itself.
#include "cli/help/flag_row.h"
#include "cli/options/color_option.h"
#include "cli/options/hvdrun_flags.h"

namespace muster::cli::inline options {

void add_general_flags(std::vector<Flag>& flags) {
  add_group(
      FlagGroup::kGeneral,
      {
          option("config-file", {"--config-file"}, "FILE",
                 "Read settings from this YAML file: horovodrun's keys, and Muster's under muster:. "
                 "/etc/muster/config.yaml and ~/.config/muster/config.yaml are read before it.")
              .completes(Completes::kFile)
              .command_line_only()
              .environment("MUSTER_CONFIG_FILE"),
          option("launcher", {"--launcher"}, "ADDR",
                 "Submit the job to this launcherd and follow it here. Its agents already run, and it keeps its "
                 "promises to other jobs. ADDR is unix:/path, host:port, or auto for your launcherd on this host.")
              .command_line_only(),
          option("name", {"--name"}, "NAME", "A name for the job, which muster jobs shows and muster kill takes.")
              .command_line_only(),
          option("template", {"-t", "--template"}, "NAME|FILE",
                 "Take options and variables from this job template; what you type wins. muster templates lists the "
                 "templates.")
              .any_value()
              .completes(Completes::kTemplate)
              .command_line_only(),
          option("set", {"--set"}, "NAME=VALUE", "With -t: a parameter of the template. Repeatable.")
              .any_value()
              .repeats(Repeat::kAddsUp)
              .command_line_only(),
          toggle("print-config", {{"--print-config", "true"}}, "Print every setting with its value and its origin.")
              .command_line_only(),
          toggle("dry-run", {{"--dry-run", "true"}},
                 "Print which rank would run where, with which cores and GPUs, and start nothing. No host is contacted "
                 "without --probe.")
              .command_line_only(),
          toggle("json", {{"--json", "true"}}, "With --dry-run: print JSON.").command_line_only(),
          option("assume-node", {"--assume-node"}, "SHAPE|TEMPLATE",
                 "With --dry-run: the shape of the hosts, such as 2x32x2+4: two sockets with 32 cores of two threads "
                 "each, and four GPUs. Or a job template, which also sets how ranks are pinned.")
              .any_value()
              .completes(Completes::kTemplate)
              .command_line_only(),
          toggle("probe", {{"--probe", "true"}},
                 "With --dry-run: log in to the hosts and ask them for their cores and GPUs.")
              .command_line_only(),
          toggle("self-test", {{"--self-test", "true"}},
                 "Run a short allreduce on the hosts instead of a command, and name slow ranks; exit code 1 if a rank "
                 "is slow. The program is muster_perf beside hvdrun.")
              .command_line_only(),
          toggle("check-build", {{"-cb", "true"}, {"--check-build", "true"}},
                 "Print which controllers and libraries this build has.")
              .command_line_only(),
          option("completion", {"--completion"}, "bash|zsh|fish",
                 "Print the completion of options for a shell: eval \"$(hvdrun --completion bash)\".")
              .stands_alone(),
          toggle("man", {{"--man", "true"}}, "Print the manual page, for man -l -.").stands_alone(),
          toggle("version", {{"-v", "true"}, {"--version", "true"}}, "Print the version.").stands_alone(),
          color_row(),
      },
      flags);
  add_group(FlagGroup::kGeneral, help_rows(), flags);
}

}  // namespace muster::cli::options
