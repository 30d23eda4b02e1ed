// `muster logs`: shows the output of a job's ranks as hvdrun would have shown it.
#include <csignal>

#include <unistd.h>

#include "base/strings.h"
#include "cli/options/fold_option.h"
#include "cli/options/label_option.h"
#include "cli/verbs/follow_job.h"
#include "cli/verbs/job_verbs.h"
#include "cli/verbs/launcherd_verbs.h"
#include "cli/verbs/logs_request.h"
#include "cli/verbs/verb.h"
#include "cli/view/log_output.h"
#include "cli/view/rank_console.h"
#include "launcherd/output/sinks.h"
#include "proto/message_json.h"

namespace muster::cli::inline verbs {
namespace {

// Returns the exit code for a failure of this program's own stdout or stderr.
int output_failed(const VerbCall& call, const base::Status& status) {
  if (status.code() == base::Code::kCancelled) return kStdoutClosed;
  return call.fail(status.message(), kMusterFailed);
}

}  // namespace

int run_logs(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, logs_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  auto request = read_logs_request(call.settings(), base::SystemClock().wall());
  if (!request.ok()) return call.fail(request.status());
  request->set_follow(call.has("follow"));
  const auto label = read_label_format(call.settings());
  if (!label.ok()) return call.fail(label.status());
  const auto fold = read_fold(call.settings());
  if (!fold.ok()) return call.fail(fold.status());
  const auto job = one_job_or_newest(call);
  if (!job.ok()) return call.fail(job.status());
  if (job->launcher.is_foreground_job) {
    return call.fail(fmt::format("job {} runs in the foreground: its output is where its hvdrun is", job->id));
  }
  ::signal(SIGPIPE, SIG_IGN);
  ChunkClock clock;
  launcherd::Terminals terminals(STDOUT_FILENO, STDERR_FILENO);
  const auto console = RankConsole::open(terminals, clock, {.label = *label}, *fold);
  if (!console.ok()) return call.fail(console.status());
  const auto remark = [&](const std::string& line) {
    (void)terminals.err()->write_notice(fmt::format("muster {}: {}\n", call.verb(), line));
  };
  LogOutput output((*console)->sink(), &clock, remark);
  base::Status shown;
  int printed = 0;
  Reconnecting reconnecting(remark, -1);
  launcherd::ApiClient client(job->launcher);
  if ((*console)->folds()) (*console)->set_ranks(ranks_of_logs(client, *job, *request));
  const base::Status read = read_logs(client, *job, *request, reconnecting, [&](const v1::LogChunk& chunk) {
    if (call.has("json")) {
      printed = call.print(proto::message_line(chunk));
    } else {
      shown = output.show(chunk);
    }
    return shown.ok() && printed == 0;
  });
  if (printed != 0) return printed;
  if (shown.ok()) shown = output.finish();
  if (!shown.ok()) return output_failed(call, shown);
  return read.ok() ? 0 : job_not_answered(call, *job, read);
}

}  // namespace muster::cli::verbs
