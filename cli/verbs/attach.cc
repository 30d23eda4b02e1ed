// `muster attach`: shows a job of launcherd as if it ran in the foreground.
#include <unistd.h>
#include <csignal>

#include "base/loop.h"
#include "cli/hosts/standard_streams.h"
#include "cli/options/fold_option.h"
#include "cli/options/label_option.h"
#include "cli/verbs/attached_job.h"
#include "cli/verbs/job_verbs.h"
#include "cli/verbs/launcherd_verbs.h"
#include "cli/verbs/logs_request.h"
#include "cli/verbs/verb.h"
#include "cli/view/log_output.h"
#include "cli/view/outlets.h"
#include "cli/view/signals.h"
#include "launcherd/output/sinks.h"

namespace muster::cli::inline verbs {
namespace {

constexpr std::int64_t kTailLines = 10;

int attach(const VerbCall& call, FoundJob job, v1::LogsRequest request, const Outlets::Style& style) {
  base::Loop loop;
  auto signals = Signals::block({SIGINT, SIGTERM, SIGHUP});
  if (!signals.ok()) return call.fail(signals.status());
  job.launcher = launcherd::share_connection(std::move(job.launcher));
  ::signal(SIGPIPE, SIG_IGN);
  ChunkClock clock;
  launcherd::Terminals terminals(STDOUT_FILENO, STDERR_FILENO);
  launcherd::NoticeWriter notices(terminals.err(), fmt::format("muster {}: ", call.verb()));
  const auto console = RankConsole::open(terminals, clock, {.label = style.label}, style.fold);
  if (!console.ok()) return call.fail(console.status());
  if ((*console)->folds()) {
    launcherd::ApiClient client(job.launcher);
    (*console)->set_ranks(ranks_of_logs(client, job, request));
  }
  LogOutput output((*console)->sink(), &clock, [&](const std::string& line) { notices.line(line); });
  int exit_code = kNotAnswered;
  {
    AttachedJob attached(loop,
                         {.job = job,
                          .request = std::move(request),
                          .owns_job = call.has("kill-on-interrupt"),
                          .is_terminal = terminals.err()->is_tty(),
                          .shows_stderr = true,
                          .has_color = call.console().marks_errors()},
                         &output, notices, [&] { loop.stop(); });
    signals->watch(loop, [&](int signo) { attached.on_signal(signo); });
    if (const base::Status started = attached.start(); !started.ok()) return call.fail(started);
    loop.run();
    exit_code = attached.exit_code();
    if (!(*console)->finish_blocking(std::chrono::steady_clock::now() + kFlushTimeout)) terminals.cancel();
    if (!notices.flush_blocking(std::chrono::steady_clock::now() + kFlushTimeout)) terminals.err()->cancel();
    // Cancel the console's output, because a console that no process reads would delay the end.
    terminals.out()->cancel();
  }
  return exit_code;
}

}  // namespace

int run_attach(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, attach_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  auto request = read_logs_request(call.settings(), base::SystemClock().wall());
  if (!request.ok()) return call.fail(request.status());
  if (request->tail_lines() == 0) request->set_tail_lines(kTailLines);
  const auto label = read_label_format(call.settings());
  if (!label.ok()) return call.fail(label.status());
  const auto fold = read_fold(call.settings());
  if (!fold.ok()) return call.fail(fold.status());
  auto job = one_job(call);
  if (!job.ok()) return call.fail(job.status());
  if (job->launcher.is_foreground_job) {
    return call.fail(fmt::format("job {} runs in the foreground: its output is where its hvdrun is", job->id));
  }
  // Ends the connection that has found the job, and gRPC's threads with it: they do not block the signals that attach()
  // blocks, so one of them would take a Ctrl-C.
  job->launcher.connection = nullptr;
  return attach(call, *std::move(job), std::move(*request), {*label, *fold});
}

}  // namespace muster::cli::verbs
