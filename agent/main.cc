// muster-agent: the program that runs on each host, one for each job of hvdrun, or one for each launcherd.
// The launcher starts it over ssh with only `--stdio` on its command line, or a site's own launcher starts it.
// The order of steps matters: the environment is read and the warden is forked before any thread exists. A warm agent
// forks the nursery, which makes wardens.
// Read agent_main() at the end first, which dispatches the forms below, then serve(), which is the agent proper.
//
//   muster-agent --stdio                      the agent proper; prints a marker line, reads its join from stdin
//   muster-agent --join FILE [--host NAME] [--slots N]   the same for a site's own launcher (agent/link/enrol.h)
//   muster-agent --install SHA256 PATH …      checks its own hash, renames itself to PATH, then does one of these
//   muster-agent --fresh …                    removes agents that nobody uses any more, then does one of these
//   muster-agent --sweep JOB [--session-root DIR]   ends what a dead agent and warden have left; one line per process
//   muster-agent --cleanup …                  ends what dead jobs have left (agent/commands/cleanup_report.h)
//   muster-agent --agents …                   lists or removes agents of other builds (agent/commands/agents_report.h)
//   muster-agent --stacks [--native] RANK:PID…   where ranks and their children are (agent/commands/stack_report.h)
//   muster-agent --looks [OPTIONS] RANK:PID…  what ranks do at this moment (agent/commands/look_report.h)
//   muster-agent --version
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/commands/agents_report.h"
#include "agent/commands/cleanup_report.h"
#include "agent/commands/install.h"
#include "agent/commands/look_report.h"
#include "agent/commands/stack_report.h"
#include "agent/gpus/gpus.h"
#include "agent/host/host_facts.h"
#include "agent/job/agent.h"
#include "agent/link/dial.h"
#include "agent/link/enrol.h"
#include "agent/probe/probe.h"
#include "agent/strays/sweep.h"
#include "base/build_id.h"
#include "base/descriptor_limit.h"
#include "base/print.h"
#include "base/sanitizers.h"
#include "base/thread.h"
#include "proto/agent_join.h"
#include "proto/frame.h"

