// The options of launcherd: hvdrun's that say which hosts and how they are reached, and its own.
#include <array>

#include "cli/launcherd_options.h"

namespace muster::cli {
namespace {

constexpr auto kLauncherdFlagsOfHvdrun = std::to_array<std::string_view>(
    {"hosts", "hostfile", "ssh-port", "ssh-identity-file", "ssh-backend", "bootstrap", "bootstrap-cmd", "agent-dir",
     "verbose", "config-file", "version", "man", "completion"});

}  // namespace

const FlagTable& launcherd_flags() {
  static const FlagTable kTable = host_verb_flags(
      kLauncherdFlagsOfHvdrun,
      {option("listen", {"--listen"}, "ADDR",
              "Where to serve: unix:PATH, or HOST:PORT with TLS; repeats add up. Without it: launcherd.sock in "
              "$XDG_RUNTIME_DIR/muster, else in /tmp/muster-<uid>.")
           .command_line_only()
           .repeats(Repeat::kAddsUp),
       option("tls-cert", {"--tls-cert"}, "FILE", "launcherd's certificate for HOST:PORT, with its chain (PEM).")
           .command_line_only()
           .completes(Completes::kFile),
       option("tls-key", {"--tls-key"}, "FILE", "Its key (PEM).").command_line_only().completes(Completes::kFile),
       option("client-ca", {"--client-ca"}, "FILE",
              "Who by TCP shows a certificate of this authority is heard; its URI muster://role/watch, submit or admin "
              "says what it may do (PEM).")
           .command_line_only()
           .completes(Completes::kFile),
       option(
           "state", {"--state"}, "DIR",
           "Where jobs are kept, on a disk of this host; default ${XDG_STATE_HOME:-~/.local/state}/muster/<hostname>.")
           .command_line_only()
           .completes(Completes::kDirectory),
       option("http", {"--http"}, "ADDR",
              "Serve a page, its JSON and /metrics at 127.0.0.1:PORT, to processes of this user.")
           .command_line_only(),
       option("accept-agents", {"--accept-agents"}, "[ADDR:]PORT",
              "Hosts come by themselves, too: who starts muster-agent --join FILE there adds that host. 0: any port.")
           .command_line_only(),
       option("join-file", {"--join-file"}, "FILE",
              "The file for --accept-agents, on a disk that those hosts see, for your eyes only; default: join in the "
              "state directory.")
           .command_line_only()
           .completes(Completes::kFile),
       toggle("i-know-jobs-run-as-root", {{"--i-know-jobs-run-as-root", "true"}},
              "Listen by TCP although launcherd runs as root.")
           .command_line_only()});
  return kTable;
}

}  // namespace muster::cli
