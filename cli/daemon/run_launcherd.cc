// This file runs the daemon (serve), and reads files again on SIGHUP. Read from the end: run_launcherd(), serve().
#include "cli/daemon/run_launcherd.h"

#include <signal.h>

#include <chrono>
#include <memory>
#include <thread>

#include "base/build_id.h"
#include "base/loop.h"
#include "cli/daemon/check_launcherd.h"
#include "cli/daemon/daemon_options.h"
#include "cli/daemon/launcherd_options.h"
#include "cli/daemon/service_manager.h"
#include "cli/hosts/console.h"
#include "cli/hosts/program_main.h"
#include "cli/hosts/standard_streams.h"
#include "cli/hosts/surroundings.h"
#include "cli/options/color_option.h"
#include "cli/options/exit_codes.h"
#include "cli/verbs/complete.h"
#include "cli/view/launcher_process.h"
#include "launcherd/daemon/daemon.h"
#include "launcherd/output/terminal.h"

namespace muster::cli::inline daemon {
namespace {

// Threads that launcherd needs: those of gRPC and of the store, and a reserve.
constexpr int kLauncherdThreads = 24;

void read_hosts_again(const ParsedLauncherd& parsed, const base::Environment& environment, const std::string& directory,
                      launcherd::Daemon& daemon, launcherd::NoticeWriter& notices) {
  const auto hosts = hosts_of(parsed, environment, directory);
  if (!hosts.ok()) {
    notices.line("the hosts were not changed: " + hosts.status().message());
    return;
  }
  daemon.replace_hosts(*hosts);
  notices.line(daemon.description());
}

void read_certificates_again(const ParsedLauncherd& parsed, const std::string& directory, launcherd::Daemon& daemon,
                             launcherd::NoticeWriter& notices) {
  const auto listeners = tls_listeners(parsed, directory);
  const auto metrics = metrics_port(parsed, directory);
  base::Status status = listeners.ok() ? metrics.status() : listeners.status();
  if (status.ok()) status = daemon.replace_certificates(*listeners, *metrics);
  notices.line(status.ok() ? "certificates were read again; new connections must use them"
                           : "the certificates were not changed: " + status.message());
}

// Handles SIGHUP.
void read_files_again(const ParsedLauncherd& parsed, const base::Environment& environment, const std::string& directory,
                      launcherd::Daemon& daemon, launcherd::NoticeWriter& notices) {
  const bool has_hosts = !parsed.options.request.hostfile.empty();
  const bool has_certificates = !parsed.tls_certificate.empty();
  if (has_certificates) read_certificates_again(parsed, directory, daemon, notices);
  if (has_hosts) read_hosts_again(parsed, environment, directory, daemon, notices);
  if (has_hosts || has_certificates) return;
  notices.line("SIGHUP changed nothing: it reads --hostfile and certificates again, and launcherd has neither");
}

int serve(const ParsedLauncherd& parsed, const base::Environment& environment, const Console& console) {
  const std::string directory = logical_working_directory(environment);
  base::Loop loop;  // declared first, because it must outlive all that wait on it or post to it
  auto signals = prepare_launcher({SIGINT, SIGTERM, SIGHUP}, kLauncherdThreads);
  if (!signals.ok()) return console.fail("launcherd", kMusterFailed, signals.status().message());
  const base::SystemClock clock;
  launcherd::Terminal terminal(STDERR_FILENO, "stderr");
  launcherd::NoticeWriter notices(&terminal, "launcherd: ");
  auto options = daemon_options(parsed, environment, directory, notices);
  if (!options.ok()) return console.fail("launcherd", kUsageError, options.status().message());
  {
    auto daemon = launcherd::Daemon::open(loop, clock, std::move(*options));
    if (!daemon.ok()) return console.fail("launcherd", kMusterFailed, daemon.status().message());
    const ServiceManager manager(environment);
    const auto tell = [&notices](const base::Status& told) {
      if (!told.ok()) notices.line(told.message());
    };
    signals->watch(loop, [&](int signo) {
      if (signo == SIGHUP) {
        tell(manager.reloading(std::chrono::floor<std::chrono::microseconds>(clock.now().time_since_epoch())));
        read_files_again(parsed, environment, directory, **daemon, notices);
        tell(manager.ready((*daemon)->description()));
      } else {
        tell(manager.stopping());
        (*daemon)->leave([&loop] { loop.stop(); });
      }
    });
    notices.line((*daemon)->description());
    tell(manager.ready((*daemon)->description()));
    loop.run();
  }
  if (!notices.flush_blocking(clock.now() + kFlushTimeout)) terminal.cancel();
  return 0;
}

}  // namespace

int run_launcherd(const std::vector<std::string>& arguments) {
  const CompletedProgram completed{.name = "launcherd", .verbs = {{"", &launcherd_flags()}}};
  if (const auto answered = answer_shell(completed, arguments)) return *answered;
  return run_program("launcherd", [&](const base::Environment& environment) {
    const Console console(typed_color(arguments, launcherd_flags()), environment);
    const ParseContext context{.build_id = base::build_id(), .look = console.look()};
    const ParsedLauncherd parsed = parse_launcherd(arguments, environment, context, ::geteuid() == 0);
    if (parsed.exit_code) return console.reply("launcherd", {*parsed.exit_code, parsed.text, parsed.is_help});
    return parsed.is_check ? check_launcherd(parsed, environment, console) : serve(parsed, environment, console);
  });
}

}  // namespace muster::cli::daemon