namespace muster::agent {
namespace {

int fail(const base::Status& status) {
  base::print_remark("muster-agent: {}\n", status.message());
  return 1;
}

// Forbids core files, and debugging by other processes, because this memory contains keys. Ranks are not affected,
// because exec resets it.
void protect_process() {
  ::prctl(PR_SET_DUMPABLE, 0);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // then a write beyond the file size limit fails with an error
}

// Removes variables that would change this process itself. The ranks still get them, because the environment was read
// before.
void drop_own_environment() {
  for (const char* const name : {"OPENSSL_CONF", "SSLKEYLOGFILE"}) ::unsetenv(name);
}

base::Result<v1::AgentJoin> read_join() {
  v1::AgentJoin join;
  MUSTER_ASSIGN_OR_RETURN(const bool got, proto::read_message_blocking(STDIN_FILENO, join));
  if (!got) return base::unavailable("the launcher closed the connection before it sent the job");
  return join;
}

// The attempt is part of the id, because the previous attempt's agent may still be cleaning up its own session
// directory.
std::string agent_id_of(const v1::AgentJoin& join) {
  const std::string index = std::to_string(join.agent_index());
  return join.attempt() == 0 ? index : fmt::format("{}.{}", index, join.attempt());
}

// The relay first, because a launcher of many hosts wants few connections.
base::Result<Dialled> dial_relay(const v1::AgentJoin& join) {
  if (!join.has_parent()) return base::unavailable("no relay");
  const auto patience = std::chrono::milliseconds(join.dial_timeout_ms()) / 2;
  return dial_first(addresses_of(join.parent().addresses()), static_cast<std::uint16_t>(join.parent().port()),
                    std::chrono::steady_clock::now() + patience, -1);
}

base::Result<AgentLink> dial_launcher(const v1::AgentJoin& join, const v1::Hello& hello) {
  AgentLink link;
  const std::vector<base::IpAddress> launcher = launcher_addresses(join, hello);
  if (const auto relay = dial_relay(join); relay.ok() && !launcher.empty()) {
    link.route = std::make_shared<LauncherRoute>(launcher.front());
    link.route->set_relay({relay->address}, static_cast<std::uint16_t>(join.parent().port()));
    return link;
  }
  // Dial the control port if there is no job yet, because then there is no output connection either.
  const int port = join.warm() ? join.control_port() : join.output_port();
  MUSTER_ASSIGN_OR_RETURN(
      Dialled dialled,
      dial_first(launcher, static_cast<std::uint16_t>(port),
                 std::chrono::steady_clock::now() + std::chrono::milliseconds(join.dial_timeout_ms()), -1));
  link.route = std::make_shared<LauncherRoute>(dialled.address);
  if (!join.warm()) link.output = std::move(dialled.fd);
  return link;
}

base::Result<AgentLink> choose_link(const v1::AgentJoin& join, const v1::Hello& hello) {
  AgentLink link;
  std::string reason = "as asked by --agent-link ssh";
  if (join.link() != "ssh") {
    auto dialled = dial_launcher(join, hello);
    if (dialled.ok()) {
      link = std::move(*dialled);
    } else if (join.link() == "dial") {
      return base::unavailable("cannot connect back to the launcher ({}): open its ports, or use --agent-link ssh",
                               dialled.status().message());
    } else {
      reason = "connecting back failed: " + dialled.status().message();
    }
  }
  const bool is_dialled = link.route != nullptr;
  const std::string line = is_dialled ? std::string("MUSTER-LINK dial\n") : "MUSTER-LINK ssh " + reason + "\n";
  MUSTER_RETURN_IF_ERROR(base::write_all_blocking(STDOUT_FILENO, line.data(), line.size()));
  return link;
}

base::Result<WardenSource> make_wardens(const v1::AgentJoin& join) {
  if (join.warm()) {
    MUSTER_ASSIGN_OR_RETURN(Nursery nursery, Nursery::start());
    return WardenSource(std::move(nursery));
  }
  MUSTER_ASSIGN_OR_RETURN(const ContainLevel contain, parse_contain_level(join.contain()));
  MUSTER_ASSIGN_OR_RETURN(Warden warden, Warden::start({.job_id = join.job_id(),
                                                        .agent_id = agent_id_of(join),
                                                        .session_root = join.session_root(),
                                                        .contain = contain}));
  return WardenSource(std::move(warden));
}

// An agent of launcherd that has dialled outlives the ssh connection or the terminal through which it was started.
base::Status detach() {
  ::setsid();  // fails if this process leads a session already, as under sshd
  ::signal(SIGHUP, SIG_IGN);
  const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null.valid()) return base::errno_error(errno, "open /dev/null");
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::dup2(null.get(), fd) < 0) return base::errno_error(errno, "replace a standard stream");
  }
  return base::ok_status();
}

// Exits without destructors. Everything that matters is closed, and the clean-up of OpenSSL would cost CPU time.
[[noreturn]] void leave(int status) {
  std::fflush(nullptr);
  ::_exit(status);
}

int serve() {
  const base::Environment login_environment = base::Environment::current();
  drop_own_environment();
  protect_process();
  const std::string marker = fmt::format("MUSTER-AGENT 1 {}\n", base::build_id());
  if (!base::write_all_blocking(STDOUT_FILENO, marker.data(), marker.size()).ok()) return 1;
  auto join = read_join();
  if (!join.ok()) return fail(join.status());
  if (join->probe()) {
    const base::Status served = serve_probe(*join, login_environment);
    return served.ok() ? 0 : fail(served);
  }
  base::raise_descriptor_limit();  // sshd's soft limit is often 1024, and a store may have more connections
  auto wardens = make_wardens(*join);
  if (!wardens.ok()) return fail(wardens.status());

  // Check the thread limit only after the wardens are forked. The check starts threads, and the fork needs a process
  // that has had only one.
  if (const base::Status room = base::check_thread_room(kAgentThreads); !room.ok()) return fail(room);

  v1::Hello hello;
  hello.set_job_id(join->job_id());
  hello.set_agent_index(join->agent_index());
  hello.set_build_id(std::string(base::build_id()));
  if (const auto* const warden = std::get_if<Warden>(&*wardens)) {
    hello.set_containment(warden->containment().name());
    hello.set_containment_note(warden->containment().note);
    hello.set_session_dir(warden->session_dir());
  }
  NvidiaSurvey nvidia;
  if (!join->without_gpus()) nvidia = ask_nvidia_blocking(login_environment);
  const base::Status facts = fill_host_facts(login_environment, nvidia.report, hello);
  if (!facts.ok()) return fail(facts);
  auto link = choose_link(*join, hello);
  if (!link.ok()) return fail(link.status());
  if (!proto::ends_with_log_in(*join) && link->route != nullptr) {
    if (const base::Status detached = detach(); !detached.ok()) return fail(detached);
  }
  const bool is_of_hvdrun = proto::ends_with_log_in(*join);
  Agent agent(std::move(*join), std::move(hello), login_environment, std::move(*wardens), std::move(*link),
              std::move(nvidia));
  const int status = agent.run();
  // Sanitizer builds run the destructor, to check it, too.
  if (is_of_hvdrun && !base::kIsSanitized) leave(status);
  return status;
}

