// The options of launcherd: hvdrun's options on which hosts and how they are reached, and its own.
#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "cli/daemon/launcherd_options.h"
#include "cli/options/hvdrun_flags.h"

namespace muster::cli::inline daemon {
namespace {

constexpr auto kLauncherdFlagsOfHvdrun =
    std::to_array<std::string_view>({"hosts", "hostfile", "ssh-port", "ssh-identity-file", "ssh-backend", "bootstrap",
                                     "bootstrap-cmd", "fanout", "agent-dir", "verbose", "version", "man"});

// Returns the options that files (under "launcherd:") and MUSTER_LAUNCHERD_<OPTION> can also set.
std::vector<FlagRow> launcherd_settings() {
  return {
      option("listen", {"--listen"}, "ADDR",
             "Address to serve: unix:PATH, or HOST:PORT with TLS. Repeatable. Default: launcherd.sock in "
             "$XDG_RUNTIME_DIR/muster, else in /tmp/muster-<uid>.")
          .key("launcherd.listen")
          .repeats(Repeat::kAddsUp),
      option("tls-cert", {"--tls-cert"}, "FILE",
             "launcherd's certificate for HOST:PORT and --metrics, with its chain (PEM).")
          .key("launcherd.tls_cert")
          .completes(Completes::kFile),
      option("tls-key", {"--tls-key"}, "FILE", "The key of --tls-cert (PEM).")
          .key("launcherd.tls_key")
          .completes(Completes::kFile),
      option("client-ca", {"--client-ca"}, "FILE",
             "The authority for clients by TCP (PEM): only clients with a certificate of it are served. The "
             "certificate's URI muster://role/watch, submit or admin says what its client may do.")
          .key("launcherd.client_ca")
          .completes(Completes::kFile),
      option("client-crl", {"--client-crl"}, "FILE",
             "Certificates that --client-ca has revoked (PEM). Clients with one of them are refused.")
          .key("launcherd.client_crl")
          .completes(Completes::kFile),
      option("state", {"--state"}, "DIR",
             "Folder for jobs, on a disk of this host; default ${XDG_STATE_HOME:-~/.local/state}/muster/<hostname>.")
          .key("launcherd.state")
          .completes(Completes::kDirectory),
      option("http", {"--http"}, "ADDR",
             "Serve a page, the API as JSON under /api/v1, and /metrics at 127.0.0.1:PORT, to processes of this user.")
          .key("launcherd.http"),
      toggle("http-write", {{"--http-write", "true"}, {"--no-http-write", "false"}},
             "The page and /api/v1 may also submit and change jobs, and drain hosts. They ask for the token in "
             "http-token in the state directory.")
          .key("launcherd.http_write"),
      option("metrics", {"--metrics"}, "HOST:PORT",
             "Serve /metrics to other users and machines: to those who have the token in metrics-token in the state "
             "directory. With --tls-cert and --tls-key by TLS, which addresses other than loopback need.")
          .key("launcherd.metrics"),
      option("accept-agents", {"--accept-agents"}, "[ADDR:]PORT",
             "Also accept hosts that connect by themselves: muster-agent --join FILE adds the host on which it runs. "
             "PORT 0: any free port.")
          .key("launcherd.accept_agents"),
      option("join-file", {"--join-file"}, "FILE",
             "The file for muster-agent --join, on a disk that those hosts see; keep it secret. Default: join in the "
             "state directory.")
          .key("launcherd.join_file")
          .completes(Completes::kFile),
      option(
          "fair-use", {"--fair-use"}, "off|user|label:NAME",
          "Among waiting jobs of equal priority, let those go first whose user, or whose value of the label NAME, uses "
          "the fewest slots now. A user is the name in the client's certificate.")
          .key("launcherd.fair_use")
          .any_value()
          .standard("off"),
      toggle("i-know-jobs-run-as-root", {{"--i-know-jobs-run-as-root", "true"}},
             "Listen by TCP although launcherd runs as root.")
          .key("launcherd.i_know_jobs_run_as_root"),
  };
}

}  // namespace

const FlagTable& launcherd_flags() {
  static const FlagTable kTable = [] {
    std::vector<FlagRow> own = launcherd_settings();
    own.push_back(
        option("config-file", {"--config-file"}, "FILE",
               "Read options from this YAML file, after launcherd.yaml of /etc/muster and of ~/.config/muster. "
               "Keys are options with '_' for '-'.")
            .completes(Completes::kFile)
            .command_line_only());
    own.push_back(
        toggle("check", {{"--check", "true"}},
               "Check the options, files, addresses and the agent program, print what launcherd would do, and "
               "end. Opens nothing and starts nothing.")
            .command_line_only());
    own.push_back(toggle("schema", {{"--schema", "true"}}, "Print the JSON Schema of launcherd.yaml, for editors.")
                      .stands_alone());
    own.push_back(toggle("openapi", {{"--openapi", "true"}}, "Print the OpenAPI document of /api/v1.").stands_alone());
    own.push_back(option("completion", {"--completion"}, "bash|zsh|fish",
                         "Print the completion of options for a shell: eval \"$(launcherd --completion bash)\".")
                      .stands_alone());
    return host_verb_flags(kLauncherdFlagsOfHvdrun, std::move(own));
  }();
  return kTable;
}

const FlagTable& launcherd_settable_flags() {
  static const FlagTable kTable = [] {
    std::vector<Flag> flags = hvdrun_flags().flags();
    add_group(FlagGroup::kGeneral, launcherd_settings(), flags);
    return FlagTable(std::move(flags));
  }();
  return kTable;
}

const FlagTable& launcherd_file_flags() {
  static const FlagTable kTable = [] {
    std::vector<Flag> flags;
    for (Flag flag : launcherd_flags().flags()) {
      if (!flag.is_setting()) continue;
      flag.config_key = flag.name;
      std::ranges::replace(flag.config_key, '-', '_');
      flags.push_back(std::move(flag));
    }
    std::ranges::copy(launcherd_settable_flags().flags(), std::back_inserter(flags));
    return FlagTable(std::move(flags));
  }();
  return kTable;
}

}  // namespace muster::cli::daemon