int join_and_serve(const std::vector<std::string>& arguments) {
  const auto options = parse_enrol_arguments(arguments);
  if (!options.ok()) return fail(options.status());
  protect_process();
  if (wants_to_stay(*options)) return serve_always(*options, serve);
  auto connection = enrol(*options);
  return connection.ok() ? serve_behind(std::move(*connection), serve) : fail(connection.status());
}

int run_sweep(const std::vector<std::string>& arguments) {
  SweepOptions options;
  options.is_known_dead = true;  // only the job's own launcher has a reason to call this
  for (std::size_t i = 1; i + 1 < arguments.size(); ++i) {
    if (arguments[i] == "--session-root") options.session_root = arguments[i + 1];
  }
  const auto report = sweep(arguments.empty() ? "" : arguments[0], options);
  if (!report.ok()) return fail(report.status());
  for (const Leftover& leftover : report->killed) {
    (void)base::print_text(stdout,
                           fmt::format("pid {} ({}): found by {}\n", leftover.pid, leftover.command, leftover.why));
  }
  for (const Unkillable& stuck : report->stuck) {
    base::print_remark("pid {} ({}) cannot be killed: state {}, waits in {}\n", stuck.pid, stuck.command, stuck.state,
                       stuck.wchan);
  }
  for (const ProcessInfo& keeper : report->continued) {
    base::print_remark("pid {} ({}) was stopped: it was continued\n", keeper.pid, keeper.command);
  }
  for (const std::string& alive : report->alive) {
    base::print_remark("the agent or warden of {} still lives\n", alive);
  }
  return report->stuck.empty() && report->alive.empty() ? 0 : 1;
}

int agent_main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() > 3 && arguments[0] == "--install") {
    const base::Status installed = install_self(arguments[1], arguments[2]);
    if (!installed.ok()) return fail(installed);
    remove_forgotten_agents();
    arguments.erase(arguments.begin(), arguments.begin() + 3);
  }
  if (!arguments.empty() && arguments[0] == "--fresh") {  // muster-unpack has just stored this file
    remove_forgotten_agents();
    arguments.erase(arguments.begin());
  }
  if (arguments.size() == 1 && arguments[0] == "--version") {
    (void)base::print_text(stdout, fmt::format("muster-agent {} ({})\n", MUSTER_VERSION, base::build_id()));
    return 0;
  }
  if (!arguments.empty() && arguments[0] == "--sweep") return run_sweep({arguments.begin() + 1, arguments.end()});
  if (!arguments.empty() && arguments[0] == "--cleanup") {
    const base::Status reported = report_cleanup({arguments.begin() + 1, arguments.end()});
    return reported.ok() ? 0 : fail(reported);
  }
  if (!arguments.empty() && arguments[0] == "--agents") {
    const base::Status reported = report_agents({arguments.begin() + 1, arguments.end()});
    return reported.ok() ? 0 : fail(reported);
  }
  if (!arguments.empty() && arguments[0] == "--stacks") {
    const base::Status reported = report_stacks({arguments.begin() + 1, arguments.end()});
    return reported.ok() ? 0 : fail(reported);
  }
  if (!arguments.empty() && arguments[0] == "--looks") {
    const base::Status reported = report_looks({arguments.begin() + 1, arguments.end()});
    return reported.ok() ? 0 : fail(reported);
  }
  if (arguments.size() == 1 && arguments[0] == "--stdio") return serve();
  if (!arguments.empty() && arguments[0] == "--join") return join_and_serve(arguments);
  base::print_remark("muster-agent is started by hvdrun and launcherd; to see its version: muster-agent --version\n");
  return 2;
}

}  // namespace
}  // namespace muster::agent

int main(int argc, char** argv) {
  try {
    muster::agent::leave(muster::agent::agent_main(argc, argv));
  } catch (const std::system_error& failure) {  // a constructor on this thread could not start a thread
    return muster::agent::fail(muster::base::resource_exhausted("{}", muster::base::thread_failure(failure)));
  }
}
